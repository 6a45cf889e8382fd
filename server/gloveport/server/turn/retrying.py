"""How a failed request goes on: wait and ask again, shorten and ask again, or end the turn.

Purpose: the transitions that the table of retries asks for.
Invariant: the one owner of retries; after a stop nothing is asked again; a finished call is never made again, since a
    retry asks with the history as it is.
Must never: believe a timer of a pause that is over, or count an overflow less because a new turn began.
"""

from typing import Any

from gloveport.protocol.errors import ERRORS, ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import Request, Turn
from gloveport.server.turn import flow
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import Draft
from gloveport.server.turn.effects import Effect, ShrinkContext, WaitRetry
from gloveport.server.turn.retry import (
    ATTEMPTS_MAX,
    OVERFLOW_TRIES_MAX,
    GiveUp,
    Treatment,
    Tried,
    overflow_words,
    plan_retry,
    stop_words,
    treatment_of,
)


def _born(turn: Turn) -> dict[str, Any]:
    return {"turn_id": turn.turn_id, "goal_revision": turn.goal_revision}


def record_spent(draft: Draft, given: inp.RequestFailed, request: Request) -> None:
    """What the provider had counted of a request that broke off: a retry pays for it once more."""
    if given.input_tokens is None and given.output_tokens is None:
        return
    draft.emit(
        ev.UsageRecorded(
            turn_id=draft.turn.turn_id,
            goal_revision=request.goal_revision,
            request_id=given.request_id,
            input_tokens=given.input_tokens,
            output_tokens=given.output_tokens,
            cached_tokens=given.cached_tokens,
        )
    )


def failed(draft: Draft, given: inp.RequestFailed, request: Request) -> None:
    """Decide what a failed request of a turn that was not stopped leads to; its end is written already."""
    trouble = given.trouble
    if trouble is None:
        flow.end_failed(draft, given.code, given.message, given.hint)
        return
    match treatment_of(trouble.error_class):
        case Treatment.BACK_OFF:
            _back_off(draft, given, trouble, request)
        case Treatment.SHRINK:
            _overflowed(draft, given, request)
        case _:
            flow.end_failed(draft, given.code, stop_words(trouble.error_class, given.message), given.hint)


def _back_off(draft: Draft, given: inp.RequestFailed, trouble: inp.Trouble, request: Request) -> None:
    turn = draft.turn
    planned = plan_retry(
        trouble.error_class,
        given.message,
        given.hint,
        Tried(turn.attempt, turn.waited_us),
        trouble.pause_us,
        request.request_id,
        trouble.now_us,
    )
    if isinstance(planned, GiveUp):
        flow.end_failed(draft, given.code, planned.message, planned.hint)
        return
    draft.emit(
        ev.RetryScheduled(
            **_born(turn),
            request_id=request.request_id,
            attempt=planned.attempt,
            attempts_max=ATTEMPTS_MAX,
            error_class=trouble.error_class,
            backoff_us=planned.backoff_us,
            floor=planned.floor,
            due_at=trouble.now_us + planned.backoff_us,
            provider_request_id=trouble.provider_request_id or request.provider_request_id,
            reason=given.message,
        )
    )
    draft.need(WaitRetry(request.request_id))


def due(draft: Draft, given: inp.RetryDue) -> None:
    """The pause is over: ask again with the history as it is now."""
    turn = draft.state.turn
    if turn is None or turn.retry is None or turn.retry.request_id != given.request_id:
        return
    flow.ask_model(draft)


def _overflowed(draft: Draft, given: inp.RequestFailed, request: Request) -> None:
    turn, count = draft.turn, draft.state.overflows + 1
    draft.emit(ev.ContextOverflowed(**_born(turn), request_id=request.request_id, count=count))
    if count > OVERFLOW_TRIES_MAX:
        _end_overflowed(draft, given.message)
        return
    compaction_id = f"{turn.turn_id}.k{draft.state.compactions + 1}"
    reason = "the conversation is larger than the model's window"
    draft.emit(ev.CompactionStarted(**_born(turn), compaction_id=compaction_id, reason=reason))
    draft.need(ShrinkContext(compaction_id))


def _end_overflowed(draft: Draft, why: str) -> None:
    hint = ERRORS[ErrorCode.MODEL_CONTEXT].hint
    flow.end_failed(draft, ErrorCode.MODEL_CONTEXT, overflow_words(draft.state.overflows, why), hint)


def _compacting(draft: Draft, compaction_id: str) -> Turn | None:
    turn = draft.state.turn
    return turn if turn is not None and turn.compaction == compaction_id else None


def shrunk(draft: Draft, given: inp.ContextShrunk) -> None:
    """The model will be shown less: ask again. A result that is no smaller is none."""
    turn = _compacting(draft, given.compaction_id)
    if turn is None:
        return
    if not given.results or given.chars_after >= given.chars_before:
        shrink_failed(draft, inp.ShrinkFailed(given.compaction_id, "nothing of it can be shortened any more"))
        return
    draft.emit(
        ev.ContextCompacted(
            **_born(turn),
            compaction_id=given.compaction_id,
            results=given.results,
            chars_before=given.chars_before,
            chars_after=given.chars_after,
        )
    )
    flow.ask_model(draft)


def shrink_failed(draft: Draft, given: inp.ShrinkFailed) -> None:
    """Nothing became smaller: the turn ends and says what can be done."""
    turn = _compacting(draft, given.compaction_id)
    if turn is None:
        return
    draft.emit(ev.CompactionDiscarded(**_born(turn), compaction_id=given.compaction_id, reason=given.message))
    _end_overflowed(draft, given.message)


def pending(turn: Turn) -> Effect | None:
    """What a restarted engine goes on waiting for; a half compaction left nothing and is made from the whole again."""
    if turn.retry is not None:
        return WaitRetry(turn.retry.request_id)
    return ShrinkContext(turn.compaction) if turn.compaction is not None else None
