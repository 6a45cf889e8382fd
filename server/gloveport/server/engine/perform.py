"""Effects as tasks.

Purpose: start what the machine asked for, hand the outcome back, and start what that asks for.
Invariant: an effect that fails in an unforeseen way still ends as an input, with a reference into the log.
Must never: hold a task after its session's journal refused a write.
"""

import logging
from typing import Final

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import ToolExecutionStarted
from gloveport.server.engine.actor import Actor, Running, is_fatal
from gloveport.server.engine.apply_run import apply_changes, settle_apply
from gloveport.server.engine.labelling import written_label
from gloveport.server.engine.model_run import call_model
from gloveport.server.engine.retry_run import shrink_context, wait_retry
from gloveport.server.engine.tool_run import forget_run, judge_call, run_tool
from gloveport.server.turn.effects import (
    ApplyChanges,
    AttachTool,
    CallModel,
    DropWait,
    Effect,
    JudgeCall,
    RunTool,
    ShrinkContext,
    StopModel,
    StopTool,
    WaitRetry,
)
from gloveport.server.turn.inputs import CallRejected, Input, RequestFailed, RetryDue, ShrinkFailed, ToolEnded

STOP_S_MAX: Final = 30.0
"""How long after a stop a call may take to end, beside its own grace; then its outcome is unknown."""

_log = logging.getLogger("gloveport.engine")


def key_of(effect: Effect) -> str:
    """Under which name an effect's task is kept."""
    match effect:
        case CallModel(name) | StopModel(name):
            return f"model/{name}"
        case WaitRetry(name) | DropWait(name):
            return f"retry/{name}"
        case ShrinkContext(name):
            return f"compaction/{name}"
        case ApplyChanges(name):
            return f"apply/{name}"
        case JudgeCall(name):
            return f"judge/{name}"
        case RunTool(name) | AttachTool(name) | StopTool(name):
            return f"tool/{name}"


def start(actor: Actor, effects: tuple[Effect, ...]) -> None:
    """Begin these effects; returns at once."""
    if actor.stale and not actor.running:
        actor.room.tasks.start_soon(revive, actor)
    for effect in effects:
        key = key_of(effect)
        known = actor.running.get(key)
        match effect:
            case StopModel() | DropWait():
                if known is not None:
                    known.scope.cancel()
            case StopTool(call_id):
                if known is not None and not known.stop.is_set():
                    known.stop.set()
                    actor.room.tasks.start_soon(_bound_stop, actor, call_id, known)
            case _:
                running = actor.running[key] = Running()
                actor.room.tasks.start_soon(_run, actor, effect, key, running)


async def _run(actor: Actor, effect: Effect, key: str, running: Running) -> None:
    due: tuple[Effect, ...] = ()
    begun = _begun(actor, effect)
    try:
        if isinstance(effect, CallModel):
            due = await call_model(actor, effect, running.scope)
        else:
            with running.scope:
                due = await _perform(actor, effect, running)
    except GloveportError as error:
        _log.error("%s of %s: %s", key, actor.session_id, error.message)
        due = await _refused(actor, effect, error)
    except Exception as error:  # noqa: BLE001 - outer edge: whatever an adapter raises becomes an outcome
        reference = actor.room.new_id("fault")
        _log.exception("%s of %s failed unexpectedly, reference %s", key, actor.session_id, reference)
        due = await _broken(actor, effect, f"unexpected {type(error).__name__}, reference {reference} in the log")
    finally:
        if actor.running.get(key) is running:
            del actor.running[key]
        running.ended.set()
    start(actor, due)
    await _tidy(actor, begun)
    if actor.stale and not actor.running:
        await revive(actor)


async def _bound_stop(actor: Actor, call_id: str, running: Running) -> None:
    """A stop leads to rest whatever an executor does: what does not end in time is left, its outcome unknown.

    What is waited for on purpose has its own time limit, which its supervisor holds.
    """
    call = actor.state.call(call_id)
    if call is None or call.started is None or call.started.stop_class == "opaque":
        return
    with anyio.move_on_after(STOP_S_MAX):
        await running.ended.wait()
        return
    words = f"it had not ended {STOP_S_MAX:g} s after the stop"
    due = await _broken(actor, RunTool(call_id), words)
    running.scope.cancel()
    start(actor, due)


async def revive(actor: Actor) -> None:
    """What ran was dropped since it could not be saved: read the session again, so that it goes on unwatched, too."""
    try:
        await actor.revive()
    except GloveportError as error:  # the disk still refuses
        _log.error("session %s could not be read again: %s", actor.session_id, error.message)
    except Exception:  # noqa: BLE001 - outer edge: whoever opens the session next tries again
        _log.exception("session %s could not be read again", actor.session_id)


async def _refused(actor: Actor, effect: Effect, error: GloveportError) -> tuple[Effect, ...]:
    """An effect that failed in a way it does not know: an outcome, unless the session has to be read again."""
    if actor.stale:
        return ()
    if is_fatal(error):
        actor.poison()
        return ()
    return await _broken(actor, effect, f"{error.code}: {error.message}")


def _begun(actor: Actor, effect: Effect) -> ToolExecutionStarted | None:
    call = actor.state.call(effect.call_id) if isinstance(effect, RunTool | AttachTool) else None
    return call.started if call is not None else None


async def _tidy(actor: Actor, begun: ToolExecutionStarted | None) -> None:
    """Give back what an ended run left; a failure here is no outcome."""
    if begun is None or actor.stale:
        return
    try:
        await forget_run(actor, begun)
    except Exception:  # noqa: BLE001 - outer edge: what is left is given back at the next start
        _log.exception("what %s left could not be removed", begun.call_id)


async def _perform(actor: Actor, effect: Effect, running: Running) -> tuple[Effect, ...]:
    match effect:
        case JudgeCall():
            return await judge_call(actor, effect, running)
        case RunTool() | AttachTool():
            return await run_tool(actor, effect, running)
        case ApplyChanges():
            return await apply_changes(actor, effect)
        case WaitRetry():
            return await wait_retry(actor, effect)
        case ShrinkContext():
            return await shrink_context(actor, effect)
        case _:
            return ()


async def _broken(actor: Actor, effect: Effect, words: str) -> tuple[Effect, ...]:
    try:
        return await _failed(actor, effect, words)
    except Exception:  # noqa: BLE001 - outer edge: the outcome stays open in the journal and is looked at after a restart
        _log.exception("the outcome of %s could not be written", key_of(effect))
        actor.poison()
        return ()


async def _failed(actor: Actor, effect: Effect, words: str) -> tuple[Effect, ...]:
    given: Input
    match effect:
        case CallModel(request_id):
            given = RequestFailed(request_id, ErrorCode.INTERNAL, words, "Look the reference up in the daemon's log.")
        case JudgeCall(call_id):
            given = CallRejected(call_id, words)
        case WaitRetry(request_id):
            given = RetryDue(request_id)
        case ShrinkContext(compaction_id):
            given = ShrinkFailed(compaction_id, words)
        case ApplyChanges(apply_id):
            started = actor.state.applying.get(apply_id)
            return () if started is None else await settle_apply(actor, started)
        case RunTool(call_id) | AttachTool(call_id):
            given = ToolEnded(
                call_id=call_id,
                outcome="unknown",
                text="Whether it took effect is unknown.",
                evidence=words,
                exit_code=None,
                output_blob=None,
                output_bytes=0,
                duration_us=None,
                label=written_label(actor),
            )
        case _:
            return ()
    return await actor.submit(given)
