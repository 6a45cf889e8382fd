"""One turn on its timeline: what counts at each moment, and a line for each thing in it.

Purpose: the parts of a turn's time, its lines, and what each event does to them.
Invariant: at each moment exactly one part counts; a line is closed once, and is never longer than its turn.
Must never: read a clock; the moments are handed in. Or list a request that was held back as one that was made.

What counts at a moment, first that fits: a compaction runs; a retry waits; a request runs (before its first words, or
after); a tool runs (tests apart); the user is asked; a call waits for its turn; nothing known. The log has no event for
the start of a sandbox yet: it lies within `tool_run`. Of the building of a request it knows the taking over of the
user's edits; the rest lies within `first_token`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from gloveport.server.session.views.held import is_held_back

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


@dataclass(slots=True)
class RunningTurn:
    """The turn that is being followed. Times are those of the timeline."""

    turn_id: str
    goal_revision: int
    began_at: int
    began: int
    set_back: int
    parts: dict[Part, int] = field(default_factory=lambda: dict.fromkeys(PARTS, 0))
    spent: int = 0
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
    away_began: int | None = None
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

    def spend(self, part: Part, passed: int) -> None:
        """Count time for a part."""
        self.parts[part] += passed
        self.spent += passed
        if part == "away" and self.away_began is None:
            self.away_began = self.spent - passed
        if part == "first_token" and self.accepted:
            self.after_headers += passed

    def since_begin(self, moment: int | None) -> int | None:
        """Microseconds from the turn's start to a moment."""
        return None if moment is None else moment - self.began

    def step(self, event_type: str, body: Any, now: int) -> None:
        """Take an event of the turn in; types that say nothing of time are passed over."""
        handler = _STEPS.get(event_type)
        if handler is not None:
            handler(self, body, now)

    def step_bodiless(self, event_type: str, now: int) -> None:
        """Take an event in that was erased, or that a newer version wrote: its type still says that something ended or
        began to wait."""
        if event_type in ("ModelResponseReceived", "ModelStreamInterrupted") and self.request is not None:
            _close(self, "request", self.request, "", now)
            self.request = None
        elif event_type == "TurnFailed":
            _ended(self, "failed", "")
        elif event_type in ("RetryScheduled", "RecoverySummarised"):
            self.step(event_type, None, now)


def _open(turn: RunningTurn, kind: LineKind, name: str, title: str, now: int, revision: int | None = None) -> None:
    key = f"{kind}/{name}"
    if key in turn.lines or len(turn.lines) < LINES_MAX:
        turn.lines[key] = Line(kind, name, title, now - turn.began, None, goal_revision=revision)
    else:
        turn.left_out += 1


def _close(turn: RunningTurn, kind: LineKind, name: str, outcome: str, now: int) -> None:
    line = turn.lines.get(f"{kind}/{name}")
    if line is not None and line.lasts_us is None:
        lasts = now - turn.began - line.begins_us
        turn.lines[f"{kind}/{name}"] = replace(line, lasts_us=lasts, outcome=outcome)


def _close_all(turn: RunningTurn, kind: LineKind, now: int) -> None:
    for line in tuple(turn.lines.values()):
        if line.kind == kind:
            _close(turn, kind, line.id, line.outcome, now)


def _request(turn: RunningTurn, body: Any, now: int) -> None:
    turn.request, turn.spoke, turn.accepted, turn.after_headers = body.request_id, False, False, 0
    turn.retrying = False
    _close_all(turn, "retry", now)
    turn.before_words = dict(turn.parts)
    _open(turn, "request", body.request_id, f"{body.provider}/{body.model}", now)


def _headers(turn: RunningTurn, _body: Any, _now: int) -> None:
    turn.accepted = True


def _edits(turn: RunningTurn, _body: Any, now: int) -> None:
    """What passed since the request's intent was the taking over of the user's edits."""
    if turn.request is not None and not turn.spoke and not turn.accepted:
        spent = turn.parts["first_token"] - turn.before_words["first_token"]
        turn.parts["first_token"] -= spent
        turn.parts["context_build"] += spent
        _open(turn, "edits", turn.request, "your edits were taken over", now)
        _close(turn, "edits", turn.request, "", now)


def _words(turn: RunningTurn, _body: Any, now: int) -> None:
    if turn.request is not None:
        turn.spoke = True
        turn.first_token = now if turn.first_token is None else turn.first_token


def _answer(turn: RunningTurn, body: Any, now: int) -> None:
    """A response without words was being made since its headers came."""
    if turn.request is not None and not turn.spoke:
        turn.parts["first_token"] -= turn.after_headers
        turn.parts["generation"] += turn.after_headers
    turn.request = None
    _close(turn, "request", body.request_id, body.stop, now)


def _broke(turn: RunningTurn, body: Any, now: int) -> None:
    turn.request = None
    _close(turn, "request", body.request_id, body.code, now)


def _proposed(turn: RunningTurn, body: Any, now: int) -> None:
    turn.proposed[body.call_id] = body.tool
    _open(turn, "call", body.call_id, body.tool, now, body.goal_revision)


def _asked(turn: RunningTurn, body: Any, now: int) -> None:
    turn.waiting[body.approval_id] = body.call_id
    _open(turn, "approval", body.approval_id, str(body.card.get("title", "")), now, body.goal_revision)


def _resolved(turn: RunningTurn, body: Any, now: int) -> None:
    turn.waiting.pop(body.approval_id, None)
    _close(turn, "approval", body.approval_id, body.decision, now)


def _started(turn: RunningTurn, body: Any, now: int) -> None:
    turn.proposed.pop(body.call_id, None)
    turn.running[body.call_id] = body.tool
    turn.began_calls.add(body.call_id)
    turn.first_action = now if turn.first_action is None else turn.first_action
    line = turn.lines.get(f"call/{body.call_id}")
    if line is not None:
        turn.lines[f"call/{body.call_id}"] = replace(line, title=f"{body.tool}: {body.title}")


def _finished(turn: RunningTurn, body: Any, now: int) -> None:
    turn.proposed.pop(body.call_id, None)
    turn.running.pop(body.call_id, None)
    _close(turn, "call", body.call_id, body.outcome, now)


def _recovered(turn: RunningTurn, body: Any, now: int) -> None:
    told = [line.lasts_us or 0 for line in turn.lines.values() if line.kind == "away"]
    began = now - turn.began if turn.away_began is None else turn.away_began
    name, turn.away_began = str(len(told) + 1), None
    _open(turn, "away", name, body.text if body is not None else "", turn.began + began)
    _close(turn, "away", name, "", turn.began + began + turn.parts["away"] - sum(told))


def _stopping(turn: RunningTurn, body: Any, now: int) -> None:
    turn.stopped = now
    _open(turn, "stop", turn.turn_id, body.by, now)
    _close(turn, "stop", turn.turn_id, "", now)


def _steered(turn: RunningTurn, body: Any, now: int) -> None:
    _open(turn, "steering", body.message_id, body.words, now, body.goal_revision)
    _close(turn, "steering", body.message_id, body.kind, now)


def _ended(turn: RunningTurn, end: Literal["completed", "failed", "cancelled"], code: str) -> None:
    turn.end, turn.code = end, code


def _retry(turn: RunningTurn, body: Any, now: int) -> None:
    turn.retrying = True
    if is_held_back(body):
        turn.lines.pop(f"request/{body.request_id}", None)
    name = f"{getattr(body, 'request_id', '')}.{getattr(body, 'attempt', '')}"
    _open(turn, "retry", name, str(getattr(body, "error_class", "")), now)


def _compaction(turn: RunningTurn, _body: Any, now: int) -> None:
    turn.compacting = True
    _open(turn, "compaction", str(now), "", now)


def _compacted(turn: RunningTurn, _body: Any, now: int) -> None:
    turn.compacting = False
    _close_all(turn, "compaction", now)


_STEPS: Final[Mapping[str, Callable[[RunningTurn, Any, int], None]]] = MappingProxyType(
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
