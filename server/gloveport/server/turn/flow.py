"""How turns begin, go on and end.

Purpose: the few transitions that several inputs share.
Invariant: every started turn ends once; a message that waits for the turn is delivered before its next request, one
    in the queue in the step that ends the turn; both go back to the user when the turn did not complete.
Must never: start anything after a stop.
"""

from typing import Any, Final

from gloveport.protocol.errors import ERRORS, ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import USER_LABEL
from gloveport.server.turn.bounds import budget_refusal, reserve_spend
from gloveport.server.turn.delivery import deliver_steering, return_all, return_steering
from gloveport.server.turn.draft import Draft
from gloveport.server.turn.effects import CallModel, JudgeCall

TURN_REQUESTS_MAX: Final = 100
STOPPED_REASON: Final = "the turn was stopped"


def begin_turn(draft: Draft, message_id: str, turn_id: str, text: str) -> None:
    """Deliver a message and start a turn with it; the goal is revised by it."""
    revision = draft.state.goal_revision + 1
    born: dict[str, Any] = {"turn_id": turn_id, "goal_revision": revision}
    draft.emit(
        ev.GoalRevised(goal_revision=revision, message_id=message_id),
        ev.UserMessageAdded(**born, message_id=message_id, text=text, label=USER_LABEL),
        ev.TurnStarted(**born, message_id=message_id),
    )
    ask_model(draft)


def ask_model(draft: Draft) -> None:
    """Ask the model with what is known now; a turn that asked too often ends instead."""
    turn = draft.turn
    made = turn.requests - turn.held_back
    if made >= TURN_REQUESTS_MAX:
        message = f"the turn made {made} model requests, the most one turn may make"
        end_failed(draft, ErrorCode.LIMIT, message, "Look at what it did, then send a message to go on.")
        return
    if refusal := budget_refusal(draft.state):
        code, words = refusal
        end_failed(draft, code, words, ERRORS[code].hint)
        return
    deliver_steering(draft)
    request_id = f"{turn.turn_id}.r{turn.requests + 1}"
    if turn.retry is not None:
        born: dict[str, Any] = {"turn_id": turn.turn_id, "goal_revision": turn.goal_revision}
        failed = turn.retry.request_id
        draft.emit(ev.RetryStarted(**born, request_id=request_id, retry_of=failed, attempt=turn.attempt))
    draft.emit(
        ev.ModelRequestStarted(
            turn_id=turn.turn_id,
            goal_revision=turn.goal_revision,
            request_id=request_id,
            provider=draft.state.provider,
            model=draft.state.model,
        )
    )
    reserve_spend(draft)
    draft.need(CallModel(request_id))


def advance(draft: Draft) -> None:
    """Go on after the response or a call under way ended: judge the next call, or ask the model again."""
    turn = draft.turn
    if turn.cancelled_by is not None:
        end_cancelled(draft)
        return
    if turn.is_busy:
        return
    proposed = turn.next_proposed
    unknown = next((call for call in turn.calls if call.is_unknown), None)
    if unknown is not None:
        end_unknown(draft, unknown.tool)
    elif proposed is not None:
        draft.need(JudgeCall(proposed.call_id))
    else:
        ask_model(draft)


def finish_turn(draft: Draft, reason: str) -> None:
    """The model ended its answer: go on with what was said meanwhile, or complete and begin with the queue's first."""
    if draft.turn.cancelled_by is not None or draft.state.steering:
        advance(draft)
        return
    turn = draft.turn
    draft.emit(ev.TurnCompleted(turn_id=turn.turn_id, goal_revision=turn.goal_revision, reason=reason))
    if draft.state.queue:
        waiting = draft.state.queue[0]
        begin_turn(draft, waiting.message_id, waiting.turn_id, waiting.text)


def end_failed(draft: Draft, code: str, message: str, hint: str) -> None:
    """The turn cannot go on; waiting messages go back to the user."""
    turn = draft.turn
    draft.emit(
        ev.TurnFailed(turn_id=turn.turn_id, goal_revision=turn.goal_revision, code=code, message=message, hint=hint)
    )
    return_all(draft, "the turn failed")


def end_unknown(draft: Draft, tool: str) -> None:
    """A call's outcome is unknown: stop and let the user look."""
    message = f"the outcome of {tool} is unknown after the interruption"
    end_failed(draft, ErrorCode.SANDBOX_LOST, message, ERRORS[ErrorCode.SANDBOX_LOST].hint)


def end_cancelled(draft: Draft) -> None:
    """Write the end of a stopped turn as soon as nothing of it runs."""
    turn = draft.turn
    if turn.cancelled_by is None or turn.request is not None or turn.is_busy:
        return
    draft.emit(ev.TurnCancelled(turn_id=turn.turn_id, goal_revision=turn.goal_revision, by=turn.cancelled_by))
    follows = None if draft.state.frozen else draft.state.interrupting
    if follows is None or follows.next_turn_id is None:
        return_all(draft, STOPPED_REASON)
        return
    return_steering(draft, STOPPED_REASON, but=follows.message_id)
    begin_turn(draft, follows.message_id, follows.next_turn_id, follows.text)
