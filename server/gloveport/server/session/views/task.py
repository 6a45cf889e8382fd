"""The state of the task: what runs, what waits, what went wrong last.

Purpose: one answer to "what is it doing, and for how long", from events alone.
Invariant: phase, calls, questions and queue are those of the session's fold; only the times are added.
Must never: call something running whose end is in the log.
"""

from dataclasses import dataclass
from typing import ClassVar

from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import CallStage
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
        """Times of what outlives a turn: proposals, writes, queued messages."""
        state = self._folded.state
        kept = {*state.changes, *state.applying, *(one.message_id for one in (*state.queue, *state.steering))}
        return {name: at for name, at in self._since.items() if name in kept}

    def finish(self) -> TaskView:
        """The task now."""
        state, since = self._folded.state, self._since
        turn = state.turn
        calls = turn.calls if turn is not None else ()
        running = [
            Activity("call", one.call_id, one.started.title if one.started else one.tool, since.get(one.call_id, 0))
            for one in calls
            if one.stage is CallStage.RUNNING
        ]
        running += [Activity("apply", key, one.action, since.get(key, 0)) for key, one in state.applying.items()]
        if turn is not None and turn.request is not None:
            name = turn.request.request_id
            running.append(Activity("request", name, f"{state.provider}/{state.model}", since.get(name, 0)))
        waiting = [
            Activity("call", one.call_id, one.tool, since.get(one.call_id, 0))
            for one in calls
            if one.stage is CallStage.PROPOSED
        ]
        waiting += [
            Activity("approval", key, str(one.card.get("title", "")), since.get(key, 0))
            for key, one in state.approvals.items()
        ]
        waiting += [Activity("message", one.message_id, one.text, since.get(one.message_id, 0)) for one in state.queue]
        waiting += [
            Activity("message", one.message_id, one.text, since.get(one.message_id, 0)) for one in state.steering
        ]
        waiting += [Activity("change", key, one.path, since.get(key, 0)) for key, one in state.changes.items()]
        return TaskView(
            phase=str(state.phase),
            turn_id=turn.turn_id if turn is not None else None,
            goal_revision=state.goal_revision,
            since=since.get(turn.turn_id) if turn is not None else None,
            running=tuple(running),
            waiting=tuple(waiting),
            last_failure=self._failure,
        )


def _opened(body: ev.EventBody | None) -> str | None:
    """The id of what an event opens."""
    match body:
        case ev.ToolCallProposed() | ev.ToolExecutionStarted():
            return body.call_id
        case ev.ApprovalRequested():
            return body.approval_id
        case ev.ModelRequestStarted():
            return body.request_id
        case ev.ChangeProposed():
            return body.change_id
        case ev.ChangeApplyStarted():
            return body.apply_id
        case ev.UserMessageQueued() | ev.SteeringDecided():
            return body.message_id
    return None
