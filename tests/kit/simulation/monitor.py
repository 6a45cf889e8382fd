"""What must hold of every log, checked without the fold.

Purpose: an independent reading of a session's events that knows the rules of the house and nothing of the machine.
Invariant: a broken rule raises `BrokenRuleError` with the rule's name at the event that breaks it; each rule has a
    control that plants the fault (tests/property/test_controls.py).
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from tests.kit.simulation.retry_rules import RetryRules
from tests.kit.simulation.rules import hold
from tests.kit.simulation.waiting import Messages

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.base import TurnBody
from gloveport.protocol.text import utf16_length

# They begin a turn, or (a proposal that a refused apply found changed) speak of one that may be over.
_OUTSIDE: Final = (ev.UserMessageAdded, ev.TurnStarted, ev.ChangeProposed)
# They speak of a request that may have been begun for an earlier goal.
_OF_REQUEST: Final = (
    ev.ModelRequestAccepted, ev.ModelTextDelta, ev.ModelResponseReceived, ev.ModelStreamInterrupted, ev.UsageRecorded,
    ev.UsageEstimated, ev.ToolCallProposed, ev.ModelRequestReconciled,
)  # fmt: skip
UNRUN_OUTCOMES: Final = frozenset({"denied", "invalid", "cancelled", "unknown"})


@dataclass
class CallTrack:
    """What the log says of one call."""

    call_id: str
    tool: str
    digest: str
    revision: int
    stop_class: str = ""
    stop_requested: bool = False
    allowed: str | None = None
    started: bool = False
    finished: bool = False
    shown: int = 0


@dataclass
class TurnTrack:
    """What the log says of the open turn."""

    turn_id: str
    revision: int
    stopping: bool = False
    request: str | None = None
    request_revision: int = 0
    text: str = ""
    wanted: tuple[str, ...] = ()
    calls: dict[str, CallTrack] = field(default_factory=dict)


class Monitor:
    """Reads events in order and checks each against those before it."""

    def __init__(self) -> None:
        self.turn: TurnTrack | None = None
        self.revision = 0
        self.messages = Messages()
        self.cards: dict[str, ev.ApprovalRequested] = {}
        self.applies: dict[str, ev.ChangeApplyStarted] = {}
        self.grants: set[str] = set()
        self.used_up: set[str] = set()
        self.seen: dict[str, set[str]] = {}
        self.retries = RetryRules()
        self.unknown: set[str] = set()

    def take(self, body: ev.EventBody) -> None:
        """Check one event. Raises BrokenRuleError."""
        if isinstance(body, TurnBody) and not isinstance(body, _OUTSIDE):
            self._in_turn(body)
        check = _CHECKS.get(type(body))
        if check is not None:
            check(self, body)
        self.retries.take(body)

    def _in_turn(self, body: Any) -> None:
        hold(self.turn is not None, "turn open", type(body).__name__)
        turn = self._turn
        hold(body.turn_id == turn.turn_id, "own turn", f"{type(body).__name__} of {body.turn_id} in {turn.turn_id}")
        if isinstance(body, _OF_REQUEST):
            revision = turn.request_revision or body.goal_revision
        else:
            call = turn.calls.get(getattr(body, "call_id", ""))
            revision = turn.revision if call is None else call.revision
        hold(body.goal_revision == revision, "own revision", type(body).__name__)

    @property
    def _turn(self) -> TurnTrack:
        hold(self.turn is not None, "turn open", "no turn is open")
        assert self.turn is not None
        return self.turn

    def _once(self, kind: str, key: str) -> None:
        seen = self.seen.setdefault(kind, set())
        hold(key not in seen, f"{kind} once", key)
        seen.add(key)

    def _call(self, call_id: str) -> CallTrack:
        call = self._turn.calls.get(call_id)
        hold(call is not None, "call known", call_id)
        assert call is not None
        return call

    # --- goals, messages, turns

    def goal(self, body: ev.GoalRevised) -> None:
        hold(body.goal_revision == self.revision + 1, "revision grows by one", body.goal_revision)
        self.revision = body.goal_revision
        if self.turn is not None:
            hold(self.messages.to_revise is not None, "one turn", "a goal revised inside a turn")
            self.messages.revised(body)
            self.turn.revision = body.goal_revision

    def message(self, body: ev.UserMessageAdded) -> None:
        hold(body.goal_revision == self.revision, "own revision", body.message_id)
        if self.turn is not None:
            hold(body.message_id in self.messages.steering, "one turn", "a message delivered inside a turn")
            hold(not self.turn.stopping, "no start after a stop", body.message_id)
            hold(body.turn_id == self.turn.turn_id, "own turn", body.message_id)
            hold(self.turn.request is None, "delivered at a boundary", body.message_id)
            self._no_open_calls("delivered at a boundary")
        self.messages.delivered(body)

    def queued(self, body: ev.UserMessageQueued) -> None:
        self.messages.queued(body, in_turn=self.turn is not None)

    def edited(self, body: ev.UserMessageEdited) -> None:
        self.messages.edited(body)

    def unqueued(self, body: ev.UserMessageUnqueued) -> None:
        self.messages.unqueued(body)

    def steered(self, body: ev.SteeringDecided) -> None:
        turn = self._turn
        hold(not turn.stopping, "no start after a stop", body.message_id)
        open_calls = {call.call_id for call in turn.calls.values() if not call.finished}
        hold({fate.call_id for fate in body.calls} == open_calls, "a fate for each open call", body.message_id)
        hold((body.stream == "none") == (turn.request is None), "the record says what streams", body.message_id)
        self.messages.decided(body)

    def _no_open_calls(self, rule: str) -> None:
        open_calls = [call.call_id for call in self._turn.calls.values() if not call.finished]
        hold(not open_calls, rule, open_calls)

    def turn_started(self, body: ev.TurnStarted) -> None:
        self._once("turn started", body.turn_id)
        hold(self.turn is None, "one turn", body.turn_id)
        hold(body.goal_revision == self.revision, "own revision", body.turn_id)
        hold(self.messages.ended.get(body.message_id) == "delivered", "turn has its message", body.turn_id)
        self.messages.settled("a turn begins")
        self.turn = TurnTrack(body.turn_id, body.goal_revision)

    def turn_ended(self, body: ev.TurnCompleted | ev.TurnFailed | ev.TurnCancelled) -> None:
        turn = self._turn
        hold(turn.request is None, "no request outlives its turn", turn.request)
        self._no_open_calls("each call has one end")
        if isinstance(body, ev.TurnCompleted):
            self.messages.settled("a turn completed")
        hold(turn.stopping == isinstance(body, ev.TurnCancelled), "stopped turns end as stopped", type(body).__name__)
        self.turn = None

    def cancel(self, body: ev.TurnCancelRequested) -> None:
        hold(not self._turn.stopping, "one stop", body.turn_id)
        self._turn.stopping = True

    # --- the model

    def request(self, body: ev.ModelRequestStarted) -> None:
        self._once("request started", body.request_id)
        turn = self._turn
        hold(not turn.stopping, "no start after a stop", body.request_id)
        hold(turn.request is None, "one request", body.request_id)
        self._no_open_calls("history is valid before a request")
        self.messages.settled("a request begins")
        hold(set(turn.wanted) <= set(turn.calls), "history is valid before a request", turn.wanted)
        turn.request, turn.request_revision, turn.text = body.request_id, body.goal_revision, ""

    def _live_request(self, body: Any) -> TurnTrack:
        turn = self._turn
        hold(turn.request == body.request_id, "own request", f"{type(body).__name__} {body.request_id}")
        return turn

    def accepted(self, body: ev.ModelRequestAccepted) -> None:
        self._live_request(body)

    def delta(self, body: ev.ModelTextDelta) -> None:
        turn = self._live_request(body)
        hold(body.offset == utf16_length(turn.text), "text offset", f"{body.offset} at {utf16_length(turn.text)}")
        turn.text += body.text

    def response(self, body: ev.ModelResponseReceived) -> None:
        turn = self._live_request(body)
        hold(body.text == turn.text, "response is the text that streamed", body.request_id)
        hold(body.text_digest == hashlib.sha256(body.text.encode()).hexdigest(), "text digest", body.request_id)
        turn.request, turn.wanted = None, tuple(call.call_id for call in body.calls)

    def interrupted(self, body: ev.ModelStreamInterrupted) -> None:
        turn = self._live_request(body)
        hold(body.kept_utf16 == utf16_length(turn.text), "kept length", body.kept_utf16)
        turn.request = None

    # --- calls

    def proposed(self, body: ev.ToolCallProposed) -> None:
        self._once("call proposed", body.call_id)
        hold(isinstance(json.loads(body.arguments_json), dict), "arguments are an object", body.call_id)
        digest = hashlib.sha256(body.arguments_json.encode()).hexdigest()
        hold(body.arguments_digest == digest, "arguments digest", body.call_id)
        hold(body.call_id in self._turn.wanted, "call of the response", body.call_id)
        self._turn.calls[body.call_id] = CallTrack(body.call_id, body.tool, body.arguments_digest, body.goal_revision)

    def decided(self, body: ev.PolicyDecided) -> None:
        call = self._call(body.call_id)
        hold(not call.started and not call.finished, "judged before it runs", body.call_id)
        call.allowed = body.verdict

    def asked(self, body: ev.ApprovalRequested) -> None:
        self._once("card shown", body.approval_id)
        hold(self._call(body.call_id).allowed == "ask", "asked after an ask", body.approval_id)
        hold(not self._turn.stopping, "no start after a stop", body.approval_id)
        hold(body.goal_revision == self.revision, "nothing starts for an old goal", body.approval_id)
        self.cards[body.approval_id] = body

    def answered(self, body: ev.ApprovalResolved) -> None:
        self._once("card resolved", body.approval_id)
        card = self.cards.pop(body.approval_id, None)
        hold(card is not None, "card waits", body.approval_id)
        assert card is not None
        hold(card.card_digest == body.card_digest, "card digest", body.approval_id)
        hold(card.call_id == body.call_id, "card's call", body.approval_id)
        hold((body.decision == "allowed") == (body.grant_id is not None), "allowed with a grant", body.approval_id)
        self._call(body.call_id).allowed = None

    def issued(self, body: ev.GrantIssued) -> None:
        self._once("grant issued", body.grant_id)
        self.grants.add(body.grant_id)

    def used(self, body: ev.GrantUsed) -> None:
        hold(body.grant_id in self.grants, "grant issued", body.grant_id)
        hold(body.grant_id not in self.used_up, "no grant reused", body.grant_id)
        if body.uses_left == 0:
            self.used_up.add(body.grant_id)

    def started(self, body: ev.ToolExecutionStarted) -> None:
        self._once("call started", body.call_id)
        call = self._call(body.call_id)
        hold(not self._turn.stopping, "no start after a stop", body.call_id)
        hold(call.revision == self.revision, "nothing starts for an old goal", body.call_id)
        hold(call.allowed == "allow", "runs only when allowed", body.call_id)
        hold(not call.finished, "no start after its end", body.call_id)
        hold(call.digest == body.arguments_digest, "what was judged is what runs", body.call_id)
        running = [c.call_id for c in self._turn.calls.values() if c.started and not c.finished]
        hold(not running and not self.cards, "one call at a time", running)
        call.started, call.stop_class = True, body.stop_class

    def stop_requested(self, body: ev.ToolStopRequested) -> None:
        call = self._call(body.call_id)
        hold(call.started and not call.finished, "only what runs is stopped", body.call_id)
        hold(not call.stop_requested, "stopped once", body.call_id)
        late = self._turn.stopping or call.revision < self.revision
        hold(late, "only what is not wanted is stopped", body.call_id)
        manners = {"killable": "stopped", "atomic": "finishes", "opaque": "awaited"}
        hold(body.manner == manners[call.stop_class], "stopped as its class allows", body.manner)
        call.stop_requested = True

    def superseded(self, body: ev.ResultSuperseded) -> None:
        call = self._call(body.call_id)
        hold(call.finished and call.started, "late is what ended", body.call_id)
        late = call.revision < self.revision or self.messages.interrupting is not None
        hold(late, "only a late result is left out", body.call_id)

    def plan(self, body: ev.PlanUpdated) -> None:
        open_steps = any(item.state in ("pending", "running") for item in body.items)
        hold(not open_steps or self.messages.interrupting is None, "a late result changes no plan", body.turn_id)

    def progress(self, body: ev.ToolExecutionProgress) -> None:
        call = self._call(body.call_id)
        hold(call.started and not call.finished, "output of what runs", body.call_id)
        hold(body.offset == call.shown, "output offset", f"{body.offset} at {call.shown}")
        call.shown += utf16_length(body.text)

    def finished(self, body: ev.ToolExecutionFinished) -> None:
        self._once("call finished", body.call_id)
        call = self._call(body.call_id)
        hold(call.tool == body.tool, "own tool", body.call_id)
        cards = [card for card in self.cards.values() if card.call_id == body.call_id]
        hold(not cards, "no card outlives its call", body.call_id)
        if not call.started:
            hold(body.outcome in UNRUN_OUTCOMES, "what did not run has no result", body.outcome)
        call.finished = True
        if body.outcome in ("lost", "unknown"):
            self.unknown.add(body.call_id)

    def told(self, body: ev.OutcomeTold) -> None:
        hold(self.turn is None, "an outcome is told at rest", body.call_id)
        hold(body.call_id in self.unknown, "what nobody knows is told once", body.call_id)
        self.unknown.remove(body.call_id)

    def reconciled(self, body: ev.ToolReconciled) -> None:
        call = self._call(body.call_id)
        hold(call.started and not call.finished, "reconciled while unmatched", body.call_id)

    # --- changes

    def apply_started(self, body: ev.ChangeApplyStarted) -> None:
        self._once("apply started", body.apply_id)
        hold(not self.applies, "one apply", body.apply_id)
        self.applies[body.apply_id] = body

    def apply_ended(self, body: ev.ChangeApplied | ev.ChangeRefused | ev.ChangeUnsettled) -> None:
        begun = self.applies.pop(body.apply_id, None)
        hold(begun is not None, "apply intended", body.apply_id)
        assert begun is not None
        hold(begun.action == body.action, "apply's action", body.apply_id)

    def apply_unsettled(self, body: ev.ChangeUnsettled) -> None:
        if body.waits:
            hold(body.apply_id in self.applies, "only what was begun waits", body.apply_id)
        else:
            self.apply_ended(body)


_CHECKS: Final[Mapping[type[ev.EventBody], Callable[[Monitor, Any], None]]] = MappingProxyType(
    {
        ev.GoalRevised: Monitor.goal,
        ev.UserMessageAdded: Monitor.message,
        ev.UserMessageQueued: Monitor.queued,
        ev.UserMessageUnqueued: Monitor.unqueued,
        ev.UserMessageEdited: Monitor.edited,
        ev.SteeringDecided: Monitor.steered,
        ev.ToolStopRequested: Monitor.stop_requested,
        ev.ResultSuperseded: Monitor.superseded,
        ev.PlanUpdated: Monitor.plan,
        ev.TurnStarted: Monitor.turn_started,
        ev.TurnCompleted: Monitor.turn_ended,
        ev.TurnFailed: Monitor.turn_ended,
        ev.TurnCancelled: Monitor.turn_ended,
        ev.TurnCancelRequested: Monitor.cancel,
        ev.ModelRequestStarted: Monitor.request,
        ev.ModelRequestAccepted: Monitor.accepted,
        ev.ModelTextDelta: Monitor.delta,
        ev.ModelResponseReceived: Monitor.response,
        ev.ModelStreamInterrupted: Monitor.interrupted,
        ev.ToolCallProposed: Monitor.proposed,
        ev.PolicyDecided: Monitor.decided,
        ev.ApprovalRequested: Monitor.asked,
        ev.ApprovalResolved: Monitor.answered,
        ev.GrantIssued: Monitor.issued,
        ev.GrantUsed: Monitor.used,
        ev.ToolExecutionStarted: Monitor.started,
        ev.ToolExecutionProgress: Monitor.progress,
        ev.ToolExecutionFinished: Monitor.finished,
        ev.ToolReconciled: Monitor.reconciled,
        ev.OutcomeTold: Monitor.told,
        ev.ChangeApplyStarted: Monitor.apply_started,
        ev.ChangeApplied: Monitor.apply_ended,
        ev.ChangeRefused: Monitor.apply_ended,
        ev.ChangeUnsettled: Monitor.apply_unsettled,
    }
)
