"""A word before a first copy that may take long.

Purpose: say how much lies in a folder before a session of it begins, where that is much.
Invariant: the look is bounded; what was not looked at is said as "or more".
Must never: follow a link, or keep a session from beginning.
"""

import os
from pathlib import Path
from typing import Final

from gloveport.server.cli.phrases import sized

FILES_TOLD: Final = 5_000
BYTES_TOLD: Final = 1 << 30
FILES_LOOKED_AT_MAX: Final = 20_000
_NEVER_COPIED: Final = frozenset({".git", "node_modules", ".venv", "bower_components", "__pycache__"})


def copy_words(folder: Path) -> str:
    """What is said before a long copy; empty for a folder of usual size. `FILES_LOOKED_AT_MAX` files are looked at."""
    files = size = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NEVER_COPIED]
        room = FILES_LOOKED_AT_MAX - files
        size += sum(_size(os.path.join(place, name)) for name in names[:room])
        files += min(len(names), room)
        if files == FILES_LOOKED_AT_MAX:
            break
    if files < FILES_TOLD and size < BYTES_TOLD:
        return ""
    more = " or more" if files == FILES_LOOKED_AT_MAX else ""
    return (
        f"{folder} holds {files:,} files{more} ({sized(size)}{more}): what is not ignored there is copied first, "
        "which may take minutes. Ctrl-C stops it; -C names a narrower folder."
    )


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
