"""Which programs of this machine nobody but its owner can have changed.

Purpose: where a program that is named without a folder lies, on rungs that show this machine's own programs.
Invariant: the first hit along the search path counts, as when it is started; a file or folder above it that others may
write makes it nobody's.
Must never: start anything.
"""

import os
import stat
from collections.abc import Iterable
from typing import Final

PATH_DEFAULT: Final = "/usr/local/bin:/usr/bin:/bin"
"""The search path of every run."""
OWN_PROGRAMS_RUNGS: Final = frozenset({"bubblewrap"})
"""Rungs in which this machine's own programs are seen, and one that only looks reaches nothing beside the view."""


def find_trusted(names: Iterable[str], away_from: Iterable[str] = ()) -> dict[str, str]:
    """The absolute path of each program that only root could have changed; others are left out.

    `away_from`: folders that a program may not lie in, whoever owns it.
    """
    found = {}
    for name in names:
        path = next((path for folder in PATH_DEFAULT.split(":") if os.path.lexists(path := f"{folder}/{name}")), None)
        if path is not None and "/" not in name and _is_roots(path) and not _lies_in(path, away_from):
            found[name] = path
    return found


def _lies_in(path: str, folders: Iterable[str]) -> bool:
    real = os.path.realpath(path)
    return any(real.startswith(f"{os.path.realpath(folder).rstrip('/')}/") for folder in folders)


def _is_roots(path: str) -> bool:
    """True if the program and every folder on the way to it, also behind links, is root's alone to write."""
    real = os.path.realpath(path)
    ways = {path.rpartition("/")[0] or "/", *_above(path), real, *_above(real)}
    try:
        states = [os.stat(way) for way in ways]
        is_program = stat.S_ISREG(os.stat(real).st_mode) and os.access(real, os.X_OK)
    except OSError:
        return False
    return is_program and all(state.st_uid == 0 and not state.st_mode & 0o022 for state in states)


def _above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:length]) or "/" for length in range(1, len(parts) + 1)]
