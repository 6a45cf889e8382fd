"""The sessions of a daemon.

Purpose: create sessions, and read them from the journal when somebody asks for one.
Invariant: one actor a session; one that the journal refused is read again before anything else happens to it.
Must never: keep a state that the journal does not hold.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.events import SessionCreated, SnapshotTaken
from gloveport.server.engine.actor import KEPT_EVENTS, Actor
from gloveport.server.engine.apply_run import settle_waiting, sweep_leftovers
from gloveport.server.engine.folding import Loaded, decode_stored, fold_decoded
from gloveport.server.engine.glance import Glance, take_glance
from gloveport.server.engine.keeping import Keeper, try_write
from gloveport.server.engine.labelling import note_found
from gloveport.server.engine.mending import read_mended
from gloveport.server.engine.paged import StalePageError
from gloveport.server.engine.perform import revive, start
from gloveport.server.engine.relisting import relist
from gloveport.server.engine.room import Room
from gloveport.server.journal.records import ClientRequest
from gloveport.server.turn.effects import Effect
from gloveport.server.workspace.facade import SessionWorkspace

READ_EVENTS: Final = 200
READ_BYTES: Final = 4 * 1024 * 1024
LOADED_MAX: Final = 64
GLANCES_MAX: Final = 8
"""Views in memory of sessions that are not; each is a few pages."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a new session is to use."""

    workspace_id: str
    root: str
    title: str
    trust_level: str
    sandbox: str
    provider: str
    model: str
    model_label: str


class Sessions:
    """All sessions; `recover` is called with each actor that was read from the journal."""

    def __init__(self, room: Room, recover: Callable[[Actor], Awaitable[tuple[Effect, ...]]]) -> None:
        self.room = room
        self._recover = recover
        self._reopening = anyio.Lock()
        self._actors: dict[SessionId, Actor] = {}
        self._opening: dict[SessionId, anyio.Lock] = defaultdict(anyio.Lock)
        self._glances: dict[SessionId, Glance] = {}

    def loaded(self, session_id: str) -> Actor | None:
        """The actor, if the session is in memory."""
        return self._actors.get(SessionId(session_id))

    def all_loaded(self) -> tuple[Actor, ...]:
        """Every session in memory."""
        return tuple(self._actors.values())

    @property
    def running_turns(self) -> int:
        """How many turns run now."""
        return sum(1 for actor in self._actors.values() if actor.state.turn is not None)

    async def create(self, choice: Choice, request: ClientRequest | None, session_id: SessionId) -> Actor:
        """Take the snapshot, then write the session's first facts. Raises GloveportError."""
        await self.journal_ready()
        await self.room.labels.ready()
        workspace = await self.room.create_workspace(choice.root, session_id)
        actor = Actor(session_id, self.room, Loaded(), workspace, self._keeper(session_id))
        created = SessionCreated(
            session_id=session_id,
            workspace_id=choice.workspace_id,
            root=choice.root,
            title=choice.title,
            trust_level=choice.trust_level,
            sandbox=choice.sandbox,
            provider=choice.provider,
            model=choice.model,
            model_label=choice.model_label,
        )
        taken = workspace.snapshot
        snapshot = SnapshotTaken(
            snapshot_id=taken.snapshot_id,
            files=taken.files,
            bytes_total=taken.bytes_total,
            not_covered=tuple(f"{one.path}: {one.reason}" for one in taken.not_covered),
        )
        await note_found(actor)
        async with self._opening[session_id]:  # whoever sees it in a list must not read a second one meanwhile
            await actor.record((created, snapshot), request)
            await self.room.keep_workspace(session_id)
            self._put(session_id, actor)
        self._forget_idle(session_id)
        return actor

    def _put(self, name: SessionId, actor: Actor) -> None:
        actor.revive = partial(self.open, name)
        self._actors[name] = actor
        self._glances.pop(name, None)

    async def journal_ready(self) -> None:
        """Open a journal anew that stopped after a refusal of the disk. Raises NOT_SAVED, DATA_FULL."""
        async with self._reopening:
            if not self.room.journal.health().accepting:
                report = await self.room.journal.reopen()
                self._read_again(loss.stream for loss in report.untold)

    def _read_again(self, streams: Iterable[str]) -> None:
        """Sessions in memory that lost events: what is known of them here is more than the journal holds."""
        wanted = frozenset(streams)
        for actor in [one for one in self._actors.values() if one.stream in wanted]:
            actor.poison()
            if not actor.running:
                self.room.tasks.start_soon(revive, actor)

    async def open(self, session_id: str) -> Actor:
        """The session's actor, read from the journal if need be. Raises SESSION_UNKNOWN, NOT_SAVED."""
        name = SessionId(session_id)
        async with self._opening[name]:
            known = self._actors.get(name)
            if known is not None and not known.stale and known.state.turn is not None:
                await self.journal_ready()  # it may have stopped a moment ago, and nobody else would look at it again
            if known is not None and not known.stale:
                if known.waiting_applies:
                    start(known, await settle_waiting(known))
                return known
            await self.journal_ready()
            await self.room.labels.ready()
            if known is not None:
                await known.wait_quiet()
            keeper = self._keeper(name)
            loaded = await self._read(name, keeper)
            actor = Actor(name, self.room, loaded, await self._workspace(name, known), keeper)
            self._put(name, actor)
            try:
                await note_found(actor)
                start(actor, await self._recover(actor))
            except BaseException:
                actor.stale = True  # what was under way was not taken up: whoever comes next tries again
                raise
            await sweep_leftovers(actor, loaded.plans)
            actor.keep_when_due()
            self._forget_idle(name)
            return actor

    async def retire(self, session_id: str, reason: str, write: Callable[[Actor], Awaitable[None]]) -> None:
        """Let go of a session for good, once `write` has ended its stream, and tell its followers the reason.

        Raises what `open` and `write` raise.
        """
        actor = await self.open(session_id)
        async with self._opening[actor.session_id]:
            await actor.retire(write)
            self._actors.pop(actor.session_id, None)
        self.room.publisher.end(actor.stream, reason)
        self._opening.pop(actor.session_id, None)

    async def relist(self) -> int:
        """Give sessions that the list lacks their rows back; how many. Before anything else is done."""
        return await relist(self.room.journal, self._read)

    async def _workspace(self, session_id: SessionId, known: Actor | None) -> SessionWorkspace | GloveportError:
        # One door for one worktree: what an earlier actor began in it goes through the same lock.
        if known is not None and known.opened_workspace is not None:
            return known.opened_workspace
        try:
            return await self.room.open_workspace(session_id)
        except GloveportError as error:
            return error

    async def look(self, session_id: str) -> Actor | Glance:
        """The session's view: of its actor, or, where nothing is under way, of its snapshot alone.

        Raises SESSION_UNKNOWN, NOT_SAVED.
        """
        name = SessionId(session_id)
        async with self._opening[name]:
            known = self._actors.get(name)
            if known is None and (glance := await self._glance(name)) is not None:
                return glance
        return await self.open(session_id)

    async def _glance(self, name: SessionId) -> Glance | None:
        row = await self.room.journal.session(name)
        if row is None or row.state != "idle":
            return None
        glance = await take_glance(self.room.journal, self._keeper(name), session_stream(name), self._glances.get(name))
        if glance is not None:
            self._glances.pop(name, None)
            self._glances[name] = glance
            while len(self._glances) > GLANCES_MAX:
                del self._glances[next(iter(self._glances))]
        return glance

    def glanced(self, session_id: str) -> Glance | None:
        """The view that was looked at without its session, if it is still in memory."""
        return self._glances.get(SessionId(session_id))

    def _keeper(self, name: SessionId) -> Keeper:
        return Keeper(self.room.journal, session_stream(name), self.room.build, self.room.form)

    async def _read(self, session_id: SessionId, keeper: Keeper | None = None) -> Loaded:
        stream, kept = session_stream(session_id), keeper or self._keeper(session_id)
        loaded = await read_mended(self.room.journal, stream, partial(self._fold, stream, kept), self.journal_ready)
        if loaded.seq == 0:
            self._opening.pop(session_id, None)
            raise GloveportError(ErrorCode.SESSION_UNKNOWN, f"there is no session {session_id[:100]!r}")
        return loaded

    async def _fold(self, stream: str, keeper: Keeper) -> Loaded:
        """From its snapshot and what follows, or from the whole log, which then leaves snapshots as it is read."""
        loaded = await keeper.read() or Loaded()
        while events := await self.room.journal.read(stream, loaded.seq, READ_EVENTS, READ_BYTES):
            decoded = decode_stored(events)
            try:
                await keeper.bring(loaded.view, loaded.view.needed(op for step in decoded for op in step.ops))
            except StalePageError:
                loaded = Loaded()  # the keeper has forgotten what is not there
                continue
            fold_decoded(loaded, decoded)
            if loaded.seq - keeper.seq >= KEPT_EVENTS:
                await try_write(keeper, loaded)
        return loaded

    def _forget_idle(self, keep: SessionId) -> None:
        """Let go of sessions in which nothing happens, the longest loaded first."""
        for name in list(self._actors):
            if len(self._actors) <= LOADED_MAX:
                return
            actor = self._actors[name]
            idle = actor.state.turn is None and not actor.state.applying and not actor.running
            if name != keep and idle and not self._opening[name].locked():
                del self._actors[name]
                del self._opening[name]
                actor.stale = True  # whoever holds it still has to open the session again
