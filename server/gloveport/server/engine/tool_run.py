"""One tool call, from its judgement to its end.

Purpose: plan, have policy judge, perform, and bring the outcome back with what changed in the worktree.
Invariant: what runs is what was planned and judged: the same arguments, the same argument vector, the same rung.
Must never: decide whether a call is allowed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import ApprovalRequested, SessionFrozen, ToolExecutionStarted
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.tool import Outcome
from gloveport.protocol.text import utf16_index, utf16_length
from gloveport.server.engine.actor import UNWRITTEN, Actor, Running, is_fatal
from gloveport.server.engine.coalesce import Coalescer, coalescing
from gloveport.server.engine.hands import SANDBOX, Hands, Place, Show
from gloveport.server.engine.hinting import hint_facts
from gloveport.server.engine.ingest import looked_through, with_what_stays, without_secrets
from gloveport.server.engine.interpreter import own_python
from gloveport.server.engine.judging import beside_it, judge, together
from gloveport.server.engine.labelling import result_label, workspace_label, written_label
from gloveport.server.engine.looking import NOTHING_NEW, Looked, look
from gloveport.server.engine.proposals import Origin
from gloveport.server.engine.understanding import understand_plan
from gloveport.server.policy.card import card_digest
from gloveport.server.policy.sinks import provider_reader
from gloveport.server.policy.together import TOGETHER_MAX, may_join, placed_like
from gloveport.server.secrets.detect import Redactor
from gloveport.server.secrets.stream import StreamRedactor
from gloveport.server.session.fold_labels import join_labels
from gloveport.server.session.state import Call, SessionState
from gloveport.server.tools.contract import Arguments, Performed, Tool, ToolContext, parse
from gloveport.server.tools.output import OutputCleaner
from gloveport.server.turn.calls import STOPPED_TEXT, neighbours
from gloveport.server.turn.effects import AttachTool, Effect, JudgeCall, RunTool
from gloveport.server.turn.inputs import (
    ApprovalRechecked,
    CallJudged,
    CallReconciled,
    CallRejected,
    ToolEnded,
    ToolProgressed,
)

SHOWN_BYTES_MAX: Final = 128 * 1024
REPEATABLE: Final = ("read_only", "idempotent")
_OUTCOMES: Final[Mapping[ErrorCode, Outcome]] = MappingProxyType(
    {ErrorCode.SANDBOX_LOST: "lost", ErrorCode.CANCELLED: "cancelled"}
)
STOPPED_LOOKING: Final = "Stopped before it had looked at everything."
NOT_SHOWN: Final = "\n[more output is kept and not shown here]"


@dataclass(frozen=True, slots=True)
class Bench:
    """A call laid out: its tool, its parsed arguments and what it may touch."""

    tool: Tool
    arguments: Arguments
    context: ToolContext
    hands: Hands


async def _show_nothing(_piece: bytes) -> None:
    """For calls that are only looked at."""


def _rung(state: SessionState, call: Call) -> str:
    """The rung that was judged for a call that began; the session's own for one that did not."""
    executor = call.started.executor if call.started is not None else ""
    return executor.removeprefix(SANDBOX) if executor.startswith(SANDBOX) else state.sandbox


async def lay_out(actor: Actor, call: Call, running: Running, show: Show = _show_nothing) -> Bench:
    """Everything a call needs. Raises GloveportError: unknown tool, wrong arguments, sandbox unavailable."""
    room, state = actor.room, actor.state
    tool = room.toolbox.find(call.tool)
    arguments = parse(tool.arguments, call.arguments_json)
    rung = _rung(state, call)
    backend = room.sandboxes.backend(rung)
    workspace = actor.workspace
    python = own_python(workspace.root)
    place = Place(
        root=str(workspace.root),
        worktree=str(workspace.worktree),
        dependency_folders=await workspace.layers(),
        read_only_roots=room.read_only_roots if python is None else python.read_only_roots,
    )
    available = await room.sandboxes.availability(rung)
    hands = Hands(backend, available, place, state.trust_level, running.stop, _is_killable(call))
    running.notes.session_id = actor.session_id
    hands.ways, hands.notes, hands.image = room.ways, running.notes, state.image
    context = ToolContext(
        call_id=call.call_id,
        turn_id=_turn_id(actor),
        goal_revision=call.goal_revision,
        workspace=workspace,
        hands=hands,
        label=workspace_label(state),
        python=room.python if python is None else python.path,
        python_is_own=python is not None,
        show=show,
        redact=room.redactor.redact_bytes,
        is_kept=room.session_rules.reading(state.rules).is_kept,
        is_stopped=running.stop.is_set,
        fingerprint=call.started.fingerprint if call.started is not None else (),
        planned=call.started.effects if call.started is not None else (),
        model_reader=provider_reader(state.provider),
        released=await room.blobs.get(call.release.payload_blob) if call.release is not None else None,
    )
    return Bench(tool, arguments, context, hands)


class _Shower:
    """Shows the first `SHOWN_BYTES_MAX` bytes of output, made safe; the whole lies in the outcome.

    `skip_utf16` units of the text are known from an earlier daemon and not shown again.
    """

    def __init__(self, redactor: Redactor, pieces: Coalescer, skip_utf16: int) -> None:
        self._stream, self._redactor = StreamRedactor(redactor), redactor
        self._cleaner, self._pieces, self._skip = OutputCleaner(), pieces, skip_utf16
        self._taken = 0

    async def show(self, piece: bytes) -> None:
        """Show what of a piece may be shown already."""
        room = SHOWN_BYTES_MAX - self._taken
        if room < 0:
            return
        self._taken += len(piece)
        text = self._cleaner.feed(self._stream.feed_bytes(piece[:room]))
        if self._taken > SHOWN_BYTES_MAX:
            text += self._cleaner.finish() + NOT_SHOWN
        await self._give(text)

    async def finish(self) -> None:
        """Show what was held back; the output has ended."""
        if self._taken <= SHOWN_BYTES_MAX:
            await self._give(self._cleaner.feed(self._stream.finish_bytes()) + self._cleaner.finish())

    async def _give(self, text: str) -> None:
        text = self._redactor.redact(text)
        known = min(self._skip, utf16_length(text))
        self._skip -= known
        text = text[utf16_index(text, known) or 0 :]
        if text:
            await self._pieces.add(text)


async def judge_call(actor: Actor, effect: JudgeCall, running: Running) -> tuple[Effect, ...]:
    """Plan the call and ask policy; nothing is done yet."""
    call = actor.state.call(effect.call_id)
    if call is None:
        return ()
    while True:
        seen = _footing(actor, actor.state)
        given = await _judged(actor, call, running)
        if isinstance(given, CallJudged) and given.card is not None:
            given = await _with_neighbours(actor, given)
        try:
            due = await actor.submit_if(partial(_stands_on, actor, seen), given)
        except GloveportError as error:
            if error.code is not ErrorCode.SUPERSEDED:
                raise
            continue  # another session used the right first
        if due is not None:
            return due


async def _judged(actor: Actor, call: Call, running: Running) -> CallJudged | CallRejected:
    """Plan one call and judge it; what leaves with it is stored before anything refers to it."""
    try:
        bench = await lay_out(actor, call, running)
        plan = await bench.tool.plan(bench.arguments, bench.context)
        if plan.payload is not None:
            await actor.room.blobs.put(plan.payload.data)
        known = await understand_plan(plan, bench.hands, actor.workspace)
        carried = await beside_it(actor, plan, bench.hands)
        return judge(actor, call, plan, bench.hands, known, carried)
    except GloveportError as error:
        if is_fatal(error):
            raise
        return CallRejected(call.call_id, actor.room.redactor.redact(error.advice))


async def _with_neighbours(actor: Actor, first: CallJudged) -> CallJudged:
    """The judgement, with those of the calls right behind it that ask for the same kind of thing.

    One that could only be planned after the first has run, or is judged otherwise, ends the row.
    """
    row, turn = [first], actor.state.turn
    for call in neighbours(turn, first.call_id)[: TOGETHER_MAX - 1] if turn is not None else ():
        next_one = await _judged(actor, call, Running())
        if isinstance(next_one, CallRejected) or next_one.card is None:
            break
        if not may_join([one.card.card for one in row if one.card is not None], next_one.card.card):
            break
        row.append(next_one)
    return together(row)


def _stands_on(actor: Actor, seen: tuple[object, ...], state: SessionState) -> bool:
    return _footing(actor, state) == seen


def _footing(actor: Actor, state: SessionState) -> tuple[object, ...]:
    """What a judgement stands on and others may change meanwhile: trust, rung, rights and words."""
    shared = actor.room.rights.footing(state.workspace_id)
    rights = (tuple(state.grants), tuple(state.grant_uses.items()), shared)
    return (state.trust_level, state.sandbox, state.image, state.unanswered_look, *rights)


async def run_tool(actor: Actor, effect: RunTool | AttachTool, running: Running) -> tuple[Effect, ...]:
    """Perform the call whose intent is on disk, or find the outcome of one that outlived the last daemon."""
    call = actor.state.call(effect.call_id)
    if call is None or call.started is None:
        return ()

    async def write(text: str) -> None:
        await actor.submit(ToolProgressed(effect.call_id, text))

    attach = isinstance(effect, AttachTool)
    began = None if attach else actor.room.now_us()
    async with coalescing(write) as pieces:
        shower = _Shower(actor.room.redactor, pieces, call.shown_utf16 if attach else 0)
        done = await _perform(actor, call, running, shower.show, attach=attach)
        await shower.finish()
    blob = await _kept(actor, done)
    done = without_secrets(done, actor.room.redactor)
    done = replace(done, label=await result_label(actor, call, done))
    if not _may_change(call.started.effects):
        return await actor.submit(_ended(actor, call, running, done, blob, began))
    label = join_labels(done.label, written_label(actor))
    origin = Origin(_turn_id(actor), call.goal_revision, call.call_id, label)
    async with actor.reviewing:
        looked = await looked_through(actor, call, await look(actor, origin))
        done = await with_what_stays(actor, call, done, began or 0)
        try:
            return await actor.submit(_ended(actor, call, running, done, blob, began, looked))
        except GloveportError as error:
            if error.code not in UNWRITTEN or not looked.facts:
                raise
            words = f"What this changed is too much to be shown and is not proposed: {error.message}"
            return await actor.submit(_ended(actor, call, running, done, blob, began, Looked((), words)))


def _ended(
    actor: Actor,
    call: Call,
    running: Running,
    done: Performed,
    blob: str | None,
    began: int | None,
    looked: Looked = NOTHING_NEW,
) -> ToolEnded:
    known, turn = actor.state.call(call.call_id), actor.state.turn
    asked = running.stop.is_set() or (known is not None and known.stop_requested)
    asked = asked or (turn is not None and turn.cancelled_by is not None)
    stopped = asked and _is_killable(call) and done.outcome in ("killed", "failed")
    outcome = "cancelled" if stopped else done.outcome
    text = actor.room.redactor.redact("\n".join(filter(None, (done.text, running.notes.words(), looked.words))))
    about = _turn_id(actor), call.goal_revision, call.call_id
    return ToolEnded(
        call_id=call.call_id,
        outcome=outcome,
        text=text,
        evidence=done.evidence,
        exit_code=done.exit_code,
        output_blob=blob,
        output_bytes=done.output_bytes,
        duration_us=done.lasted_us if began is None else max(0, actor.room.now_us() - began),
        label=done.label,
        facts=(
            *done.facts,
            *running.notes.fact(*about),
            *hint_facts(call, about[0], text),
            *looked.facts,
            *_freeze(actor, call, done),
        ),
    )


def _freeze(actor: Actor, call: Call, done: Performed) -> tuple[SessionFrozen, ...]:
    """The security event of a call that looked like an attack; a session is frozen once."""
    if not done.hostile or actor.state.frozen:
        return ()
    evidence = actor.room.redactor.redact(done.hostile)
    told = SessionFrozen(freeze_id=call.call_id, call_id=call.call_id, evidence=evidence, words=done.hostile_words)
    return (told,)


def _is_killable(call: Call) -> bool:
    return call.started is None or call.started.stop_class == "killable"


def _turn_id(actor: Actor) -> str:
    return actor.state.turn.turn_id if actor.state.turn else ""


def _may_change(effects: tuple[Any, ...]) -> bool:
    return any(effect.kind not in ("read", "search") for effect in effects)


async def _perform(actor: Actor, call: Call, running: Running, show: Show, *, attach: bool) -> Performed:
    label = workspace_label(actor.state)
    try:
        bench = await lay_out(actor, call, running, show)
        if attach and call.started is not None:
            return await bench.tool.attach(bench.arguments, call.started.fingerprint, bench.context)
        if running.stop.is_set():
            return Performed("cancelled", STOPPED_TEXT, "not begun", label)
        if call.started is not None and _is_killable(call) and not call.started.executor.startswith(SANDBOX):
            return await _look_unless_stopped(bench, running, label)
        return await bench.tool.perform(bench.arguments, bench.context)
    except GloveportError as error:
        if is_fatal(error):
            raise
        outcome = _OUTCOMES.get(error.code, "failed")
        return Performed(outcome, error.advice, f"{error.code}: {error.message}", label)


async def _look_unless_stopped(bench: Bench, running: Running, label: LabelRecord) -> Performed:
    """Do what only looks, until it ends or a stop comes; what a thread still reads then is dropped."""
    done = Performed("cancelled", STOPPED_LOOKING, "stopped while it looked; it changes nothing", label)
    failure: GloveportError | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_when_stopped, running.stop, tasks.cancel_scope)
        try:
            done = await bench.tool.perform(bench.arguments, bench.context)
        except GloveportError as error:
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return done


async def _cancel_when_stopped(stop: anyio.Event, scope: anyio.CancelScope) -> None:
    await stop.wait()
    scope.cancel()


async def _kept(actor: Actor, done: Performed) -> str | None:
    if not done.output:
        return None
    return (await actor.room.blobs.put(actor.room.redactor.redact_bytes(done.output))).digest


async def forget_run(actor: Actor, started: ToolExecutionStarted) -> None:
    """The end of a run is in the journal: what the sandbox kept of it may go."""
    if started.executor.startswith(SANDBOX):
        rung = started.executor.removeprefix(SANDBOX)
        await actor.room.sandboxes.backend(rung).forget(started.call_id)


async def discard_run(actor: Actor, started: ToolExecutionStarted) -> None:
    """Nothing will follow this run any more: end what of it still runs, by its recorded identity, and its folder."""
    if started.executor.startswith(SANDBOX):
        backend = actor.room.sandboxes.backend(started.executor.removeprefix(SANDBOX))
        execution = await backend.attach(started.call_id)
        if execution is not None:
            await execution.stop()
            await backend.forget(started.call_id)


async def reconcile_call(actor: Actor, call: Call) -> CallReconciled:
    """Find out what became of a call that was running when the last daemon ended. Changes nothing."""
    started = call.started
    if started is None or started.recovery == "opaque":
        return CallReconciled(call.call_id, "unknown", "there is nobody who could be asked what became of it")
    if started.recovery in REPEATABLE:
        return CallReconciled(call.call_id, "not_started", "it changes nothing that making it again would change twice")
    try:
        bench = await lay_out(actor, call, Running())
        found = await bench.tool.reconcile(bench.arguments, started.fingerprint, bench.context)
    except GloveportError as error:
        if is_fatal(error):
            raise
        return CallReconciled(call.call_id, "unknown", f"{error.code}: {error.message}")
    return CallReconciled(call.call_id, found.finding, found.evidence)


async def card_holds(actor: Actor, asked: ApprovalRequested, call: Call) -> bool | None:
    """Whether the card says what would be asked now: arguments, files, goal, trust and rung. Changes nothing.

    None: it cannot be told now; the call is judged again when the card is answered.
    """
    if asked.expires_at is not None and asked.expires_at <= actor.room.latest_us():
        return False
    try:
        bench = await lay_out(actor, call, Running())
        plan = await bench.tool.plan(bench.arguments, bench.context)
        known = await understand_plan(plan, bench.hands, actor.workspace)
        judged = judge(actor, call, plan, bench.hands, known, await beside_it(actor, plan, bench.hands))
    except GloveportError as error:
        if is_fatal(error):
            raise
        return None
    return judged.card is not None and card_digest(placed_like(judged.card.card, asked.card)) == asked.card_digest


async def recheck_others(actor: Actor, by: str) -> tuple[Effect, ...]:
    """A right was given that lasts: a card that waits, and would say something else now, is taken back."""
    due: list[Effect] = []
    for asked in tuple(actor.state.approvals.values()):
        call = actor.state.call(asked.call_id)
        if call is not None and await card_holds(actor, asked, call) is False:
            due += await actor.submit(ApprovalRechecked(asked.approval_id, holds=False, by=by))
    return tuple(due)
