"""Following one session.

Purpose: keep a view equal to the daemon's, batch by batch, and prove it by its digest.
Invariant: the view holds exactly the events up to `cursor`; a gap or another digest begins anew, never goes unseen.
Must never: acknowledge what is not in the view yet, or begin anew for ever.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.envelope import GENESIS_DIGEST, cursor_at, encode_cursor
from gloveport.protocol.wire.base import PAGE_MAX
from gloveport.protocol.wire.reducer import PAGE_ITEMS, View, ViewGapError
from gloveport.protocol.wire.session import WINDOW_BYTES_DEFAULT, SessionEvents, SubscribeResult, WireEvent
from gloveport.server.client.link import Inbox, Link, Raw

BEGINNING: Final = encode_cursor(cursor_at(0, 0, GENESIS_DIGEST))
"""The cursor before the first event of any session: with an empty view, everything follows from there."""
OLDER_ITEMS: Final = 3 * PAGE_ITEMS
"""Items that `older` takes in at once."""
ANEW_MAX: Final = 3
"""Beginnings in a row without one agreement in between; then the daemon and this client can't agree at all."""


@dataclass(frozen=True, slots=True)
class Update:
    """What changed. `began_anew`: draw the whole view. `in_sync`: nothing is missing and the digests agree."""

    events: tuple[WireEvent, ...]
    cursor: str
    durable: str | None
    caught_up: bool
    in_sync: bool
    began_anew: bool


class Follow(AsyncIterator[Update]):
    """Updates of one session; `view` is current whenever an update was returned.

    `newest_only`: hold the newest items alone (they begin at `view.first`), which opens a long session at once; `older`
    takes in those before. To go on over another connection, give its `cursor` (or `durable`) and `view` to the `follow`
    of that client.
    """

    def __init__(
        self,
        link: Link,
        session_id: str,
        *,
        after: str | None = None,
        view: View | None = None,
        window_bytes: int = WINDOW_BYTES_DEFAULT,
        newest_only: bool = False,
    ) -> None:
        self.session_id = session_id
        self.view = View() if view is None else view
        self._newest_only = newest_only or self.view.first > 0
        self._changing = anyio.Lock()
        self.cursor = after if view is not None else None
        self.durable: str | None = None
        self.subscription_id: str | None = None
        self._link = link
        self._window_bytes = window_bytes
        self._inbox: Inbox | None = None
        self._anew = 0

    async def __anext__(self) -> Update:
        """The next change.

        Raises:
            GloveportError: SESSION_UNKNOWN, also when the session is deleted meanwhile, or UNREACHABLE when the daemon
                went away.
        """
        if self._inbox is None and (begun := await self._begin()) is not None:
            return begun
        while True:
            batch = await self._take()
            if batch.ended is not None:
                await self.aclose()
                raise GloveportError(ErrorCode.SESSION_UNKNOWN, f"this session is gone: {batch.ended}")
            if batch.resync:
                return await self._begin_anew()
            try:
                async with self._changing:
                    update = self._apply(batch)
            except ViewGapError:
                return await self._begin_anew()
            if not update.in_sync and batch.view_digest is not None:
                return await self._begin_anew()
            await self._acknowledge(batch)
            return update

    async def older(self) -> bool:
        """Take in some of the items before those that are held; false when all are. Raises GloveportError."""
        async with self._changing:  # what changes them from now on is applied when they are there
            before = self.view.first
            if before == 0 or self.subscription_id is None:
                return False
            begin = max(0, before - OLDER_ITEMS)
            await self._link.ask("session/widen", {"subscriptionId": self.subscription_id, "itemsFrom": begin})
            wanted = {"sessionId": self.session_id, "before": before, "limit": before - begin}
            page = await self._link.ask("session/item/list", wanted)
            self.view.prepend(page["items"], begin)
            return True

    async def aclose(self) -> None:
        """Stop following; the view stays as it is."""
        name, self.subscription_id, self._inbox = self.subscription_id, None, None
        if name is None:
            return
        self._link.close_inbox(name)
        try:
            await self._link.ask("session/unsubscribe", {"subscriptionId": name})
        except GloveportError:
            return  # the connection is gone, and the subscription with it

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.move_on_after(1, shield=True):
            await self.aclose()

    async def _begin(self) -> Update | None:
        """Subscribe. Returns the update that a beginning from a snapshot is, None when events follow."""
        wanted = {
            "sessionId": self.session_id,
            "after": self.cursor,
            "windowBytes": self._window_bytes,
            "newestOnly": self._newest_only,
            "itemsFrom": self.view.first,
        }
        result = SubscribeResult.model_validate(await self._link.ask("session/subscribe", wanted, self._adopt))
        self.cursor = result.cursor
        if result.snapshot is None:
            return None
        items = [item.model_dump() for item in result.snapshot.items]
        first = result.snapshot.items_before
        if self._newest_only:
            self.view.load(items, result.seq, first)
        else:
            self.view.load([*await self._older_items(first), *items], result.seq)
        return Update((), result.cursor, None, caught_up=False, in_sync=False, began_anew=True)

    async def _begin_anew(self) -> Update:
        self._anew += 1
        if self._anew > ANEW_MAX:
            raise GloveportError(ErrorCode.INTERNAL, "this view and the daemon's can't be made to agree")
        await self.aclose()
        self.cursor = self.durable = None
        begun = await self._begin()
        if begun is None:
            raise GloveportError(ErrorCode.INTERNAL, "the daemon gave no snapshot to begin from")
        return begun

    def _adopt(self, result: Raw) -> None:
        name = self.subscription_id = str(result["subscriptionId"])
        self._inbox = self._link.open_inbox(name)

    async def _older_items(self, before: int) -> list[dict[str, Any]]:
        """The items before the snapshot; what changed since is told again by the events that follow."""
        items: list[dict[str, Any]] = []
        while before > 0:
            wanted = {"sessionId": self.session_id, "before": before, "limit": min(before, PAGE_MAX)}
            page = await self._link.ask("session/item/list", wanted)
            items = [*page["items"], *items]
            before = int(page["itemsBefore"])
        return items

    async def _take(self) -> SessionEvents:
        if self._inbox is None:
            raise StopAsyncIteration
        return SessionEvents.model_validate(await self._inbox.take())

    def _apply(self, batch: SessionEvents) -> Update:
        if batch.after != self.cursor:
            raise ViewGapError("a batch does not follow the one before it")
        for event in batch.events:
            self.view.apply(event.seq, event.ops)
        self.cursor = batch.last
        self.durable = batch.durable or self.durable
        in_sync = batch.view_digest is not None and batch.view_digest == self.view.digest(batch.items_from)
        if in_sync:
            self._anew = 0
        return Update(
            batch.events,
            batch.last,
            batch.durable,
            caught_up=bool(batch.caught_up),
            in_sync=in_sync,
            began_anew=False,
        )

    async def _acknowledge(self, batch: SessionEvents) -> None:
        if batch.events:
            taken = {"subscriptionId": batch.subscription_id, "seq": batch.events[-1].seq}
            await self._link.tell("session/ack", taken)
