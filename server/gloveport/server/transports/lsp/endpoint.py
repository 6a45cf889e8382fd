"""The daemon's door: accepts clients and serves each by itself.

Purpose: accept on the unix socket, check who comes, run one `Connection` per client, end all of them on `stop`.
Invariant: a client of another user gets nothing; one client's end, fault or silence is nobody else's.
Must never: bind, unbind or decide when the daemon ends; that is the owner's.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from typing import Final

import anyio
from anyio.abc import TaskGroup

from gloveport.protocol.errors import ErrorCode
from gloveport.server.transports.lsp.loop import Connection, Service
from gloveport.server.transports.lsp.peer import Peer, read_peer
from gloveport.server.transports.lsp.replies import error_frame

_log = logging.getLogger("gloveport.transport")

ACCEPT_PAUSE_S: Final = 0.1
"""Between tries while the process has no descriptor left for a client."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

MayDecide = Callable[[Peer], bool]


def _everybody(_peer: Peer) -> bool:
    return True


class Endpoint:
    """All clients of one listening socket.

    `may_decide` says whether a process may prove the decision token at all (one inside a sandbox may not).
    """

    def __init__(self, service: Service, listener: socket.socket, *, may_decide: MayDecide = _everybody) -> None:
        self._service = service
        self._listener = listener
        self._may_decide = may_decide
        self._count = 0
        self._clients = 0

    @property
    def clients(self) -> int:
        """How many are connected now."""
        return self._clients

    async def serve(self, stop: anyio.Event) -> None:
        """Accept and serve until `stop`; returns when every connection is closed, within the limits' grace."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._accept, tasks)
            await stop.wait()
            tasks.cancel_scope.cancel()

    async def _accept(self, tasks: TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                bare, _ = await loop.sock_accept(self._listener)
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                _log.error("no room for another client: %s", error.strerror)
                await anyio.sleep(ACCEPT_PAUSE_S)
                continue
            self._count += 1
            tasks.start_soon(self._serve_one, bare, f"c{self._count}")

    async def _serve_one(self, bare: socket.socket, name: str) -> None:
        """One client; whatever goes wrong here stays here."""
        self._clients += 1
        try:
            peer = read_peer(bare)
            if peer is None or peer.uid != os.geteuid():
                _log.warning("connection %s of another user was refused", name)
                return
            reader, writer = await asyncio.open_unix_connection(sock=bare)
            if self._clients > self._service.limits.connections_max:
                writer.write(error_frame(None, ErrorCode.BUSY, "too many clients are connected"))
                writer.close()
                return
            await Connection(self._service, name, (reader, writer), may_decide=self._may_decide(peer)).serve()
        except Exception:  # noqa: BLE001 - the outer edge: a fault of one connection must not end the others
            _log.exception("connection %s failed", name)
        finally:
            self._clients -= 1
            bare.close()
