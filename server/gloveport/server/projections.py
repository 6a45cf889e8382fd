"""The journal and the views as the hub reads them.

Purpose: join the journal, the sessions and the pure projections behind the hub's protocols.
Invariant: a view and its cursor are of the same event.
Must never: write.
"""

from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.protocol.wire.session import ViewItem, ViewSnapshot
from gloveport.server.engine.sessions import Sessions, body_of
from gloveport.server.journal.store import Journal
from gloveport.server.session.views.ops import Op, project_ops
from gloveport.server.transports.source import Head, ProjectedView, Projections

SNAPSHOT_ITEMS_MAX = 500


class Source:
    """`EventSource` over the journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def read(self, stream: str, after_seq: int, limit: int, bytes_max: int) -> tuple[StoredEvent, ...]:
        """Events after `after_seq`."""
        return await self._journal.read(stream, after_seq, limit, bytes_max)

    async def head(self, stream: str) -> Head | None:
        """The end of a stream; None when nothing was ever written to it."""
        head = await self._journal.head(stream)
        if head.next_seq == 1:
            return None
        return Head(epoch=head.epoch, seq=head.next_seq - 1, digest=head.digest, durable_seq=head.durable_seq)


def ops_of(event: StoredEvent) -> tuple[Op, ...]:
    """What a stored event does to the view."""
    body = None if event.erased else body_of(event.type, event.version, event.payload)
    return project_ops(body, event.type, event.seq)


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


