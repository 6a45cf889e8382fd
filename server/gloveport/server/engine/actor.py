"""One session's actor: inputs in, events on disk, effects out.

Purpose: serialise everything that happens to a session: step, append, fold, publish, perform.
Invariant: the state is the fold of what the journal acknowledged; an effect begins only after its intent is on disk.
Must never: perform an effect while holding the lock, or go on after a failed append without reading the journal again.
"""

import contextlib
import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.envelope import Cursor, Durability, NewEvent, cursor_at
from gloveport.protocol.journal.events import (
    ChangeRefused,
    ChangeUnsettled,
    EventBody,
    GrantRevoked,
    GrantUsed,
    ModelRequestAccepted,
    ModelTextDelta,
    ReleaseUsed,
    ToolExecutionProgress,
    encode_body,
)
from gloveport.protocol.journal.events.base import blobs_of, storable_body
from gloveport.server.engine.folding import Loaded
from gloveport.server.engine.keeping import Keeper, try_write
from gloveport.server.engine.paged import PagedView, StalePageError
from gloveport.server.engine.room import Room
from gloveport.server.engine.unsaved import texts_below
from gloveport.server.engine.way_out import Notes
from gloveport.server.journal.records import Append, Appended, ClientRequest, IndexUpdate, StreamAppend
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import Phase, SessionState
from gloveport.server.session.views.ops import project_ops
from gloveport.server.turn.draft import Step, read_only_refusal
from gloveport.server.turn.effects import Effect
from gloveport.server.turn.inputs import Input
from gloveport.server.turn.machine import step
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.facade import SessionWorkspace

FATAL: Final = frozenset(
    {ErrorCode.NOT_SAVED, ErrorCode.DATA_FULL, ErrorCode.CONFLICT, ErrorCode.CORRUPT, ErrorCode.LEASE_HELD}
)
"""The journal's refusals: what was to be written is not, and nothing may go on as if it were."""


def is_fatal(error: GloveportError) -> bool:
    """True for a refusal of the journal; what the workspace finds damaged of its own concerns no journal."""
    return error.code in FATAL and not isinstance(error, WorkspaceError)


_TAKING_BACK: Final = (GrantRevoked, GrantUsed, ReleaseUsed)
"""What a copy of the journal from before would give again."""
UNWRITTEN: Final = frozenset({ErrorCode.LIMIT, ErrorCode.INVALID_PARAMS})
"""Refusals of the journal before anything was written: the session is as it was."""

KEPT_EVENTS: Final = 5_000
"""A snapshot is written after so many events at the latest: reading a session again folds no more."""
KEPT_EVENTS_AT_REST: Final = 100

# What arrived from outside and can be had again, or asked for: a power loss may take the last of it.
_RELAXED = (ModelTextDelta, ModelRequestAccepted, ToolExecutionProgress)

Asked = ClientRequest | Callable[[Step], ClientRequest] | None
"""A client's request with its answer; the answer may depend on what was decided."""
Facts = tuple[EventBody, ...] | Callable[[SessionState], tuple[EventBody, ...]]


@dataclass(slots=True)
class Running:
    """An effect under way: cancel `scope` to drop it, set `stop` to ask it to end."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    stop: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    notes: Notes = field(default_factory=Notes)
    """What its runs tried to reach."""


async def _leave() -> None:
    """Nobody reads the session again by itself."""


def index_state(state: SessionState) -> str:
    """What the index of sessions says of a session; everything but `idle` is looked at after a restart."""
    if state.sealed:
        return str(Phase.IDLE)  # nothing is done in it any more
    return "applying" if state.applying and state.turn is None else str(state.phase)


class Actor:
    """The one writer of a session's stream."""

    def __init__(
        self,
        session_id: SessionId,
        room: Room,
        loaded: Loaded,
        workspace: SessionWorkspace | GloveportError,
        keeper: Keeper,
    ) -> None:
        self.session_id = session_id
        self.stream = session_stream(session_id)
        self.room = room
        self._workspace = workspace
        if isinstance(workspace, SessionWorkspace):
            workspace.opened = partial(texts_below, room.editors, workspace.root)
        self.running: dict[str, Running] = {}
        self.reviewing = anyio.Lock()
        """Held from a look at the proposals until what was seen is on disk, so that no older look comes after."""
        self.waiting_applies: dict[str, str] = {}
        """Applies whose end cannot be found out now, with the words that were told; each command looks again."""
        self.told_edits: tuple[tuple[str, ...], ...] = ((), ())
        """What of the user's edits was last told not to be taken over."""
        self.base_labelled: object = None
        """The base whose contents were last looked for among those that were ever labelled."""
        self.stale = False
        self.revive: Callable[[], Awaitable[object]] = _leave
        """Reads the session again once it is stale."""
        self._loaded = loaded
        self._keeper = keeper
        self._keeping = False
        self._refused_at = 0
        """Where the last snapshot stood that the disk refused; 0 when it took it."""
        self._booked = (0, "")
        """Up to which event, and with which digest, the audit log has the lines of what was written here."""
        self._lock = anyio.Lock()
        self._changed = anyio.Event()

    @property
    def state(self) -> SessionState:
        """The fold of everything acknowledged."""
        return self._loaded.state

    @property
    def refusals(self) -> dict[str, ChangeRefused | ChangeUnsettled]:
        """Why decisions about changes were not written, or not whole, by apply."""
        return self._loaded.refusals

    @property
    def contradictions(self) -> tuple[str, ...]:
        """In what the events that were read contradict each other."""
        return tuple(self._loaded.faults)

    @property
    def opened_workspace(self) -> SessionWorkspace | None:
        """The worktree, if it could be opened."""
        return None if isinstance(self._workspace, GloveportError) else self._workspace

    @property
    def workspace(self) -> SessionWorkspace:
        """The session's worktree. Raises GloveportError when it could not be opened; the log can be read still."""
        if isinstance(self._workspace, GloveportError):
            raise self._workspace
        return self._workspace

    @property
    def view(self) -> PagedView:
        """The view at the same place; read only, and its old pages may not be in memory."""
        return self._loaded.view

    async def items(self, start: int, stop: int) -> list[dict[str, Any]]:
        """Items of the view by index. Raises NOT_SAVED."""
        try:
            return await self._keeper.items(self.view, start, stop)
        except StalePageError as error:
            self.poison()
            raise GloveportError(ErrorCode.NOT_SAVED, "the session has to be read again") from error

    @property
    def cursor(self) -> Cursor:
        """The place of the last event."""
        return cursor_at(self._loaded.epoch, self._loaded.seq, self._loaded.digest)

    async def item(self, name: str) -> dict[str, Any]:
        """The fields of one item; empty when there is no such item. Raises NOT_SAVED."""
        for index in self.view.places(name):
            (item,) = await self.items(index, index + 1)
            if item["id"] == name:
                fields: dict[str, Any] = item["fields"]
                return fields
        return {}

    def view_digest(self, seq: int, first: int = 0) -> str | None:
        """The digest at `seq` of the view's items from index `first` on, where the session rests there."""
        if seq != self._loaded.seq or self.state.phase not in (Phase.IDLE, Phase.WAITING):
            return None
        return self.view.digest(first)

    async def submit(self, given: Input, request: Asked = None) -> tuple[Effect, ...]:
        """Decide one input, write what was decided, and return the effects that are due.

        Raises GloveportError: the input was refused (nothing changed), or NOT_SAVED (nothing was started).
        """
        async with self._lock:
            return await self._decide(given, request)

    async def submit_if(self, holds: Callable[[SessionState], bool], given: Input) -> tuple[Effect, ...] | None:
        """`submit`, given that `holds` of the state on which it is decided; None, and nothing done, otherwise."""
        async with self._lock:
            self._check_fresh()
            return await self._decide(given, None) if holds(self.state) else None

    async def _decide(self, given: Input, request: Asked) -> tuple[Effect, ...]:
        self._check_fresh()
        decided = step(self.state, given)
        if decided.events or request is not None:
            await self._append(decided, request)
        return () if self.stale else decided.effects  # what is due is found when the session is read again

    async def record(self, facts: Facts, request: Asked = None) -> None:
        """Write facts that need no decision of the machine (a name, a choice); they may be made from the state."""
        async with self._lock:
            self._check_fresh()
            state = self.state
            if state.read_only:
                raise read_only_refusal(state)
            bodies = tuple(map(storable_body, facts(state) if callable(facts) else facts))
            for body in bodies:
                state = fold_event(state, body)
            if bodies or request is not None:
                await self._append(Step(bodies, (), state), request)

    async def retire(self, write: Callable[["Actor"], Awaitable[None]]) -> None:
        """End the session by `write`; nothing is decided in it meanwhile, nor after. Raises what `write` raises."""
        async with self._lock:
            self._check_fresh()
            await write(self)
            self.poison()

    def _check_fresh(self) -> None:
        if self.stale:
            raise GloveportError(ErrorCode.NOT_SAVED, "the session could not be saved and has to be read again")

    async def _append(self, decided: Step, asked: Asked) -> None:
        request = asked(decided) if callable(asked) else asked
        rights, workspace = self.room.rights, decided.state.workspace_id
        async with rights.sharing(self.room.journal, workspace, decided.events) as shared:
            await self._write(decided, request, shared)

    async def _write(self, decided: Step, request: ClientRequest | None, shared: tuple[StreamAppend, ...]) -> None:
        """Append the session's events, and what of them belongs to its workspace, in one transaction."""
        loaded, now = self._loaded, self.room.now_us()
        relaxed = request is None and all(isinstance(body, _RELAXED) for body in decided.events)
        news = tuple(NewEvent(type(body).__name__, body.version, encode_body(body)) for body in decided.events)
        blobs = tuple(digest for body in decided.events for digest in blobs_of(body))
        batch = Append(
            streams=(StreamAppend(self.stream, loaded.seq + 1, news, blobs=blobs), *shared) if news else (),
            at=now,
            durability=Durability.RELAXED if relaxed else Durability.FULL,
            request=request,
            index=() if relaxed else (self._index(decided.state, now),),
            takes_back=any(isinstance(body, _TAKING_BACK) for body in decided.events),
        )
        holds = False
        try:
            with anyio.CancelScope(shield=True):
                try:
                    appended = await self.room.journal.append(batch)
                except GloveportError as error:
                    holds = error.code in UNWRITTEN
                    raise
                if appended.answered is not None:
                    raise GloveportError(ErrorCode.CONFLICT, "this request was answered before")
                everything = appended.events
                own = tuple(event for event in everything if event.stream == self.stream)
                appended = dataclasses.replace(appended, events=own)
                try:
                    await self._adopt(decided, appended)
                except (StalePageError, GloveportError):
                    self.poison()  # it is written, so it is answered; the session is read again before it goes on
                self._publish(appended)
                await self.room.auditor.take(everything)
                if not self.stale:
                    self._booked = (loaded.seq, loaded.digest)
                holds = True
        finally:
            if not holds:
                self.poison()

    def _index(self, state: SessionState, now: int) -> IndexUpdate:
        return IndexUpdate(
            session_id=self.session_id,
            updated_at=now,
            title=state.title,
            state=index_state(state),
            workspace=state.root,
        )

    async def _adopt(self, decided: Step, appended: Appended) -> None:
        loaded = self._loaded
        steps = [
            (stored, body, project_ops(body, stored.type, stored.seq, stored.at))
            for stored, body in zip(appended.events, decided.events, strict=True)
        ]
        await self._keeper.bring(loaded.view, loaded.view.needed(op for _, _, ops in steps for op in ops))
        loaded.state = decided.state
        for stored, body, ops in steps:
            loaded.epoch, loaded.seq, loaded.digest = stored.epoch, stored.seq, stored.digest
            loaded.view.apply(stored.seq, ops)
            if isinstance(body, ChangeRefused | ChangeUnsettled):
                loaded.refusals[body.apply_id] = body

    def _publish(self, appended: Appended) -> None:
        if appended.events:
            self.room.publisher.publish(self.stream, appended.events, appended.durable_seq(self.stream))
        self._changed.set()
        self._changed = anyio.Event()
        if not self.stale:
            self.keep_when_due()

    def keep_when_due(self) -> None:
        """Begin to write a snapshot when enough happened since the last."""
        news = self._loaded.seq - max(self._keeper.seq, self._refused_at)
        due = news >= KEPT_EVENTS or (news >= KEPT_EVENTS_AT_REST and self.state.phase is Phase.IDLE)
        if due and not self._keeping:
            self._keeping = True
            self.room.tasks.start_soon(self._keep)

    async def _keep(self) -> None:
        """Write a snapshot, beside whatever goes on."""
        try:
            if not self.stale:
                at = self._loaded.seq
                self._refused_at = 0 if await try_write(self._keeper, self._loaded) else at
                await self._settle()
        finally:
            self._keeping = False

    async def _settle(self) -> None:
        """Have the next start look no further back than here for lines that are missing from the audit log."""
        seq, digest = self._booked
        if seq > 0:
            with contextlib.suppress(GloveportError):  # it looks further back then
                await self.room.journal.settle_stream(self.stream, seq, digest)

    def poison(self) -> None:
        """What is on disk is not what is known here: drop what runs; the journal is read before the next input."""
        self.stale = True
        for running in self.running.values():
            running.scope.cancel()
        self._changed.set()

    async def wait_applied(self, apply_id: str) -> None:
        """Return once the apply has ended. Raises NOT_SAVED when its end could not be written."""
        while apply_id in self.state.applying and apply_id not in self.waiting_applies:
            if self.stale:
                raise GloveportError(
                    ErrorCode.NOT_SAVED, "whether the change was written is found out at the next look"
                )
            await self._changed.wait()

    async def wait_quiet(self) -> None:
        """Return once none of its effects is under way any more: none may go on beside those of its successor."""
        while self.running:
            await next(iter(self.running.values())).ended.wait()
