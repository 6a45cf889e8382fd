"""The outside libraries of hands, each shown to its own hand alone.

Purpose: find the files of a library and of what it needs in this environment, and say what to do where it is missing.
Invariant: a hand is shown the folders of its own library and of nothing else that is installed.
Must never: import a library, or show a whole environment.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gloveport.protocol.errors import ErrorCode, GloveportError

if TYPE_CHECKING:
    from importlib.metadata import Distribution

EXTRA: Final = "gloveport[hands]"
FIX: Final = f"The user can install it: pip install '{EXTRA}'."
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_NEVER: Final = frozenset({"..", "bin", "__pycache__"})


class LibraryMissingError(GloveportError):
    """A hand's library is not installed."""


@dataclass(frozen=True, slots=True)
class Library:
    """Where a library and what it needs lie: `roots` are searched, `paths` are what may be seen of them."""

    roots: tuple[str, ...]
    paths: tuple[str, ...]


@lru_cache(maxsize=32)
def find_library(name: str) -> Library:
    """The files of an installed distribution and of what it needs. Raises LibraryMissingError (TOOL_UNAVAILABLE)."""
    from importlib import metadata  # it costs a part of every start, and few hands need a library

    roots: dict[str, None] = {}
    paths: dict[str, None] = {}
    waiting, known = [name], {name.lower()}
    while waiting:
        wanted = waiting.pop()
        try:
            found = metadata.distribution(wanted)
        except metadata.PackageNotFoundError as error:
            words = f"the library {wanted} of this hand is not installed"
            raise LibraryMissingError(ErrorCode.TOOL_UNAVAILABLE, words, hint=FIX) from error
        root = Path(str(found.locate_file("")))
        roots[str(root)] = None
        paths |= dict.fromkeys(str(root / top) for top in _tops(found) if (root / top).exists())
        for needed in _needs(found):
            if needed.lower() not in known:
                known.add(needed.lower())
                waiting.append(needed)
    return Library(tuple(roots), tuple(sorted(paths)))


def _tops(found: "Distribution") -> set[str]:
    """Names of folders and modules in the environment's own folder that belong to it, and of what describes it."""
    tops = {file.parts[0] for file in found.files or () if file.parts[0] not in _NEVER}
    return {top for top in tops if not top.endswith(".pth")}


def _needs(found: "Distribution") -> Iterator[str]:
    """What it always needs; what is for an extra or another system is left out."""
    for line in found.requires or ():
        requirement, _, marker = line.partition(";")
        name = _NAME.match(requirement.strip())
        if name is not None and not marker.strip():
            yield name[0]
