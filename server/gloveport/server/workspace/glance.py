"""Whether a folder is as it was, at the cost of its system calls.

Purpose: one hash over what the system says of a folder and of each name that it had, as the records lie in memory.
Invariant: two equal hashes mean that the folder has these names and no others, and that every size, time, inode, mode
and owner is the same; another hash means nothing: time of reading is in it too.
Must never: be taken for what a folder holds, be compared with one of another run, or take a folder's own times for its
names where the file system is not known to keep them.
"""

import ctypes
import os
import platform
import sys
from hashlib import sha256
from itertools import repeat
from typing import Any, Final

from gloveport.server.workspace.syscalls import file_system_kind

CLOCK_GRAIN_NS: Final = 50_000_000
"""What changed within this time before it was looked at may have changed again under the same time."""
COARSE_GRAIN_NS: Final = 2_000_000_000
"""More than that, where a time shows whole seconds: ext with small inodes keeps one, FAT every second one."""
_SECOND_NS: Final = 1_000_000_000
_STAT_BYTES: Final = {"x86_64": 144, "aarch64": 128}.get(platform.machine(), 256)
"""Of one record, or more than any system's has: what it does not fill stays zero."""
_NAMES_MAX: Final = 512
_NOFOLLOW: Final = 0x100
"""`AT_SYMLINK_NOFOLLOW`, one number on every architecture of Linux."""
DATED_KINDS: Final = frozenset({0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994})
"""ext, XFS, btrfs, F2FS, tmpfs: a name that comes or goes there changes its folder's times at once."""


def is_settled(changed_ns: int, seen_ns: int) -> bool:
    """True when what had this change time, looked at then, has another one should it change afterwards."""
    grain_ns = CLOCK_GRAIN_NS if changed_ns % _SECOND_NS else COARSE_GRAIN_NS + CLOCK_GRAIN_NS
    return changed_ns + grain_ns < seen_ns


class Glance:
    """Looks at open folders; not safe for threads."""

    def __init__(self, dated_kinds: frozenset[int] = DATED_KINDS) -> None:
        self._stat: Any = None
        self._records = (ctypes.c_char * 0)()
        self._places: list[Any] = []
        self._dated_kinds = dated_kinds
        self._dated: dict[int, bool] = {}

    def at(self, fd: int, names: str, now_ns: int) -> bytes:
        """The hash of an open folder; empty where that cannot be had, or where other than these names may be in it.

        `names` are joined by slashes, in the order of the system; `now_ns` is a time before the call.
        """
        if not self._places and not self._begin():
            return b""
        try:
            head = self._head(fd, names, now_ns)
            encoded = names.encode("utf-8", "surrogateescape").split(b"/") if names else []
        except (OSError, UnicodeError):
            return b""
        if not head:
            return b""
        total = sha256(head)
        for at in range(0, len(encoded), _NAMES_MAX):
            part = encoded[at : at + _NAMES_MAX]
            if any(map(self._stat, repeat(fd), part, self._places, repeat(_NOFOLLOW))):
                return b""
            total.update(memoryview(self._records)[: len(part) * _STAT_BYTES])
        return total.digest()

    def _head(self, fd: int, names: str, now_ns: int) -> bytes:
        """What tells that the folder has these names: its own times, or a listing; empty where it may have others."""
        info = os.fstat(fd)
        if info.st_dev not in self._dated:
            self._dated[info.st_dev] = file_system_kind(fd) in self._dated_kinds
        if not self._dated[info.st_dev]:
            return b"listed" if "/".join(os.listdir(fd)) == names else b""
        if not is_settled(info.st_ctime_ns, now_ns):
            return b""
        return b"%d %d %d %d" % (info.st_dev, info.st_ino, info.st_mtime_ns, info.st_ctime_ns)

    def _begin(self) -> bool:
        self._stat = getattr(ctypes.CDLL(None), "fstatat", None) if sys.platform == "linux" else None
        if self._stat is None:
            return False
        self._records = (ctypes.c_char * (_STAT_BYTES * _NAMES_MAX))()
        self._places = [ctypes.byref(self._records, at * _STAT_BYTES) for at in range(_NAMES_MAX)]
        return True
