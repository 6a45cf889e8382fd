"""The version of this program, and the mark of its build.

Purpose: one place for the number, and a way to tell a running daemon of other files from one of these.
Invariant: the number equals the distribution's version; equal files have equal marks.
Must never: need the installed metadata, which a source checkout lacks.
"""

import hashlib
from pathlib import Path
from typing import Final

import gloveport

VERSION: Final = "0.1.0"


def build_version() -> str:
    """The version and a mark of the program's files: another mark means that the running daemon is another build."""
    mark = hashlib.sha256()
    for root in sorted(gloveport.__path__):
        for path in sorted(Path(root).rglob("*.py")):
            info = path.stat()
            mark.update(f"{path.name} {info.st_size} {info.st_mtime_ns}\n".encode())
    return f"{VERSION}+{mark.hexdigest()[:8]}"
