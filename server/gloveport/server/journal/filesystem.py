"""What the data directory must offer before a journal is put there.

Purpose: refuse, with words, a place where SQLite's locks or an atomic rename would not hold.
Invariant: a directory that passed is ours alone (0700, no link) and its locks were seen to exclude.
Must never: change the mode of a directory that already exists, or trust a file system by its name alone.
"""

import ctypes
import errno
import fcntl
import os
import stat
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.errors import JournalError, refused_by_disk

BALLAST_FILE: Final = "ballast"
BALLAST_BYTES: Final = 8 * 1024 * 1024
"""Space held back, so that a full disk can still be cleaned: deleting rows needs space too."""

BALLAST_ROOM: Final = 3
"""A reserve is only made where this many times its size is free: it must not be what fills the disk."""

BALLAST_BYTES_MIN: Final = 64 * 1024
"""On a small disk the reserve is smaller, and none below this."""

ROOM_BYTES_MIN: Final = 256 * 1024
"""A disk with less than this counts as full when an open fails on it."""

_TRIAL_FILE: Final = ".lock-trial"
_STATFS_BYTES: Final = 256

REFUSED_MAGICS: Final[Mapping[int, str]] = MappingProxyType(
    {
        0x6969: "NFS",
        0x01021997: "9p",
        0x517B: "SMB",
        0xFF534D42: "CIFS",
        0xFE534D42: "SMB2",
        0x5346414F: "AFS",
        0x6B414653: "AFS",
        0x73757245: "Coda",
        0x564C: "NCP",
        0x00C36400: "Ceph",
        0x0BD00BD0: "Lustre",
        0x47504653: "GPFS",
        0x013111A8: "IBRIX",
        0x53464846: "WSL 1",
        0x786F4256: "a folder shared by VirtualBox",
        0xBACBACBC: "a folder shared by VMware",
    }
)
"""`f_type` of file systems whose locks do not exclude between hosts, or not at all."""


def filesystem_magic(directory: Path) -> int | None:
    """`f_type` of the file system below `directory` (Linux); None where it cannot be asked."""
    if sys.platform != "linux":
        return None
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statfs(os.fsencode(directory), buffer) != 0:
        return None
    value: int = ctypes.c_long.from_buffer(buffer).value
    return value & 0xFFFFFFFF


def refuse_network_filesystem(magic: int | None) -> None:
    """Raise JournalError(UNSUPPORTED_FS) for a file system known not to lock."""
    name = REFUSED_MAGICS.get(magic) if magic is not None else None
    if name is not None:
        raise JournalError(ErrorCode.UNSUPPORTED_FS, f"the data directory is on {name}, where locks do not hold")


def try_locks(directory: Path) -> None:
    """Take a record lock and see that a second taker is refused; raises JournalError(UNSUPPORTED_FS) otherwise."""
    path = directory / _TRIAL_FILE
    first = second = -1
    try:
        first = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        second = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        if not _excludes(first, second):
            raise JournalError(ErrorCode.UNSUPPORTED_FS, "locks on the data directory's file system do not exclude")
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO}:
            raise refused_by_disk("the data directory cannot be written", error) from error
        reason = f"the data directory's file system does not lock files ({error.strerror})"
        raise JournalError(ErrorCode.UNSUPPORTED_FS, reason) from error
    finally:
        for fd in (first, second):
            if fd >= 0:
                os.close(fd)
        with suppress(OSError):  # where nothing can be written, there is nothing to remove, and that was told
            path.unlink(missing_ok=True)


def _excludes(first: int, second: int) -> bool:
    # Locks of the open file description conflict inside one process; SQLite's process locks use the same code below.
    if not hasattr(fcntl, "F_OFD_SETLK"):
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
    request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(first, fcntl.F_OFD_SETLK, request)
    try:
        fcntl.fcntl(second, fcntl.F_OFD_SETLK, request)
    except (BlockingIOError, PermissionError):
        return True
    return False


def prepare_directory(directory: Path) -> None:
    """Make the data directory (0700) or check the one that is there.

    Raises JournalError(UNSAFE_DIRECTORY) for a link, a foreign owner or a mode open to others, NOT_SAVED when it
    cannot be made, UNSUPPORTED_FS when its file system does not lock.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
    except OSError as error:
        raise refused_by_disk("the data directory cannot be made", error) from error
    if not stat.S_ISDIR(status.st_mode):
        raise JournalError(ErrorCode.UNSAFE_DIRECTORY, "the data directory is not a directory of its own")
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise JournalError(ErrorCode.UNSAFE_DIRECTORY, "the data directory is open to other users")
    refuse_network_filesystem(filesystem_magic(directory))
    try_locks(directory)


def fsync_directory(directory: Path) -> None:
    """Make the names in a directory durable; raises OSError."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def fsync_file(path: Path) -> None:
    """Make a file's bytes durable, whoever wrote them; raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def has_room(directory: Path) -> bool:
    """Whether the disk below `directory` has room for anything at all."""
    room = os.statvfs(directory)
    return room.f_bavail * room.f_frsize >= ROOM_BYTES_MIN


def ensure_ballast(directory: Path, size_bytes: int = BALLAST_BYTES) -> bool:
    """Reserve up to `size_bytes` of real space; False when the disk has no room for it (the journal still opens)."""
    path = directory / BALLAST_FILE
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return False
    try:
        status = os.fstat(fd)
        if status.st_size >= min(size_bytes, BALLAST_BYTES_MIN) and status.st_blocks > 0:
            return True
        room = os.fstatvfs(fd)
        fitting = min(size_bytes, room.f_bavail * room.f_frsize // (BALLAST_ROOM + 1))
        if fitting < min(size_bytes, BALLAST_BYTES_MIN):
            path.unlink(missing_ok=True)
            return False
        os.posix_fallocate(fd, 0, fitting)
    except OSError:
        path.unlink(missing_ok=True)  # half a reserve would take the last space and give nothing
        return False
    finally:
        os.close(fd)
    return True


def has_ballast(directory: Path) -> bool:
    """Whether the reserve is in place."""
    return (directory / BALLAST_FILE).exists()


def release_ballast(directory: Path) -> bool:
    """Give the reserved space back to a full disk; False when there was none. The next open reserves it again."""
    try:
        (directory / BALLAST_FILE).unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise refused_by_disk("the reserve cannot be released", error) from error
    return True
