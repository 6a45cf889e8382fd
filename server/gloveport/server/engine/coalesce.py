"""Pieces that arrive often, written seldom.

Purpose: join small pieces of text so that one append carries many of them.
Invariant: nothing is lost or reordered; the first piece goes at once, later ones wait at most `DELAY_S`.
Must never: hold text after its block is left.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio

from gloveport.protocol.errors import GloveportError

DELAY_S: Final = 0.025
CHARACTERS_MAX: Final = 4_096


class Coalescer:
    """Made by `coalescing`. A failed write is raised by the next `add` or `flush`."""

    def __init__(self, write: Callable[[str], Awaitable[None]]) -> None:
        self._write = write
        self._held: list[str] = []
        self._characters = 0
        self._writing = anyio.Lock()
        self._wake = anyio.Event()
        self._fresh = True
        self._failure: GloveportError | None = None

    async def add(self, text: str) -> None:
        """Take a piece; waits only when a full batch has to be written."""
        self._held.append(text)
        self._characters += len(text)
        if self._fresh or self._characters >= CHARACTERS_MAX:
            self._fresh = False
            await self.flush()
        else:
            self._wake.set()

    async def flush(self) -> None:
        """Write what is held. What is begun is finished, also when the caller is cancelled."""
        with anyio.CancelScope(shield=True):
            async with self._writing:
                if self._failure is not None:
                    raise self._failure
                text, self._held, self._characters = "".join(self._held), [], 0
                if text:
                    await self._write(text)

    async def pump(self) -> None:
        """Write what waits, `DELAY_S` after it came, until cancelled."""
        while self._failure is None:
            await self._wake.wait()
            self._wake = anyio.Event()
            await anyio.sleep(DELAY_S)
            try:
                await self.flush()
            except GloveportError as failure:
                self._failure = failure


@asynccontextmanager
async def coalescing(write: Callable[[str], Awaitable[None]]) -> AsyncIterator[Coalescer]:
    """A coalescer whose timer lives as long as the block; leaving the block writes the rest."""
    pieces = Coalescer(write)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pieces.pump)
            try:
                yield pieces
            finally:
                await pieces.flush()
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # What failed is raised as itself: callers tell failures apart by their type.
        raise group.exceptions[0] from None
