"""Takes set-user-id and set-group-id bits from what a run wrote.

Purpose: a program made in a jail never runs with its owner's rights when it is started outside.
Invariant: only regular files beneath the given folders are changed, reached without following a link.
Must never: be called while a process of the run lives.
"""

import os
import stat
from collections.abc import Iterable
from typing import Final

from gloveport.sandbox.runner import handles
from gloveport.sandbox.runner.descent import descend

VISITS_MAX: Final = 1_000_000
_SET_ID: Final = stat.S_ISUID | stat.S_ISGID


def strip_set_id(folders: Iterable[str]) -> int:
    """Remove the bits; how many files had one. Files that cannot be changed are left, since they are not ours."""
    changed = visits = 0
    for folder in folders:
        for folder_fd, entries in descend(folder, opens=True):
            visits += len(entries)
            if visits > VISITS_MAX:
                return changed
            changed += sum(_strip(entry.name, folder_fd) for entry in entries)
    return changed


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
