"""Whether a folder is as it was, at the cost of its system calls.

Purpose: one hash over the names in a folder and all that the system says of each, as it lies in memory.
Invariant: two equal hashes mean that every name, size, time, inode, mode and owner is the same; another hash means
nothing: time of reading is in it too.
Must never: be taken for what a folder holds, or be compared with one of another run.
"""

import ctypes
import os
import sys
from hashlib import sha256
from itertools import repeat
from typing import Any, Final

_STAT_BYTES_MAX: Final = 256
"""More than any system's record has; what it does not fill stays zero."""
_NAMES_MAX: Final = 512
_NOFOLLOW: Final = 0x100
"""`AT_SYMLINK_NOFOLLOW`, one number on every architecture of Linux."""


class Glance:
    """Looks at open folders; not safe for threads."""

    def __init__(self) -> None:
        self._stat: Any = None
        self._records = (ctypes.c_char * 0)()
        self._places: list[Any] = []

    def at(self, fd: int) -> bytes:
        """The hash of an open folder; empty where that cannot be had, or something went away meanwhile."""
        if not self._places and not self._begin():
            return b""
        try:
            names = os.listdir(fd)
            raw = "\0".join(names).encode("utf-8", "surrogateescape")
        except (OSError, UnicodeError):
            return b""
        total = sha256(raw)
        encoded = raw.split(b"\0") if names else []
        for at in range(0, len(encoded), _NAMES_MAX):
            part = encoded[at : at + _NAMES_MAX]
            if any(map(self._stat, repeat(fd), part, self._places, repeat(_NOFOLLOW))):
                return b""
            total.update(memoryview(self._records)[: len(part) * _STAT_BYTES_MAX])
        return total.digest()

    def _begin(self) -> bool:
        self._stat = getattr(ctypes.CDLL(None), "fstatat", None) if sys.platform == "linux" else None
        if self._stat is None:
            return False
        self._records = (ctypes.c_char * (_STAT_BYTES_MAX * _NAMES_MAX))()
        self._places = [ctypes.byref(self._records, at * _STAT_BYTES_MAX) for at in range(_NAMES_MAX)]
        return True
