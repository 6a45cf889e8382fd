"""The version of this program, and the mark of its build.

Purpose: one place for the number, and a way to tell a running daemon of other files from one of these.
Invariant: the number equals the distribution's version; equal files have equal marks.
Must never: need the installed metadata, which a source checkout lacks.
"""

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from typing import Final

import gloveport

VERSION: Final = "0.1.0"


@cache
def build_version() -> str:
    """The version and a mark of the program's files: another mark means that the running daemon is another build.

    A process looks once: what it runs are the files that it found when it began.
    """
    mark = hashlib.sha256()
    for root in sorted(gloveport.__path__):
        mark.update("".join(sorted(_rows(root, ""))).encode())
    return f"{VERSION}+{mark.hexdigest()[:8]}"


def _rows(folder: str, below: str) -> Iterator[str]:
    """A line for each module: its place, size and time."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                info = entry.stat()
                yield f"{below}{entry.name} {info.st_size} {info.st_mtime_ns}\n"
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _rows(entry.path, f"{below}{entry.name}/")
