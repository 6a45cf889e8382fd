"""Going through a folder that a program made, whatever it made of it.

Purpose: every folder beneath one, each with what lies in it, at any depth and with one open descriptor.
Invariant: no link is followed; whoever goes back up looks where it came to, and goes on where it was if that is
another place.
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
LOOKS_MAX: Final = 5
"""Of one folder, one after the other, while somebody moves folders in it."""
LISTS_MAX: Final = 3
"""Of one folder, further ones, while what lies in it is given other names."""
MOVED: Final = "more than can be looked at: its folders are moved about meanwhile, each time"
"""Stands where a size would: what nobody can look at has no limit."""


class Course:
    """How a walk went; `moved`: a folder was taken elsewhere while it was gone through, so some may be unseen."""

    def __init__(self) -> None:
        self.moved = False


def descend(
    top: str, *, opens: bool = False, course: Course | None = None
) -> Iterator[tuple[int, list[os.DirEntry[str]]]]:
    """An open descriptor of each folder, the top first, and its entries that are no folders; close nothing.

    What cannot be looked into is left out; with `opens` a folder of this user's that is closed to its owner is opened
    for as long as it is gone through, so that nobody may run there. Where somebody moves or removes the folders
    meanwhile it goes on with what is still in its place; `course` is told.
    """
    waiting: list[_Waiting] = []
    places: list[tuple[int, int, int]] = []
    names = [top]
    fd = -1
    try:
        fd, mode = _opened(top, None, opens=opens)
        while True:
            folders, others = _listed(fd)
            yield fd, others
            waiting.append(_Waiting(folders))
            places.append((*_place(fd), mode))
            while (below := waiting[-1].enter(fd, opens=opens)) is None:
                waiting.pop()
                names.pop()
                left, left_mode = fd, places.pop()[2]
                fd = _above(left, places, names, course or Course())
                _close_again(left, left_mode)
                os.close(left)
                if fd < 0:
                    return
                del waiting[len(places) :]
            os.close(fd)
            fd, mode, name = below
            names.append(name)
    except OSError:
        return
    finally:
        if fd >= 0:
            os.close(fd)


def taken_by(folder: str, bytes_max: int, files_max: int) -> str:
    """What a folder above one of the limits takes on the disk, in words; empty below them. It looks no further.

    A look during which folders were moved is made again at once, and one that never is a whole one is above, too.
    """
    for _ in range(LOOKS_MAX):
        course = Course()
        if (taken := _taken(folder, bytes_max, files_max, course)) or not course.moved:
            return taken
    return MOVED


def _taken(folder: str, bytes_max: int, files_max: int, course: Course) -> str:
    total = count = 0
    for _, entries in descend(folder, course=course):
        count += 1 + len(entries)
        total += sum(map(_size, entries))
        if total > bytes_max:
            return f"more than {bytes_max >> 20} MiB"
        if count > files_max:
            return f"more than {files_max} files"
    return ""


def _above(fd: int, places: list[tuple[int, int, int]], names: list[str], course: Course) -> int:
    """The folder above an open one, or, where this one is no longer in it, the deepest that is still in its place.

    What lies below that one is taken from both lists; -1 above the top, or where the top is gone.
    """
    if not places:
        return -1
    with contextlib.suppress(OSError):  # it was removed
        above = os.open("..", _FOLDER, dir_fd=fd)
        if _place(above) == places[-1][:2]:
            return above
        os.close(above)
        course.moved = True
    found = -1
    for depth, name in enumerate(names):
        try:
            below = os.open(name, _FOLDER, dir_fd=found if depth else None)
        except OSError:
            below = -1
        if below >= 0 and _place(below) != places[depth][:2]:
            os.close(below)
            below = -1
        if below < 0:
            del places[depth:], names[depth:]
            break
        if found >= 0:
            os.close(found)
        found = below
    return found


class _Waiting:
    """Folders of one folder that are still to be gone through, by name and number."""

    def __init__(self, folders: list[tuple[str, int]]) -> None:
        self.folders = folders
        self.gone: set[int] = set()
        self.lists_left = LISTS_MAX

    def enter(self, fd: int, *, opens: bool) -> tuple[int, int, str] | None:
        """The next that can be looked into, by its name, taken from here; None after the last one.

        What is no longer there by its name is looked for once more by its number: it may have another name.
        """
        while True:
            while self.folders:
                name, number = self.folders.pop()
                try:
                    return (*_opened(name, fd, opens=opens), name)
                except FileNotFoundError:
                    self.gone.add(number)
                except OSError:
                    continue
            if not self.gone or self.lists_left == 0:
                return None
            self.lists_left -= 1
            self.folders = [each for each in _listed(fd)[0] if each[1] in self.gone]
            self.gone.clear()


def _listed(fd: int) -> tuple[list[tuple[str, int]], list[os.DirEntry[str]]]:
    folders: list[tuple[str, int]] = []
    others: list[os.DirEntry[str]] = []
    with os.scandir(fd) as listing:
        for entry in listing:
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.name, entry.inode()))
            else:
                others.append(entry)
    return folders, others


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
