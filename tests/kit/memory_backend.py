"""A whole daemon inside kept in lists: a real backend for the transport, with events, views and an idempotent port.

An event's payload is the JSON list of its operations; everything else (chain, cursors, digests) is the product's own.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import anyio
import orjson

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.envelope import (
    GENESIS_DIGEST,
    StoredEvent,
    cursor_at,
    event_digest,
)
from gloveport.protocol.text import utf16_length
from gloveport.protocol.wire.base import Empty, WireModel
from gloveport.protocol.wire.methods import METHODS, Method
from gloveport.protocol.wire.reducer import View, page_start
from gloveport.protocol.wire.session import (
    ItemListParams,
    ItemListResult,
    SessionInfo,
    SessionListResult,
    SessionStartParams,
    ViewItem,
    ViewSnapshot,
)
from gloveport.protocol.wire.turn import TurnStartParams, TurnStartResult
from gloveport.server.transports.bulletin import Bulletin
from gloveport.server.transports.hub import Hub
from gloveport.server.transports.lsp.endpoint import Endpoint
from gloveport.server.transports.lsp.handlers.lifecycle import About
from gloveport.server.transports.lsp.limits import Limits
from gloveport.server.transports.lsp.loop import Service
from gloveport.server.transports.lsp.socketfile import SocketFile, bind_socket, write_token
from gloveport.server.transports.port import Buffer, Caller
from gloveport.server.transports.source import Head, ProjectedView, Projections, dump_each

Op = Mapping[str, Any]


class ListJournal:
    """Streams as lists; `reads` counts how often the hub came for stored events.

    While `refused` is there, as for a journal that stopped, reading is refused, which sets it.
    """

    def __init__(self) -> None:
        self.streams: dict[str, list[StoredEvent]] = {}
        self.durable: dict[str, int] = {}
        self.epoch = 1
        self.reads = 0
        self.refused: anyio.Event | None = None

    async def read(self, stream: str, after_seq: int, limit: int, bytes_max: int) -> tuple[StoredEvent, ...]:
        """Events after a seq, at least one."""
        self.reads += 1
        if self.refused is not None:
            self.refused.set()
            raise GloveportError(ErrorCode.NOT_SAVED, "the journal stopped")
        chosen: list[StoredEvent] = []
        for event in self.streams.get(stream, [])[after_seq : after_seq + limit]:
            bytes_max -= len(event.payload)
            if chosen and bytes_max < 0:
                break
            chosen.append(event)
        await asyncio.sleep(0)
        return tuple(chosen)

    async def head(self, stream: str) -> Head | None:
        """The end of a stream."""
        events = self.streams.get(stream)
        if events is None:
            return None
        last, durable = events[-1], self.durable.get(stream)
        await asyncio.sleep(0)  # as from another thread: what is read may be old when it is looked at
        return Head(last.epoch, last.seq, last.digest, last.seq if durable is None else durable)

    def append(self, stream: str, ops: list[Op]) -> StoredEvent:
        """Store one event."""
        events = self.streams.setdefault(stream, [])
        payload, seq = orjson.dumps(ops), len(events) + 1
        prev = events[-1].digest if events else GENESIS_DIGEST
        event = StoredEvent(stream, self.epoch, seq, "Told", 1, seq, payload, "")
        event = event._replace(digest=event_digest(prev, event))
        events.append(event)
        return event


def read_ops(event: StoredEvent) -> tuple[Op, ...]:
    """The operations of a stored event."""
    return tuple(orjson.loads(event.payload))


class MemoryBackend:
    """Journal, views, port and buffers of one daemon."""

    def __init__(self, snapshot_items: int = 1000) -> None:
        self.journal = ListJournal()
        self.views: dict[str, View] = {}
        self.busy: set[str] = set()
        self.buffers: dict[tuple[str, str], Buffer] = {}
        self.callers: list[Caller] = []
        self.started = 0
        self.cancelled = 0
        self.gate = anyio.Event()
        self._lengths: dict[str, int] = {}
        self._answers: dict[str, WireModel] = {}
        self._snapshot_items = snapshot_items
        self.hub = Hub(
            self.journal, Projections(read_ops, partial(dump_each, read_ops), self.project, self.digest, self.old_items)
        )

    def tell(self, session_id: str, *ops: Op) -> None:
        """Append one event of a session and publish it."""
        stream = session_stream(SessionId(session_id))
        event = self.journal.append(stream, list(ops))
        self.views.setdefault(stream, View()).apply(event.seq, ops)
        self.hub.publish(stream, [event], self.journal.durable.get(stream, event.seq))

    def tell_text(self, session_id: str, *pieces: str) -> None:
        """Append each piece to the session's one answer."""
        for piece in pieces:
            at = self._lengths.get(session_id, 0)
            self._lengths[session_id] = at + utf16_length(piece)
            self.tell(session_id, {"op": "append", "item": "answer/1", "field": "text", "offset": at, "text": piece})

    def open_session(self, session_id: str) -> None:
        """A session with one empty answer."""
        self.tell(session_id, upsert("session", "session", title=session_id))
        self.tell(session_id, upsert("answer/1", "message.assistant", text=""))

    async def project(self, stream: str) -> ProjectedView:
        """The tail of the view now."""
        view, last = self.views[stream], self.journal.streams[stream][-1]
        start = page_start(max(0, len(view) - self._snapshot_items))
        items = tuple(ViewItem.model_validate(item) for item in view.items(start))
        await asyncio.sleep(0)
        return ProjectedView(
            cursor_at(last.epoch, last.seq, last.digest), ViewSnapshot(items=items, items_before=start)
        )

    def digest(self, stream: str, seq: int, first: int) -> str | None:
        """The digest at the head, unless the stream is busy."""
        view = self.views[stream]
        return view.digest(first) if stream not in self.busy and view.watermark == seq else None

    async def old_items(self, stream: str, names: Collection[str], first: int) -> frozenset[str]:
        """Those that stand before an index."""
        await asyncio.sleep(0)
        places = ((name, self.views[stream].index(name)) for name in names)
        return frozenset(name for name, index in places if index is not None and index < first)

    def opened(self, buffer: Buffer) -> None:
        """Keep an open document."""
        self.buffers[buffer.connection_id, buffer.key] = buffer

    def closed(self, connection_id: str, key: str) -> None:
        """Forget it."""
        del self.buffers[connection_id, key]

    async def call(self, method: str, params: Any, caller: Caller) -> WireModel:
        """Answer by the method's name."""
        self.callers.append(caller)
        answer = getattr(self, "on_" + method.replace("/", "_"), None)
        if answer is None:
            return METHODS[method].result.model_construct()
        result: WireModel = await answer(params)
        return result

    async def on_session_start(self, params: SessionStartParams) -> WireModel:
        """A new session; the same request again gives the same one."""
        if params.client_request_id not in self._answers:
            name = f"s{len(self.journal.streams) + 1}"
            self.open_session(name)
            self._answers[params.client_request_id] = session_info(name, params.root, params.title)
        return self._answers[params.client_request_id]

    async def on_session_list(self, _params: object) -> WireModel:
        """All sessions."""
        names = [stream.partition("/")[2] for stream in self.journal.streams]
        return SessionListResult(sessions=tuple(session_info(name, "/r", name) for name in names), next_offset=None)

    async def on_session_item_list(self, params: ItemListParams) -> WireModel:
        """A page of older items."""
        start = max(0, params.before - params.limit)
        items = self.views[session_stream(SessionId(params.session_id))].items(start, params.before)
        return ItemListResult(items=tuple(ViewItem.model_validate(item) for item in items), items_before=start)

    async def on_turn_start(self, params: TurnStartParams) -> WireModel:
        """Say back what was said."""
        self.tell_text(params.session_id, params.text)
        return TurnStartResult(turn_id="t", message_id="m")

    async def on_test_wait(self, _params: object) -> WireModel:
        """Wait for the gate."""
        self.started += 1
        try:
            await self.gate.wait()
        except BaseException:
            self.cancelled += 1
            raise
        return Empty()

    async def on_test_fail(self, params: object) -> WireModel:
        """Fail as a fault of ours would."""
        raise ValueError(f"secret of {__file__} with {params!r}")

    async def on_test_refuse(self, _params: object) -> WireModel:
        """Fail with a typed error whose data JSON can't hold in full."""
        raise GloveportError(ErrorCode.CHANGE_CONFLICT, "changed meanwhile", path="a.py", thing=object())

    async def on_test_unwritable(self, _params: object) -> Any:
        """A result that is no JSON."""
        return {"thing": object()}

    async def on_test_selfcancel(self, _params: object) -> WireModel:
        """A task that the engine cancelled by itself."""
        raise asyncio.CancelledError

    async def on_test_large(self, _params: object) -> Any:
        """A result of 20 MB."""
        return {"text": "x" * 20_000_000}


TEST_METHODS: Mapping[str, Method] = {
    **METHODS,
    **{
        f"test/{name}": Method(Empty, Empty) for name in ("wait", "fail", "refuse", "unwritable", "selfcancel", "large")
    },
}


def upsert(item: str, kind: str, **fields: Any) -> Op:
    """An operation that creates or sets."""
    return {"op": "upsert", "item": item, "kind": kind, "fields": fields}


def session_info(name: str, root: str, title: str) -> SessionInfo:
    """A row of the list."""
    return SessionInfo(
        session_id=name,
        workspace_id="w",
        root=root,
        title=title,
        phase="idle",
        model_label="none",
        sandbox="none",
        trust_level="trusted",
        updated_at=0,
    )


@dataclass
class Held:
    """A lease as the endpoint sees it."""

    held: bool = True


@dataclass
class Daemon:
    """A running endpoint over a real socket."""

    backend: MemoryBackend
    endpoint: Endpoint
    file: SocketFile
    token: str
    bulletin: Bulletin
    stop: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.file.path


@asynccontextmanager
async def run_daemon(
    backend: MemoryBackend | None = None, limits: Limits | None = None, *, hub: Hub | None = None
) -> AsyncIterator[Daemon]:
    """An endpoint on a socket in a short folder of its own, served until the block ends.

    With `hub`, what is followed comes from there.
    """
    folder = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    backend = backend or MemoryBackend()
    token = write_token(folder / "decision.token")
    bulletin = Bulletin()
    service = Service(
        methods=TEST_METHODS,
        port=backend,
        hub=hub or backend.hub,
        buffers=backend,
        about=About("0.1.0", 7, token),
        limits=limits or Limits(),
        bulletin=bulletin,
    )
    file = bind_socket(folder / "daemon.sock", Held())
    daemon = Daemon(backend, Endpoint(service, file.listener), file, token, bulletin)
    serving = asyncio.create_task(daemon.endpoint.serve(daemon.stop))
    try:
        yield daemon
    finally:
        daemon.stop.set()
        await serving
        file.close()
        rmtree(folder)
