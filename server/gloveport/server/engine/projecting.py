"""Stored events into projections.

Purpose: feed a projection from a stream, decoding no more than it needs.
Invariant: events are handed over in order, each once, in today's form.
Must never: hold more of a log than one page.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.server.engine.folding import body_of
from gloveport.server.session.views.placed import Placed, Projection

READ_EVENTS: Final = 500
READ_BYTES: Final = 4 * 1024 * 1024

P = TypeVar("P", bound=Projection[object])
Read = Callable[[int, int, int], Awaitable[tuple[StoredEvent, ...]]]
"""Events after a number: at most so many, of at most so many bytes."""


def placed_of(event: StoredEvent, by_name: frozenset[str]) -> Placed:
    """An event at its place; its body is read only where its name does not say enough. Raises JournalError(CORRUPT)."""
    body = None if event.type in by_name else body_of(event)
    return Placed(event.seq, event.at, event.type, body, event.erased is not None)


def feed(projection: P, events: Iterable[StoredEvent], enough: Callable[[P], bool]) -> int | None:
    """Hand events over until it is enough; the number of the last one then, else None."""
    by_name = projection.by_name
    for event in events:
        projection.take(placed_of(event, by_name))
        if enough(projection):
            return event.seq
    return None


def never(_projection: object) -> bool:
    """For a projection that takes the whole stream."""
    return False


async def read_into(read: Read, projection: P, after_seq: int = 0, enough: Callable[[P], bool] = never) -> int | None:
    """Feed the stream from `after_seq` on; the number of the event at which it was enough, None at the end."""
    while events := await read(after_seq, READ_EVENTS, READ_BYTES):
        if (stopped := feed(projection, events, enough)) is not None:
            return stopped
        after_seq = events[-1].seq
    return None
