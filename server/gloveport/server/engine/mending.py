"""A stream with an event that cannot be read.

Purpose: let a stream be read up to its last good event; what follows is set aside, kept, and told.
Invariant: nothing is removed from the disk; the stream is in a new epoch, and its loss is remembered until it is told.
Must never: skip one event and read on: what follows was built on it.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.store import Journal

MEND_TRIES: Final = 3
"""One event that cannot be read, one page that cannot, and the reading itself."""

T = TypeVar("T")


async def read_mended(
    journal: Journal, stream: str, read: Callable[[], Awaitable[T]], ready: Callable[[], Awaitable[object]]
) -> T:
    """What `read` makes of a stream, which is cut before its first damage when there is one.

    `ready` opens a journal that stopped anew. Raises JournalError: CORRUPT when that does not help, NOT_SAVED,
    DATA_FULL.
    """
    for _ in range(MEND_TRIES - 1):
        try:
            return await read()
        except JournalError as error:
            if error.code is not ErrorCode.CORRUPT:
                raise
            seq = error.data.get("seq")
            if isinstance(seq, int) and error.data.get("stream") == stream:
                await journal.set_aside(stream, seq, error.message)
            else:
                await ready()
    return await read()
