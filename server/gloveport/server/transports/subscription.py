"""One client following one stream.

Purpose: send batches from a place on, as fast as the client acknowledges and no faster.
Invariant: unacknowledged bytes stay within the window (one event larger than it goes alone); a batch is at most half
the window; the place moves only when a batch was handed to the outbox; who follows the newest items alone gets every
event, without what it does to items before `first`.
Must never: buffer events for later: what can't be sent now is read again from the tail or the journal.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import anyio
import orjson

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.journal.envelope import (
    GENESIS_DIGEST,
    Cursor,
    StoredEvent,
    cursor_at,
    decode_cursor,
    encode_cursor,
)
from gloveport.protocol.wire.framing import encode_frame
from gloveport.server.transports.source import EventSource, Projections
from gloveport.server.transports.tail import Entry, Tail, encode_all

BATCH_EVENTS_MAX: Final = 1024
START: Final = ""
_RESYNC: Final[Mapping[str, object]] = MappingProxyType({"resync": True})
"""The follower has what the log has not: it subscribes anew."""

Send = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a follower stands: `seq` and the opaque cursor of the last event it was sent."""

    seq: int
    cursor: str


class Subscription:
    """The state of one follower; `run` is its life."""

    def __init__(
        self,
        name: str,
        stream: str,
        window_bytes: int,
        first: int,
        tail: Tail,
        source: EventSource,
        projections: Projections,
    ) -> None:
        self.name = name
        self.stream = stream
        self.place = Place(0, START)
        self.epoch = 0
        """Up to which epoch of the stream it is known that what was sent is its past."""
        self.first = first
        self._window_bytes = window_bytes
        self._tail = tail
        self._source = source
        self._projections = projections
        self._flying: deque[tuple[int, int]] = deque()
        self._flying_bytes = 0
        self._durable_told = -1
        self._caught_up_told = False
        self._proven = False
        self._news = anyio.Event()
        self._closed = False
        self._at_hand = False

    def wake(self) -> None:
        """Something changed: events, durability, or the window."""
        if not self._news.is_set():
            self._news.set()

    def ack(self, seq: int) -> None:
        """The client took in everything up to `seq`; unknown and repeated values do no harm."""
        while self._flying and self._flying[0][0] <= seq:
            self._flying_bytes -= self._flying.popleft()[1]
        self.wake()

    def widen(self, first: int) -> None:
        """From now on the follower holds the items from index `first` on; it never holds fewer than before."""
        self.first = min(self.first, first)

    def close(self) -> None:
        """End `run` at its next step."""
        self._closed = True
        self.wake()

    async def run(self, send: Send) -> None:
        """Send batches until closed. Raises what `send` or the source raises, unless the journal is paused."""
        while not self._closed:
            self._news, pauses = anyio.Event(), self._tail.pauses
            try:
                sent = await self._send_next(send)
            except GloveportError:
                if self._tail.ended is None and not self._tail.paused and self._tail.pauses == pauses:
                    raise
                sent = False  # whoever reads on when the journal accepts again, or is told the end, is woken then
            if not sent:
                await self._news.wait()

    async def _send_next(self, send: Send) -> bool:
        """Send one notification if there is something to say and room to say it."""
        if self._tail.ended is not None:
            return await self._send_last(send, {"ended": self._tail.ended})
        if self._tail.epoch > self.epoch and not await self._stands(self._tail.epoch):
            return await self._send_last(send, _RESYNC)
        if self.place.seq >= self._tail.head_seq:
            if not self._at_hand:  # a view that nobody asked for yet has no digest
                await self._projections.old_items(self.stream, (), 0)
                self._at_hand = True
            return await self._send_rest(send)
        room = self._room_bytes()
        kept = self._tail.after(self.place.seq, BATCH_EVENTS_MAX) if room > 0 else []
        events = await self._read(room) if kept is None else [entry.event for entry in kept]
        if events and events[0].epoch > self.epoch and not await self._stands(events[0].epoch):
            return await self._send_last(send, _RESYNC)
        encoded = _fitting(await self._bytes_of(events, kept), room, alone=not self._flying)
        if not encoded:
            return False
        batch = events[: len(encoded)]
        after, last = self.place, _place_after(batch[-1])
        durable = _durable_place(self._tail.durable_seq, after, batch, last)
        frame = self._frame(after, last, durable, encoded)
        self._flying.append((last.seq, len(frame)))
        self._flying_bytes += len(frame)
        self.place = last
        await send(frame)
        return True

    async def _stands(self, epoch: int) -> bool:
        """Whether what was sent is still the stream's past, of which a later epoch began."""
        stands = self.place.seq == 0 or await is_past(self._source, self.stream, decode_cursor(self.place.cursor))
        self.epoch = max(self.epoch, epoch)
        return stands

    async def _send_last(self, send: Send, word: Mapping[str, object]) -> bool:
        """The last word: why nothing follows."""
        self._closed = True
        await send(self._frame(self.place, self.place, None, [], word))
        return True

    async def _send_rest(self, send: Send) -> bool:
        """At the head: say once that the follower is in sync, its digest once there is one, and what became durable.

        The last event may be in the journal before the session stands at it, or be sent while nobody shows the session.
        """
        durable_seq = min(self._tail.durable_seq, self.place.seq)
        grown = durable_seq > self._durable_told and durable_seq == self.place.seq
        provable = not self._proven and self._digest(self.place) is not None
        if self._caught_up_told and not grown and not provable:
            return False
        durable = self.place if grown else None
        await send(self._frame(self.place, self.place, durable, []))
        return True

    async def _read(self, room: int) -> Sequence[StoredEvent]:
        """What follows in the journal, since the tail does not reach back so far."""
        limit = min(BATCH_EVENTS_MAX, self._tail.head_seq - self.place.seq)
        return await self._source.read(self.stream, self.place.seq, limit, room)

    async def _bytes_of(self, events: Sequence[StoredEvent], kept: Sequence[Entry] | None) -> Iterable[bytes]:
        """The events' bytes; whoever holds all items gets the same ones. `kept`: the tail's entries of them."""
        if kept is None and (self.first == 0 or not events):
            return self._projections.events_json(events)
        entries = [Entry(event, self._projections) for event in events] if kept is None else kept
        if self.first == 0 or not entries:
            return encode_all(entries, self._projections)
        names = {item for entry in entries for item in entry.items}
        while True:
            first = self.first
            old = await self._projections.old_items(self.stream, names, first)
            if first == self.first:  # it may hold more by now
                break
        return (entry.encoded if old.isdisjoint(entry.items) else entry.encoded_without(old) for entry in entries)

    def _room_bytes(self) -> int:
        return min(self._window_bytes // 2, self._window_bytes - self._flying_bytes)

    def _digest(self, place: Place) -> str | None:
        return self._projections.digest(self.stream, place.seq, self.first)

    def _frame(
        self,
        after: Place,
        last: Place,
        durable: Place | None,
        events: list[bytes],
        last_word: Mapping[str, object] | None = None,
    ) -> bytes:
        caught_up = last.seq >= self._tail.head_seq
        fields: dict[str, object] = {
            "subscriptionId": self.name,
            "after": after.cursor,
            "last": last.cursor,
            "durable": None if durable is None else durable.cursor,
        }
        if last_word is not None:
            fields.update(last_word)
        elif caught_up:
            fields["caughtUp"] = True
            if (digest := self._digest(last)) is not None:
                fields["viewDigest"], fields["itemsFrom"] = digest, self.first
        self._caught_up_told, self._proven = caught_up, "viewDigest" in fields
        if durable is not None:
            self._durable_told = durable.seq
        head = orjson.dumps(fields)[:-1]
        return encode_frame(
            b'{"jsonrpc":"2.0","method":"session/events","params":%b,"events":[%b]}}' % (head, b",".join(events))
        )


def _place_after(event: StoredEvent) -> Place:
    return Place(event.seq, encode_cursor(cursor_at(event.epoch, event.seq, event.digest)))


async def is_past(source: EventSource, stream: str, cursor: Cursor) -> bool:
    """Whether the stream has exactly this place in its past."""
    if cursor.seq == 0:
        return cursor.digest == GENESIS_DIGEST[: len(cursor.digest)]
    found = await source.read(stream, cursor.seq - 1, 1, 1)
    if not found or found[0].seq != cursor.seq:
        return False
    return cursor == cursor_at(found[0].epoch, found[0].seq, found[0].digest)


def _fitting(events: Iterable[bytes], room: int, *, alone: bool) -> list[bytes]:
    """The longest start of `events` within `room`; when nothing is in flight, at least one."""
    if isinstance(events, list) and sum(map(len, events)) + len(events) <= room:
        return events
    taken: list[bytes] = []
    for encoded in events:
        room -= len(encoded) + 1
        if room < 0 and (taken or not alone):
            break
        taken.append(encoded)
    return taken


def _durable_place(durable_seq: int, after: Place, batch: Sequence[StoredEvent], last: Place) -> Place | None:
    """The last place of this batch that a power loss keeps; None when even its start is not known to be."""
    if durable_seq >= last.seq:
        return last
    first_seq = batch[0].seq
    if durable_seq >= first_seq:
        return _place_after(batch[durable_seq - first_seq])
    return after if durable_seq == after.seq else None
