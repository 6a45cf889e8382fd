"""What one connection writes.

Purpose: whole frames, in order, with back-pressure: a sender waits while its client does not read.
Invariant: at most `HIGH_WATER_BYTES` plus one frame waits in memory per connection; other connections are not delayed.
Must never: block the event loop, drop a frame of a live connection, or keep a client that takes nothing for ever.
"""

import asyncio
import logging
from typing import Final

import anyio

_log = logging.getLogger("gloveport.transport")

HIGH_WATER_BYTES: Final = 1 << 20
STALL_S_MAX: Final = 60.0
"""A client that takes no byte for so long, while more than the high-water mark waits for it, is let go."""


class OutboxClosed(Exception):  # noqa: N818 - a state of the connection, not a failure
    """The client is gone; what was to be sent has no reader."""


class Outbox:
    """The writing side of a connection."""

    def __init__(self, name: str, writer: asyncio.StreamWriter, stall_s_max: float = STALL_S_MAX) -> None:
        self._name = name
        self._writer = writer
        self._stall_s_max = stall_s_max
        self._gone = False
        self._turn = anyio.Lock(fast_acquire=True)
        writer.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)

    @property
    def waiting_bytes(self) -> int:
        """Bytes taken from senders and not yet by the client."""
        return self._writer.transport.get_write_buffer_size()

    async def send(self, frame: bytes) -> None:
        """Write one frame, after waiting for room. Raises OutboxClosed."""
        async with self._turn:
            if self.waiting_bytes >= HIGH_WATER_BYTES:
                await self._wait_room()
            if self._writer.is_closing():
                raise OutboxClosed
            self._writer.write(frame)

    async def finish(self, grace_s: float) -> None:
        """Give what waits at most `grace_s` to go out, then close."""
        with anyio.move_on_after(grace_s, shield=True):
            self._writer.close()
            try:
                await self._writer.wait_closed()
            except OSError:
                _log.debug("connection %s broke while it was closed", self._name)
            self._gone = True
        self.abort()

    def abort(self) -> None:
        """Close at once; senders that wait get OutboxClosed."""
        if not self._gone:  # a transport that has let go of its loop can't be aborted
            self._writer.transport.abort()

    async def _wait_room(self) -> None:
        while self.waiting_bytes >= HIGH_WATER_BYTES:
            before = self.waiting_bytes
            with anyio.move_on_after(self._stall_s_max) as limit:
                try:
                    await self._writer.drain()
                except OSError:
                    raise OutboxClosed from None
            if limit.cancelled_caught and self.waiting_bytes >= before:
                _log.warning(
                    "connection %s took nothing for %g s while %d bytes waited; it is let go",
                    self._name,
                    self._stall_s_max,
                    before,
                )
                self.abort()
                raise OutboxClosed
