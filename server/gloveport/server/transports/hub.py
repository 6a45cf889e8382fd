"""Who follows which stream.

Purpose: subscriptions with cursors, catch-up from the journal, and live events from the tails.
Invariant: a follower sees every event once, in order, or is told to begin anew; no follower delays another or the
engine (`publish` never waits).
Must never: keep events for a reader that is behind, interpret an event, or send what is not in the journal.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.envelope import (
    Cursor,
    CursorError,
    StoredEvent,
    decode_cursor,
    encode_cursor,
)
from gloveport.server.transports.source import EventSource, Projections
from gloveport.server.transports.subscription import Place, Subscription, is_past
from gloveport.server.transports.tail import Entry, Tail

if TYPE_CHECKING:
    from gloveport.protocol.wire.session import SubscribeResult, ViewSnapshot


class Hub:
    """All subscriptions of the daemon."""

    def __init__(self, source: EventSource, projections: Projections) -> None:
        self._source = source
        self._projections = projections
        self._tails: dict[str, Tail] = {}
        self._subscriptions = 0
        self._paused = False

    @property
    def followed_streams(self) -> int:
        """How many streams somebody follows now."""
        return len(self._tails)

    def publish(self, stream: str, events: Sequence[StoredEvent], durable_seq: int) -> None:
        """Tell the followers of `stream` what was appended (may be nothing) and up to where it is durable.

        Called after the append committed; never waits. A stream that nobody follows costs nothing.
        """
        if (tail := self._tails.get(stream)) is not None:
            tail.extend([Entry(event, self._projections) for event in events], durable_seq)

    def end(self, stream: str, reason: str) -> None:
        """Tell the followers of `stream` that it is gone for good; called once the journal no longer has it."""
        if (tail := self._tails.pop(stream, None)) is not None:
            tail.end(reason)

    def pause(self, *, paused: bool) -> None:
        """While the journal cannot be read, who needs it waits; then everybody goes on from its place."""
        self._paused = paused
        for tail in self._tails.values():
            tail.pause(paused=paused)

    async def subscribe(
        self, stream: str, after: str | None, window_bytes: int, *, newest_only: bool = False, items_from: int = 0
    ) -> "tuple[Subscription, SubscribeResult]":
        """Begin to follow `stream`; the caller runs the subscription once the result is on its way.

        `newest_only`: hold the newest items alone, after a cursor those from `items_from` on.

        Without a cursor, or with one that is not of this stream's past, the result is a snapshot to begin anew from.

        Raises:
            GloveportError: SESSION_UNKNOWN when there is no such stream.
        """
        from gloveport.protocol.wire.session import SubscribeResult  # the first clients are answered without it

        tail = self._tails.setdefault(stream, Tail(paused=self._paused))
        self._subscriptions += 1
        name = f"sub-{self._subscriptions}"
        first = items_from if newest_only else 0
        subscription = Subscription(name, stream, window_bytes, first, tail, self._source, self._projections)
        tail.wakers.add(subscription.wake)  # before the head is read: what is published meanwhile is not missed
        try:
            if await self._source.head(stream) is None:
                raise GloveportError(ErrorCode.SESSION_UNKNOWN, "there is no such session")
            cursor, snapshot = await self._begin(stream, after)
            # Only now: the look that gave the view may have cut a damaged tail off.
            if (head := await self._source.head(stream)) is not None:
                tail.reach(head)
        except BaseException:
            self.unsubscribe(subscription)
            raise
        if snapshot is not None:
            subscription.first = snapshot.items_before if newest_only else 0
        subscription.place, subscription.epoch = Place(cursor.seq, encode_cursor(cursor)), cursor.epoch
        return subscription, SubscribeResult(
            subscription_id=name,
            mode="replay" if snapshot is None else "snapshot",
            cursor=subscription.place.cursor,
            seq=subscription.place.seq,
            snapshot=snapshot,
        )

    def unsubscribe(self, subscription: Subscription) -> None:
        """Stop following; the last follower's leaving frees the tail."""
        subscription.close()
        tail = self._tails.get(subscription.stream)
        if tail is not None:
            tail.wakers.discard(subscription.wake)
            if not tail.wakers:
                del self._tails[subscription.stream]

    async def _begin(self, stream: str, after: str | None) -> "tuple[Cursor, ViewSnapshot | None]":
        cursor = await self._shared_past(stream, after)
        if cursor is not None:
            return cursor, None
        view = await self._projections.view(stream)
        return view.cursor, view.snapshot

    async def _shared_past(self, stream: str, after: str | None) -> Cursor | None:
        """The cursor, if the stream has exactly this place in its past."""
        if after is None:
            return None
        try:
            cursor = decode_cursor(after)
        except CursorError:
            return None
        return cursor if await is_past(self._source, stream, cursor) else None
