"""Is this really our daemon's socket?

Purpose: look before a key is sent: directory, socket, token and peer belong to this user alone.
Invariant: a link, another owner or a wider mode is refused.
Must never: mend what it finds, or follow a link in the last part of a path.
"""

import os
import socket
import stat
import struct
import sys
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError

TOKEN_BYTES_MAX: Final = 256
_PEER_FORM: Final = "3i"  # pid, uid, gid
_DARWIN_LOCAL: Final = 0
_DARWIN_PEERCRED: Final = 1


def make_private_dir(path: Path) -> None:
    """Create a directory of mode 0700 where there is none, then check it. Raises UNSAFE_DIRECTORY."""
    make_dir(path)
    check_private_dir(path)


def make_dir(path: Path) -> None:
    """Create a data folder of mode 0700 where there is none. Raises UNSAFE_DIRECTORY."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable_dir(path, error) from error


def unusable_dir(path: Path, error: OSError) -> GloveportError:
    """The data folder cannot be made or written: where, why, and how another one is named."""
    words = f"the data folder {path} cannot be used ({error.strerror})"
    hint = "Set GLOVEPORT_HOME to a folder that you can write to."
    return GloveportError(ErrorCode.UNSAFE_DIRECTORY, words, hint=hint)


def check_private_dir(path: Path) -> None:
    """Raises UNSAFE_DIRECTORY unless `path` is a directory of ours with mode 0700, and no link."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise _unsafe(path, "is a link or no directory")
    if status.st_uid != os.geteuid():
        raise _unsafe(path, "belongs to another user")
    if status.st_mode & 0o077:
        raise _unsafe(path, "is open to other users")


def open_socket(path: Path, timeout_s: float | None = None) -> socket.socket:
    """A connection to a daemon that is this user's.

    Raises:
        OSError: nobody listens there.
        GloveportError: UNSAFE_DIRECTORY when directory, socket or peer belong to somebody else.
    """
    check_private_dir(path.parent)
    status = os.lstat(path)
    if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.geteuid():
        raise _unsafe(path, "is not a socket of this user")
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.settimeout(timeout_s)
        link.connect(os.fspath(path))
        if (peer := _peer_uid(link)) is not None and peer != os.geteuid():
            raise _unsafe(path, "is served by another user")
    except BaseException:
        link.close()
        raise
    return link


def read_token(path: Path) -> str | None:
    """The decision token; None when there is none. Raises UNSAFE_DIRECTORY when others could have written it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise _unsafe(path, "is not a private file of this user")
        return os.read(fd, TOKEN_BYTES_MAX).decode("ascii", "replace").strip() or None
    finally:
        os.close(fd)


def _peer_uid(link: socket.socket) -> int | None:
    uid: int | None = None
    if sys.platform == "linux":
        raw = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_PEER_FORM))
        uid = struct.unpack(_PEER_FORM, raw)[1]
    elif sys.platform == "darwin":
        raw = link.getsockopt(_DARWIN_LOCAL, _DARWIN_PEERCRED, 8)
        uid = struct.unpack("2I", raw[:8])[1]
    return uid


def _unsafe(path: Path, words: str) -> GloveportError:
    return GloveportError(ErrorCode.UNSAFE_DIRECTORY, f"{path} {words}")
