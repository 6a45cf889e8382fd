"""What is measured of sessions: questions, refusals, takings back, stops, tools, ends.

Purpose: the rates and times that can be told from events, of one session or of many added up.
Invariant: each rate is told with its two counts, so that rates of sessions can be added; nothing is estimated.
Must never: call a refusal a false one: events do not say who was right.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final

from gloveport.protocol.journal import events as ev
from gloveport.server.policy.together import KEY
from gloveport.server.session.views.clock import Timeline
from gloveport.server.session.views.held import is_held_back
from gloveport.server.session.views.histogram import Histogram
from gloveport.server.session.views.placed import Placed, all_but

COUNTS: Final = (
    "sessions", "turns", "turns_completed", "turns_failed", "turns_cancelled", "calls_judged", "calls_refused",
    "calls_refused_or_denied", "calls_refused_run_later", "approvals_asked", "cards_shown", "approvals_allowed",
    "approvals_denied", "approvals_expired", "approvals_withdrawn", "approvals_superseded", "hunks_accepted",
    "hunks_rejected", "hunks_undone", "streams", "streams_interrupted", "tools_run", "tools_ok", "tools_unknown",
    "restarts", "retries", "events_unknown",
)  # fmt: skip


REFUSED_KEPT_MAX: Final = 1000
"""So many refused calls are remembered, to see whether the same is run later."""


@dataclass(slots=True)
class Metrics:
    """Counts by the names of `COUNTS`, and durations in microseconds.

    `released`: from a stop to the end of its turn; `first_action`: from a turn's start to its first tool.
    """

    counts: Counter[str] = field(default_factory=Counter)
    tools: dict[str, Histogram] = field(default_factory=dict)
    released: Histogram = field(default_factory=Histogram)
    first_action: Histogram = field(default_factory=Histogram)
    turns: Histogram = field(default_factory=Histogram)
    rules: dict[str, Counter[str]] = field(default_factory=dict)
    """By rule that was a reason to ask: `asked`, and what became of the cards (`allowed`, `denied`, …)."""

    def join(self, other: "Metrics") -> None:
        """Add another session's, or many sessions'."""
        self.counts.update(other.counts)
        for name, histogram in other.tools.items():
            self.tools.setdefault(name, Histogram()).join(histogram)
        for rule_id, counts in other.rules.items():
            self.rules.setdefault(rule_id, Counter()).update(counts)
        for mine, theirs in zip(self._times(), other._times(), strict=True):
            mine.join(theirs)

    def _times(self) -> tuple[Histogram, ...]:
        return self.released, self.first_action, self.turns

    def all_tools(self) -> Histogram:
        """Durations of every tool."""
        every = Histogram()
        for histogram in self.tools.values():
            every.join(histogram)
        return every


class MetricsProjection:
    """Measures a session; holds counts, the starts of what is open, and the hunks that were accepted."""

    by_name: ClassVar[frozenset[str]] = all_but(
        ev.TurnStarted,
        ev.TurnCancelRequested,
        ev.TurnCompleted,
        ev.TurnFailed,
        ev.TurnCancelled,
        ev.ToolCallProposed,
        ev.PolicyDecided,
        ev.ApprovalRequested,
        ev.ApprovalResolved,
        ev.HunkDecided,
        ev.ToolExecutionStarted,
        ev.ToolExecutionFinished,
        ev.RetryScheduled,
    )

    def __init__(self) -> None:
        self._time = Timeline()
        self._metrics = Metrics()
        self._running: dict[str, int] = {}
        self._began: int | None = None
        self._acted = False
        self._stopped: int | None = None
        self._same: dict[str, str] = {}
        self._asked: dict[str, tuple[str, ...]] = {}
        self._refused: dict[str, None] = {}
        self._accepted: dict[tuple[str, str], bool] = {}
        """Hunks that were ever accepted, by path and digest; False when that was undone."""

    def take(self, event: Placed) -> None:
        """Take one more event in."""
        self._time.read(event.at)
        counter = _COUNTED.get(event.type)
        if counter is not None:
            self._metrics.counts[counter] += 1
        body = event.body
        if body is None:
            if not event.erased and event.type not in self.by_name:
                self._metrics.counts["events_unknown"] += 1
        elif (measure := _MEASURES.get(type(body))) is not None:
            measure(self, body)

    def finish(self) -> Metrics:
        """A copy of what was measured so far."""
        copy = Metrics()
        copy.join(self._metrics)
        return copy

    def _count(self, name: str, number: int = 1) -> None:
        self._metrics.counts[name] += number

    def _began_turn(self, _body: ev.TurnStarted) -> None:
        self._began, self._acted, self._stopped = self._time.now, False, None

    def _stop(self, _body: ev.TurnCancelRequested) -> None:
        self._stopped = self._time.now

    def _ended_turn(self, _body: ev.EventBody) -> None:
        if self._began is not None:
            self._metrics.turns.add(self._time.now - self._began)
        if self._stopped is not None:
            self._metrics.released.add(self._time.now - self._stopped)
        self._began = self._stopped = None

    def _proposed(self, body: ev.ToolCallProposed) -> None:
        self._same[body.call_id] = f"{body.tool}:{body.arguments_digest}"

    def _judged(self, body: ev.PolicyDecided) -> None:
        self._count("calls_judged")
        self._count("calls_refused", int(body.verdict == "deny"))
        self._asked.pop(body.call_id, None)
        if body.verdict == "deny":
            self._refuse(body.call_id)
        if body.verdict == "ask":
            self._asked[body.call_id] = body.rule_ids
            self._count_rules(body.rule_ids, "asked")

    def _resolved(self, body: ev.ApprovalResolved) -> None:
        self._count(f"approvals_{body.decision}")
        self._count_rules(self._asked.get(body.call_id, ()), body.decision)
        if body.decision == "denied":
            self._refuse(body.call_id)

    def _count_rules(self, rule_ids: Iterable[str], what: str) -> None:
        for rule_id in rule_ids:
            self._metrics.rules.setdefault(rule_id, Counter())[what] += 1

    def _refuse(self, call_id: str) -> None:
        """Remember the newest refused calls by their tool and arguments."""
        self._count("calls_refused_or_denied")
        self._refused[self._same.get(call_id, call_id)] = None
        if len(self._refused) > REFUSED_KEPT_MAX:
            del self._refused[next(iter(self._refused))]

    def _hunks(self, body: ev.HunkDecided) -> None:
        """An accepted hunk counts once, and as undone once, as long as it is not accepted again."""
        if body.decision == "rejected":
            self._count("hunks_rejected", len(body.digests))
            return
        for hunk in ((body.path, digest) for digest in body.digests):
            stood = self._accepted.get(hunk)
            if body.decision == "accepted":
                self._count("hunks_accepted", int(stood is None))
                self._count("hunks_undone", -int(stood is False))
                self._accepted[hunk] = True
            elif stood:
                self._count("hunks_undone")
                self._accepted[hunk] = False

    def _shown(self, body: ev.ApprovalRequested) -> None:
        """Several questions that stand together interrupt once: by the first of them."""
        row = body.card.get(KEY)
        self._count("cards_shown", int(not isinstance(row, Mapping) or row.get("at") == 1))

    def _retried(self, body: ev.RetryScheduled) -> None:
        if is_held_back(body):  # it was no stream that broke, and what follows repeats nothing
            self._count("streams", -1)
            self._count("streams_interrupted", -1)
        else:
            self._count("retries")

    def _started(self, body: ev.ToolExecutionStarted) -> None:
        self._running[body.call_id] = self._time.now
        same = self._same.get(body.call_id, "")
        if same in self._refused:
            del self._refused[same]
            self._count("calls_refused_run_later")
        if self._began is not None and not self._acted:
            self._acted = True
            self._metrics.first_action.add(self._time.now - self._began)

    def _finished(self, body: ev.ToolExecutionFinished) -> None:
        began = self._running.pop(body.call_id, None)
        self._same.pop(body.call_id, None)
        self._asked.pop(body.call_id, None)
        if began is None:
            return
        self._count("tools_run")
        self._count("tools_ok", int(body.outcome == "ok"))
        self._count("tools_unknown", int(body.outcome in ("unknown", "lost")))
        lasted = body.duration_us if body.duration_us is not None else self._time.now - began
        self._metrics.tools.setdefault(body.tool, Histogram()).add(lasted)


_COUNTED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "SessionCreated": "sessions",
        "TurnStarted": "turns",
        "TurnCompleted": "turns_completed",
        "TurnFailed": "turns_failed",
        "TurnCancelled": "turns_cancelled",
        "ApprovalRequested": "approvals_asked",
        "ModelRequestStarted": "streams",
        "ModelStreamInterrupted": "streams_interrupted",
        "RecoverySummarised": "restarts",
    }
)
_MEASURES: Final[Mapping[type[ev.EventBody], Callable[[MetricsProjection, Any], None]]] = MappingProxyType(
    {
        ev.TurnStarted: MetricsProjection._began_turn,
        ev.TurnCancelRequested: MetricsProjection._stop,
        ev.TurnCompleted: MetricsProjection._ended_turn,
        ev.TurnFailed: MetricsProjection._ended_turn,
        ev.TurnCancelled: MetricsProjection._ended_turn,
        ev.ToolCallProposed: MetricsProjection._proposed,
        ev.PolicyDecided: MetricsProjection._judged,
        ev.ApprovalRequested: MetricsProjection._shown,
        ev.ApprovalResolved: MetricsProjection._resolved,
        ev.HunkDecided: MetricsProjection._hunks,
        ev.ToolExecutionStarted: MetricsProjection._started,
        ev.ToolExecutionFinished: MetricsProjection._finished,
        ev.RetryScheduled: MetricsProjection._retried,
    }
)
