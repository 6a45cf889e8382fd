"""The newest events of one stream, kept for those who follow it live.

Purpose: serve followers without reading the journal and encode an event once for all of them.
Invariant: entries are contiguous, of one past, and end at `head_seq`; their bytes stay under `TAIL_BYTES_MAX`.
Must never: hold what no follower is near of, or grow with a slow reader.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Final

import orjson

from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.protocol.wire.event import event_json
from gloveport.server.transports.source import Head, Projections

TAIL_BYTES_MAX: Final = 1 << 20
ENTRY_BYTES_OVERHEAD: Final = 256
ENCODED_AT_ONCE: Final = 64


class Entry:
    """A stored event and, once somebody needed them, its bytes for the wire."""

    __slots__ = ("_encoded", "_items", "_projections", "event")

    def __init__(self, event: StoredEvent, projections: Projections) -> None:
        self.event = event
        self._projections = projections
        self._encoded: bytes | None = None
        self._items: tuple[str, ...] | None = None

    @property
    def items(self) -> tuple[str, ...]:
        """The items of the view that the event changes."""
        if self._items is None:
            self._items = tuple(str(op["item"]) for op in self._projections.ops(self.event) if "item" in op)
        return self._items

    @property
    def encoded(self) -> bytes:
        """The event as JSON for the wire."""
        if self._encoded is None:
            (self._encoded,) = self._projections.events_json((self.event,))
        return self._encoded

    def encoded_without(self, items: Collection[str]) -> bytes:
        """The event as JSON for the wire, without its operations on these items."""
        ops = [op for op in self._projections.ops(self.event) if op.get("item") not in items]
        event = self.event
        return event_json(event.stream, event.epoch, event.seq, event.at, event.type, orjson.dumps(ops))


def encode_all(entries: Sequence[Entry], projections: Projections) -> Iterator[bytes]:
    """The entries' bytes in order, made for some at once when they are asked for: catching up costs mostly this."""
    for start in range(0, len(entries), ENCODED_AT_ONCE):
        part = entries[start : start + ENCODED_AT_ONCE]
        news = [entry for entry in part if entry._encoded is None]
        for entry, encoded in zip(news, projections.events_json([entry.event for entry in news]), strict=True):
            entry._encoded = encoded
        yield from [entry.encoded for entry in part]


class Tail:
    """The end of one stream: entries, head, durability, and whom to wake."""

    def __init__(self, *, paused: bool = False) -> None:
        self.paused = paused
        self.pauses = int(paused)
        self.epoch = 0
        """Of the last event; a new one may begin further back, where a damaged end was set aside."""
        self.head_seq = 0
        self.durable_seq = 0
        self.ended: str | None = None
        """Why the stream is gone, in words; None while it is there."""
        self.wakers: set[Callable[[], None]] = set()
        self._entries: deque[Entry] = deque()
        self._bytes = 0

    def pause(self, *, paused: bool) -> None:
        """The journal cannot be read for now, or can be again."""
        self.paused = paused
        self.pauses += int(paused)
        self._wake_all()

    def end(self, reason: str) -> None:
        """The stream is gone for good."""
        self.ended = reason
        self._clear()
        self._wake_all()

    def reach(self, head: Head) -> None:
        """The journal was found to end here. Behind what was published since, this says nothing new."""
        if head.epoch > self.epoch:
            self._begin_epoch(head.epoch, head.seq)
            self._wake_all()
        elif head.epoch == self.epoch and head.seq > self.head_seq:
            self._clear()
            self.head_seq = head.seq
        if head.epoch == self.epoch:
            self.durable_seq = max(self.durable_seq, head.durable_seq)

    def extend(self, entries: Sequence[Entry], durable_seq: int) -> None:
        """Take in appended events and wake the followers. After a gap or in a new epoch they read the journal."""
        for entry in entries:
            if entry.event.epoch > self.epoch:
                self._begin_epoch(entry.event.epoch, entry.event.seq - 1)
            if entry.event.epoch < self.epoch or entry.event.seq <= self.head_seq:
                continue  # already found in the journal
            if entry.event.seq != self.head_seq + 1:
                self._clear()
            self.head_seq = entry.event.seq
            self._entries.append(entry)
            self._bytes += len(entry.event.payload) + ENTRY_BYTES_OVERHEAD
        while self._bytes > TAIL_BYTES_MAX and self._entries:
            self._bytes -= len(self._entries.popleft().event.payload) + ENTRY_BYTES_OVERHEAD
        self.durable_seq = max(self.durable_seq, durable_seq)
        self._wake_all()

    def after(self, seq: int, limit: int) -> list[Entry] | None:
        """Up to `limit` entries that follow `seq`; None when the tail does not reach back so far."""
        if seq >= self.head_seq:
            return []
        if not self._entries or self._entries[0].event.seq > seq + 1:
            return None
        skip = seq + 1 - self._entries[0].event.seq
        return list(islice(self._entries, skip, skip + limit))

    def _begin_epoch(self, epoch: int, head_seq: int) -> None:
        """What was before may be gone: each follower looks whether what it was sent still stands."""
        self._clear()
        self.epoch, self.head_seq = epoch, head_seq
        self.durable_seq = min(self.durable_seq, head_seq)

    def _wake_all(self) -> None:
        for wake in tuple(self.wakers):
            wake()

    def _clear(self) -> None:
        self._entries.clear()
        self._bytes = 0
