"""Where the hub gets events and views from.

Purpose: the journal and the projections as the hub sees them, as protocols injected by the composition root.
Invariant: events of a stream come in order without a gap; `project_ops` is a pure function of one event.
Must never: give the hub a way to write.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import orjson

from gloveport.protocol.journal.envelope import Cursor, StoredEvent
from gloveport.protocol.journal.envelope import Head as Head
from gloveport.protocol.wire.event import event_json

if TYPE_CHECKING:
    from gloveport.protocol.wire.session import ViewSnapshot


@dataclass(frozen=True, slots=True)
class ProjectedView:
    """The view of a stream at `cursor`, ready for a client that begins anew."""

    cursor: Cursor
    snapshot: "ViewSnapshot"


class EventSource(Protocol):
    """Read access to the journal."""

    async def read(self, stream: str, after_seq: int, limit: int, bytes_max: int) -> tuple[StoredEvent, ...]:
        """Events with seq > `after_seq`, at most `limit` of them and about `bytes_max` payload bytes, at least one
        if there is one."""
        ...

    async def head(self, stream: str) -> Head | None:
        """The end of the stream, or None when there is no such stream."""
        ...


Ops = Callable[[StoredEvent], tuple[Mapping[str, object], ...]]


def dump_each(ops: Ops, events: Iterable[StoredEvent]) -> list[bytes]:
    """Each event as clients get it, made one by one."""
    return [
        event_json(event.stream, event.epoch, event.seq, event.at, event.type, orjson.dumps(ops(event)))
        for event in events
    ]


@dataclass(frozen=True, slots=True)
class Projections:
    """The pure views of the kernel, as functions.

    `ops` of one event; `events_json`: many as clients get them; `view` of a whole stream now; `digest` of the
    view's items from an index on at a seq, or None where a turn is running and the view does not rest; `old_items`:
    which of these items stand before an index.
    """

    ops: Ops
    events_json: Callable[[Sequence[StoredEvent]], Sequence[bytes]]
    view: Callable[[str], Awaitable[ProjectedView]]
    digest: Callable[[str, int, int], str | None]
    old_items: Callable[[str, Collection[str], int], Awaitable[frozenset[str]]]
