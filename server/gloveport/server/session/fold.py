"""The fold: one event and a state give the next state.

Purpose: rebuild a session from its log, exactly. Whoever feeds it keeps the watermark: an event is folded once.
Invariant: total (every known event type is handled, unknown ones are counted), pure, order-driven by `seq` alone.
Must never: refuse an event of the log: what is written has happened.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from gloveport.protocol.journal.events import (
    ApprovalRequested,
    ApprovalResolved,
    ChangeApplied,
    ChangeApplyStarted,
    ChangeRefused,
    ChangeUnsettled,
    EventBody,
    FaultsFound,
    GoalRevised,
    GrantIssued,
    GrantRevoked,
    GrantUsed,
    ModeChosen,
    ModelRequestAccepted,
    ModelRequestStarted,
    ModelResponseReceived,
    ModelSelected,
    ModelStreamInterrupted,
    ModelTextDelta,
    OutcomeTold,
    PlanUpdated,
    SandboxChosen,
    SessionCreated,
    SessionFrozen,
    SessionRenamed,
    SessionRulesSet,
    SessionThawed,
    SteeringDecided,
    ToolCallProposed,
    ToolExecutionFinished,
    ToolExecutionProgress,
    ToolExecutionStarted,
    ToolStopRequested,
    TurnCancelled,
    TurnCancelRequested,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    UserMessageAdded,
    UserMessageEdited,
    UserMessageQueued,
    UserMessageUnqueued,
)
from gloveport.protocol.text import utf16_length
from gloveport.server.policy.effects import OUTGOING_KINDS
from gloveport.server.session.evolve import evolve
from gloveport.server.session.fold_hunks import HUNK_HANDLERS
from gloveport.server.session.fold_labels import LABEL_HANDLERS, join_labels
from gloveport.server.session.fold_retry import RETRY_HANDLERS
from gloveport.server.session.fold_spending import SPENDING_HANDLERS, asked, asked_with, request_broken
from gloveport.server.session.fold_steering import goals_with, message_edited, steering_decided, without_waiting
from gloveport.server.session.state import (
    AssistantEntry,
    Call,
    CallEntry,
    CallStage,
    EndedTurn,
    Queued,
    Request,
    ResultEntry,
    SessionState,
    Turn,
    Unknown,
    UserEntry,
)

B = TypeVar("B", bound=EventBody)
K = TypeVar("K")
APPLIED_KEPT_MAX: Final = 100
UNKNOWN_KEPT_MAX: Final = 20


def _copied(mapping: Mapping[str, K]) -> dict[str, K]:
    # A state's own mappings are copied whole; entry by entry it takes fifteen times as long, at every event.
    return mapping | {} if isinstance(mapping, MappingProxyType) else dict(mapping)


def _put(mapping: Mapping[str, K], key: str, value: K) -> Mapping[str, K]:
    copy = _copied(mapping)
    copy[key] = value
    return MappingProxyType(copy)


def _drop(mapping: Mapping[str, K], key: str) -> Mapping[str, K]:
    copy = _copied(mapping)
    copy.pop(key, None)
    return MappingProxyType(copy)


def _turn(state: SessionState, **changes: Any) -> SessionState:
    if state.turn is None:
        return state
    return evolve(state, turn=evolve(state.turn, **changes))


def _call(state: SessionState, call_id: str, **changes: Any) -> SessionState:
    if state.turn is None:
        return state
    calls = tuple(evolve(call, **changes) if call.call_id == call_id else call for call in state.turn.calls)
    return _turn(state, calls=calls)


def _session_created(state: SessionState, body: SessionCreated) -> SessionState:
    return evolve(
        state,
        session_id=body.session_id,
        workspace_id=body.workspace_id,
        root=body.root,
        title=body.title,
        trust_level=body.trust_level,
        sandbox=body.sandbox,
        provider=body.provider,
        model=body.model,
        model_label=body.model_label,
    )


def _session_renamed(state: SessionState, body: SessionRenamed) -> SessionState:
    return evolve(state, title=body.title)


def _sandbox_chosen(state: SessionState, body: SandboxChosen) -> SessionState:
    return evolve(state, sandbox=body.sandbox, trust_level=body.trust_level, image=body.image)


def _model_selected(state: SessionState, body: ModelSelected) -> SessionState:
    return evolve(
        state, provider=body.provider, model=body.model, model_label=body.model_label, overflows=0, next_tokens=0
    )


def _message_added(state: SessionState, body: UserMessageAdded) -> SessionState:
    kind = next((waiting.kind for waiting in state.steering if waiting.message_id == body.message_id), None)
    return evolve(
        without_waiting(state, body.message_id),
        history=state.history.plus(UserEntry(body.text, kind)),
        user_messages=goals_with(state.user_messages, body.text, kind),
        unanswered_look=body.text if kind is None else "",
        label=join_labels(state.label, body.label),
    )


def _message_queued(state: SessionState, body: UserMessageQueued) -> SessionState:
    waiting = Queued(body.message_id, body.turn_id, body.text)
    return evolve(state, queue=(*state.queue, waiting), unanswered_look="")


def _message_unqueued(state: SessionState, body: UserMessageUnqueued) -> SessionState:
    return without_waiting(state, body.message_id)


def _goal_revised(state: SessionState, body: GoalRevised) -> SessionState:
    return _turn(evolve(state, goal_revision=body.goal_revision), goal_revision=body.goal_revision)


def _turn_started(state: SessionState, body: TurnStarted) -> SessionState:
    return evolve(state, turn=Turn(body.turn_id, body.goal_revision, spent_from=len(state.spent)), last_failure=None)


def _turn_ended(state: SessionState, _body: TurnCompleted | TurnCancelled | TurnFailed) -> SessionState:
    turn = state.turn
    used = EndedTurn(turn.tokens, turn.uncounted, turn.spent_from) if turn is not None else state.ended_turn
    return evolve(state, turn=None, ended_turn=used)


def _turn_failed(state: SessionState, body: TurnFailed) -> SessionState:
    return evolve(_turn_ended(state, body), last_failure=body.code)


def _cancel_requested(state: SessionState, body: TurnCancelRequested) -> SessionState:
    return _turn(state, cancelled_by=body.by)


def _request_started(state: SessionState, body: ModelRequestStarted) -> SessionState:
    if state.turn is None:
        return state
    request = Request(body.request_id, body.goal_revision, provider=body.provider, model=body.model)
    made = state.turn.requests + 1
    return _turn(state, request=request, asked=asked(state, body), requests=made, calls=(), retry=None, compaction=None)


def _request_accepted(state: SessionState, body: ModelRequestAccepted) -> SessionState:
    if state.turn is None or state.turn.request is None:
        return state
    taken = asked_with(state.turn, body.request_id, accepted=True)
    request = evolve(state.turn.request, provider_request_id=body.provider_request_id)
    return _turn(state, request=request, asked=taken)


def _text_delta(state: SessionState, body: ModelTextDelta) -> SessionState:
    if state.turn is None or state.turn.request is None:
        return state
    request = state.turn.request
    length = request.text_utf16 + utf16_length(body.text)
    return _turn(state, request=evolve(request, text=request.text + body.text, text_utf16=length))


def _response_received(state: SessionState, body: ModelResponseReceived) -> SessionState:
    calls = tuple(CallEntry(c.call_id, c.provider_call_id, c.tool, c.arguments_json) for c in body.calls)
    kept = state.history.plus(AssistantEntry(body.text, calls)) if body.text or calls else state.history
    made = (state.turn.calls_made if state.turn else 0) + len(calls)
    state = evolve(state, history=kept, overflows=0)
    return _turn(state, request=None, calls_made=made, attempt=1, waited_us=0, restarts=0)


def _stream_interrupted(state: SessionState, body: ModelStreamInterrupted) -> SessionState:
    text = state.turn.request.text if state.turn and state.turn.request else ""
    kept = state.history.plus(AssistantEntry(text, interrupted=True)) if text else state.history
    return _turn(evolve(request_broken(state, body), history=kept), request=None)


def _faults(state: SessionState, body: FaultsFound) -> SessionState:
    return evolve(state, faults=(*state.faults, *body.findings), sealed=state.sealed or body.read_only)


def _mode(state: SessionState, body: ModeChosen) -> SessionState:
    return evolve(state, mode=body.mode)


def _rules(state: SessionState, body: SessionRulesSet) -> SessionState:
    return evolve(state, rules=body.text)


def _call_proposed(state: SessionState, body: ToolCallProposed) -> SessionState:
    if state.turn is None:
        return state
    call = Call(
        call_id=body.call_id,
        provider_call_id=body.provider_call_id,
        tool=body.tool,
        arguments_json=body.arguments_json,
        arguments_digest=body.arguments_digest,
        goal_revision=body.goal_revision,
        label=body.label,
    )
    return _turn(state, calls=(*state.turn.calls, call))


def _approval_requested(state: SessionState, body: ApprovalRequested) -> SessionState:
    call = state.call(body.call_id)
    asks = call.asks + 1 if call else 0
    state = evolve(state, approvals=_put(state.approvals, body.approval_id, body))
    return _call(state, body.call_id, stage=CallStage.WAITING, asks=asks)


def _approval_resolved(state: SessionState, body: ApprovalResolved) -> SessionState:
    state = evolve(state, approvals=_drop(state.approvals, body.approval_id))
    return _call(state, body.call_id, stage=CallStage.PROPOSED)


def _grant_issued(state: SessionState, body: GrantIssued) -> SessionState:
    if body.scope == "workspace":
        return state  # it is the workspace's: what its stream says of it holds, and no session's copy
    return evolve(state, grants=_put(state.grants, body.grant_id, body))


def _grant_used(state: SessionState, body: GrantUsed) -> SessionState:
    if body.grant_id not in state.grants:
        return state
    uses = state.grant_uses.get(body.grant_id, 0) + 1
    state = evolve(state, grant_uses=_put(state.grant_uses, body.grant_id, uses))
    return evolve(state, grants=_drop(state.grants, body.grant_id)) if body.uses_left == 0 else state


def _grant_revoked(state: SessionState, body: GrantRevoked) -> SessionState:
    return evolve(state, grants=_drop(state.grants, body.grant_id))


def _execution_started(state: SessionState, body: ToolExecutionStarted) -> SessionState:
    if any(effect.kind in OUTGOING_KINDS for effect in body.effects):
        state = evolve(state, unanswered_look="")
    return _call(state, body.call_id, stage=CallStage.RUNNING, started=body)


def _execution_progress(state: SessionState, body: ToolExecutionProgress) -> SessionState:
    return _call(state, body.call_id, shown_utf16=body.offset + utf16_length(body.text))


def _execution_finished(state: SessionState, body: ToolExecutionFinished) -> SessionState:
    call = state.call(body.call_id)
    if call is None:
        return state
    is_late = call.started is not None and body.goal_revision < state.goal_revision
    entry = ResultEntry(body.call_id, call.provider_call_id, body.text, body.outcome != "ok", is_late)
    state = evolve(state, history=state.history.plus(entry), label=join_labels(state.label, body.label))
    is_unknown = body.outcome in ("lost", "unknown")
    if is_unknown:
        kept = (*state.unknowns, Unknown(body.call_id, body.tool))[-UNKNOWN_KEPT_MAX:]
        state = evolve(state, unknowns=kept)
    return _call(state, body.call_id, stage=CallStage.FINISHED, is_unknown=is_unknown)


def _outcome_told(state: SessionState, body: OutcomeTold) -> SessionState:
    left = tuple(one for one in state.unknowns if one.call_id != body.call_id)
    return evolve(state, unknowns=left, history=state.history.plus(UserEntry(body.text)))


def _stop_requested(state: SessionState, body: ToolStopRequested) -> SessionState:
    return _call(state, body.call_id, stop_requested=True)


def _plan(state: SessionState, body: PlanUpdated) -> SessionState:
    return evolve(state, plan=body.items)


def _apply_started(state: SessionState, body: ChangeApplyStarted) -> SessionState:
    return evolve(state, applying=_put(state.applying, body.apply_id, body))


def _applied(state: SessionState, body: ChangeApplied) -> SessionState:
    kept = (*state.applied, body)[-APPLIED_KEPT_MAX:]
    return evolve(state, applying=_drop(state.applying, body.apply_id), applied=kept)


def _refused(state: SessionState, body: ChangeRefused) -> SessionState:
    return evolve(state, applying=_drop(state.applying, body.apply_id))


def _unsettled(state: SessionState, body: ChangeUnsettled) -> SessionState:
    return state if body.waits else evolve(state, applying=_drop(state.applying, body.apply_id))


def _frozen(state: SessionState, body: SessionFrozen) -> SessionState:
    return evolve(state, frozen=body.freeze_id, frozen_words=body.words)


def _thawed(state: SessionState, body: SessionThawed) -> SessionState:
    return evolve(state, frozen="", frozen_words="") if state.frozen == body.freeze_id else state


_HANDLERS: Final[Mapping[type[EventBody], Callable[[SessionState, Any], SessionState]]] = MappingProxyType(
    {
        SessionCreated: _session_created,
        SessionRenamed: _session_renamed,
        SandboxChosen: _sandbox_chosen,
        ModelSelected: _model_selected,
        UserMessageAdded: _message_added,
        UserMessageQueued: _message_queued,
        UserMessageUnqueued: _message_unqueued,
        GoalRevised: _goal_revised,
        TurnStarted: _turn_started,
        TurnCompleted: _turn_ended,
        TurnCancelled: _turn_ended,
        TurnFailed: _turn_failed,
        TurnCancelRequested: _cancel_requested,
        ModelRequestStarted: _request_started,
        ModelRequestAccepted: _request_accepted,
        ModelTextDelta: _text_delta,
        ModelResponseReceived: _response_received,
        ModelStreamInterrupted: _stream_interrupted,
        ToolCallProposed: _call_proposed,
        ApprovalRequested: _approval_requested,
        ApprovalResolved: _approval_resolved,
        GrantIssued: _grant_issued,
        GrantUsed: _grant_used,
        GrantRevoked: _grant_revoked,
        ToolExecutionStarted: _execution_started,
        ToolExecutionProgress: _execution_progress,
        ToolExecutionFinished: _execution_finished,
        PlanUpdated: _plan,
        ChangeApplyStarted: _apply_started,
        ChangeApplied: _applied,
        ChangeRefused: _refused,
        ChangeUnsettled: _unsettled,
        FaultsFound: _faults,
        SessionFrozen: _frozen,
        ModeChosen: _mode,
        SessionRulesSet: _rules,
        SessionThawed: _thawed,
        SteeringDecided: steering_decided,
        UserMessageEdited: message_edited,
        ToolStopRequested: _stop_requested,
        OutcomeTold: _outcome_told,
        **HUNK_HANDLERS,
        **RETRY_HANDLERS,
        **LABEL_HANDLERS,
        **SPENDING_HANDLERS,
    }
)


def fold_event(state: SessionState, body: EventBody | None) -> SessionState:
    """The state after one more event; null stands for an event of a newer version, which is counted."""
    if body is None:
        return evolve(state, unknown_events=state.unknown_events + 1)
    handler = _HANDLERS.get(type(body))
    return state if handler is None else handler(state, body)
