"""What there is before the rooms are open.

Purpose: hold what the first moments need, and stand in for the rooms until they are there.
Invariant: a request is answered by the rooms alone; until they are open it waits.
Must never: answer in their place.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.server.app.live_settings import LiveSettings
from gloveport.server.client.paths import Places
from gloveport.server.commands.buffers import BufferTable
from gloveport.server.journal.lease import DataLease
from gloveport.server.journal.store import Journal
from gloveport.server.secrets.detect import Redactor
from gloveport.server.transports.bulletin import Bulletin
from gloveport.server.transports.hub import Hub
from gloveport.server.transports.news import News
from gloveport.server.transports.port import Caller, MethodShape, SessionPort
from gloveport.server.transports.source import ProjectedView, Projections, dump_each

if TYPE_CHECKING:
    from pydantic import BaseModel


def _nobody() -> int:
    return 0


@dataclass(slots=True)
class Front:
    """What is open before the rooms. Set `stop` to end the daemon; `clients` counts connections."""

    places: Places
    settings_home: Path
    settings: LiveSettings
    redactor: Redactor
    lease: DataLease
    journal: Journal
    boot_id: str
    hub: Hub
    buffers: BufferTable
    stop: anyio.Event
    now_us: Callable[[], int]
    new_id: Callable[[str], str]
    clients: Callable[[], int] = field(default=_nobody)
    bulletin: Bulletin = field(default_factory=Bulletin)
    changes: News = field(default_factory=News)
    older_data: tuple[Path, ...] = ()
    """Where other data of this user was found when the data directory was a fresh one."""


class Rooms(Protocol):
    """The open rooms, as far as connections see them."""

    @property
    def commands(self) -> SessionPort:
        """Who answers."""

    @property
    def projections(self) -> Projections:
        """The views."""


class LateMethods(Mapping[str, MethodShape]):
    """The wire's table of methods, loaded when one is asked for: the first answers need none of it."""

    @cached_property
    def _table(self) -> Mapping[str, MethodShape]:
        from gloveport.protocol.wire.methods import METHODS

        return METHODS

    def __getitem__(self, name: str) -> MethodShape:
        return self._table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


class Late:
    """Stands in for the rooms (`SessionPort`); every call waits until they are open."""

    def __init__(self) -> None:
        self._settled = anyio.Event()
        self._rooms: Rooms | None = None
        self._failure: GloveportError | None = None

    def open(self, rooms: Rooms) -> None:
        """From now on the rooms answer."""
        self._rooms = rooms
        self._settled.set()

    def fail(self, failure: GloveportError) -> None:
        """The rooms cannot be opened: tell everybody who waits."""
        self._failure = failure
        self._settled.set()

    async def _open_rooms(self) -> Rooms:
        await self._settled.wait()
        if self._rooms is None:
            raise self._failure or GloveportError(ErrorCode.SHUTTING_DOWN, "the daemon ends")
        return self._rooms

    async def call(self, method: str, params: "BaseModel", caller: Caller) -> "BaseModel":
        """Answer one valid request, by the rooms."""
        return await (await self._open_rooms()).commands.call(method, params, caller)

    def projections(self) -> Projections:
        """The views, by the rooms."""
        return Projections(self._ops, self._events_json, self._view, self._digest, self._old_items)

    def _ops(self, event: StoredEvent) -> tuple[Mapping[str, object], ...]:
        return _ops(event) if self._rooms is None else self._rooms.projections.ops(event)

    def _events_json(self, events: Sequence[StoredEvent]) -> Sequence[bytes]:
        return dump_each(_ops, events) if self._rooms is None else self._rooms.projections.events_json(events)

    async def _view(self, stream: str) -> ProjectedView:
        return await (await self._open_rooms()).projections.view(stream)

    def _digest(self, stream: str, seq: int, first: int) -> str | None:
        return None if self._rooms is None else self._rooms.projections.digest(stream, seq, first)

    async def _old_items(self, stream: str, names: Collection[str], first: int) -> frozenset[str]:
        return await (await self._open_rooms()).projections.old_items(stream, names, first)


def _ops(event: StoredEvent) -> tuple[Mapping[str, Any], ...]:
    from gloveport.server.engine.folding import ops_of  # with the rooms, which are loaded after the first clients

    return ops_of(event)
