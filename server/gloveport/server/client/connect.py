"""Connecting to a running daemon.

Purpose: `connect` gives a client with typed calls and followed sessions.
Invariant: socket and peer are this user's before anything is sent; nothing is left running when the block ends.
Must never: start a daemon (that is `launch`) or keep the decision token.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import WireModel
from gloveport.protocol.wire.methods import METHODS
from gloveport.protocol.wire.place import DaemonTold
from gloveport.protocol.wire.reducer import View
from gloveport.protocol.wire.session import WINDOW_BYTES_DEFAULT
from gloveport.protocol.wire.version import PROTOCOL_VERSION
from gloveport.server.client.calls import Calls
from gloveport.server.client.follow import BEGINNING, Follow
from gloveport.server.client.link import Inbox, Link
from gloveport.server.client.private import open_socket

CONNECT_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Server:
    """What the daemon said of itself; `deciding` is whether this connection may decide."""

    version: str
    protocol_version: int
    epoch: int
    deciding: bool


class Client(Calls):
    """A connected client."""

    def __init__(self, link: Link, server: Server) -> None:
        self.server = server
        self._link = link

    def follow(
        self,
        session_id: str,
        *,
        after: str | None = None,
        view: View | None = None,
        window_bytes: int = WINDOW_BYTES_DEFAULT,
        newest_only: bool = False,
    ) -> Follow:
        """Follow a session: anew, or from the cursor `after` that `view` stands at."""
        return Follow(
            self._link, session_id, after=after, view=view, window_bytes=window_bytes, newest_only=newest_only
        )

    def follow_from_start(self, session_id: str) -> Follow:
        """Follow a session from its first event on, however much of it has happened."""
        return Follow(self._link, session_id, after=BEGINNING, view=View())

    def notices(self) -> AsyncIterator[DaemonTold]:
        """What the daemon tells every client from now on: that nothing can be saved, that it is saved again.

        What still stands comes first. Raises UNREACHABLE when the daemon went away.
        """
        return _notices(self._link.open_notices())

    async def _ask(self, method: str, params: WireModel | None, timeout_s: float | None) -> WireModel:
        body = {} if params is None else params.model_dump(mode="json", by_alias=True)
        with anyio.fail_after(timeout_s):
            result = await self._link.ask(method, body)
        return METHODS[method].result.model_validate(result)


async def _notices(inbox: Inbox) -> AsyncIterator[DaemonTold]:
    while True:
        yield DaemonTold.model_validate(await inbox.take())


@asynccontextmanager
async def connect(
    socket_path: Path,
    *,
    token: str | None = None,
    client_name: str = "gloveport-client",
    timeout_s: float = CONNECT_TIMEOUT_S,
) -> AsyncIterator[Client]:
    """A client of the daemon at `socket_path`; with the daemon's `token` it may decide.

    Raises:
        GloveportError: UNREACHABLE, UNSAFE_DIRECTORY, VERSION_MISMATCH.
    """
    link = await _open(socket_path, timeout_s)
    # One task with one owner; a task group would wrap the caller's own failures into groups.
    reading = asyncio.create_task(link.run())
    try:
        with anyio.fail_after(timeout_s):
            server = await _introduce(link, token, client_name)
        yield Client(link, server)
    finally:
        link.close()
        reading.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((reading,))


async def _open(socket_path: Path, timeout_s: float) -> Link:
    try:
        bare = open_socket(socket_path, timeout_s)
        bare.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=bare)
    except OSError as error:
        words = f"no daemon answers at {socket_path} ({error.strerror or type(error).__name__})"
        raise GloveportError(ErrorCode.UNREACHABLE, words) from error
    return Link(reader, writer)


async def _introduce(link: Link, token: str | None, client_name: str) -> Server:
    options: dict[str, Any] = {"protocolVersion": PROTOCOL_VERSION}
    if token is not None:
        options["decisionToken"] = token
    wanted = {
        "processId": None,
        "clientInfo": {"name": client_name},
        "capabilities": {},
        "initializationOptions": options,
    }
    result = await link.ask("initialize", wanted)
    await link.tell("initialized", {})
    ours = result["capabilities"]["experimental"]["gloveport"]
    return Server(
        str(result["serverInfo"]["version"]), int(ours["protocolVersion"]), int(ours["epoch"]), bool(ours["deciding"])
    )
