"""The rooms of the daemon, wired.

Purpose: open every room, hand each what it may touch, and take up what an earlier daemon left.
Invariant: sessions in which something was under way are looked at before the first request is answered; what no
    session follows after that is ended.
Must never: hold logic; what happens is decided in the rooms.
"""

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio.to_thread
from anyio.abc import TaskGroup

from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.protocol.journal.events import DaemonStarted
from gloveport.server.app.front import Front
from gloveport.server.app.projections import projections_of
from gloveport.server.app.resources import (
    Ladder,
    ModelShelf,
    WorkspaceShelf,
    load_rules,
    readable_roots,
)
from gloveport.server.app.taking_up import runs_asked_about, take_up_all, tell_losses
from gloveport.server.audit.log import AUDIT_FILE, AuditLog
from gloveport.server.commands.house import Facts, House
from gloveport.server.commands.port import Commands
from gloveport.server.commands.trust import Trust, adopt_trust, void_rights
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.bookkeeping import Bookkeeper
from gloveport.server.engine.reckoning import loss_entry, reckon
from gloveport.server.engine.retention import Folders, Retention
from gloveport.server.engine.room import Room
from gloveport.server.engine.sessions import Sessions
from gloveport.server.engine.tampering import RecordGuard, tell_missing
from gloveport.server.engine.way_out import WaysOut, clear_ways
from gloveport.server.journal.blobs import BlobStore
from gloveport.server.journal.records import Loss
from gloveport.server.journal.schema import DATABASE_FILE
from gloveport.server.journal.store import Journal
from gloveport.server.policy.rules.ruleset import RuleSet
from gloveport.server.recovery.mended import mend_worktree
from gloveport.server.recovery.recover import recover
from gloveport.server.settings import SETTINGS_FILE
from gloveport.server.tools.contract import Tool
from gloveport.server.tools.toolbox import Toolbox
from gloveport.server.transports.hub import Hub
from gloveport.server.transports.news import News
from gloveport.server.transports.source import Projections
from gloveport.server.turn.effects import Effect
from gloveport.server.version import VERSION

_log = logging.getLogger("gloveport")

SESSIONS_DIR: Final = "sessions"
RUNS_DIR: Final = "runs"
RECOVER_PAGE: Final = 100
SESSION_PREFIX: Final = session_stream(SessionId(""))


PROPOSALS_CHANGED: Final = frozenset({"ChangeProposed", "ChangeWithdrawn", "ChangeApplied"})


class Announcer:
    """Tells the hub's followers, and editors when proposals changed."""

    def __init__(self, hub: Hub, changes: News) -> None:
        self._hub, self._changes = hub, changes

    def publish(self, stream: str, events: Sequence[StoredEvent], durable_seq: int) -> None:
        """Tell the followers."""
        self._hub.publish(stream, events, durable_seq)
        if any(event.type in PROPOSALS_CHANGED for event in events):
            self._changes.ring()

    def end(self, stream: str, reason: str) -> None:
        """Tell the followers that the stream is gone."""
        self._hub.end(stream, reason)


@dataclass(frozen=True, slots=True)
class OpenRooms:
    """Who answers, and the views."""

    commands: Commands
    projections: Projections


@dataclass(slots=True)
class Opened:
    """What is open while the daemon serves."""

    blobs: BlobStore
    audit: AuditLog
    ladder: Ladder
    models: ModelShelf
    rules: RuleSet
    shelf: WorkspaceShelf


async def open_rooms(front: Front, stack: AsyncExitStack, tasks: TaskGroup) -> OpenRooms:
    """Open everything that does the work; `stack` closes it again. Raises GloveportError."""
    opened = await _open(front, stack)
    announcer = Announcer(front.hub, front.changes)
    data_dir = front.places.data_dir
    await anyio.to_thread.run_sync(clear_ways, data_dir)  # before any call goes on and opens its own
    room = _room(front, opened, tasks, announcer)
    opened.audit.use_rules(room.rules.hash)
    trust = Trust(front.journal, front.settings().default_trust, front.now_us, room.rights, room.auditor)
    stack.callback(trust.close)
    await trust.load()

    audit_path = data_dir / AUDIT_FILE
    await tell_missing(front.journal, opened.audit)  # before anything is written to it
    losses = await reckon(front.journal, opened.audit, audit_path, front.redactor.redact, front.now_us)
    if losses:  # the audit log may know that the journal is an older one
        await trust.load()

    guard = RecordGuard(opened.audit, audit_path, front.journal)
    found_later: list[Loss] = []

    async def take_up(actor: Actor) -> tuple[Effect, ...]:
        await void_rights(actor)
        await adopt_trust(actor, trust, front.settings())
        mended = await mend_worktree(actor)
        loss = await front.journal.untold_loss(actor.stream)
        if loss is not None and loss not in losses:  # it was found when the session was read
            found_later.append(loss)
            await opened.audit.record_all((loss_entry(loss, front.now_us()),))
        effects = await recover(actor, loss, mended)
        if loss is not None:
            await front.journal.told((loss,))
        return (*effects, *await guard.freeze(actor))

    sessions = Sessions(room, take_up)
    retention = Retention(
        sessions,
        lambda: front.settings().retention,
        Folders(opened.shelf.there, opened.shelf.sizes, opened.shelf.remove, opened.shelf.left),
    )
    house = House(
        sessions=sessions,
        settings=front.settings,
        trust=trust,
        check_fit=opened.shelf.check_fit,
        rungs=opened.ladder.rungs(),
        audit=opened.audit,
        facts=_facts(front),
        buffers=front.buffers,
        model_label=opened.models.label,
        clients=front.clients,
        stop=front.stop.set,
        retention=retention,
    )
    await _announce_start(front, room, house.facts)
    await sessions.relist()
    whole = await take_up_all(front.journal, sessions)
    await tell_losses(front.journal, sessions, losses)
    await opened.ladder.reap()
    if whole and not losses and not found_later:  # else the folder of a run may be all that is known of it
        await opened.ladder.sweep(runs_asked_about(sessions))
    await opened.shelf.sweep(partial(_is_recorded, front.journal))
    tasks.start_soon(retention.run)
    tasks.start_soon(guard.look, sessions.all_loaded)
    return OpenRooms(Commands(house), projections_of(sessions))


async def _open(front: Front, stack: AsyncExitStack) -> Opened:
    data_dir = front.places.data_dir
    rules = load_rules(front.settings_home)
    blobs = await BlobStore.open(data_dir)
    audit = await AuditLog.open(data_dir / AUDIT_FILE, clock=front.now_us, boot_id=front.boot_id)
    stack.push_async_callback(audit.close)
    ladder = Ladder(data_dir, data_dir / RUNS_DIR, (front.places.socket.parent, data_dir), front.settings)
    stack.push_async_callback(ladder.close)
    models = ModelShelf(front.settings, front.now_us)
    stack.push_async_callback(models.close)
    own = (*front.places.own_folders, front.settings_home)
    shelf = WorkspaceShelf(data_dir / SESSIONS_DIR, own, front.boot_id)
    stack.push_async_callback(shelf.close)
    return Opened(blobs, audit, ladder, models, rules, shelf)


def _room(front: Front, opened: Opened, tasks: TaskGroup, announcer: Announcer) -> Room:
    return Room(
        journal=front.journal,
        blobs=opened.blobs,
        publisher=announcer,
        auditor=Bookkeeper(opened.audit, front.redactor.redact),
        providers=opened.models,
        sandboxes=opened.ladder,
        rules=opened.rules,
        toolbox=Toolbox(_load_tools),
        redactor=front.redactor,
        tasks=tasks,
        now_us=front.now_us,
        new_id=front.new_id,
        create_workspace=opened.shelf.create,
        keep_workspace=opened.shelf.keep,
        open_workspace=opened.shelf.open,
        python=sys.executable,
        read_only_roots=readable_roots(),
        editors=front.buffers,
        ways=WaysOut(
            front.places.data_dir,
            front.now_us,
            lambda: front.settings().places,
            lambda: front.settings().credentials,
            lambda: front.settings().mail,
            lambda: front.settings().databases,
        ),
    )


def _load_tools() -> tuple[Tool, ...]:
    from gloveport.server.tools.registry import builtin_tools  # a daemon at rest needs none of them

    return builtin_tools()


def _facts(front: Front) -> Facts:
    data_dir = front.places.data_dir
    return Facts(
        pid=os.getpid(),
        program_version=VERSION,
        generation=front.lease.owner.generation,
        started_at=front.now_us(),
        data_dir=data_dir,
        journal_path=data_dir / DATABASE_FILE,
        audit_path=data_dir / AUDIT_FILE,
        settings_path=front.places.config_dir / SETTINGS_FILE,
        older_data=front.older_data,
    )


async def _announce_start(front: Front, room: Room, facts: Facts) -> None:
    await room.daemon.tell(
        DaemonStarted(
            pid=facts.pid, program_version=facts.program_version, boot_id=front.boot_id, generation=facts.generation
        )
    )


async def _is_recorded(journal: Journal, session_id: str) -> bool:
    return await journal.head(session_stream(SessionId(session_id))) is not None
