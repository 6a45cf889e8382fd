"""Who is at the other end of a local socket.

Purpose: uid and pid as the kernel knows them.
Invariant: what the kernel does not tell is refused, not guessed.
Must never: ask the peer itself.
"""

import socket
import struct
import sys
from dataclasses import dataclass
from typing import Final

_LINUX_FORM: Final = "3i"  # pid, uid, gid
_DARWIN_LOCAL: Final = 0
_DARWIN_PEERCRED: Final = 1
_DARWIN_PEERPID: Final = 2


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that connected; by the time it is looked at, the pid may be gone or another's."""

    uid: int
    pid: int


def read_peer(connection: socket.socket) -> Peer | None:
    """The peer of a connected unix socket; None where the kernel does not say."""
    peer: Peer | None = None
    if sys.platform == "linux":
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_LINUX_FORM))
        pid, uid, _gid = struct.unpack(_LINUX_FORM, raw)
        peer = Peer(uid, pid)
    elif sys.platform == "darwin":
        raw = connection.getsockopt(_DARWIN_LOCAL, _DARWIN_PEERCRED, 8)
        pid = connection.getsockopt(_DARWIN_LOCAL, _DARWIN_PEERPID)
        peer = Peer(struct.unpack("2I", raw[:8])[1], pid)
    return peer
