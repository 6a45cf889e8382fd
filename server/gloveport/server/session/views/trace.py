"""Where the time of a turn went.

Purpose: split each turn's time into named parts, with a line for each request, call, question and restart in it.
Invariant: at each moment exactly one part counts: the parts sum exactly to the turn's time, and none is negative.
Must never: hide what came late: a result of an older goal, or of a turn that ended, is listed as such.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from gloveport.protocol.journal import events as ev
from gloveport.server.session.views.clock import Timeline
from gloveport.server.session.views.placed import Placed, all_but
from gloveport.server.session.views.trace_turn import Line, Part, RunningTurn

LATE_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Late:
    """Something that arrived for an older goal or an ended turn and changed nothing. `at`: UTC microseconds."""

    seq: int
    at: int
    type: str
    turn_id: str
    call_id: str
    goal_revision: int
    current_revision: int


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """One turn. `began_at`: UTC microseconds as the clock showed it. `parts` holds every part, in microseconds.

    `first_token_us` and `first_action_us`: from the turn's start to the first words, and to the first tool that began;
    null where there was none. `released_us`: from the stop to the turn's end; null when nobody stopped it.
    """

    turn_id: str
    goal_revision: int
    began_at: int
    end: Literal["running", "completed", "failed", "cancelled"]
    code: str
    duration_us: int
    parts: dict[Part, int]
    first_token_us: int | None
    first_action_us: int | None
    released_us: int | None
    clock_set_back: int
    lines: tuple[Line, ...]
    lines_left_out: int


@dataclass(frozen=True, slots=True)
class TraceReport:
    """The turns of a session, oldest first, and what came late."""

    turns: tuple[TurnTrace, ...]
    late: tuple[Late, ...]
    late_left_out: int


_AWAY: Final = frozenset({"DriftDetected", "FaultsFound", "RecoverySummarised"})
"""The first events after a restart: what lies before them was spent without a daemon, or finding out."""


_BY_NAME: Final = all_but(
    ev.GoalRevised,
    ev.TurnStarted,
    ev.TurnCancelRequested,
    ev.TurnFailed,
    ev.ModelRequestStarted,
    ev.ModelResponseReceived,
    ev.ModelStreamInterrupted,
    ev.RetryScheduled,
    ev.SteeringDecided,
    ev.ToolCallProposed,
    ev.ApprovalRequested,
    ev.ApprovalResolved,
    ev.ToolExecutionStarted,
    ev.ToolExecutionFinished,
    ev.TestRunFinished,
    ev.ToolReconciled,
    ev.RecoverySummarised,
)


class TraceProjection:
    """Follows the turns of a session; holds the timeline of each turn, and no text."""

    by_name: ClassVar[frozenset[str]] = _BY_NAME

    def __init__(self) -> None:
        self._time = Timeline()
        self._turn: RunningTurn | None = None
        self._ended: list[TurnTrace] = []
        self._late: list[Late] = []
        self._late_left_out = 0
        self._revision = 0

    def take(self, event: Placed) -> None:
        """Take one more event in."""
        passed = self._time.read(event.at)
        if self._turn is not None:
            self._turn.spend("away" if event.type in _AWAY else self._turn.part(), passed)
        self._follow(event)

    def finish(self) -> TraceReport:
        """The turns so far; the last one may still run."""
        running = (self._told(self._turn),) if self._turn is not None else ()
        return TraceReport((*self._ended, *running), tuple(self._late), self._late_left_out)

    def _follow(self, event: Placed) -> None:
        body = event.body
        if isinstance(body, ev.GoalRevised):
            self._revision = max(self._revision, body.goal_revision)
        elif isinstance(body, ev.TurnStarted):
            self._begin(body, event.at)
        elif self._is_late(body):
            self._note_late(event)
        elif self._turn is not None:
            self._step(self._turn, event)

    def _begin(self, body: ev.TurnStarted, at: int) -> None:
        if self._turn is not None:
            self._ended.append(self._told(self._turn))
        self._turn = RunningTurn(body.turn_id, body.goal_revision, at, self._time.now, self._time.set_back)

    def _is_late(self, body: ev.EventBody | None) -> bool:
        """Whether an event of a call belongs to a goal or turn that is over."""
        if not isinstance(body, ev.ToolExecutionFinished | ev.TestRunFinished | ev.ToolReconciled):
            return False
        if self._turn is None or self._turn.turn_id != body.turn_id:
            return True
        return body.call_id in self._turn.began_calls and body.goal_revision < self._revision

    def _note_late(self, event: Placed) -> None:
        body: Any = event.body
        if self._turn is not None and body.turn_id == self._turn.turn_id:
            self._step(self._turn, event)
        if len(self._late) >= LATE_MAX:
            self._late_left_out += 1
            return
        late = Late(event.seq, event.at, event.type, body.turn_id, body.call_id, body.goal_revision, self._revision)
        self._late.append(late)

    def _step(self, turn: RunningTurn, event: Placed) -> None:
        if event.body is None and event.type not in self.by_name:
            turn.step_bodiless(event.type, self._time.now)
        else:
            turn.step(event.type, event.body, self._time.now)
        if turn.end != "running":
            self._ended.append(self._told(turn))
            self._turn = None

    def _told(self, turn: RunningTurn) -> TurnTrace:
        now = self._time.now
        return TurnTrace(
            turn_id=turn.turn_id,
            goal_revision=turn.goal_revision,
            began_at=turn.began_at,
            end=turn.end,
            code=turn.code,
            duration_us=now - turn.began,
            parts=dict(turn.parts),
            first_token_us=turn.since_begin(turn.first_token),
            first_action_us=turn.since_begin(turn.first_action),
            released_us=None if turn.stopped is None or turn.end == "running" else now - turn.stopped,
            clock_set_back=self._time.set_back - turn.set_back,
            lines=tuple(turn.lines.values()),
            lines_left_out=turn.left_out,
        )
