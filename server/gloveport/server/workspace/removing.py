"""Folders of a session's own that go for good.

Purpose: remove a folder with everything that programs of a jail made of it: closed to everybody, or too deep to walk.
Invariant: no link is followed, whatever is put in the way meanwhile; what stays is named with the reason, never
passed over in silence.
Must never: be given a folder of the user's, or change the rights of anything that is no folder below the given one.
"""

import errno
import itertools
import os
import stat
from collections import deque
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, Self

LEFT_MAX: Final = 20
"""So many things that stay are named."""
_NAMED_CHARACTERS_MAX: Final = 200
_LISTING: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def remove_tree(folder: Path) -> tuple[str, ...]:
    """Remove a folder and all that lies in it; what stays, each as `path: reason`. Nothing there is nothing to do.

    A folder in it is brought to the top before it is emptied: two handles suffice for any depth.
    """
    if not os.path.lexists(folder):
        return ()
    try:
        top = _opened(folder)
    except FileNotFoundError:
        return ()
    except OSError as error:
        return _without_folder(folder, error)
    with closing(_Emptied(top, str(folder))) as emptied:
        emptied.empty()
        left = emptied.left
    try:
        folder.rmdir()
    except FileNotFoundError:
        return ()
    except OSError as error:
        return tuple(left) or (f"{folder}: {_reason(error)}",)
    return ()


def _without_folder(path: Path, error: OSError) -> tuple[str, ...]:
    """What has the folder's name and is none (a link, a file) goes as it is."""
    if error.errno not in (errno.ENOTDIR, errno.ELOOP):
        return (f"{path}: {_reason(error)}",)
    try:
        path.unlink(missing_ok=True)
    except OSError as refused:
        return (f"{path}: {_reason(refused)}",)
    return ()


class _Emptied:
    """The folder behind a handle, while it is emptied. Close it."""

    def __init__(self, top: int, shown: str) -> None:
        self._top, self._shown = top, shown
        self._numbers = itertools.count()
        self._waiting: deque[tuple[str, str]] = deque()
        self.left: list[str] = []

    def close(self) -> None:
        """Give the handle back."""
        os.close(self._top)

    def empty(self) -> Self:
        """Remove all that can be; `left` says what stays."""
        self._empty_one(self._top, self._shown, is_top=True)
        while self._waiting:
            name, shown = self._waiting.popleft()
            try:
                fd = _opened(name, self._top)
                try:
                    self._empty_one(fd, shown, is_top=False)
                finally:
                    os.close(fd)
                os.rmdir(name, dir_fd=self._top)
            except FileNotFoundError:
                continue
            except OSError as error:
                # Full because something in it stays: that was named, and says more.
                if error.errno != errno.ENOTEMPTY or not self.left:
                    self._stays(shown, error)
        return self

    def _empty_one(self, fd: int, shown: str, *, is_top: bool) -> None:
        try:
            _open_up(fd)
            names = _listed(fd)
        except OSError as error:
            self._stays(shown, error)
            return
        for name, is_folder in names:
            path = f"{shown}/{name}"
            try:
                if not is_folder:
                    os.unlink(name, dir_fd=fd)
                elif is_top:
                    self._waiting.append((name, path))
                else:
                    self._bring_up(fd, name, path)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._stays(path, error)

    def _bring_up(self, fd: int, name: str, shown: str) -> None:
        """The folder lies in the top one afterwards, under a name that is free there."""
        with suppress(OSError):
            _opened_up(name, fd)  # a folder that moves is written to, since it names the one above it
        while True:
            fresh = f".going-{os.getpid()}-{next(self._numbers)}"
            try:
                os.stat(fresh, dir_fd=self._top, follow_symlinks=False)
            except FileNotFoundError:
                os.rename(name, fresh, src_dir_fd=fd, dst_dir_fd=self._top)
                self._waiting.append((fresh, shown))
                return

    def _stays(self, shown: str, error: OSError) -> None:
        if len(self.left) < LEFT_MAX:
            self.left.append(f"{shown[:_NAMED_CHARACTERS_MAX]}: {_reason(error)}")


def _listed(fd: int) -> list[tuple[str, bool]]:
    """Names in a folder, and whether each is a folder itself."""
    listing = os.open(".", _LISTING, dir_fd=fd)
    try:
        with os.scandir(listing) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    finally:
        os.close(listing)


def _opened(name: str | Path, above: int | None = None) -> int:
    """A handle of a folder that its own rights may close to everybody."""
    from gloveport.sandbox.runner import handles  # a daemon that removes nothing does without it

    return os.open(name, handles.FOLDER, dir_fd=above)


def _opened_up(name: str, above: int) -> None:
    fd = _opened(name, above)
    try:
        _open_up(fd)
    finally:
        os.close(fd)


def _open_up(fd: int) -> None:
    """Give the owner all rights in the folder behind a handle that was opened for nothing."""
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        from gloveport.sandbox.runner import handles  # most sessions leave nothing that is closed

        handles.set_mode(fd, mode | stat.S_IRWXU)


def _reason(error: OSError) -> str:
    return f"{error.strerror or 'it cannot be removed'} ({errno.errorcode.get(error.errno or 0, 'unknown')})"
