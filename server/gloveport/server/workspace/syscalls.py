"""The few system calls that the standard library does not offer, or not in one step.

Purpose: open beneath a directory (`openat2`), swap or move without overwriting (`renameat2`), give a part of a file
back to the disk or to another file without a copy, make a folder's names durable, tell one inode's life from the next
and one kind of file system from another.
Invariant: every call fails as `OSError` with the kernel's number; ENOSYS means "not here", and the caller falls back.
Must never: hold state of its own beyond the handle of the C library.
"""

import ctypes
import errno
import fcntl
import os
import struct
import sys
from functools import cache
from pathlib import Path
from typing import Final

RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08
RENAME_NOREPLACE: Final = 1
RENAME_EXCHANGE: Final = 2
_PUNCH_HOLE_KEEP_SIZE: Final = 0x02 | 0x01
_ZEROS_BYTES: Final = 1 << 20
SHARED_BLOCK_BYTES: Final = 4096
"""Where blocks are larger, nothing is shared."""
_CLONE_RANGE: Final = 0x4020940D
_CLONE: Final = struct.Struct("=qQQQ")
_OPENAT2: Final = 437
"""One number on every architecture: the call is younger than the common table."""
_AT_FDCWD: Final = -100
_STATX_BTIME: Final = 0x800
_STATX_BYTES: Final = 256
_STATX_MASK: Final = struct.Struct("=I")
_STATX_BORN: Final = struct.Struct("=qI")
_STATX_BORN_AT: Final = 0x50
_NS_PER_S: Final = 1_000_000_000
_GET_VERSION: Final = 0x80087601
_STATFS_BYTES: Final = 512
"""More than any system's record has; its first number is the kind."""
_STATFS_KIND: Final = struct.Struct("@l")


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def openat2(dir_fd: int, path: str, flags: int, resolve: int) -> int:
    """Open `path` relative to `dir_fd` under the given resolution rules; a descriptor, close-on-exec."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)
    result: int = _libc().syscall(_OPENAT2, dir_fd, os.fsencode(path), *_how(flags | os.O_CLOEXEC, resolve))
    if result < 0:
        _raise(path)
    return result


@cache
def _how(flags: int, resolve: int) -> tuple[object, int]:
    """How to open, as the kernel reads it, and its size; the kernel writes nothing there."""
    how = _OpenHow(flags, 0, resolve)
    return ctypes.byref(how), ctypes.sizeof(how)


def renameat2(dir_fd: int, old: str, new: str, flags: int) -> None:
    """Rename within one directory with `RENAME_NOREPLACE` or `RENAME_EXCHANGE`."""
    call = getattr(_libc(), "renameat2", None) if sys.platform == "linux" else None
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), new)
    if call(dir_fd, os.fsencode(old), dir_fd, os.fsencode(new), ctypes.c_uint(flags)) < 0:
        _raise(new)


def give_back(fd: int, offset: int, length: int) -> None:
    """Make a part of a file read as zeros, without a place on the disk where the file system can. Raises OSError."""
    call = getattr(_libc(), "fallocate", None) if sys.platform == "linux" else None
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        if call(fd, _PUNCH_HOLE_KEEP_SIZE, offset, length) == 0:
            return
    end = offset + length
    while offset < end:
        offset += os.pwrite(fd, bytes(min(_ZEROS_BYTES, end - offset)), offset)


def share_range(source_fd: int, offset: int, length: int, target_fd: int) -> None:
    """Make an empty file hold a part of another, the same places of the disk: what is written to either goes elsewhere.

    `offset` lies at the beginning of a block. Raises OSError where the file system has no such thing.
    """
    size = os.fstat(source_fd).st_size
    blocks = -(-length // SHARED_BLOCK_BYTES) * SHARED_BLOCK_BYTES
    asked = 0 if offset + blocks > size else blocks  # to its end
    fcntl.ioctl(target_fd, _CLONE_RANGE, _CLONE.pack(source_fd, offset, asked, 0))
    os.ftruncate(target_fd, length)


def birth_ns(path: Path) -> int | None:
    """When the inode at `path` was made (links followed), in nanoseconds since 1970; None where nobody knows."""
    call = getattr(_libc(), "statx", None) if sys.platform == "linux" else None
    if call is None:
        return None
    found = ctypes.create_string_buffer(_STATX_BYTES)
    asked = (_AT_FDCWD, os.fsencode(path), 0, ctypes.c_uint(_STATX_BTIME), found)
    if call(*asked) < 0 or not _STATX_MASK.unpack_from(found)[0] & _STATX_BTIME:
        return None
    seconds, nanoseconds = _STATX_BORN.unpack_from(found, _STATX_BORN_AT)
    return int(seconds) * _NS_PER_S + int(nanoseconds)


def inode_version(folder: Path, inode: int) -> int | None:
    """The number that the file system gives an inode anew each time it is used again; None where it has none.

    None, too, when the folder there is not the one with this `inode` any more.
    """
    fd = -1
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        told = fcntl.ioctl(fd, _GET_VERSION, bytes(8))
        return int.from_bytes(told[:4], sys.byteorder) if os.fstat(fd).st_ino == inode else None
    except OSError:
        return None
    finally:
        if fd >= 0:
            os.close(fd)


def file_system_kind(fd: int) -> int | None:
    """The number by which the kernel knows the kind of file system that an open file lies on; None elsewhere."""
    call = getattr(_libc(), "fstatfs", None) if sys.platform == "linux" else None
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if call is None or call(fd, found) < 0:
        return None
    return int(_STATFS_KIND.unpack_from(found)[0]) & 0xFFFFFFFF


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` durable. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _raise(path: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), path)
