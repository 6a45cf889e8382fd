"""A client that writes bytes: for framing, bad input, silence and death."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import orjson

from gloveport.protocol.wire.framing import Body, FrameReader, encode_frame

WAIT_S = 60.0


class RawClient:
    """One connection. `recv` gives decoded messages in order; None at the end of the stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.seen = b""
        self._frames = FrameReader()
        self._ready: list[Any] = []
        self._count = 0

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Connect."""
        return cls(*await asyncio.open_unix_connection(os.fspath(path)))

    async def send_bytes(self, data: bytes) -> None:
        """Write as is."""
        self.writer.write(data)
        await self.writer.drain()

    async def send(self, message: object) -> None:
        """Write one JSON value in a frame."""
        await self.send_bytes(encode_frame(orjson.dumps(message)))

    async def recv(self) -> Any:
        """The next message."""
        async with asyncio.timeout(WAIT_S):
            while not self._ready:
                chunk = await self.reader.read(1 << 16)
                if not chunk:
                    return None
                self.seen += chunk[:10_000]
                self._ready += [orjson.loads(item.data) for item in self._frames.feed(chunk) if isinstance(item, Body)]
        return self._ready.pop(0)

    async def ask(self, method: str, params: object = None) -> Any:
        """Send a request and wait for its own reply; other messages on the way are dropped."""
        self._count += 1
        name = f"q{self._count}"
        await self.send({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
        while (message := await self.recv()) is not None:
            if message.get("id") == name and "method" not in message:
                return message
        return None

    async def initialize(self, token: str | None = None, **capabilities: object) -> Any:
        """The handshake's answer."""
        options = {} if token is None else {"decisionToken": token}
        return await self.ask(
            "initialize", {"processId": None, "capabilities": capabilities, "initializationOptions": options}
        )

    async def close(self) -> None:
        """Hang up."""
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            return


@asynccontextmanager
async def raw_client(path: Path, *, initialized: bool = True) -> AsyncIterator[RawClient]:
    """A connection, by default one that may be served."""
    client = await RawClient.open(path)
    try:
        if initialized:
            assert "result" in await client.initialize()
        yield client
    finally:
        await client.close()


async def until(condition: Callable[[], bool]) -> None:
    """Look again and again until the condition holds; fails after `WAIT_S`."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if condition():
            return
        await asyncio.sleep(0.005)
    raise TimeoutError("the condition never held")
