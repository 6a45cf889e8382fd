"""One record for each turn, for evaluating agents, models and prompts.

Purpose: what was asked, in which context, by which model, what it did, what the user made of it, and what it cost.
Invariant: a record is made of events alone; decisions about a change count for the turn that proposed it last.
Must never: be written out with secrets: whoever writes it redacts every text first.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from gloveport.protocol.journal import events as ev
from gloveport.server.session.views.context import NO_HISTORY, RunningDigest
from gloveport.server.session.views.placed import Folded, Placed
from gloveport.server.session.views.price import PriceBook
from gloveport.server.session.views.trace import TraceProjection
from gloveport.server.session.views.usage import UsageProjection, UsageSum

SAMPLE_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class TestCounts:
    """Results of a test run, as the code under test reported them."""

    __test__ = False

    passed: int
    failed: int
    errors: int
    skipped: int


@dataclass(slots=True)
class SampleCall:
    """One call. `verdict`: policy's last; `answer`: what the user said, null when nobody was asked."""

    call_id: str
    tool: str
    arguments_digest: str
    goal_revision: int
    verdict: str | None = None
    answer: str | None = None
    outcome: str | None = None
    exit_code: int | None = None
    duration_us: int | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One turn. `context_digest` is that of the history that the first request was made from; `tests_before` the last
    run before the turn's first change, `tests_after` the last run of the turn after it. Times in microseconds."""

    session_id: str
    turn_id: str
    goal_revision: int
    began_at: int
    task: tuple[str, ...]
    context_digest: str
    models: tuple[str, ...]
    calls: tuple[SampleCall, ...]
    approvals: dict[str, int]
    hunks: dict[str, int]
    paths: tuple[str, ...]
    tests_before: TestCounts | None
    tests_after: TestCounts | None
    usage: UsageSum
    end: str
    code: str
    duration_us: int
    parts: dict[str, int]
    first_action_us: int | None


@dataclass(slots=True)
class _Turn:
    """The record of a turn as it grows."""

    turn_id: str
    goal_revision: int
    task: list[str] = field(default_factory=list)
    digest: str = ""
    models: dict[str, None] = field(default_factory=dict)
    calls: dict[str, SampleCall] = field(default_factory=dict)
    approvals: Counter[str] = field(default_factory=Counter)
    hunks: Counter[str] = field(default_factory=Counter)
    paths: dict[str, None] = field(default_factory=dict)
    before: TestCounts | None = None
    after: TestCounts | None = None


class SampleProjection:
    """Follows a session; holds a record for each turn, and the session's fold."""

    by_name: ClassVar[frozenset[str]] = frozenset({"ToolExecutionProgress"})

    def __init__(self) -> None:
        self._folded = Folded()
        self._usage, self._trace = UsageProjection(), TraceProjection()
        self._turns: dict[str, _Turn] = {}
        self._said: dict[str, list[str]] = {}
        self._turn_of: dict[str, str] = {}
        self._tests: TestCounts | None = None
        self._digest = RunningDigest()

    def take(self, event: Placed) -> None:
        """Take one more event in."""
        self._usage.take(event)
        self._trace.take(event)
        if event.type not in NO_HISTORY:
            self._folded.take(event)
        if event.type in ("ContextCompacted", "TextErased"):
            self._digest = RunningDigest()
        body = event.body
        if isinstance(body, ev.UserMessageAdded):
            self._said.setdefault(body.turn_id, []).append(body.text)
        elif isinstance(body, ev.TurnStarted):
            turn = _Turn(body.turn_id, body.goal_revision, before=self._tests)
            turn.task = self._said.setdefault(body.turn_id, [])
            self._turns[body.turn_id] = turn
        elif isinstance(body, ev.HunkDecided):
            self._decided(body)
        elif body is not None:
            self._grow(body)

    def models(self) -> frozenset[tuple[str, str]]:
        """Provider and model of every request, for whoever fetches prices."""
        return self._usage.models()

    def finish(self, prices: PriceBook | None = None) -> tuple[Sample, ...]:
        """A record for each turn so far, oldest first."""
        usage = dict(self._usage.finish(prices).by_turn)
        traces = {one.turn_id: one for one in self._trace.finish().turns}
        return tuple(self._sample(turn, usage, traces[turn.turn_id]) for turn in self._turns.values())

    def _sample(self, turn: _Turn, usage: dict[str, UsageSum], trace: Any) -> Sample:
        return Sample(
            session_id=self._folded.state.session_id,
            turn_id=turn.turn_id,
            goal_revision=turn.goal_revision,
            began_at=trace.began_at,
            task=tuple(turn.task),
            context_digest=turn.digest,
            models=tuple(turn.models),
            calls=tuple(replace(call) for call in turn.calls.values()),
            approvals=dict(turn.approvals),
            hunks=dict(turn.hunks),
            paths=tuple(turn.paths),
            tests_before=turn.before,
            tests_after=turn.after,
            usage=usage.get(turn.turn_id, UsageSum()),
            end=trace.end,
            code=trace.code,
            duration_us=trace.duration_us,
            parts=dict(trace.parts),
            first_action_us=trace.first_action_us,
        )

    def _decided(self, body: ev.HunkDecided) -> None:
        turn = self._turns.get(self._turn_of.get(body.change_id, ""))
        if turn is not None:
            turn.hunks[body.decision] += len(body.digests)

    def _grow(self, body: ev.EventBody) -> None:
        turn = self._turns.get(getattr(body, "turn_id", ""))
        if turn is None:
            return
        match body:
            case ev.ModelRequestStarted():
                turn.models[f"{body.provider}/{body.model}"] = None
                turn.digest = turn.digest or self._digest.after(self._folded.state.history)
            case ev.ToolCallProposed():
                call = SampleCall(body.call_id, body.tool, body.arguments_digest, body.goal_revision)
                turn.calls[body.call_id] = call
            case ev.ApprovalRequested():
                turn.approvals["asked"] += 1
            case ev.ChangeProposed():
                self._turn_of[body.change_id] = turn.turn_id
                turn.paths[body.path] = None
            case ev.TestRunFinished():
                self._tested(turn, body)
            case ev.PolicyDecided() | ev.ApprovalResolved() | ev.ToolExecutionFinished():
                _grow_call(turn, body)

    def _tested(self, turn: _Turn, body: ev.TestRunFinished) -> None:
        self._tests = TestCounts(body.passed, body.failed, body.errors, body.skipped)
        if turn.paths:
            turn.after = self._tests
        else:
            turn.before = self._tests


def _grow_call(turn: _Turn, body: ev.PolicyDecided | ev.ApprovalResolved | ev.ToolExecutionFinished) -> None:
    if isinstance(body, ev.ApprovalResolved):
        turn.approvals[body.decision] += 1
    call = turn.calls.get(body.call_id)
    if call is None:
        return
    if isinstance(body, ev.PolicyDecided):
        call.verdict = body.verdict
    elif isinstance(body, ev.ApprovalResolved):
        call.answer = body.decision
    else:
        call.outcome, call.exit_code, call.duration_us = body.outcome, body.exit_code, body.duration_us
