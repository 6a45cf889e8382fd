"""After a restart: an answer that broke off, cards that hold no more, a log that ends in the middle.

Purpose: decide how a turn goes on with what a restart found.
Invariant: a question that was asked of the model is asked again under the same turn, a bounded number of times; a card
    that is no longer true is taken back before it can be answered; an open turn always waits for something.
Must never: run a call, or ask the model after a stop.
"""

from typing import Any, Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.model import CallRecord
from gloveport.server.session.state import AssistantEntry, CallStage, Request, ResultEntry, SessionState, Turn
from gloveport.server.turn import calls, flow, retrying
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.bounds import estimate_spent
from gloveport.server.turn.delivery import return_steering
from gloveport.server.turn.draft import Draft

RESTARTS_PER_ANSWER_MAX: Final = 3
"""So often in a row an answer may break off with the daemon before the turn is ended: it may be what ends it."""
REASON: Final = "the daemon ended while the answer was streaming"
LOST_REASON: Final = "a part of the turn's record is lost; look at your files before you send it again"
LOST_HINT: Final = "Look at your files, then send a message to go on."
HINT: Final = "What arrived is kept. Send a message to go on."
UNRECORDED_TEXT: Final = "Not run: the record of this call is not whole. Ask for it again."


def interrupted(draft: Draft, given: inp.RequestInterrupted) -> None:
    """Keep what arrived, marked; record what is known of the request; ask again."""
    turn = draft.state.turn
    if turn is None or turn.request is None or turn.request.request_id != given.request_id:
        return
    _mark(draft, turn, turn.request, given)
    if draft.turn.cancelled_by is None and draft.turn.restarts > RESTARTS_PER_ANSWER_MAX:
        words = f"the answer broke off with the daemon {draft.turn.restarts} times in a row"
        flow.end_failed(draft, ErrorCode.MODEL_BROKEN, words, HINT)
    else:
        flow.advance(draft)


def _mark(draft: Draft, turn: Turn, request: Request, given: inp.RequestInterrupted) -> None:
    born: dict[str, Any] = {
        "turn_id": turn.turn_id,
        "goal_revision": request.goal_revision,
        "request_id": given.request_id,
    }
    draft.emit(
        ev.ModelRequestReconciled(
            **born,
            provider_request_id=request.provider_request_id,
            fate=given.fate,
            may_be_billed=given.fate != "never_accepted",
            evidence=given.evidence,
        ),
        ev.ModelStreamInterrupted(
            **born,
            kept_utf16=request.text_utf16,
            code=ErrorCode.MODEL_BROKEN,
            reason=REASON,
        ),
    )
    estimate_spent(draft, None, request)


def record_lost(draft: Draft, given: inp.RecordLost) -> None:
    """End the turn: what its log says of it is not all that happened, so nothing of it is done again, and nothing
    follows it before the user has looked."""
    turn = draft.state.turn
    if turn is None:
        return
    if turn.request is not None:
        _mark(draft, turn, turn.request, inp.RequestInterrupted(turn.request.request_id, "unknown", given.reason))
    calls.withdraw_cards(draft, "withdrawn", "recovery")
    for call in draft.turn.calls:
        if call.stage is not CallStage.FINISHED:
            calls.finish_unknown(draft, call, given.reason)
    if turn.cancelled_by is not None:
        return_steering(draft, LOST_REASON)
        flow.end_cancelled(draft)
    else:
        flow.end_failed(draft, ErrorCode.CORRUPT, f"a part of this turn's record is lost: {given.reason}", LOST_HINT)


def rechecked(draft: Draft, given: inp.ApprovalRechecked) -> None:
    """A card that still holds waits on under its id; one that does not is taken back and its call judged anew."""
    approval = draft.state.approvals.get(given.approval_id)
    if approval is None or given.holds:
        return
    calls.resolve_card(draft, approval, "superseded", None, given.by)
    flow.advance(draft)


def taken_up(draft: Draft, _given: inp.TakenUp) -> None:
    """Go on with a turn that waits for nothing: its log ends where no step of the machine ends."""
    turn = draft.state.turn
    if turn is None or turn.request is not None or turn.is_busy or retrying.pending(turn) is not None:
        return
    if turn.cancelled_by is not None:
        calls.withdraw_unstarted(draft, calls.STOPPED_TEXT)
        flow.end_cancelled(draft)
    elif turn.next_proposed is None:
        unrecorded = _unrecorded(draft.state)
        calls.propose_calls(draft, unrecorded, turn.goal_revision)
        for record in unrecorded:
            calls.finish_unrun(draft, record.call_id, record.tool, "cancelled", UNRECORDED_TEXT)
        flow.advance(draft)


def _unrecorded(state: SessionState) -> tuple[CallRecord, ...]:
    """Calls of the last answer that were neither proposed nor ended."""
    answered = {entry.call_id for entry in state.history if isinstance(entry, ResultEntry)}
    last = next((entry for entry in reversed(state.history) if isinstance(entry, AssistantEntry)), None)
    return tuple(
        CallRecord(
            call_id=call.call_id,
            provider_call_id=call.provider_call_id,
            tool=call.tool,
            arguments_json=call.arguments_json,
            arguments_error=None,
        )
        for call in (last.calls if last is not None else ())
        if call.call_id not in answered and state.call(call.call_id) is None
    )
