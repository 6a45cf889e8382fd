"""The one door to SQLite: an aiosqlite connection that runs a whole transaction in one hop.

Purpose: a transaction is one function on the connection's own thread; the event loop hops there and back once.
Invariant: the `sqlite3` connection is used on its own thread only.
Must never: be opened outside this room, or hand its connection out.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, cast

import aiosqlite
import anyio

T = TypeVar("T")

_ITER_CHUNK_ROWS = 64


class Door(aiosqlite.Connection):
    """An aiosqlite connection with `run`; `connector` makes the `sqlite3` connection, on the door's thread."""

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, _ITER_CHUNK_ROWS)

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the door's thread.

        What is begun is finished: a cancelled caller waits for it (or, when its task is cancelled natively, leaves
        it behind, still running to its end), so no transaction is ever abandoned half way.
        """
        execute = cast(Callable[..., Awaitable[T]], self._execute)
        outcome: T
        with anyio.CancelScope(shield=True):
            outcome = await execute(work, self._conn)
        return outcome

    def post(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Let `work` run on the door's thread after what is asked of it already; it answers to nobody.

        It must deal with its own failures. Nothing happens when the door is closed.
        """
        connection = self._connection
        if connection is not None:
            self._tx.put_nowait((None, partial(work, connection)))

    def join(self) -> None:
        """Wait for the thread of a door that could not be opened: it has one last word for this event loop."""
        self._thread.join()


async def open_door(connector: Callable[[], sqlite3.Connection]) -> Door:
    """Open a connection; what `connector` raises comes through."""
    door = Door(connector)
    try:
        await door
    except BaseException:
        door.join()
        raise
    return door
