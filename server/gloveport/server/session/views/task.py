"""The state of the task: what runs, what waits, what went wrong last.

Purpose: one answer to "what is it doing, and for how long", from events alone.
Invariant: phase, calls, questions and queue are those of the session's fold; only the times are added.
Must never: call something running whose end is in the log.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import CallStage, SessionState
from gloveport.server.session.views.placed import Folded, Placed


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that runs or waits, since `since` (UTC microseconds)."""

    kind: str
    id: str
    title: str
    since: int


@dataclass(frozen=True, slots=True)
class Failure:
    """How the last turn that failed ended. `at`: UTC microseconds."""

    turn_id: str
    code: str
    message: str
    hint: str
    at: int


@dataclass(frozen=True, slots=True)
class TaskView:
    """The task. `running`: a request, calls, writes; `waiting`: calls in line, questions, queued messages, proposals.
    `last_failure` is null once a later turn began."""

    phase: str
    turn_id: str | None
    goal_revision: int
    since: int | None
    running: tuple[Activity, ...]
    waiting: tuple[Activity, ...]
    last_failure: Failure | None


class TaskProjection:
    """Folds the session and remembers when what is open began."""

    by_name: ClassVar[frozenset[str]] = frozenset({"ModelTextDelta", "ToolExecutionProgress"})

    def __init__(self) -> None:
        self._folded = Folded()
        self._since: dict[str, int] = {}
        self._failure: Failure | None = None

    def take(self, event: Placed) -> None:
        """Take one more event in."""
        if event.type in self.by_name:
            return
        self._folded.take(event)
        body = event.body
        if isinstance(body, ev.TurnStarted):
            self._failure, self._since = None, self._still_open()
            self._since[body.turn_id] = event.at
        elif isinstance(body, ev.TurnFailed):
            self._failure = Failure(body.turn_id, body.code, body.message, body.hint, event.at)
        elif (name := _opened(body)) is not None:
            self._since[name] = event.at

    def _still_open(self) -> dict[str, int]:
        """Times of what outlives a turn: proposals, writes, messages."""
        state = self._folded.state
        said = (*(one.message_id for one in state.queue), *(one.message_id for one in state.steering))
        kept = {*state.changes, *state.applying, *said}
        return {name: at for name, at in self._since.items() if name in kept}

    def finish(self) -> TaskView:
        """The task now."""
        state = self._folded.state
        turn_id = state.turn.turn_id if state.turn is not None else None
        return TaskView(
            phase=str(state.phase),
            turn_id=turn_id,
            goal_revision=state.goal_revision,
            since=self._since.get(turn_id) if turn_id is not None else None,
            running=tuple(self._running(state)),
            waiting=tuple(self._waiting(state)),
            last_failure=self._failure,
        )

    def _activity(self, kind: str, name: str, title: str) -> Activity:
        return Activity(kind, name, title, self._since.get(name, 0))

    def _running(self, state: SessionState) -> Iterator[Activity]:
        turn = state.turn
        for call in turn.calls if turn is not None else ():
            if call.stage is CallStage.RUNNING:
                yield self._activity("call", call.call_id, call.started.title if call.started else call.tool)
        for apply_id, started in state.applying.items():
            yield self._activity("apply", apply_id, started.action)
        if turn is not None and turn.request is not None:
            yield self._activity("request", turn.request.request_id, f"{state.provider}/{state.model}")

    def _waiting(self, state: SessionState) -> Iterator[Activity]:
        for call in state.turn.calls if state.turn is not None else ():
            if call.stage is CallStage.PROPOSED:
                yield self._activity("call", call.call_id, call.tool)
        if state.turn is not None and (retry := state.turn.retry) is not None:
            yield self._activity("retry", retry.request_id, retry.reason)
        for approval_id, approval in state.approvals.items():
            yield self._activity("approval", approval_id, str(approval.card.get("title", "")))
        for queued in state.queue:
            yield self._activity("message", queued.message_id, queued.text)
        for steered in state.steering:
            yield self._activity("message", steered.message_id, steered.text)
        for change_id, change in state.changes.items():
            yield self._activity("change", change_id, change.path)


def _opened(body: ev.EventBody | None) -> str | None:
    """The id of what an event opens."""
    match body:
        case ev.ToolCallProposed() | ev.ToolExecutionStarted():
            return body.call_id
        case ev.ApprovalRequested():
            return body.approval_id
        case ev.ModelRequestStarted() | ev.RetryScheduled():
            return body.request_id
        case ev.ChangeProposed():
            return body.change_id
        case ev.ChangeApplyStarted():
            return body.apply_id
        case ev.UserMessageQueued() | ev.SteeringDecided():
            return body.message_id
    return None
