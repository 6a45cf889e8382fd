"""One client following one stream.

Purpose: send batches from a place on, as fast as the client acknowledges and no faster.
Invariant: unacknowledged bytes stay within the window (one event larger than it goes alone); a batch is at most half
the window; the place moves only when a batch was handed to the outbox.
Must never: buffer events for later: what can't be sent now is read again from the tail or the journal.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import anyio
import orjson

from gloveport.protocol.wire.framing import encode_frame
from gloveport.server.transports.source import EventSource, Projections
from gloveport.server.transports.tail import Entry, Tail

BATCH_EVENTS_MAX: Final = 1024
START: Final = ""

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
        tail: Tail,
        source: EventSource,
        projections: Projections,
    ) -> None:
        self.name = name
        self.stream = stream
        self.place = Place(0, START)
        self._window_bytes = window_bytes
        self._tail = tail
        self._source = source
        self._projections = projections
        self._flying: deque[tuple[int, int]] = deque()
        self._flying_bytes = 0
        self._durable_told = -1
        self._caught_up_told = False
        self._news = anyio.Event()
        self._closed = False

    def wake(self) -> None:
        """Something changed: events, durability, or the window."""
        if not self._news.is_set():
            self._news.set()

    def ack(self, seq: int) -> None:
        """The client took in everything up to `seq`; unknown and repeated values do no harm."""
        while self._flying and self._flying[0][0] <= seq:
            self._flying_bytes -= self._flying.popleft()[1]
        self.wake()

    def close(self) -> None:
        """End `run` at its next step."""
        self._closed = True
        self.wake()

    async def run(self, send: Send) -> None:
        """Send batches until closed. Raises what `send` or the source raises."""
        while not self._closed:
            self._news = anyio.Event()
            if not await self._send_next(send):
                await self._news.wait()

    async def _send_next(self, send: Send) -> bool:
        """Send one notification if there is something to say and room to say it."""
        if self.place.seq >= self._tail.head_seq:
            return await self._send_rest(send)
        room = self._room_bytes()
        entries = await self._entries(room) if room > 0 else []
        encoded = _fitting(entries, room, alone=not self._flying)
        if not encoded:
            return False
        batch = entries[: len(encoded)]
        after, last = self.place, Place(batch[-1].event.seq, batch[-1].cursor)
        durable = _durable_place(self._tail.durable_seq, after, batch, last)
        frame = self._frame(after, last, durable, encoded)
        self._flying.append((last.seq, len(frame)))
        self._flying_bytes += len(frame)
        self.place = last
        await send(frame)
        return True

    async def _send_rest(self, send: Send) -> bool:
        """At the head: say once that the follower is in sync, and when what it has became durable."""
        durable_seq = min(self._tail.durable_seq, self.place.seq)
        grown = durable_seq > self._durable_told and durable_seq == self.place.seq
        if self._caught_up_told and not grown:
            return False
        durable = self.place if grown else None
        await send(self._frame(self.place, self.place, durable, []))
        return True

    async def _entries(self, room: int) -> Sequence[Entry]:
        entries = self._tail.after(self.place.seq, BATCH_EVENTS_MAX)
        if entries is None:
            read = await self._source.read(self.stream, self.place.seq, BATCH_EVENTS_MAX, room)
            entries = [Entry(event, self._projections) for event in read]
        return entries

    def _room_bytes(self) -> int:
        return min(self._window_bytes // 2, self._window_bytes - self._flying_bytes)

    def _frame(self, after: Place, last: Place, durable: Place | None, events: list[bytes]) -> bytes:
        caught_up = last.seq >= self._tail.head_seq
        fields: dict[str, object] = {
            "subscriptionId": self.name,
            "after": after.cursor,
            "last": last.cursor,
            "durable": None if durable is None else durable.cursor,
        }
        if caught_up:
            fields["caughtUp"] = True
            if (digest := self._projections.digest(self.stream, last.seq)) is not None:
                fields["viewDigest"] = digest
        self._caught_up_told = caught_up
        if durable is not None:
            self._durable_told = durable.seq
        head = orjson.dumps(fields)[:-1]
        return encode_frame(
            b'{"jsonrpc":"2.0","method":"session/events","params":%b,"events":[%b]}}' % (head, b",".join(events))
        )


def _fitting(entries: Sequence[Entry], room: int, *, alone: bool) -> list[bytes]:
    """The bytes of the longest start of `entries` within `room`; when nothing is in flight, of at least one."""
    taken: list[bytes] = []
    for entry in entries:
        encoded = entry.encoded
        room -= len(encoded) + 1
        if room < 0 and (taken or not alone):
            break
        taken.append(encoded)
    return taken


def _durable_place(durable_seq: int, after: Place, batch: Sequence[Entry], last: Place) -> Place | None:
    """The last place of this batch that a power loss keeps; None when even its start is not known to be."""
    if durable_seq >= last.seq:
        return last
    first_seq = batch[0].event.seq
    if durable_seq >= first_seq:
        entry = batch[durable_seq - first_seq]
        return Place(entry.event.seq, entry.cursor)
    return after if durable_seq == after.seq else None
