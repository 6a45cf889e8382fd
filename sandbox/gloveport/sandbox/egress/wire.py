"""One side of a connection that the proxy carries.

Purpose: reading by marker, by count and by piece over any byte stream, with every wait bounded and every byte counted.
Invariant: what was read ahead is given out before anything new; the lease's allowance of bytes is never passed.
Must never: hold more than one head and one piece in memory.
"""

from collections.abc import Callable
from typing import Any, Final

import anyio
from anyio.abc import ByteStream

PIECE_BYTES: Final = 256 * 1024


class WireEnd(Exception):  # noqa: N818 - an outcome of the other side, not a fault of this program
    """The other side is gone, is silent or says too much; the text says which."""


class Allowance:
    """How many bytes a lease may still carry, both ways together."""

    def __init__(self, bytes_max: int) -> None:
        self._left, self._bytes_max = bytes_max, bytes_max

    def take(self, count: int) -> None:
        """Raises WireEnd when it is used up."""
        self._left -= count
        if self._left < 0:
            raise WireEnd(f"limit total_bytes_max of {self._bytes_max} bytes")


class Wire:
    """A buffered byte stream. `idle_s` bounds each wait for the other side; `address`: whom it was connected to."""

    def __init__(
        self, stream: ByteStream, idle_s: float | None, allowance: Allowance | None = None, address: str = ""
    ) -> None:
        self.stream, self.idle_s, self._allowance, self.address = stream, idle_s, allowance, address
        self._ahead = b""
        self.received = self.sent = 0

    def over(self, stream: ByteStream) -> "Wire":
        """A wire over a stream that itself goes over this one's: the same bounds and the same allowance."""
        return Wire(stream, self.idle_s, self._allowance, self.address)

    async def read(self) -> bytes:
        """The next piece; empty at the end."""
        if self._ahead:
            piece, self._ahead = self._ahead, b""
            return piece
        return await self._receive()

    async def read_until(self, marker: bytes, bytes_max: int) -> bytes:
        """Up to and with the marker. Raises WireEnd where it does not come within `bytes_max`; empty at a clean end."""
        while (found := self._ahead.find(marker)) < 0:
            if len(self._ahead) > bytes_max:
                raise WireEnd(f"limit head_bytes_max of {bytes_max} bytes")
            piece = await self._receive()
            if not piece:
                if not self._ahead:
                    return b""
                raise WireEnd("it ended in the middle")
            self._ahead += piece
        if found + len(marker) > bytes_max:
            raise WireEnd(f"limit head_bytes_max of {bytes_max} bytes")
        return self._cut(found + len(marker))

    async def read_exactly(self, count: int) -> bytes:
        """So many bytes. Raises WireEnd."""
        while len(self._ahead) < count:
            piece = await self._receive()
            if not piece:
                raise WireEnd("it ended in the middle")
            self._ahead += piece
        return self._cut(count)

    def unread(self, data: bytes) -> None:
        """Put back what was read too far."""
        self._ahead = data + self._ahead

    async def write(self, data: bytes) -> None:
        """Send all of it. Raises WireEnd."""
        self._take(len(data))
        try:
            with anyio.fail_after(self.idle_s):
                await self.stream.send(data)
        except TimeoutError as error:
            raise WireEnd(f"limit idle_s of {self.idle_s or 0:g} s") from error
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise WireEnd("the other side is gone") from error
        self.sent += len(data)

    async def end(self) -> None:
        """Say that nothing more is sent."""
        try:
            await self.stream.send_eof()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, NotImplementedError):
            return

    async def close(self) -> None:
        """Let go of it; never waits long."""
        with anyio.move_on_after(1.0, shield=True):
            await self.stream.aclose()

    async def _receive(self) -> bytes:
        try:
            with anyio.fail_after(self.idle_s):
                piece = await self.stream.receive(PIECE_BYTES)
        except TimeoutError as error:
            raise WireEnd(f"limit idle_s of {self.idle_s or 0:g} s") from error
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise WireEnd("the other side is gone") from error
        self._take(len(piece))
        self.received += len(piece)
        return piece

    def _cut(self, count: int) -> bytes:
        piece, self._ahead = self._ahead[:count], self._ahead[count:]
        return piece

    def _take(self, count: int) -> None:
        if self._allowance is not None:
            self._allowance.take(count)


class Ahead(ByteStream):
    """A stream that gives out what a wire had read ahead before anything else."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def receive(self, max_bytes: int = PIECE_BYTES) -> bytes:
        """The next piece. Raises EndOfStream."""
        piece = await self._wire.read()
        if len(piece) > max_bytes:
            self._wire.unread(piece[max_bytes:])
        if not piece:
            raise anyio.EndOfStream
        return piece[:max_bytes]

    async def send(self, item: bytes) -> None:
        """Send all of it."""
        await self._wire.write(bytes(item))

    async def send_eof(self) -> None:
        """Nothing more is sent."""
        await self._wire.end()

    async def aclose(self) -> None:
        """Close the stream below."""
        await self._wire.close()

    @property
    def extra_attributes(self) -> dict[Any, Callable[[], Any]]:
        """None of its own."""
        return {}
