"""What must hold of a session's log, whoever wrote it.

Purpose: find an event that the state before it makes impossible, and calls whose result a log lost.
Invariant: no history that the machine writes has a contradiction; pure, one look at the state an event.
Must never: mend anything, or refuse an event: what is found is told, and what is to be done is decided elsewhere.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.journal import events as ev
from gloveport.server.session.pairing import orphans
from gloveport.server.session.state import CallStage, SessionState

Check = Callable[[SessionState, Any], str | None]


def contradiction(state: SessionState, body: ev.EventBody) -> str | None:
    """Why this event cannot come on this state; null when it can."""
    check = _CHECKS.get(type(body))
    return None if check is None else check(state, body)


def lost_results(state: SessionState) -> tuple[str, ...]:
    """Ids of calls without a result that nothing will bring any more: their log is not whole."""
    turn = state.turn
    open_calls = {call.call_id for call in turn.calls if call.stage is not CallStage.FINISHED} if turn else set()
    return tuple(call.call_id for call in orphans(state.history) if call.call_id not in open_calls)


def _goal(state: SessionState, body: ev.GoalRevised) -> str | None:
    grows = body.goal_revision > state.goal_revision
    return None if grows else f"goal revision {body.goal_revision} after {state.goal_revision}"


def _turn_started(state: SessionState, body: ev.TurnStarted) -> str | None:
    if state.turn is not None:
        return f"turn {body.turn_id} began while {state.turn.turn_id} ran"
    if state.frozen:
        return f"turn {body.turn_id} began in a frozen session"
    return None if body.goal_revision == state.goal_revision else f"turn {body.turn_id} began under another goal"


def _of_turn(state: SessionState, body: Any) -> str | None:
    name = type(body).__name__
    if state.turn is None:
        return f"{name} of turn {body.turn_id}, which does not run"
    return None if state.turn.turn_id == body.turn_id else f"{name} of turn {body.turn_id} in {state.turn.turn_id}"


def _turn_ended(state: SessionState, body: Any) -> str | None:
    turn = state.turn
    if (fault := _of_turn(state, body)) or turn is None:
        return fault
    if turn.request is not None:
        return f"turn {body.turn_id} ended while a request was under way"
    left = [call.call_id for call in turn.calls if call.stage is not CallStage.FINISHED]
    return f"turn {body.turn_id} ended before {', '.join(left)}" if left else None


def _request(state: SessionState, body: ev.ModelRequestStarted) -> str | None:
    turn = state.turn
    if (fault := _of_turn(state, body)) or turn is None:
        return fault
    if turn.request is not None:
        return f"request {body.request_id} began beside {turn.request.request_id}"
    left = [call.call_id for call in turn.calls if call.stage is not CallStage.FINISHED]
    return f"request {body.request_id} began before {', '.join(left)} ended" if left else None


def _of_request(state: SessionState, body: Any) -> str | None:
    if fault := _of_turn(state, body):
        return fault
    request = state.turn.request if state.turn is not None else None
    known = request is not None and request.request_id == body.request_id
    return None if known else f"{type(body).__name__} of request {body.request_id}, which is not under way"


def _proposed(state: SessionState, body: ev.ToolCallProposed) -> str | None:
    if fault := _of_turn(state, body):
        return fault
    return None if state.call(body.call_id) is None else f"call {body.call_id} was proposed twice"


def _started(state: SessionState, body: ev.ToolExecutionStarted) -> str | None:
    if fault := _of_turn(state, body):
        return fault
    call = state.call(body.call_id)
    if call is None or call.stage is not CallStage.PROPOSED:
        return f"call {body.call_id} began and was {'unknown' if call is None else call.stage}"
    if state.turn is not None and state.turn.cancelled_by is not None:
        return f"call {body.call_id} began after a stop"
    same = call.arguments_digest == body.arguments_digest
    return None if same else f"call {body.call_id} began with other arguments than were proposed"


def _finished(state: SessionState, body: ev.ToolExecutionFinished) -> str | None:
    if fault := _of_turn(state, body):
        return fault
    call = state.call(body.call_id)
    if call is None:
        return f"call {body.call_id} ended and was never proposed"
    return f"call {body.call_id} ended twice" if call.stage is CallStage.FINISHED else None


def _asked(state: SessionState, body: ev.ApprovalRequested) -> str | None:
    if body.approval_id in state.approvals:
        return f"card {body.approval_id} was shown twice"
    call = state.call(body.call_id)
    waits = call is not None and call.stage is CallStage.PROPOSED
    return None if waits else f"card {body.approval_id} asks about no call that waits"


def _answered(state: SessionState, body: ev.ApprovalResolved) -> str | None:
    shown = state.approvals.get(body.approval_id)
    if shown is None:
        return f"card {body.approval_id} was answered and did not wait"
    return None if shown.card_digest == body.card_digest else f"card {body.approval_id} was answered as another card"


def _told(state: SessionState, body: ev.OutcomeTold) -> str | None:
    known = any(one.call_id == body.call_id for one in state.unknowns)
    return None if known else f"the outcome of call {body.call_id} was told and was not unknown"


def _apply_started(state: SessionState, body: ev.ChangeApplyStarted) -> str | None:
    return f"apply {body.apply_id} began beside another" if state.applying else None


def _apply_ended(state: SessionState, body: Any) -> str | None:
    return None if body.apply_id in state.applying else f"apply {body.apply_id} ended and did not run"


_CHECKS: Final[Mapping[type[ev.EventBody], Check]] = MappingProxyType(
    {
        ev.GoalRevised: _goal,
        ev.TurnStarted: _turn_started,
        ev.TurnCompleted: _turn_ended,
        ev.TurnFailed: _turn_ended,
        ev.TurnCancelled: _turn_ended,
        ev.TurnCancelRequested: _of_turn,
        ev.ModelRequestStarted: _request,
        ev.ModelResponseReceived: _of_request,
        ev.ModelStreamInterrupted: _of_request,
        ev.ToolCallProposed: _proposed,
        ev.ToolExecutionStarted: _started,
        ev.ToolExecutionFinished: _finished,
        ev.ApprovalRequested: _asked,
        ev.ApprovalResolved: _answered,
        ev.OutcomeTold: _told,
        ev.ChangeApplyStarted: _apply_started,
        ev.ChangeApplied: _apply_ended,
        ev.ChangeRefused: _apply_ended,
        ev.ChangeUnsettled: _apply_ended,
    }
)
