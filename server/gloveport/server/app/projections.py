"""The views as the hub reads them.

Purpose: join the sessions and the pure projections behind the hub's protocol.
Invariant: a view and its cursor are of the same event.
Must never: write.
"""

from gloveport.protocol.wire.session import ViewItem, ViewSnapshot
from gloveport.server.engine.folding import ops_of
from gloveport.server.engine.sessions import Sessions
from gloveport.server.transports.source import ProjectedView, Projections

SNAPSHOT_ITEMS_MAX = 500


def projections_of(sessions: Sessions) -> Projections:
    """The views of all sessions."""

    async def view(stream: str) -> ProjectedView:
        actor = await sessions.open(stream.removeprefix("session/"))
        begin = max(0, len(actor.view) - SNAPSHOT_ITEMS_MAX)
        items = tuple(ViewItem.model_validate(item) for item in actor.view.items(begin))
        return ProjectedView(cursor=actor.cursor, snapshot=ViewSnapshot(items=items, items_before=begin))

    def digest(stream: str, seq: int) -> str | None:
        actor = sessions.loaded(stream.removeprefix("session/"))
        return None if actor is None else actor.view_digest(seq)

    return Projections(ops=ops_of, view=view, digest=digest)
