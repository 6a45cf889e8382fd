"""Going through a folder that a program made, whatever it made of it.

Purpose: every folder beneath one, each with what lies in it, at any depth and with one open descriptor.
Invariant: no link is followed; whoever goes back up looks where it came to, and ends there if it is another place.
Must never: go deeper by recursion or by longer paths: a program makes folders as deep as it likes.
It is sent to other machines, too: the standard library (3.9 and later) is all that it knows, beside `handles`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Final

from gloveport.sandbox.runner.handles import FOLDER, set_mode

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK_BYTES: Final = 512
_LOOKS: Final = stat.S_IRUSR | stat.S_IXUSR
_AS_IT_IS: Final = -1


def descend(top: str, *, opens: bool = False) -> Iterator[tuple[int, list[os.DirEntry[str]]]]:
    """An open descriptor of each folder, the top first, and its entries that are no folders; close nothing.

    What cannot be looked into is left out; with `opens` a folder of this user's that is closed to its owner is opened
    for as long as it is gone through, so that nobody may run there. It ends early where somebody moves the folders
    about meanwhile.
    """
    waiting: list[list[str]] = []
    places: list[tuple[int, int, int]] = []
    fd = -1
    try:
        fd, mode = _opened(top, None, opens=opens)
        while True:
            folders, others = _listed(fd)
            yield fd, others
            waiting.append(folders)
            places.append((*_place(fd), mode))
            while (below := _entered(fd, waiting[-1], opens=opens)) is None:
                waiting.pop()
                above = os.open("..", _FOLDER, dir_fd=fd) if waiting else -1
                _close_again(fd, places.pop()[2])
                if not waiting:
                    return
                os.close(fd)
                fd = above
                if _place(fd) != places[-1][:2]:
                    return
            os.close(fd)
            fd, mode = below
    except OSError:
        return
    finally:
        if fd >= 0:
            os.close(fd)


def taken_by(folder: str, bytes_max: int, files_max: int) -> str:
    """What a folder above one of the limits takes on the disk, in words; empty below them. It looks no further."""
    total = count = 0
    for _, entries in descend(folder):
        count += 1 + len(entries)
        total += sum(map(_size, entries))
        if total > bytes_max:
            return f"more than {bytes_max >> 20} MiB"
        if count > files_max:
            return f"more than {files_max} files"
    return ""


def _listed(fd: int) -> tuple[list[str], list[os.DirEntry[str]]]:
    folders: list[str] = []
    others: list[os.DirEntry[str]] = []
    with os.scandir(fd) as listing:
        for entry in listing:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                others.append(entry)
    return folders, others


def _entered(fd: int, names: list[str], *, opens: bool) -> tuple[int, int] | None:
    """The next of these folders that can be looked into, taken from the list; None after the last one."""
    while names:
        try:
            return _opened(names.pop(), fd, opens=opens)
        except OSError:
            continue
    return None


def _opened(name: str, above: int | None, *, opens: bool) -> tuple[int, int]:
    """A folder to be gone through, and the rights that it gets back then; `_AS_IT_IS` where they were not changed."""
    if not opens or os.geteuid() == 0:
        return os.open(name, _FOLDER, dir_fd=above), _AS_IT_IS
    handle = os.open(name, FOLDER, dir_fd=above)
    try:
        found = os.fstat(handle)
        mode, changed = stat.S_IMODE(found.st_mode), _AS_IT_IS
        if found.st_uid == os.geteuid() and mode & _LOOKS != _LOOKS:
            set_mode(handle, mode | _LOOKS)
            changed = mode
        return os.open(".", _FOLDER, dir_fd=handle), changed
    finally:
        os.close(handle)


def _close_again(fd: int, mode: int) -> None:
    if mode != _AS_IT_IS:
        with contextlib.suppress(OSError):  # it stays open to its owner
            os.fchmod(fd, mode)


def _place(fd: int) -> tuple[int, int]:
    info = os.fstat(fd)
    return info.st_dev, info.st_ino


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
    except OSError:
        return 0  # gone meanwhile
