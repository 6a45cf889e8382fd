"""One tool call, from its judgement to its end.

Purpose: plan, have policy judge, perform, and bring the outcome back with what changed in the worktree.
Invariant: what runs is what was planned and judged: the same arguments, the same argument vector, the same rung.
Must never: decide whether a call is allowed.
"""

from dataclasses import dataclass
from typing import Any, Final

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.server.engine.actor import FATAL, Actor, Running
from gloveport.server.engine.coalesce import Coalescer, coalescing
from gloveport.server.engine.hands import Hands, Place, own_python
from gloveport.server.engine.judging import judge
from gloveport.server.engine.proposals import Origin, changed_facts
from gloveport.server.session.state import Call, SessionState
from gloveport.server.tools.contract import Arguments, Performed, Tool, ToolContext, parse
from gloveport.server.tools.output import clean_output
from gloveport.server.turn.effects import AttachTool, Effect, JudgeCall, RunTool
from gloveport.server.turn.inputs import CallJudged, CallReconciled, CallRejected, ToolEnded, ToolProgressed

SHOWN_BYTES_MAX: Final = 128 * 1024
NOT_SHOWN: Final = "\n[more output is kept and not shown here]"


@dataclass(frozen=True, slots=True)
class Bench:
    """A call laid out: its tool, its parsed arguments and what it may touch."""

    tool: Tool
    arguments: Arguments
    context: ToolContext
    hands: Hands


def workspace_label(state: SessionState) -> LabelRecord:
    """The label of what lies in the session's workspace."""
    integrity = 1 if state.trust_level in ("trusted", "restricted") else 2
    return LabelRecord(integrity=integrity, readers=None, provenance=("workspace",))


async def lay_out(actor: Actor, call: Call, running: Running, pieces: Coalescer | None) -> Bench:
    """Everything a call needs. Raises GloveportError: unknown tool, wrong arguments, sandbox unavailable."""
    room, state = actor.room, actor.state
    tool = room.toolbox.find(call.tool)
    arguments = parse(tool.arguments, call.arguments_json)
    backend = room.sandboxes.backend(state.sandbox)
    workspace = actor.workspace
    place = Place(
        root=str(workspace.root),
        worktree=str(workspace.worktree),
        dependency_folders=tuple(str(workspace.root / path) for path in workspace.snapshot.dependency_folders),
        read_only_roots=room.read_only_roots,
    )
    hands = Hands(backend, await room.sandboxes.availability(state.sandbox), place, state.trust_level, running.stop)
    python = own_python(workspace.root)
    context = ToolContext(
        call_id=call.call_id,
        turn_id=_turn_id(actor),
        goal_revision=call.goal_revision,
        workspace=workspace,
        hands=hands,
        label=workspace_label(state),
        python=python or room.python,
        python_is_own=python is not None,
        show=_Shower(room.redactor.redact, pieces).show,
        fingerprint=call.started.fingerprint if call.started is not None else (),
    )
    return Bench(tool, arguments, context, hands)


class _Shower:
    """Shows the first `SHOWN_BYTES_MAX` bytes of output; the whole lies in the outcome."""

    def __init__(self, redact: Any, pieces: Coalescer | None) -> None:
        self._redact, self._pieces = redact, pieces
        self._shown = 0

    async def show(self, piece: bytes) -> None:
        """Show a piece, made safe."""
        if self._pieces is None or self._shown > SHOWN_BYTES_MAX:
            return
        self._shown += len(piece)
        text = self._redact(clean_output(piece))
        if self._shown > SHOWN_BYTES_MAX:
            text += NOT_SHOWN
        if text:
            await self._pieces.add(text)


async def judge_call(actor: Actor, effect: JudgeCall, running: Running) -> tuple[Effect, ...]:
    """Plan the call and ask policy; nothing is done yet."""
    call = actor.state.call(effect.call_id)
    if call is None:
        return ()
    try:
        bench = await lay_out(actor, call, running, None)
        plan = await bench.tool.plan(bench.arguments, bench.context)
        given: CallJudged | CallRejected = judge(actor, call, plan, bench.hands)
    except GloveportError as error:
        if error.code in FATAL:
            raise
        given = CallRejected(effect.call_id, error.advice)
    return await actor.submit(given)


async def run_tool(actor: Actor, effect: RunTool | AttachTool, running: Running) -> tuple[Effect, ...]:
    """Perform the call whose intent is on disk, or find the outcome of one that outlived the last daemon."""
    call = actor.state.call(effect.call_id)
    if call is None or call.started is None:
        return ()

    async def write(text: str) -> None:
        await actor.submit(ToolProgressed(effect.call_id, text))

    began = actor.room.now_us()
    async with coalescing(write, actor.room.tasks) as pieces:
        done = await _perform(actor, call, running, pieces, attach=isinstance(effect, AttachTool))
    facts = done.facts
    if _may_change(call.started.effects):
        origin = Origin(_turn_id(actor), call.goal_revision, call.call_id, workspace_label(actor.state))
        facts += changed_facts(actor.state, await actor.workspace.proposals(), origin)
    outcome = "cancelled" if running.stop.is_set() and done.outcome in ("killed", "failed") else done.outcome
    ended = ToolEnded(
        call_id=call.call_id,
        outcome=outcome,
        text=actor.room.redactor.redact(done.text),
        evidence=done.evidence,
        exit_code=done.exit_code,
        output_blob=await _kept(actor, done),
        output_bytes=done.output_bytes,
        duration_us=max(0, actor.room.now_us() - began),
        label=done.label,
        facts=facts,
    )
    effects = await actor.submit(ended)
    await _forget(actor, call)
    return effects


def _turn_id(actor: Actor) -> str:
    return actor.state.turn.turn_id if actor.state.turn else ""


def _may_change(effects: tuple[Any, ...]) -> bool:
    return any(effect.kind not in ("read", "search") for effect in effects)


async def _perform(actor: Actor, call: Call, running: Running, pieces: Coalescer, *, attach: bool) -> Performed:
    label = workspace_label(actor.state)
    try:
        bench = await lay_out(actor, call, running, pieces)
        if attach and call.started is not None:
            return await bench.tool.attach(bench.arguments, call.started.fingerprint, bench.context)
        return await bench.tool.perform(bench.arguments, bench.context)
    except GloveportError as error:
        if error.code in FATAL:
            raise
        outcome: Any = "lost" if error.code is ErrorCode.SANDBOX_LOST else "failed"
        return Performed(outcome, error.advice, f"{error.code}: {error.message}", label)


async def _kept(actor: Actor, done: Performed) -> str | None:
    if not done.output:
        return None
    text = actor.room.redactor.redact(done.output.decode("utf-8", "surrogateescape"))
    return (await actor.room.blobs.put(text.encode("utf-8", "surrogateescape"))).digest


async def _forget(actor: Actor, call: Call) -> None:
    if call.started is not None and call.started.executor.startswith("sandbox:"):
        with anyio.CancelScope(shield=True):
            await actor.room.sandboxes.backend(actor.state.sandbox).forget(call.call_id)


async def reconcile_call(actor: Actor, call: Call) -> CallReconciled:
    """Find out what became of a call that was running when the last daemon ended. Changes nothing."""
    try:
        bench = await lay_out(actor, call, Running(), None)
        fingerprint = call.started.fingerprint if call.started is not None else ()
        found = await bench.tool.reconcile(bench.arguments, fingerprint, bench.context)
    except GloveportError as error:
        if error.code in FATAL:
            raise
        return CallReconciled(call.call_id, "unknown", f"{error.code}: {error.message}")
    return CallReconciled(call.call_id, found.finding, found.evidence)
