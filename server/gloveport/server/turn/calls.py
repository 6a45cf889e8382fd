"""The life of a tool call: proposed, judged, asked, running, finished.

Purpose: the transitions of one call.
Invariant: a call runs only from the stage `proposed`, after a judgement that allows it, and finishes once; what it
    does and ends with is recorded under the goal of its birth.
Must never: run a call whose turn was stopped, or take an answer that names another card.
"""

from itertools import dropwhile, takewhile
from typing import Any, Final, Literal

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.model import CallRecord
from gloveport.server.session.state import Call, CallStage, Turn
from gloveport.server.turn import flow
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.arguments import ArgumentsError, canonical_arguments, parse_arguments, text_digest
from gloveport.server.turn.bounds import as_mode_allows
from gloveport.server.turn.delivery import return_steering
from gloveport.server.turn.draft import Draft, TurnError
from gloveport.server.turn.effects import AttachTool, DropWait, JudgeCall, RunTool, StopModel, StopTool
from gloveport.server.turn.releases import issue_release, use_release
from gloveport.server.turn.retry import Treatment, treatment_of
from gloveport.server.turn.stopping import stop_running

CALLS_PER_RESPONSE_MAX: Final = 64
ASKS_PER_CALL_MAX: Final = 3
STOPPED_TEXT: Final = "Stopped by the user before it began."
BEFOREHAND: Final = "an answer given beforehand"
"""Who answered a card that was shown to nobody: an option of the command that began the turn."""
REFUSED_UNASKED: Final = (
    "Refused by an answer that was given beforehand for every question of this run; nobody was asked."
)
FROZEN_BY: Final = "the freeze"
UNKNOWN_TEXT: Final = "Not run: the outcome of the call before it is unknown."
OWN_LABEL: Final = LabelRecord(integrity=0, readers=None, provenance=("gloveport",))


def _born(draft: Draft, call_id: str) -> dict[str, Any]:
    turn, call = draft.turn, draft.state.call(call_id)
    revision = call.goal_revision if call is not None else turn.goal_revision
    return {"turn_id": turn.turn_id, "goal_revision": revision, "call_id": call_id}


def _is_late(draft: Draft, call: Call) -> bool:
    """True if the goal for which the call was made is not the goal any more."""
    return call.goal_revision < draft.turn.goal_revision or draft.state.interrupting is not None


def record_calls(turn: Turn, given: tuple[inp.ModelCall, ...]) -> tuple[CallRecord, ...]:
    """The calls of a response under ids of ours, arguments strictly parsed."""
    records = []
    for number, call in enumerate(given[:CALLS_PER_RESPONSE_MAX], start=turn.calls_made + 1):
        arguments, error = "{}", None
        try:
            arguments = canonical_arguments(parse_arguments(call.arguments_json))
        except ArgumentsError as refused:
            error = str(refused)
        records.append(
            CallRecord(
                call_id=f"{turn.turn_id}.c{number}",
                provider_call_id=call.provider_call_id,
                tool=call.tool,
                arguments_json=arguments,
                arguments_error=error,
            )
        )
    return tuple(records)


def propose_calls(draft: Draft, records: tuple[CallRecord, ...], goal_revision: int) -> None:
    """Write what the model wants for a goal; calls with broken arguments finish at once and never run."""
    for record in records:
        draft.emit(
            ev.ToolCallProposed(
                turn_id=draft.turn.turn_id,
                goal_revision=goal_revision,
                call_id=record.call_id,
                provider_call_id=record.provider_call_id,
                tool=record.tool,
                arguments_json=record.arguments_json,
                arguments_digest=text_digest(record.arguments_json),
                label=draft.state.label,
            )
        )
    for record in records:
        if record.arguments_error is not None:
            text = f"The arguments were not taken and nothing ran: {record.arguments_error}"
            finish_unrun(draft, record.call_id, record.tool, "invalid", text)


def finish_unrun(draft: Draft, call_id: str, tool: str, outcome: Any, text: str) -> None:
    """End a call that never began."""
    draft.emit(
        ev.ToolExecutionFinished(
            **_born(draft, call_id),
            tool=tool,
            outcome=outcome,
            text=text,
            evidence="not started",
            exit_code=None,
            output_blob=None,
            output_bytes=0,
            duration_us=None,
            label=OWN_LABEL,
        )
    )


def withdraw_unstarted(
    draft: Draft, why: str, *, decision: Literal["withdrawn", "superseded"] = "withdrawn", by: str = "stop"
) -> None:
    """Finish every call that has not begun, and end the cards."""
    withdraw_cards(draft, decision, by)
    for call in draft.turn.calls:
        if call.stage in (CallStage.PROPOSED, CallStage.WAITING):
            finish_unrun(draft, call.call_id, call.tool, "cancelled", why)


def stop_turn(draft: Draft, by: str) -> None:
    """Stop everything of the turn: nothing starts from here on."""
    turn = draft.turn
    draft.emit(ev.TurnCancelRequested(turn_id=turn.turn_id, goal_revision=turn.goal_revision, by=by))
    if turn.request is not None:
        draft.need(StopModel(turn.request.request_id))
    if turn.retry is not None:
        draft.need(DropWait(turn.retry.request_id))
    withdraw_unstarted(draft, STOPPED_TEXT)
    stop_running(draft)
    flow.end_cancelled(draft)


def withdraw_cards(draft: Draft, decision: Literal["withdrawn", "superseded"], by: str) -> None:
    """Take every card back."""
    for approval in tuple(draft.state.approvals.values()):
        resolve_card(draft, approval, decision, None, by)


def resolve_card(
    draft: Draft, approval: ev.ApprovalRequested, decision: Any, grant: ev.GrantIssued | None, by: str
) -> None:
    """Write how a card ended."""
    draft.emit(
        ev.ApprovalResolved(
            turn_id=approval.turn_id,
            goal_revision=approval.goal_revision,
            call_id=approval.call_id,
            approval_id=approval.approval_id,
            card_digest=approval.card_digest,
            decision=decision,
            scope=grant.scope if grant else None,
            grant_id=grant.grant_id if grant else None,
            by=by,
        )
    )


def _running_call(draft: Draft, call_id: str) -> Call | None:
    call = draft.state.call(call_id)
    return call if call is not None and call.stage is CallStage.RUNNING else None


def _call_to_judge(draft: Draft, call_id: str) -> Call | None:
    """The call, if its judgement is what the turn waits for: calls are judged one at a time, in order."""
    turn = draft.state.turn
    if turn is None or turn.cancelled_by is not None or turn.is_busy:
        return None
    call = turn.next_proposed
    return call if call is not None and call.call_id == call_id else None


def judged(draft: Draft, given: inp.CallJudged) -> None:
    """Policy spoke: start, ask or refuse. A judgement on a right that is used up meanwhile is asked for again."""
    call = _call_to_judge(draft, given.call_id)
    if call is None:
        return
    given = as_mode_allows(draft.state, given)
    judgement = given.judgement
    if judgement.grant_id in draft.state.grant_uses and judgement.grant_id not in draft.state.grants:
        draft.need(JudgeCall(call.call_id))
        return
    _record(draft, given)
    if judgement.verdict == "allow":
        _start(draft, call, given)
    elif judgement.verdict == "ask" and given.card is not None and call.asks < ASKS_PER_CALL_MAX:
        _ask(draft, call, given.card)
        _ask_beside(draft, given.beside)
    else:
        text = f"Not allowed: {judgement.reason.rstrip('.')}. Choose another way."
        finish_unrun(draft, call.call_id, call.tool, "denied", text)
        flow.advance(draft)


def _record(draft: Draft, given: inp.CallJudged) -> None:
    judgement = given.judgement
    draft.emit(
        ev.PolicyDecided(
            **_born(draft, given.call_id),
            verdict=judgement.verdict,
            risk=judgement.risk,
            reason=judgement.reason,
            rule_ids=judgement.rule_ids,
            rules_hash=judgement.rules_hash,
            effects=given.plan.effects,
            grant_id=judgement.grant_id,
        )
    )


def neighbours(turn: Turn, call_id: str) -> tuple[Call, ...]:
    """The calls right behind this one of which a card may stand beside its card: not judged yet, of the same goal."""
    calls = dropwhile(lambda call: call.call_id != call_id, turn.calls)
    first = next(calls, None)
    return tuple(takewhile(lambda call: first is not None and _may_wait_with(first, call), calls))


def _may_wait_with(first: Call, call: Call) -> bool:
    same_goal = call.goal_revision == first.goal_revision
    return same_goal and call.stage is CallStage.PROPOSED and call.asks < ASKS_PER_CALL_MAX


def _ask_beside(draft: Draft, beside: tuple[inp.CallJudged, ...]) -> None:
    """Ask about the calls behind the one that is asked about; from the first that does not fit on, they come later."""
    for given in beside:
        call = draft.turn.next_proposed
        given = as_mode_allows(draft.state, given)
        fits = call is not None and call.call_id == given.call_id and call.asks < ASKS_PER_CALL_MAX
        if call is None or not fits or given.judgement.verdict != "ask" or given.card is None:
            return
        _record(draft, given)
        _ask(draft, call, given.card)


def _start(draft: Draft, call: Call, given: inp.CallJudged) -> None:
    plan, judgement = given.plan, given.judgement
    if judgement.grant_id is not None:
        used = ev.GrantUsed(grant_id=judgement.grant_id, call_id=call.call_id, uses_left=judgement.grant_uses_left)
        draft.emit(used)
        use_release(draft, call.call_id, judgement.grant_id)
    draft.emit(
        ev.ToolExecutionStarted(
            **_born(draft, call.call_id),
            tool=call.tool,
            title=plan.title,
            arguments_digest=call.arguments_digest,
            effects=plan.effects,
            recovery=plan.recovery,
            stop_class=plan.stop_class,
            executor=plan.executor,
            fingerprint=plan.fingerprint,
            label=plan.label,
            grant_id=judgement.grant_id,
            security_context=dict(plan.security_context),
        )
    )
    draft.need(RunTool(call.call_id))


def _ask(draft: Draft, call: Call, card: inp.CardShown) -> None:
    draft.emit(
        ev.ApprovalRequested(
            **_born(draft, call.call_id),
            approval_id=f"{call.call_id}.a{call.asks + 1}",
            card=dict(card.card),
            card_digest=card.card_digest,
            expires_at=card.expires_at,
        )
    )


def rejected(draft: Draft, given: inp.CallRejected) -> None:
    """The call cannot run as it is; the model is told why."""
    call = _call_to_judge(draft, given.call_id)
    if call is None:
        return
    finish_unrun(draft, call.call_id, call.tool, "invalid", given.message)
    flow.advance(draft)


def answered(draft: Draft, given: inp.ApprovalAnswered) -> None:
    """A card was answered; when none waits any more, an allowed call is judged again, with its grant and the facts
    of then."""
    approval = draft.state.approvals.get(given.approval_id)
    if approval is None:
        raise TurnError(ErrorCode.APPROVAL_UNKNOWN, "this card does not wait any more")
    if approval.card_digest != given.card_digest:
        raise TurnError(ErrorCode.SUPERSEDED, "the card is not the one that was shown")
    if (given.decision == "allowed") != (given.grant is not None):
        raise TurnError(ErrorCode.INVALID_PARAMS, "an answer carries a grant exactly when it allows")
    if given.grant is not None:
        draft.emit(given.grant)
        resolve_card(draft, approval, "allowed", given.grant, given.by)
        issue_release(draft, approval, given.grant)
        flow.advance(draft)
        return
    resolve_card(draft, approval, given.decision, None, BEFOREHAND if given.unasked else given.by)
    call = draft.state.call(approval.call_id)
    if call is not None:
        refused = REFUSED_UNASKED if given.unasked else "The user said no."
        text = refused if given.decision == "denied" else "Nobody answered in time."
        finish_unrun(draft, call.call_id, call.tool, "denied", text)
        flow.advance(draft)


def progressed(draft: Draft, given: inp.ToolProgressed) -> None:
    """Show a piece of output."""
    call = _running_call(draft, given.call_id)
    if call is not None:
        draft.emit(ev.ToolExecutionProgress(**_born(draft, call.call_id), offset=call.shown_utf16, text=given.text))


def ended(draft: Draft, given: inp.ToolEnded) -> None:
    """A running call ended: write the outcome and what it changed, then go on."""
    call = _running_call(draft, given.call_id)
    if call is None:
        return
    draft.emit(
        ev.ToolExecutionFinished(
            **_born(draft, call.call_id),
            tool=call.tool,
            outcome=given.outcome,
            text=given.text,
            evidence=given.evidence,
            exit_code=given.exit_code,
            output_blob=given.output_blob,
            output_bytes=given.output_bytes,
            duration_us=given.duration_us,
            label=given.label,
        )
    )
    _take_facts(draft, call, given.facts)
    if draft.state.frozen and draft.turn.cancelled_by is None:
        stop_turn(draft, FROZEN_BY)
    elif treatment_of(given.outcome) is Treatment.ASK_USER:
        _after_unknown(draft, call)
    else:
        flow.advance(draft)


def _take_facts(draft: Draft, call: Call, facts: tuple[ev.EventBody, ...]) -> None:
    """What a call changed; of one whose goal was changed the record stays, and its plan is not taken."""
    if not _is_late(draft, call):
        draft.emit_all(facts)
        return
    left_out = tuple(type(fact).__name__ for fact in facts if isinstance(fact, ev.PlanUpdated))
    draft.emit(ev.ResultSuperseded(**_born(draft, call.call_id), left_out=left_out))
    draft.emit_all(fact for fact in facts if not isinstance(fact, ev.PlanUpdated))


def _after_unknown(draft: Draft, call: Call) -> None:
    """Nobody knows what the call did: the user looks before anything follows, also what was to follow a stop.

    What runs beside it is let come to its own end.
    """
    if draft.turn.cancelled_by is None:
        withdraw_unstarted(draft, UNKNOWN_TEXT)
        flow.advance(draft)
        return
    return_steering(draft, f"the outcome of {call.tool} is unknown; look before you send it again")
    flow.end_cancelled(draft)


def reconciled(draft: Draft, given: inp.CallReconciled) -> None:
    """Act on a finding: attach to what still runs or has ended, run what surely did not happen, stop at unknown."""
    call = _running_call(draft, given.call_id)
    if call is None:
        return
    stopping = draft.turn.cancelled_by is not None or _is_late(draft, call)
    draft.emit(ev.ToolReconciled(**_born(draft, call.call_id), finding=given.finding, evidence=given.evidence))
    if given.finding == "unknown":
        finish_unknown(draft, call, given.evidence)
        _after_unknown(draft, call)
    elif given.finding == "not_started" and stopping:
        finish_unrun(draft, call.call_id, call.tool, "cancelled", STOPPED_TEXT)
        flow.advance(draft)
    elif given.finding == "not_started":
        draft.need(RunTool(call.call_id))
    else:
        draft.need(AttachTool(call.call_id))
        if stopping and given.finding == "still_running":
            draft.need(StopTool(call.call_id))


def finish_unknown(draft: Draft, call: Call, evidence: str) -> None:
    """End a call of which nobody knows whether it took effect."""
    draft.emit(
        ev.ToolExecutionFinished(
            **_born(draft, call.call_id),
            tool=call.tool,
            outcome="unknown",
            text="Interrupted. Whether it took effect is unknown; it was not run again.",
            evidence=evidence,
            exit_code=None,
            output_blob=None,
            output_bytes=0,
            duration_us=None,
            label=OWN_LABEL,
        )
    )
