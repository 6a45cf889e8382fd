"""A connection to a place outside that the next request of the same client may use again.

Purpose: a client that keeps its connection pays for one connection (and one handshake) and not for one a request.
Invariant: it is one client connection's alone, leads to one place at one checked address, and carries requests without
a body and without a lent credential; each of them is decided by itself before.
Must never: be handed to another client or another lease, or carry a request that cannot be made twice.
"""

import select
from dataclasses import dataclass
from typing import Final, Self

from anyio.abc import SocketAttribute

from gloveport.sandbox.egress.head import RequestHead
from gloveport.sandbox.egress.hosts import Authority
from gloveport.sandbox.egress.wire import Wire

REPEATABLE: Final = frozenset({"GET", "HEAD"})


@dataclass(slots=True)
class Kept:
    """The one connection that waits, or none."""

    wire: Wire | None = None
    place: Authority | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def take(self, place: Authority, addresses: tuple[str, ...]) -> Wire | None:
        """The connection for a request to this place at one of these addresses; it is not kept any more."""
        wire = self.wire
        if wire is None or self.place != place or wire.address not in addresses or _has_news(wire):
            return None
        self.wire = None
        return wire

    async def keep(self, wire: Wire, place: Authority) -> None:
        """Keep one in the place of what was kept."""
        await self.close()
        self.wire, self.place = wire, place

    async def close(self) -> None:
        """Let go of it."""
        wire, self.wire = self.wire, None
        if wire is not None:
            await wire.close()


def may_repeat(head: RequestHead) -> bool:
    """Whether a request can be made again where the connection turns out to be gone."""
    return head.method in REPEATABLE and not head.has_body


def _has_news(wire: Wire) -> bool:
    """The other side ended it, or says what nobody asked for."""
    raw = wire.stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - a stream of anyio's, no query
    poller = select.poll()
    poller.register(raw.fileno(), select.POLLIN)
    return bool(poller.poll(0))
