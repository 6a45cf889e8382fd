"""The agent loop as a pure function.

Purpose: `step(state, input)` decides what happened and what to do next.
Invariant: no tool starts and no request is sent after a stop; each proposed call gets exactly one finish;
    a late input (of an ended turn, call or request) changes nothing.
Must never: perform anything, or believe an input that the state contradicts.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import SessionState
from gloveport.server.turn import calls, freezing, messages, restart, retrying, review, telling
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.arguments import text_digest
from gloveport.server.turn.bounds import estimate_spent
from gloveport.server.turn.draft import Draft, Step, read_only_refusal
from gloveport.server.turn.effects import Effect, JudgeCall
from gloveport.server.turn.flow import advance, end_cancelled, finish_turn


def _accepted(draft: Draft, accepted: inp.RequestAccepted) -> None:
    turn = draft.state.turn
    if turn is None or turn.request is None or turn.request.request_id != accepted.request_id:
        return
    draft.emit(
        ev.ModelRequestAccepted(
            turn_id=turn.turn_id,
            goal_revision=turn.request.goal_revision,
            request_id=accepted.request_id,
            provider_request_id=accepted.provider_request_id,
        )
    )


def _text(draft: Draft, piece: inp.TextArrived) -> None:
    turn = draft.state.turn
    if turn is None or turn.request is None or turn.request.request_id != piece.request_id:
        return
    draft.emit(
        ev.ModelTextDelta(
            turn_id=turn.turn_id,
            goal_revision=turn.request.goal_revision,
            request_id=piece.request_id,
            offset=turn.request.text_utf16,
            text=piece.text,
        )
    )


def _response(draft: Draft, ended: inp.ResponseEnded) -> None:
    turn = draft.state.turn
    if turn is None or turn.request is None or turn.request.request_id != ended.request_id:
        return
    records = calls.record_calls(turn, ended.calls)
    born: dict[str, Any] = {"turn_id": turn.turn_id, "goal_revision": turn.request.goal_revision}
    draft.emit(
        ev.ModelResponseReceived(
            **born,
            request_id=ended.request_id,
            text=turn.request.text,
            calls=records,
            stop=ended.stop,
            text_digest=text_digest(turn.request.text),
        ),
        ev.UsageRecorded(
            **born,
            request_id=ended.request_id,
            input_tokens=ended.input_tokens,
            output_tokens=ended.output_tokens,
            cached_tokens=ended.cached_tokens,
        ),
    )
    estimate_spent(draft, ended, turn.request)
    calls.propose_calls(draft, records, turn.request.goal_revision)
    if turn.cancelled_by is not None:
        calls.withdraw_unstarted(draft, calls.STOPPED_TEXT)
    elif turn.is_request_late:
        calls.withdraw_unstarted(draft, messages.REVISED_TEXT)
    if records:
        advance(draft)
    else:
        finish_turn(draft, ended.stop)


def _request_failed(draft: Draft, failed: inp.RequestFailed) -> None:
    turn = draft.state.turn
    if turn is None or turn.request is None or turn.request.request_id != failed.request_id:
        return
    draft.emit(
        ev.ModelStreamInterrupted(
            turn_id=turn.turn_id,
            goal_revision=turn.request.goal_revision,
            request_id=failed.request_id,
            kept_utf16=turn.request.text_utf16,
            code=failed.code,
            reason=failed.message,
        )
    )
    retrying.record_spent(draft, failed, turn.request)
    estimate_spent(draft, failed, turn.request)
    if turn.cancelled_by is not None:
        end_cancelled(draft)
    elif turn.is_request_late:
        advance(draft)
    else:
        retrying.failed(draft, failed, turn.request)


_HANDLERS: Final[Mapping[type[Any], Callable[[Draft, Any], None]]] = MappingProxyType(
    {
        inp.SendMessage: messages.send,
        inp.UnqueueMessage: messages.unqueue,
        inp.EditMessage: messages.edit,
        inp.SteerMessage: messages.steer,
        inp.InterruptMessage: messages.interrupt,
        inp.CancelTurn: messages.cancel,
        inp.ThawSession: freezing.thaw,
        inp.FreezeSession: freezing.freeze,
        inp.TellOutcome: telling.tell,
        inp.RequestAccepted: _accepted,
        inp.TextArrived: _text,
        inp.ResponseEnded: _response,
        inp.RequestFailed: _request_failed,
        inp.RetryDue: retrying.due,
        inp.ContextShrunk: retrying.shrunk,
        inp.ShrinkFailed: retrying.shrink_failed,
        inp.CallJudged: calls.judged,
        inp.CallRejected: calls.rejected,
        inp.ApprovalAnswered: calls.answered,
        inp.ToolProgressed: calls.progressed,
        inp.ToolEnded: calls.ended,
        inp.CallReconciled: calls.reconciled,
        inp.RequestInterrupted: restart.interrupted,
        inp.ApprovalRechecked: restart.rechecked,
        inp.RecordLost: restart.record_lost,
        inp.TakenUp: restart.taken_up,
        inp.ApplyRequested: review.requested,
        inp.ApplyDone: review.done,
        inp.ApplyRefused: review.refused,
        inp.ApplyUnsettled: review.unsettled,
    }
)


def step(state: SessionState, given: inp.Input) -> Step:
    """Decide one input. Equal arguments give equal results.

    Raises:
        TurnError: the input is refused; nothing changed.
    """
    if state.read_only:
        raise read_only_refusal(state)
    if state.frozen and isinstance(given, freezing.WAITS_FOR_THAW):
        raise freezing.frozen_refusal(state)
    draft = Draft(state)
    _HANDLERS[type(given)](draft, given)
    return draft.done()


def pending_effects(state: SessionState) -> tuple[Effect, ...]:
    """What a restarted engine has to do again for a state: judge what was not judged yet, wait for what is due.

    Running tools, the model request and unfinished applies are not here: their fate must be found out first.
    """
    if state.turn is None or state.turn.cancelled_by is not None:
        return ()
    if (waits := retrying.pending(state.turn)) is not None:
        return (waits,)
    call = state.turn.next_proposed
    if call is None or state.turn.is_busy:
        return ()
    return (JudgeCall(call.call_id),)
