"""The view of a session that is not in memory.

Purpose: show a session in which nothing is under way from the snapshot of its view alone.
Invariant: a glance stands at the last event of the log; it equals the view of the session's actor at that event.
Must never: decide or write; what is to be done with the session opens it.
"""

from dataclasses import dataclass
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.envelope import Cursor, cursor_at
from gloveport.server.engine.folding import decode_stored
from gloveport.server.engine.keeping import Keeper, Place
from gloveport.server.engine.paged import PagedView, StalePageError
from gloveport.server.journal.store import Journal

TAIL_EVENTS_MAX: Final = 2_000
"""A snapshot with more events after it is not worth a glance: the session is opened, which renews it."""
TAIL_BYTES_MAX: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Glance:
    """A view at `place`."""

    view: PagedView
    place: Place
    keeper: Keeper

    @property
    def cursor(self) -> Cursor:
        """The place of the last event."""
        return cursor_at(self.place.epoch, self.place.seq, self.place.digest)

    def view_digest(self, seq: int, first: int = 0) -> str | None:
        """The digest at `seq` of the view's items from index `first` on."""
        return self.view.digest(first) if seq == self.place.seq else None

    async def items(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Items of the view by index. Raises NOT_SAVED."""
        try:
            return await self.keeper.items(self.view, start, stop)
        except StalePageError as error:
            raise GloveportError(ErrorCode.NOT_SAVED, "the session has to be read again") from error


async def take_glance(journal: Journal, keeper: Keeper, stream: str, known: Glance | None) -> Glance | None:
    """The view at the log's last event; null where only the whole session can tell. `known` is an earlier one."""
    head = await journal.head(stream)
    if head is None:
        return None
    if known is not None and (known.place.seq, known.place.digest) == (head.seq, head.digest):
        return known
    found = await keeper.read_view()
    if found is None:
        return None
    view, place = found
    events = await journal.read(stream, place.seq, TAIL_EVENTS_MAX, TAIL_BYTES_MAX)
    if place.seq + len(events) != head.seq:
        return None
    decoded = decode_stored(events)
    try:
        await keeper.bring(view, view.needed(op for step in decoded for op in step.ops))
    except StalePageError:
        return None
    for step in decoded:
        view.take(step.event.seq, step.ops)
        place = Place(step.event.epoch, step.event.seq, step.event.digest)
    return Glance(view, place, keeper)
