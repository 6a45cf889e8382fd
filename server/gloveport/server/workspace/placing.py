"""Putting one file in its place, whole or not at all.

Purpose: stage new content beside its target, then swap it in so that the former file can be checked and put back.
Invariant: at every moment the target's name leads to the whole old or the whole new content; the old file is kept
under a staged name until `settle`.
Must never: overwrite content that is not the expected one, or follow a link.
"""

import errno
import os
import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from gloveport.server.workspace.errors import os_failure
from gloveport.server.workspace.syscalls import RENAME_EXCHANGE, RENAME_NOREPLACE, renameat2

SYNCS_AT_ONCE: Final = 8

_NOT_HERE: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})


def stage_file(folder_fd: int, staged: str, data: bytes, mode: int, like: os.stat_result | None, path: str) -> None:
    """Write `data` under the name `staged`, durably; owner and mode as told (`like`: the file it shall replace)."""
    fd = write_staged(folder_fd, staged, data, mode, like, path)
    try:
        sync_files({fd: path})
    except BaseException:
        with suppress(OSError):
            os.unlink(staged, dir_fd=folder_fd)
        raise
    finally:
        os.close(fd)


def write_staged(folder_fd: int, staged: str, data: bytes, mode: int, like: os.stat_result | None, path: str) -> int:
    """As `stage_file`, but not durable yet; the open descriptor, for `sync_files`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with suppress(FileNotFoundError):
            os.unlink(staged, dir_fd=folder_fd)
        fd = os.open(staged, flags, 0o600, dir_fd=folder_fd)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if like is not None and (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                with suppress(PermissionError):
                    os.fchown(fd, like.st_uid, like.st_gid)
            os.fchmod(fd, mode)
        except BaseException:
            os.close(fd)
            raise
    except OSError as error:
        with suppress(OSError):
            os.unlink(staged, dir_fd=folder_fd)
        raise os_failure(error, path, writing=True) from None
    return fd


def sync_files(written: Mapping[int, str]) -> None:
    """Make what was written to open files durable; their paths name them in errors.

    Several at once: a file system writes its own log once for all that ask at the same time.
    """
    with ThreadPoolExecutor(SYNCS_AT_ONCE) as pool:
        syncing = [(path, pool.submit(os.fsync, fd)) for fd, path in written.items()]
        for path, synced in syncing:
            try:
                synced.result()
            except OSError as error:
                raise os_failure(error, path, writing=True) from None


def stage_link(folder_fd: int, staged: str, target: bytes, path: str) -> None:
    """Make a symbolic link under the name `staged`."""
    try:
        with suppress(FileNotFoundError):
            os.unlink(staged, dir_fd=folder_fd)
        os.symlink(target, os.fsencode(staged), dir_fd=folder_fd)
    except OSError as error:
        raise os_failure(error, path, writing=True) from None


def copy_attributes(source_fd: int, name: str, folder_fd: int, staged: str) -> None:
    """Give the staged file the extended attributes of the file `name` in its folder, as far as this user may."""
    listing = getattr(os, "listxattr", None)
    if listing is None:
        return
    with suppress(OSError):
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=source_fd)
        try:
            target = os.open(staged, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder_fd)
            try:
                for key in listing(source):
                    with suppress(OSError):
                        os.setxattr(target, key, os.getxattr(source, key))
            finally:
                os.close(target)
        finally:
            os.close(source)


def exchange(folder_fd: int, name: str, staged: str) -> None:
    """Swap the two names in one step. Raises OSError."""
    try:
        renameat2(folder_fd, staged, name, RENAME_EXCHANGE)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        _exchange_by_steps(folder_fd, name, staged)


def move_to_free(folder_fd: int, old: str, new: str) -> None:
    """Rename `old` to `new`, which must be free. Raises FileExistsError when it is not, OSError otherwise."""
    try:
        renameat2(folder_fd, old, new, RENAME_NOREPLACE)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        os.link(old, new, src_dir_fd=folder_fd, dst_dir_fd=folder_fd, follow_symlinks=False)
        os.unlink(old, dir_fd=folder_fd)


def drop(folder_fd: int, staged: str) -> None:
    """Remove a staged name, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(staged, dir_fd=folder_fd)


def sync_fd(folder_fd: int, path: str) -> None:
    """Make the names in an open folder durable, where the file system can; `path` is its name in errors."""
    try:
        os.fsync(folder_fd)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise os_failure(error, path, writing=True) from None


def is_regular(info: os.stat_result | None) -> bool:
    """True for a plain file that is there."""
    return info is not None and stat.S_ISREG(info.st_mode)


def _exchange_by_steps(folder_fd: int, name: str, staged: str) -> None:
    """Where the kernel cannot swap: keep the old file under a second name, replace, give it the staged name."""
    kept = f"{staged}.old"
    drop(folder_fd, kept)
    os.link(name, kept, src_dir_fd=folder_fd, dst_dir_fd=folder_fd, follow_symlinks=False)
    os.rename(staged, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
    os.rename(kept, staged, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
