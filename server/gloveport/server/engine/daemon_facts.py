"""Facts of the daemon as a whole.

Purpose: append to the stream `daemon` what concerns every session and belongs to none.
Invariant: one writer at a time; the event is durable when `tell` returns.
Must never: be needed for a session to go on.
"""

from collections.abc import Awaitable, Callable, Sequence

import anyio

from gloveport.protocol.ids import DAEMON_STREAM
from gloveport.protocol.journal.envelope import NewEvent, StoredEvent
from gloveport.protocol.journal.events import EventBody, encode_body
from gloveport.protocol.journal.events.base import storable_body
from gloveport.server.journal.records import Append, StreamAppend
from gloveport.server.journal.store import Journal


class DaemonFacts:
    """Writes the daemon's stream while it serves."""

    def __init__(
        self,
        journal: Journal,
        now_us: Callable[[], int],
        audit: Callable[[Sequence[StoredEvent]], Awaitable[None]],
    ) -> None:
        self._journal, self._now_us, self._audit = journal, now_us, audit
        self.writing = anyio.Lock()
        """Held by whoever appends to the stream, from the look at its head on."""

    async def tell(self, body: EventBody) -> None:
        """Append one fact. Raises JournalError, AuditError (NOT_SAVED, DATA_FULL, CONFLICT)."""
        storable = storable_body(body)
        event = NewEvent(type(storable).__name__, storable.version, encode_body(storable))
        async with self.writing:
            head = await self._journal.head(DAEMON_STREAM)
            next_seq = head.next_seq if head is not None else 1
            batch = Append((StreamAppend(DAEMON_STREAM, next_seq, (event,)),), self._now_us())
            await self._audit((await self._journal.append(batch)).events)
