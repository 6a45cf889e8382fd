"""Where the time of a turn went.

Purpose: split each turn's time into named parts, with a line for each request, call, question and restart in it.
Invariant: at each moment exactly one part counts: the parts sum exactly to the turn's time, and none is negative.
Must never: hide what came late: a result of an older goal, or of a turn that ended, is listed as such.

What counts at a moment, first that fits: the daemon was away; a compaction runs; a retry waits; a request runs (before
its first words, or after); a tool runs (tests apart); the user is asked; a call waits for its turn; nothing known.
The log has no event for the start of a sandbox yet: it lies within `tool_run`. Of the building of a request it knows
the taking over of the user's edits; the rest lies within `first_token`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal

from gloveport.protocol.journal import events as ev
from gloveport.server.session.views.clock import Timeline
from gloveport.server.session.views.placed import Placed

Part = Literal[
    "context_build", "first_token", "generation", "tool_queue", "approval", "tool_run", "verification", "cold_start",
    "retry", "compaction", "away", "unaccounted",
]  # fmt: skip
PARTS: Final[tuple[Part, ...]] = (
    "context_build", "first_token", "generation", "tool_queue", "approval", "tool_run", "verification", "cold_start",
    "retry", "compaction", "away", "unaccounted",
)  # fmt: skip
NOT_RECORDED: Final[tuple[Part, ...]] = ("cold_start",)
"""Parts for which the log has no event yet; their time lies within others."""
VERIFYING_TOOLS: Final = frozenset({"run_tests"})
LINES_MAX: Final = 2_000
"""The most lines kept of one turn; those beyond are counted."""
LATE_MAX: Final = 1_000

LineKind = Literal["request", "call", "approval", "retry", "compaction", "away", "stop", "edits", "steering"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a turn's timeline. Times in microseconds since the turn's start; `lasts_us` null = not ended."""

    kind: LineKind
    id: str
    title: str
    begins_us: int
    lasts_us: int | None
    outcome: str = ""
    goal_revision: int | None = None


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


@dataclass(slots=True)
class _Running:
    """The turn that is being followed. Times are those of the timeline."""

    turn_id: str
    goal_revision: int
    began_at: int
    began: int
    set_back: int
    parts: dict[Part, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    lines: dict[str, Line] = field(default_factory=dict)
    left_out: int = 0
    request: str | None = None
    spoke: bool = False
    before_words: dict[Part, int] = field(default_factory=dict)
    accepted: bool = False
    after_headers: int = 0
    running: dict[str, str] = field(default_factory=dict)
    began_calls: set[str] = field(default_factory=set)
    waiting: dict[str, str] = field(default_factory=dict)
    proposed: dict[str, str] = field(default_factory=dict)
    retrying: bool = False
    compacting: bool = False
    first_token: int | None = None
    first_action: int | None = None
    stopped: int | None = None
    end: Literal["running", "completed", "failed", "cancelled"] = "running"
    code: str = ""

    def part(self) -> Part:
        """What counts now."""
        if self.compacting:
            return "compaction"
        if self.retrying:
            return "retry"
        if self.request is not None:
            return "generation" if self.spoke else "first_token"
        if self.running:
            return "verification" if VERIFYING_TOOLS.intersection(self.running.values()) else "tool_run"
        if self.waiting:
            return "approval"
        return "tool_queue" if self.proposed else "unaccounted"


_AWAY: Final = frozenset({"RecoverySummarised"})
"""The first event after a restart: what lies before it was spent without a daemon."""


class TraceProjection:
    """Follows the turns of a session; holds the timeline of each turn, and no text."""

    by_name: ClassVar[frozenset[str]] = frozenset({"ModelTextDelta", "ToolExecutionProgress"})

    def __init__(self) -> None:
        self._time = Timeline()
        self._turn: _Running | None = None
        self._ended: list[TurnTrace] = []
        self._late: list[Late] = []
        self._late_left_out = 0
        self._revision = 0

    def take(self, event: Placed) -> None:
        """Take one more event in."""
        passed = self._time.read(event.at)
        if self._turn is not None:
            self._spend(self._turn, "away" if event.type in _AWAY else self._turn.part(), passed)
        self._follow(event)

    def finish(self) -> TraceReport:
        """The turns so far; the last one may still run."""
        running = (self._told(self._turn),) if self._turn is not None else ()
        return TraceReport((*self._ended, *running), tuple(self._late), self._late_left_out)

    def _spend(self, turn: _Running, part: Part, passed: int) -> None:
        turn.parts[part] += passed
        if part == "first_token" and turn.accepted:
            turn.after_headers += passed

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
        self._turn = _Running(body.turn_id, body.goal_revision, at, self._time.now, self._time.set_back)

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

    def _step(self, turn: _Running, event: Placed) -> None:
        handler = _STEPS.get(event.type)
        if handler is not None:
            handler(turn, event.body, self._time.now)
        if turn.end != "running":
            self._ended.append(self._told(turn))
            self._turn = None

    def _told(self, turn: _Running) -> TurnTrace:
        now = self._time.now
        return TurnTrace(
            turn_id=turn.turn_id,
            goal_revision=turn.goal_revision,
            began_at=turn.began_at,
            end=turn.end,
            code=turn.code,
            duration_us=now - turn.began,
            parts=dict(turn.parts),
            first_token_us=_since(turn, turn.first_token),
            first_action_us=_since(turn, turn.first_action),
            released_us=None if turn.stopped is None or turn.end == "running" else now - turn.stopped,
            clock_set_back=self._time.set_back - turn.set_back,
            lines=tuple(turn.lines.values()),
            lines_left_out=turn.left_out,
        )


def _since(turn: _Running, moment: int | None) -> int | None:
    return None if moment is None else moment - turn.began


def _open(turn: _Running, kind: LineKind, name: str, title: str, now: int, revision: int | None = None) -> None:
    key = f"{kind}/{name}"
    if key in turn.lines or len(turn.lines) < LINES_MAX:
        turn.lines[key] = Line(kind, name, title, now - turn.began, None, goal_revision=revision)
    else:
        turn.left_out += 1


def _close(turn: _Running, kind: LineKind, name: str, outcome: str, now: int) -> None:
    line = turn.lines.get(f"{kind}/{name}")
    if line is not None and line.lasts_us is None:
        lasts = now - turn.began - line.begins_us
        turn.lines[f"{kind}/{name}"] = replace(line, lasts_us=lasts, outcome=outcome)


def _close_all(turn: _Running, kind: LineKind, now: int) -> None:
    for line in tuple(turn.lines.values()):
        if line.kind == kind:
            _close(turn, kind, line.id, line.outcome, now)


def _request(turn: _Running, body: Any, now: int) -> None:
    turn.request, turn.spoke, turn.accepted, turn.after_headers = body.request_id, False, False, 0
    turn.retrying = False
    _close_all(turn, "retry", now)
    turn.before_words = dict(turn.parts)
    _open(turn, "request", body.request_id, f"{body.provider}/{body.model}", now)


def _headers(turn: _Running, _body: Any, _now: int) -> None:
    turn.accepted = True


def _edits(turn: _Running, _body: Any, now: int) -> None:
    """What passed since the request's intent was the taking over of the user's edits."""
    if turn.request is not None and not turn.spoke and not turn.accepted:
        spent = turn.parts["first_token"] - turn.before_words["first_token"]
        turn.parts["first_token"] -= spent
        turn.parts["context_build"] += spent
        _open(turn, "edits", turn.request, "your edits were taken over", now)
        _close(turn, "edits", turn.request, "", now)


def _words(turn: _Running, _body: Any, now: int) -> None:
    if turn.request is not None:
        turn.spoke = True
        turn.first_token = now if turn.first_token is None else turn.first_token


def _answer(turn: _Running, body: Any, now: int) -> None:
    """A response without words was being made since its headers came."""
    if turn.request is not None and not turn.spoke:
        turn.parts["first_token"] -= turn.after_headers
        turn.parts["generation"] += turn.after_headers
    turn.request = None
    _close(turn, "request", body.request_id, body.stop, now)


def _broke(turn: _Running, body: Any, now: int) -> None:
    turn.request = None
    _close(turn, "request", body.request_id, body.code, now)


def _proposed(turn: _Running, body: Any, now: int) -> None:
    turn.proposed[body.call_id] = body.tool
    _open(turn, "call", body.call_id, body.tool, now, body.goal_revision)


def _asked(turn: _Running, body: Any, now: int) -> None:
    turn.waiting[body.approval_id] = body.call_id
    _open(turn, "approval", body.approval_id, str(body.card.get("title", "")), now, body.goal_revision)


def _resolved(turn: _Running, body: Any, now: int) -> None:
    turn.waiting.pop(body.approval_id, None)
    _close(turn, "approval", body.approval_id, body.decision, now)


def _started(turn: _Running, body: Any, now: int) -> None:
    turn.proposed.pop(body.call_id, None)
    turn.running[body.call_id] = body.tool
    turn.began_calls.add(body.call_id)
    turn.first_action = now if turn.first_action is None else turn.first_action
    line = turn.lines.get(f"call/{body.call_id}")
    if line is not None:
        turn.lines[f"call/{body.call_id}"] = replace(line, title=f"{body.tool}: {body.title}")


def _finished(turn: _Running, body: Any, now: int) -> None:
    turn.proposed.pop(body.call_id, None)
    turn.running.pop(body.call_id, None)
    _close(turn, "call", body.call_id, body.outcome, now)


def _recovered(turn: _Running, body: Any, now: int) -> None:
    name = str(sum(line.kind == "away" for line in turn.lines.values()) + 1)
    _open(turn, "away", name, body.text if body is not None else "", now)
    _close(turn, "away", name, "", now)


def _stopping(turn: _Running, body: Any, now: int) -> None:
    turn.stopped = now
    _open(turn, "stop", turn.turn_id, body.by, now)
    _close(turn, "stop", turn.turn_id, "", now)


def _steered(turn: _Running, body: Any, now: int) -> None:
    _open(turn, "steering", body.message_id, body.words, now, body.goal_revision)
    _close(turn, "steering", body.message_id, body.kind, now)


def _ended(turn: _Running, end: Literal["completed", "failed", "cancelled"], code: str) -> None:
    turn.end, turn.code = end, code


def _retry(turn: _Running, body: Any, now: int) -> None:
    turn.retrying = True
    name = f"{getattr(body, 'request_id', '')}.{getattr(body, 'attempt', '')}"
    _open(turn, "retry", name, str(getattr(body, "error_class", "")), now)


def _compaction(turn: _Running, _body: Any, now: int) -> None:
    turn.compacting = True
    _open(turn, "compaction", str(now), "", now)


def _compacted(turn: _Running, _body: Any, now: int) -> None:
    turn.compacting = False
    _close_all(turn, "compaction", now)


_STEPS: Final[Mapping[str, Callable[[_Running, Any, int], None]]] = MappingProxyType(
    {
        "ModelRequestStarted": _request,
        "ModelRequestAccepted": _headers,
        "EditsTaken": _edits,
        "ModelTextDelta": _words,
        "ModelResponseReceived": _answer,
        "ModelStreamInterrupted": _broke,
        "ToolCallProposed": _proposed,
        "ApprovalRequested": _asked,
        "ApprovalResolved": _resolved,
        "ToolExecutionStarted": _started,
        "ToolExecutionFinished": _finished,
        "RecoverySummarised": _recovered,
        "TurnCancelRequested": _stopping,
        "SteeringDecided": _steered,
        "RetryScheduled": _retry,
        "CompactionStarted": _compaction,
        "ContextCompacted": _compacted,
        "CompactionDiscarded": _compacted,
        "TurnCompleted": lambda turn, _body, _now: _ended(turn, "completed", ""),
        "TurnFailed": lambda turn, body, _now: _ended(turn, "failed", body.code),
        "TurnCancelled": lambda turn, _body, _now: _ended(turn, "cancelled", ""),
    }
)
