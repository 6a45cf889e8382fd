"""The composition root of the daemon.

Purpose: take the lease, open every room, wire them, serve, and let go in order.
Invariant: the lease is held before anything is read or written; a signal ends the daemon within a second.
Must never: hold logic; what happens is decided in the rooms.
"""

import asyncio
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskGroup

from gloveport.protocol.ids import DAEMON_STREAM
from gloveport.protocol.journal.envelope import NewEvent, StoredEvent
from gloveport.protocol.journal.events import DaemonStarted, encode_body
from gloveport.protocol.wire.methods import METHODS
from gloveport.server.app.live_settings import LiveSettings
from gloveport.server.app.projections import projections_of
from gloveport.server.app.resources import (
    Ladder,
    ModelShelf,
    WorkspaceShelf,
    boot_id,
    load_rules,
    readable_roots,
)
from gloveport.server.audit.log import AUDIT_FILE, AuditLog
from gloveport.server.client.paths import Places
from gloveport.server.commands.buffers import BufferTable
from gloveport.server.commands.house import Facts, House
from gloveport.server.commands.port import Commands
from gloveport.server.commands.trust import Trust, adopt_trust
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.bookkeeping import Bookkeeper
from gloveport.server.engine.room import Room
from gloveport.server.engine.sessions import Sessions
from gloveport.server.journal.blobs import BlobStore
from gloveport.server.journal.lease import DataLease
from gloveport.server.journal.records import Append, StreamAppend
from gloveport.server.journal.schema import DATABASE_FILE
from gloveport.server.journal.store import Journal
from gloveport.server.policy.rules.ruleset import RuleSet
from gloveport.server.recovery.recover import recover
from gloveport.server.secrets.detect import Redactor
from gloveport.server.secrets.logs import RedactingFilter
from gloveport.server.settings import Settings
from gloveport.server.tools.registry import builtin_toolbox
from gloveport.server.transports.hub import Hub
from gloveport.server.transports.lsp.endpoint import Endpoint
from gloveport.server.transports.lsp.handlers.lifecycle import About
from gloveport.server.transports.lsp.loop import Service
from gloveport.server.transports.lsp.socketfile import bind_socket, write_token
from gloveport.server.transports.lsp.uris import uri_path
from gloveport.server.turn.effects import Effect
from gloveport.server.version import VERSION

_log = logging.getLogger("gloveport")

SESSIONS_DIR: Final = "sessions"
RUNS_DIR: Final = "runs"
RECOVER_PAGE: Final = 100


def now_us() -> int:
    """UTC microseconds."""
    return time.time_ns() // 1_000


def new_id(prefix: str) -> str:
    """A fresh identifier that sorts by time of making."""
    return f"{prefix}-{now_us():014x}{secrets.token_hex(5)}"


def redactor_of(settings: Settings) -> Redactor:
    """What takes the user's keys, and what looks like one, out of text."""
    return Redactor([choice.key.reveal() for choice in settings.models if choice.key is not None])


class Announcer:
    """Publishes to the hub once there is one."""

    def __init__(self) -> None:
        self.hub: Hub | None = None

    def publish(self, stream: str, events: Sequence[StoredEvent], durable_seq: int) -> None:
        """Tell the followers."""
        if self.hub is not None:
            self.hub.publish(stream, events, durable_seq)


@dataclass(slots=True)
class Opened:
    """What is open while the daemon serves."""

    lease: DataLease
    journal: Journal
    blobs: BlobStore
    audit: AuditLog
    ladder: Ladder
    models: ModelShelf
    rules: RuleSet


async def serve(places: Places, settings_home: Path) -> None:
    """Run the daemon of `places` until a signal or daemon/stop. Raises GloveportError when it cannot begin."""
    settings = LiveSettings(settings_home)
    for handler in logging.getLogger().handlers:
        handler.addFilter(RedactingFilter(redactor_of(settings())))
    async with AsyncExitStack() as stack:
        opened = await _open(stack, places, settings, settings_home)
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch_signals, stop)
            await _serve(places, settings, opened, tasks, stop)
            tasks.cancel_scope.cancel()


async def _open(stack: AsyncExitStack, places: Places, settings: LiveSettings, settings_home: Path) -> Opened:
    places.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    ladder = Ladder(places.data_dir, places.data_dir / RUNS_DIR, (places.socket.parent, places.data_dir))
    stack.push_async_callback(ladder.close)
    lease = DataLease.acquire(places.data_dir)
    stack.callback(lease.release)
    journal, report = await Journal.open(places.data_dir, clock=now_us, boot_id=boot_id(), lease=lease)
    stack.push_async_callback(journal.close)
    _log.info("journal opened: %s", report)
    blobs = await BlobStore.open(places.data_dir)
    audit = await AuditLog.open(places.data_dir / AUDIT_FILE, clock=now_us, boot_id=boot_id())
    stack.push_async_callback(audit.close)
    models = ModelShelf(settings, now_us)
    stack.push_async_callback(models.close)
    return Opened(lease, journal, blobs, audit, ladder, models, load_rules(settings_home))


async def _serve(places: Places, settings: LiveSettings, opened: Opened, tasks: TaskGroup, stop: anyio.Event) -> None:
    announcer = Announcer()
    room = _room(places, settings, opened, tasks, announcer)
    opened.audit.use_rules(room.rules.hash)
    trust = Trust(opened.journal, settings().default_trust, now_us)
    await trust.load()

    async def take_up(actor: Actor) -> tuple[Effect, ...]:
        await adopt_trust(actor, trust, settings())
        return await recover(actor)

    sessions = Sessions(room, take_up)
    announcer.hub = Hub(opened.journal, projections_of(sessions))
    endpoint_box: list[Endpoint] = []
    house = House(
        sessions=sessions,
        settings=settings,
        trust=trust,
        rungs=opened.ladder.rungs(),
        audit=opened.audit,
        facts=_facts(places, opened),
        buffers=BufferTable(uri_path),
        model_label=opened.models.label,
        clients=lambda: endpoint_box[0].clients if endpoint_box else 0,
        stop=stop.set,
    )
    await _announce_start(opened, house.facts)
    await _recover_all(opened.journal, sessions)
    await opened.ladder.reap()
    head = await opened.journal.head(DAEMON_STREAM)
    epoch = head.epoch if head is not None else 1
    about = About(server_version=VERSION, epoch=epoch, decision_token=write_token(places.token))
    service = Service(METHODS, Commands(house), announcer.hub, house.buffers, about)
    socket_file = bind_socket(places.socket, opened.lease)
    endpoint_box.append(Endpoint(service, socket_file.listener))
    try:
        await endpoint_box[0].serve(stop)
    finally:
        socket_file.close()


def _room(places: Places, settings: LiveSettings, opened: Opened, tasks: TaskGroup, announcer: Announcer) -> Room:
    shelf = WorkspaceShelf(places.data_dir / SESSIONS_DIR, (places.data_dir,))
    redactor = redactor_of(settings())
    return Room(
        journal=opened.journal,
        blobs=opened.blobs,
        publisher=announcer,
        auditor=Bookkeeper(opened.audit, redactor.redact),
        providers=opened.models,
        sandboxes=opened.ladder,
        rules=opened.rules,
        toolbox=builtin_toolbox(),
        redactor=redactor,
        tasks=tasks,
        now_us=now_us,
        new_id=new_id,
        create_workspace=shelf.create,
        open_workspace=shelf.open,
        python=sys.executable,
        read_only_roots=readable_roots(),
    )


def _facts(places: Places, opened: Opened) -> Facts:
    return Facts(
        pid=os.getpid(),
        program_version=VERSION,
        generation=opened.lease.owner.generation,
        started_at=now_us(),
        data_dir=places.data_dir,
        journal_path=places.data_dir / DATABASE_FILE,
        audit_path=places.data_dir / AUDIT_FILE,
    )


async def _announce_start(opened: Opened, facts: Facts) -> None:
    body = DaemonStarted(
        pid=facts.pid, program_version=facts.program_version, boot_id=boot_id(), generation=facts.generation
    )
    head = await opened.journal.head(DAEMON_STREAM)
    event = NewEvent(type(body).__name__, body.version, encode_body(body))
    next_seq = head.next_seq if head is not None else 1
    await opened.journal.append(Append((StreamAppend(DAEMON_STREAM, next_seq, (event,)),), now_us()))


async def _recover_all(journal: Journal, sessions: Sessions) -> None:
    """Open every session in which something was under way; one that cannot be opened stays as it is."""
    before: int | None = None
    while rows := await journal.sessions(RECOVER_PAGE, before=before):
        before = rows[-1].order
        for row in rows:
            if row.state == "idle":
                continue
            try:
                await sessions.open(row.session_id)
            except Exception:  # noqa: BLE001 - outer edge: one damaged session must not keep the daemon from serving the others
                _log.exception("session %s could not be recovered", row.session_id)


async def _watch_signals(stop: anyio.Event) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            _log.info("signal %s: the daemon ends", number)
            stop.set()
            return


def run(places: Places, settings_home: Path) -> None:
    """Run the daemon in the foreground."""
    asyncio.run(serve(places, settings_home))
