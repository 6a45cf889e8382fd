"""A directory handle below which everything happens.

Purpose: read, look at, list and make files beneath one root without ever following a name out of it.
Invariant: a descriptor handed out lies beneath the root at the moment of opening; no link is followed by the kernel:
links are read and followed here, component by component, and each step is checked again.
Must never: follow a link out of the root, open `.git` in any spelling, or open a device, FIFO or socket.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.names import is_git_name, split_path
from gloveport.server.workspace.errors import WorkspaceError, os_failure
from gloveport.server.workspace.syscalls import (
    RESOLVE_BENEATH,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    openat2,
)

LINKS_MAX: Final = 40
HOLLOW_DEPTH_MAX: Final = 100
RACE_RETRIES_MAX: Final = 16
READ_CHUNK_BYTES: Final = 1 << 20
_GONE_HINT: Final = "Put the folder back where it was, or start a new session."
_DIR_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_STRICT: Final = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS


@dataclass(frozen=True, slots=True)
class FileBytes:
    """Content of a regular file and its state at the time of reading."""

    data: bytes
    info: os.stat_result


class Root:
    """An open directory. Close it, or use it as a context manager.

    `strict_kernel=False` forces the walk by components that systems without `openat2` use.
    """

    def __init__(self, path: Path, *, strict_kernel: bool = True) -> None:
        self.path = path
        try:
            self.fd = os.open(path, _DIR_FLAGS)
        except FileNotFoundError:
            raise WorkspaceError(ErrorCode.WORKSPACE_MISSING, f"{path} does not exist") from None
        except NotADirectoryError:
            raise WorkspaceError(ErrorCode.WORKSPACE_MISSING, f"{path} is not a folder") from None
        except OSError as error:
            raise WorkspaceError(ErrorCode.WORKSPACE_UNREADABLE, f"{path} cannot be opened") from error
        self._kernel = strict_kernel and _kernel_opens_beneath(self.fd)

    def close(self) -> None:
        """Give the handle back; the object is of no use afterwards."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def check_still_there(self) -> None:
        """Raise `workspace.missing` when the folder at `path` is no longer the one that was opened."""
        try:
            here, there = os.fstat(self.fd), os.stat(self.path)
        except OSError as error:
            raise WorkspaceError(
                ErrorCode.WORKSPACE_MISSING, f"{self.path} is gone ({error.strerror})", hint=_GONE_HINT
            ) from None
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            raise WorkspaceError(
                ErrorCode.WORKSPACE_MISSING, f"{self.path} is another folder than it was", hint=_GONE_HINT
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """Descriptor of the folder at `path` ("" is the root itself), open inside the block."""
        parts = split_path(path) if path else ()
        try:
            fd = self._open(parts, _DIR_FLAGS)
        except OSError as error:
            raise os_failure(error, path) from None
        try:
            yield fd
        finally:
            os.close(fd)

    def enter(self, path: str) -> int:
        """Descriptor of a folder whose path was met in listings of this root ("" is the root itself); close it."""
        try:
            return self._open(tuple(path.split("/")) if path else (), _DIR_FLAGS)
        except OSError as error:
            raise os_failure(error, path) from None

    def state(self, path: str) -> os.stat_result | None:
        """`lstat` of `path`, or None when it (or a folder above it) is missing or is no folder."""
        parts = split_path(path)
        try:
            fd = self._open(parts[:-1], _DIR_FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise os_failure(error, path) from None
        try:
            return os.stat(parts[-1], dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise os_failure(error, path) from None
        finally:
            os.close(fd)

    def read(self, path: str, limit_bytes: int) -> FileBytes:
        """Bytes of the regular file at `path` (no link). Raises WorkspaceError."""
        parts = split_path(path)
        with self.folder("/".join(parts[:-1])) as folder_fd:
            return read_entry(folder_fd, parts[-1], path, limit_bytes)

    def link_target(self, path: str) -> str:
        """Text of the symbolic link at `path`."""
        parts = split_path(path)
        with self.folder("/".join(parts[:-1])) as folder_fd:
            try:
                return os.readlink(parts[-1], dir_fd=folder_fd)
            except OSError as error:
                raise os_failure(error, path) from None

    def resolve(self, path: str) -> str:
        """The link-free path that `path` leads to; its last parts may be missing.

        Raises `workspace.outside` when a link leaves the root, `workspace.protected` when it leads into `.git`.
        """
        waiting = list(reversed(split_path(path)))
        done: list[str] = []
        links = 0
        while waiting:
            part = waiting.pop()
            if part == "..":
                if not done:
                    raise _outside(path)
                done.pop()
                continue
            here = "/".join([*done, part])
            info = self.state(here)
            if info is None or not stat.S_ISLNK(info.st_mode):
                done.append(part)
                continue
            links += 1
            if links > LINKS_MAX:
                raise _outside(path)
            waiting.extend(reversed(_link_parts(self.link_target(here), path)))
        if not done:
            raise WorkspaceError(ErrorCode.NOT_A_FILE, f"{path!r} leads to the root itself", path=path)
        return "/".join(split_path("/".join(done)))

    def has_name(self, path: str) -> bool:
        """True when each folder lists the next part of `path` as it is spelled."""
        parts = split_path(path)
        for depth, part in enumerate(parts):
            try:
                with self.folder("/".join(parts[:depth])) as fd:
                    if part not in os.listdir(fd):
                        return False
            except OSError as error:
                raise os_failure(error, path) from None
        return True

    def make_folders(self, path: str) -> tuple[str, ...]:
        """Make the folder at `path` and those above it, as open as the folder above; the new ones, outermost first."""
        made: list[str] = []
        parts = split_path(path) if path else ()
        for depth in range(1, len(parts) + 1):
            here = "/".join(parts[:depth])
            with self.folder("/".join(parts[: depth - 1])) as above:
                try:
                    os.mkdir(parts[depth - 1], 0o700, dir_fd=above)
                    made.append(here)
                    # Not the daemon's own mask: what the user lets others see above, they may see below.
                    os.chmod(parts[depth - 1], os.fstat(above).st_mode & 0o777, dir_fd=above)
                except FileExistsError:
                    continue
                except OSError as error:
                    self.drop_folders(made)
                    raise os_failure(error, here, writing=True) from None
        return tuple(made)

    def is_hollow(self, path: str) -> bool:
        """True when the folder at `path` holds nothing but folders that hold nothing."""
        with self.folder(path) as fd:
            try:
                with os.scandir(fd) as listing:
                    below = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
            except OSError as error:
                raise os_failure(error, path) from None
        return path.count("/") < HOLLOW_DEPTH_MAX and all(
            folder and not is_git_name(name) and self.is_hollow(f"{path}/{name}") for name, folder in below
        )

    def drop_hollow(self, path: str) -> None:
        """Remove a folder that holds no file, with those below it. Raises WorkspaceError when one is not empty."""
        parts = split_path(path)
        with self.folder(path) as fd:
            below = os.listdir(fd)
        for name in below:
            self.drop_hollow(f"{path}/{name}")
        with self.folder("/".join(parts[:-1])) as above:
            try:
                os.rmdir(parts[-1], dir_fd=above)
            except OSError as error:
                raise os_failure(error, path, writing=True) from None

    def drop_folders(self, paths: list[str] | tuple[str, ...]) -> None:
        """Remove folders, innermost (last) first, as far as they are empty."""
        for path in reversed(paths):
            parts = split_path(path)
            with suppress(OSError, WorkspaceError), self.folder("/".join(parts[:-1])) as above:
                os.rmdir(parts[-1], dir_fd=above)

    def _open(self, parts: tuple[str, ...], flags: int) -> int:
        if not parts:
            return os.open(".", flags, dir_fd=self.fd)
        if self._kernel:
            return _open_by_kernel(self.fd, "/".join(parts), flags)
        return _open_by_parts(self.fd, parts, flags)


def read_entry(folder_fd: int, name: str, path: str, limit_bytes: int) -> FileBytes:
    """Bytes of the regular file `name` in an open folder; `path` is its name in errors."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
    except OSError as error:
        raise os_failure(error, path) from None
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            raise WorkspaceError(ErrorCode.NOT_A_FILE, f"{path} is not a regular file", path=path)
        if info.st_nlink > 1:
            raise WorkspaceError(
                ErrorCode.PROTECTED_PATH, f"{path} is a hard link: it has other names, perhaps outside", path=path
            )
        if info.st_size > limit_bytes:
            raise WorkspaceError(
                ErrorCode.TOO_LARGE_FILE, f"{path} has {info.st_size} bytes, the limit is {limit_bytes}", path=path
            )
        return FileBytes(_read_all(fd, info.st_size, limit_bytes, path), info)
    except OSError as error:
        raise os_failure(error, path) from None
    finally:
        os.close(fd)


def _read_all(fd: int, expected_bytes: int, limit_bytes: int, path: str) -> bytes:
    first = os.read(fd, expected_bytes + 1)
    if len(first) == expected_bytes:
        return first
    pieces = [first]
    total = len(first)
    while piece := os.read(fd, READ_CHUNK_BYTES):
        total += len(piece)
        if total > limit_bytes:
            raise WorkspaceError(ErrorCode.TOO_LARGE_FILE, f"{path} grew beyond the limit", path=path)
        pieces.append(piece)
    return b"".join(pieces)


def _kernel_opens_beneath(fd: int) -> bool:
    try:
        os.close(openat2(fd, ".", _DIR_FLAGS, _STRICT))
    except OSError:
        return False
    return True


def _open_by_kernel(root_fd: int, path: str, flags: int) -> int:
    for _ in range(RACE_RETRIES_MAX):
        try:
            return openat2(root_fd, path, flags, _STRICT)
        except BlockingIOError:
            continue  # a rename elsewhere made the kernel unsure; it asks to be called again
    raise OSError(errno.EAGAIN, "renames kept racing", path)


def _open_by_parts(root_fd: int, parts: tuple[str, ...], flags: int) -> int:
    fd = os.dup(root_fd)
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        try:
            following = os.open(part, (flags if last else _DIR_FLAGS) | os.O_NOFOLLOW, dir_fd=fd)
        except OSError as error:
            if error.errno == errno.ENOTDIR and _is_link(fd, part):
                raise OSError(errno.ELOOP, "a link is in the way", part) from None
            raise
        finally:
            os.close(fd)
        fd = following
    return fd


def _is_link(fd: int, part: str) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(part, dir_fd=fd, follow_symlinks=False).st_mode)
    return False


def _link_parts(target: str, path: str) -> list[str]:
    if target.startswith("/"):
        raise _outside(path)
    return [part for part in target.split("/") if part not in ("", ".")]


def _outside(path: str) -> WorkspaceError:
    return WorkspaceError(ErrorCode.OUTSIDE_WORKSPACE, f"{path!r} leads out of the workspace", path=path)
