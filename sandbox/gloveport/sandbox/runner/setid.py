"""Takes set-user-id and set-group-id bits from what a run wrote.

Purpose: a program made in a jail never runs with its owner's rights when it is started outside.
Invariant: only regular files beneath the given folders are changed, reached without following a link; what was not
looked at is told, and in reach of nobody else.
Must never: be called while a process of the run lives.
"""

import contextlib
import os
import stat
from collections.abc import Iterable
from typing import Final, NamedTuple

from gloveport.sandbox.runner import handles
from gloveport.sandbox.runner.descent import descend

FILES_MAX: Final = 1_000_000
"""Of one run's folders, however many names each file has; then its folder is closed instead."""
NAMES_MAX: Final = 10_000_000
LINKED_MAX: Final = 65_536
"""How many files with several names are known again by another."""
_SET_ID: Final = stat.S_ISUID | stat.S_ISGID
_OWNERS: Final = stat.S_IRWXU


class Stripped(NamedTuple):
    """How many files had such a bit, and the folders that held more than is looked at."""

    changed: int
    closed: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """What is told of it with the run's end."""
        told = [f"set-id bits were taken from {self.changed} files"] if self.changed else []
        if self.closed:
            told.append(
                f"not all files of {len(self.closed)} folders were looked at for set-id bits: they are too many, and "
                "the folders are closed to other users of this machine"
            )
        return told


def strip_set_id(folders: Iterable[str]) -> Stripped:
    """Remove the bits. Files that cannot be changed are left, since they are not ours.

    A folder with too many files is closed to everybody but its owner, for good, so that nobody else runs what is left.
    """
    changed, count, closed = 0, _Count(), list[str]()
    for folder in folders:
        for folder_fd, entries in descend(folder, opens=True):
            changed += sum(_strip(entry.name, folder_fd) for entry in entries if count.is_next(entry))
            if count.is_over():
                _close(folder)
                closed.append(folder)
                break
    return Stripped(changed, tuple(closed))


class _Count:
    """Files that were looked at: one with many names is one."""

    def __init__(self) -> None:
        self._files = self._names = 0
        self._linked: set[tuple[int, int]] = set()

    def is_over(self) -> bool:
        return self._files > FILES_MAX or self._names > NAMES_MAX

    def is_next(self, entry: os.DirEntry[str]) -> bool:
        """Whether this is a name of a file that is to be looked at, and was not by another name."""
        self._names += 1
        if self.is_over():
            return False
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            return False
        if found.st_nlink > 1:
            key = (found.st_dev, found.st_ino)
            if key in self._linked:
                return False
            if len(self._linked) < LINKED_MAX:
                self._linked.add(key)
        self._files += 1
        return not self.is_over()


def _close(folder: str) -> None:
    with contextlib.suppress(OSError):  # it is not ours, or gone
        fd = os.open(folder, handles.FOLDER)
        try:
            handles.set_mode(fd, stat.S_IMODE(os.fstat(fd).st_mode) & _OWNERS)
        finally:
            os.close(fd)


def _strip(name: str, folder_fd: int) -> bool:
    try:
        mode = os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode) or not mode & _SET_ID:
            return False
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError:
        return _strip_unreadable(name, folder_fd)
    try:
        os.fchmod(fd, stat.S_IMODE(mode) & ~_SET_ID)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _strip_unreadable(name: str, folder_fd: int) -> bool:
    """A file that even its owner may not open: through its handle, which needs no right to read."""
    try:
        fd = os.open(name, handles.PLAIN, dir_fd=folder_fd)
    except OSError:
        return False
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode) or not mode & _SET_ID:
            return False
        handles.set_mode(fd, stat.S_IMODE(mode) & ~_SET_ID)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
