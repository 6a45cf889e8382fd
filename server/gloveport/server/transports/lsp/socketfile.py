"""The daemon's socket and token in the file system.

Purpose: create both so that nobody but this user can reach them, and remove them again.
Invariant: directory 0700, socket and token 0600, no link; only the lease's holder
replaces a socket.
Must never: replace anything that is not a socket of ours, or remove a socket that a later daemon made.
"""

import os
import secrets
import socket
import stat
from pathlib import Path
from typing import Final, Protocol

from gloveport.protocol.errors import ErrorCode, GloveportError

SOCKET_BYTES_MAX: Final = 103
"""Of a socket's path; macOS takes 104 with the closing zero, Linux 108."""
BACKLOG: Final = 128
TOKEN_BYTES: Final = 32


class HeldLease(Protocol):
    """The lease of the data directory, as far as it matters here."""

    @property
    def held(self) -> bool:
        """Whether this process is the owner."""
        ...


class SocketFile:
    """A listening socket and the file it was bound to."""

    def __init__(self, path: Path, listener: socket.socket) -> None:
        self.path = path
        self.listener = listener
        self._identity = _identity(path)

    def close(self) -> None:
        """Stop listening and remove the file, unless it is another daemon's by now."""
        self.listener.close()
        if self._identity is not None and _identity(self.path) == self._identity:
            self.path.unlink(missing_ok=True)


def bind_socket(path: Path, lease: HeldLease) -> SocketFile:
    """Listen at `path`; what a daemon before us left there is replaced.

    Raises:
        GloveportError: LEASE_HELD without the lease, UNSAFE_DIRECTORY when the place is not this user's alone or
            its path is too long for a socket.
    """
    if not lease.held:
        raise GloveportError(ErrorCode.LEASE_HELD, "only the owner of the data directory listens for clients")
    if len(os.fsencode(path)) > SOCKET_BYTES_MAX:
        words = f"the socket's path is longer than {SOCKET_BYTES_MAX} bytes"
        raise GloveportError(ErrorCode.UNSAFE_DIRECTORY, words, hint="Set GLOVEPORT_HOME to a shorter path.")
    _make_private_dir(path.parent)
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(os.fspath(path))
        os.chmod(path, 0o600)
        listener.listen(BACKLOG)
        return SocketFile(path, listener)
    except BaseException:
        listener.close()
        raise


def write_token(path: Path) -> str:
    """A fresh decision token, readable by this user alone; an older one is void from now on."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    _make_private_dir(path.parent)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, token.encode())
        os.fsync(fd)
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
    return token


def _make_private_dir(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise GloveportError(ErrorCode.UNSAFE_DIRECTORY, f"{path} is not this user's alone")


def _remove_stale(path: Path) -> None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
        raise GloveportError(ErrorCode.UNSAFE_DIRECTORY, f"{path} is there and is no socket of this user")
    path.unlink()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
