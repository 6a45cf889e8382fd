"""The views as the hub reads them.

Purpose: join the sessions and the pure projections behind the hub's protocol.
Invariant: a view and its cursor are of the same event.
Must never: write.
"""

from collections.abc import Collection
from typing import Final

from gloveport.protocol.wire.reducer import page_start
from gloveport.protocol.wire.session import ViewItem, ViewSnapshot
from gloveport.server.engine.folding import events_json, ops_of
from gloveport.server.engine.sessions import Sessions
from gloveport.server.transports.source import ProjectedView, Projections

SNAPSHOT_ITEMS_MIN: Final = 384
"""The newest items that a client begins with, if there are so many; up to a page more."""


def projections_of(sessions: Sessions) -> Projections:
    """The views of all sessions."""

    async def view(stream: str) -> ProjectedView:
        while True:
            shown = await sessions.look(stream.removeprefix("session/"))
            cursor, end = shown.cursor, len(shown.view)
            begin = page_start(max(0, end - SNAPSHOT_ITEMS_MIN))
            items = await shown.items(begin, end)
            if cursor == shown.cursor:  # nothing happened while old items were read
                break
        snapshot = ViewSnapshot(items=tuple(map(ViewItem.model_validate, items)), items_before=begin)
        return ProjectedView(cursor=cursor, snapshot=snapshot)

    def digest(stream: str, seq: int, first: int) -> str | None:
        name = stream.removeprefix("session/")
        shown = sessions.loaded(name) or sessions.glanced(name)
        return None if shown is None else shown.view_digest(seq, first)

    async def old_items(stream: str, names: Collection[str], first: int) -> frozenset[str]:
        shown = await sessions.look(stream.removeprefix("session/"))
        return frozenset(name for name in names if shown.view.stands_before(name, first))

    return Projections(ops=ops_of, events_json=events_json, view=view, digest=digest, old_items=old_items)
