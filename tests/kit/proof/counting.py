"""Counting proxies around the shipped daemon.

Purpose: turn journal writes, effects, tools, the sandbox and the model's parts into points of a `Meter`.
Invariant: a proxy passes everything through unchanged; without an aim the daemon behaves as shipped.
Must never: decide, delay or swallow anything.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from functools import wraps
from types import MappingProxyType
from typing import Any, Final

from tests.kit.proof.progress import ERASURE, RECOVERY, RULES, TOLD, Meter, count_file_steps, current

from gloveport.protocol.journal import events as ev
from gloveport.server.engine.actor import Actor
from gloveport.server.session.state import CallStage, SessionState
from gloveport.server.turn import effects as eff

CLASSES: Final = MappingProxyType(
    {
        "read_file": "read_only", "list_files": "read_only", "search": "read_only", "update_plan": "idempotent",
        "edit_file": "fingerprinted", "write_file": "fingerprinted", "delete_file": "fingerprinted",
        "run_command": "probeable", "run_tests": "probeable",
    }
)  # fmt: skip


def run_label(tool: str) -> str:
    """The row of a tool's run: its recovery capability decides what a restart may do."""
    return f"RunTool/{CLASSES.get(tool, 'opaque')}"


def label_of(effect: eff.Effect, state: SessionState) -> str:
    """The row of an effect."""
    match effect:
        case eff.RunTool(call_id):
            call = state.call(call_id)
            return run_label(call.tool if call is not None else "")
        case eff.ApplyChanges(apply_id):
            started = state.applying.get(apply_id)
            return f"ApplyChanges/{started.action if started is not None else 'ended'}"
        case _:
            return type(effect).__name__


def outcomes_of(before: SessionState, body: ev.EventBody) -> set[str]:
    """The rows of the effects that an event ends."""
    stopping = before.turn is not None and before.turn.cancelled_by is not None
    match body:
        case ev.ModelResponseReceived() | ev.ModelStreamInterrupted():
            return {"CallModel", *(("StopModel",) if stopping else ())}
        case ev.PolicyDecided():
            return {"JudgeCall"}
        case ev.ToolExecutionFinished():
            call = before.call(body.call_id)
            if call is None or call.stage is not CallStage.RUNNING:
                return set()
            return {"AttachTool" if current.get() == "AttachTool" else run_label(body.tool)} | (
                {"StopTool"} if stopping else set()
            )
        case ev.ChangeApplied() | ev.ChangeRefused() | ev.ChangeUnsettled():
            return {f"ApplyChanges/{body.action}"}
        case ev.RecoverySummarised() | ev.ToolReconciled():
            return {RECOVERY}
        case ev.OutcomeTold() | ev.SessionRulesSet():
            return {TOLD if isinstance(body, ev.OutcomeTold) else RULES}
        case _:
            return set()


def count_commits(meter: Meter) -> None:
    """Every COMMIT is two points: before it, and after it while nobody was answered yet."""

    class Counted(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if sql != "COMMIT":
                if sql == "VACUUM":
                    meter.hit(f"{ERASURE}|performing")
                return super().execute(sql, *arguments)
            meter.committing(("intent", "outcome"))
            cursor = super().execute(sql, *arguments)
            meter.committing(("intended", "recorded"))
            return cursor

    real = sqlite3.connect

    @wraps(real)
    def connect(*arguments: Any, **named: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = real(*arguments, **{"factory": Counted, **named})
        return made

    sqlite3.connect = connect  # type: ignore[assignment]  # - a proxy takes its place


def count_appends(meter: Meter) -> None:
    """What a session's append is about: the effects that it asks for and those that it ends."""
    real = Actor._append

    @wraps(real)
    async def append(self: Actor, decided: Any, *rest: Any) -> None:
        ended = {mark for body in decided.events for mark in outcomes_of(self.state, body)}
        meter.hit(*(f"{mark}|performed" for mark in sorted(ended)))
        asked = {f"{label_of(effect, decided.state)}|intent" for effect in decided.effects}
        marks = frozenset({*asked, *(f"{mark}|outcome" for mark in ended)})
        meter.writing.append(marks)
        try:
            await real(self, decided, *rest)
        finally:
            meter.writing.remove(marks)

    setattr(Actor, "_append", append)  # noqa: B010 - a proxy around the shipped method


def count_effects(meter: Meter) -> None:
    """Effects as they become due and begin. Before anything else imports `start`."""
    from gloveport.server.engine import perform

    start, run = perform.start, perform._run

    @wraps(start)
    def counted_start(actor: Actor, effects: tuple[eff.Effect, ...]) -> None:
        for effect in effects:
            label = label_of(effect, actor.state)
            meter.hit(f"{label}|due")
            if isinstance(effect, eff.StopModel | eff.StopTool):
                meter.hit(f"{label}|performing")
            start(actor, (effect,))

    @wraps(run)
    async def counted_run(actor: Actor, effect: eff.Effect, *rest: Any) -> None:
        current.set(label_of(effect, actor.state))
        meter.inside()
        await run(actor, effect, *rest)

    perform.start = counted_start
    setattr(perform, "_run", counted_run)  # noqa: B010 - a proxy around the shipped function


def around(meter: Meter, owner: Any, name: str, label: str | None = None) -> None:
    """A method of the engine's neighbours: a point before and a point after it."""
    real: Callable[..., Awaitable[Any]] = getattr(owner, name)

    @wraps(real)
    async def counted(*arguments: Any, **named: Any) -> Any:
        if label == ERASURE or (label is not None and current.get().startswith(("RunTool", "AttachTool"))):
            current.set(label)
        meter.inside()
        result = await real(*arguments, **named)
        meter.inside()
        return result

    setattr(owner, name, counted)


def count_recovery(meter: Meter) -> None:
    """Opening a session that was under way."""
    from gloveport.server.engine.sessions import Sessions

    real = Sessions.open

    @wraps(real)
    async def opened(self: Sessions, session_id: str) -> Actor:
        known = self.loaded(session_id)
        if known is not None and not known.stale:
            return await real(self, session_id)
        before = current.set(RECOVERY)
        try:
            meter.inside()
            return await real(self, session_id)
        finally:
            meter.inside()
            current.reset(before)

    Sessions.open = opened  # type: ignore[method-assign]  # - a proxy takes its place


def count_neighbours(meter: Meter) -> None:
    """What effects are made of: the model's parts, tools, programs, writes into the user's files."""
    from gloveport.sandbox.backends.execution import SupervisedExecution
    from gloveport.sandbox.backends.supervised import RunFolders
    from gloveport.server.engine import model_run
    from gloveport.server.tools.toolbox import Toolbox
    from gloveport.server.workspace.facade import SessionWorkspace

    around(meter, model_run, "_take")
    around(meter, RunFolders, "start")
    around(meter, RunFolders, "forget")
    around(meter, SupervisedExecution, "result")
    around(meter, SupervisedExecution, "stop", "StopTool")
    around(meter, SessionWorkspace, "apply")
    around(meter, SessionWorkspace, "settle")
    find = Toolbox.find
    seen: set[type] = set()

    @wraps(find)
    def found(self: Toolbox, name: str) -> Any:
        tool: Any = find(self, name)
        if type(tool) not in seen:
            seen.add(type(tool))
            for part in ("plan", "perform", "reconcile", "attach"):
                around(meter, type(tool), part)
        return tool

    Toolbox.find = found  # type: ignore[method-assign]  # - a proxy takes its place


def count_erasures(meter: Meter) -> None:
    """Looking for what is to be erased, the bodies that go first, and the transaction with what follows it."""
    from gloveport.server.engine import erasing

    for name in ("_find", "_erase_outputs", "_write"):
        around(meter, erasing, name, ERASURE)
    real = erasing._write

    @wraps(real)
    async def written(*arguments: Any) -> None:
        marks = frozenset({f"{ERASURE}|outcome"})
        meter.writing.append(marks)
        try:
            await real(*arguments)
        finally:
            meter.writing.remove(marks)

    setattr(erasing, "_write", written)  # noqa: B010 - a proxy around the shipped function


def count_everything(meter: Meter) -> None:
    """All proxies, in the order in which they have to be put around."""
    count_commits(meter)
    count_effects(meter)
    count_appends(meter)
    count_recovery(meter)
    count_neighbours(meter)
    count_erasures(meter)
    count_file_steps(meter)
