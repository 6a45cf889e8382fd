"""What the views of a session say, in the shapes of the wire.

Purpose: for each method that shows a projection: how to begin it, and how to answer from it.
Invariant: pure; a daemon and a reader of the log without one give the same answer.
Must never: let a text out unredacted unless that was asked for.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.wire import views as wire
from gloveport.protocol.wire.base import WireModel
from gloveport.server.policy.tuning import Asked, suggestions
from gloveport.server.secrets.parts import redacted_parts
from gloveport.server.session.views.histogram import Histogram
from gloveport.server.session.views.metrics import COUNTS, Metrics
from gloveport.server.session.views.placed import Projection
from gloveport.server.session.views.plan import PlanProjection, PlanView
from gloveport.server.session.views.price import PriceBook
from gloveport.server.session.views.samples import SAMPLE_VERSION, SampleProjection
from gloveport.server.session.views.task import TaskProjection, TaskView
from gloveport.server.session.views.trace import TraceProjection, TraceReport
from gloveport.server.session.views.trace_turn import NOT_RECORDED
from gloveport.server.session.views.usage import RequestUsage, UsageProjection, UsageReport, UsageSum

PRICED_BY: Final = "the prices in your settings, else genai-prices, the list inside the installed package"
NOTE: Final = "An estimate by list prices: writes into a provider's cache and discounts are not in the log."
RATES: Final[tuple[tuple[str, str, str], ...]] = (
    ("turns completed", "turns_completed", "turns"),
    ("turns stopped", "turns_cancelled", "turns"),
    ("calls asked about", "approvals_asked", "calls_judged"),
    ("calls refused by policy", "calls_refused", "calls_judged"),
    ("interruptions by questions", "cards_shown", "approvals_asked"),
    ("questions allowed", "approvals_allowed", "approvals_asked"),
    ("questions denied", "approvals_denied", "approvals_asked"),
    ("refused calls that ran later", "calls_refused_run_later", "calls_refused_or_denied"),
    ("accepted hunks undone", "hunks_undone", "hunks_accepted"),
    ("answers that broke off", "streams_interrupted", "streams"),
    ("tools that ended well", "tools_ok", "tools_run"),
    ("tools with unknown outcome", "tools_unknown", "tools_run"),
)


@dataclass(frozen=True, slots=True)
class Aids:
    """What an answer needs beside the projection: prices of the models that occur, and how to redact a text."""

    prices: PriceBook
    redact: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Shown:
    """A method that shows one projection of one session."""

    begin: Callable[[], Projection[Any]]
    answer: Callable[[Any, Any, Aids], WireModel]


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a result, as they are."""
    return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}


def _redacted_fields(value: Any, redact: Callable[[str], str]) -> dict[str, Any]:
    fields: dict[str, Any] = redacted_parts(fields_of(value), redact)
    return fields


def _sums(total: UsageSum) -> wire.UsageSums:
    return wire.UsageSums(**fields_of(total))


def _rows(groups: Iterable[tuple[str, UsageSum]]) -> tuple[wire.UsageRow, ...]:
    return tuple(wire.UsageRow(name=name, sums=_sums(total)) for name, total in groups)


def _request(one: RequestUsage) -> wire.RequestRow:
    return wire.RequestRow(
        request_id=one.request_id,
        turn_id=one.turn_id,
        model=f"{one.provider}/{one.model}",
        at=one.at,
        end=one.end,
        input_tokens=one.tokens.input,
        output_tokens=one.tokens.output,
        cached_tokens=one.tokens.cached,
        cost_nano_usd=one.cost_nano_usd,
        unpriced=one.unpriced,
        billed_unseen=one.billed_unseen,
    )


def _last(items: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    return items[-count:] if count else ()


def usage_answer(projection: UsageProjection, params: wire.UsageShowParams, aids: Aids) -> wire.UsageShowResult:
    """Tokens and cost."""
    report: UsageReport = projection.finish(aids.prices)
    return wire.UsageShowResult(
        session_id=params.session_id,
        total=_sums(report.total),
        by_model=_rows(report.by_model),
        by_turn=_rows(_last(report.by_turn, params.turns)),
        requests=tuple(map(_request, _last(report.requests, params.requests))),
        priced_by=PRICED_BY if report.total.priced else "",
        note=NOTE if report.total.priced else "",
    )


def trace_answer(projection: TraceProjection, params: wire.TraceShowParams, aids: Aids) -> wire.TraceShowResult:
    """The latency split of some turns."""
    report: TraceReport = projection.finish()
    named = tuple(one for one in report.turns if params.turn_id in (None, one.turn_id))
    shown = _last(named, params.turns)
    return wire.TraceShowResult(
        session_id=params.session_id,
        turns=tuple(_turn(one, aids.redact) for one in shown),
        turns_before=len(named) - len(shown),
        late=tuple(wire.LateResult(**fields_of(one)) for one in report.late),
        late_left_out=report.late_left_out,
        not_recorded=NOT_RECORDED,
    )


def _turn(turn: Any, redact: Callable[[str], str]) -> wire.TraceTurn:
    lines = tuple(wire.TraceLine(**_redacted_fields(line, redact)) for line in turn.lines)
    parts = wire.TraceParts(**{f"{name}_us": spent for name, spent in turn.parts.items()})
    return wire.TraceTurn(**{**fields_of(turn), "parts": parts, "lines": lines})


def plan_answer(projection: PlanProjection, params: wire.PlanShowParams, aids: Aids) -> wire.PlanShowResult:
    """The plan."""
    plan: PlanView = projection.finish()
    steps = tuple(wire.PlanStepInfo(**_redacted_fields(step, aids.redact)) for step in plan.steps)
    return wire.PlanShowResult(session_id=params.session_id, **{**fields_of(plan), "steps": steps})


def task_answer(projection: TaskProjection, params: wire.TaskShowParams, aids: Aids) -> wire.TaskShowResult:
    """The state of the task."""
    task: TaskView = projection.finish()
    failure = task.last_failure
    return wire.TaskShowResult(
        session_id=params.session_id,
        phase=task.phase,
        turn_id=task.turn_id,
        goal_revision=task.goal_revision,
        since=task.since,
        running=tuple(wire.TaskActivity(**_redacted_fields(one, aids.redact)) for one in task.running),
        waiting=tuple(wire.TaskActivity(**_redacted_fields(one, aids.redact)) for one in task.waiting),
        last_failure=wire.TaskFailure(**_redacted_fields(failure, aids.redact)) if failure is not None else None,
    )


def samples_answer(projection: SampleProjection, params: wire.SampleListParams, aids: Aids) -> wire.SampleListResult:
    """Records for evaluation."""
    samples = projection.finish(aids.prices)
    page = samples[params.offset : params.offset + params.limit]
    records = [{"version": SAMPLE_VERSION, **dataclasses.asdict(one)} for one in page]
    shown = [redacted_parts(one, aids.redact) for one in records] if params.redacted else records
    more = params.offset + len(page) < len(samples)
    return wire.SampleListResult(
        session_id=params.session_id, samples=tuple(shown), next_offset=params.offset + len(page) if more else None
    )


def metrics_answer(metrics: Metrics, sessions: int) -> wire.MetricsShowResult:
    """Measures of one or many sessions."""
    counts = {name: metrics.counts[name] for name in COUNTS}
    rules = tuple(
        Asked(name, one["asked"], one["allowed"], one["denied"]) for name, one in sorted(metrics.rules.items())
    )
    refused = counts["calls_refused_or_denied"]
    found = suggestions(
        rules, counts["hunks_accepted"], counts["hunks_undone"], refused, counts["calls_refused_run_later"]
    )
    return wire.MetricsShowResult(
        sessions=sessions,
        counts=tuple(wire.CountRow(name=name, count=count) for name, count in counts.items()),
        rates=tuple(_rate(name, counts[part], counts[whole]) for name, part, whole in RATES),
        durations=(
            _percentiles("turn", metrics.turns),
            _percentiles("first action", metrics.first_action),
            _percentiles("stop to released", metrics.released),
            _percentiles("tool", metrics.all_tools()),
        ),
        tools=tuple(_percentiles(name, histogram) for name, histogram in sorted(metrics.tools.items())),
        rules=tuple(
            wire.RuleRow(rule_id=one.rule_id, asked=one.asked, allowed=one.allowed, denied=one.denied) for one in rules
        ),
        suggestions=found,
    )


def _rate(name: str, part: int, whole: int) -> wire.Rate:
    return wire.Rate(name=name, part=part, whole=whole, percent=part * 100 // whole if whole else None)


def _percentiles(name: str, histogram: Histogram) -> wire.Percentiles:
    return wire.Percentiles(
        name=name,
        count=histogram.count,
        p50_us=histogram.percentile(50),
        p95_us=histogram.percentile(95),
        p99_us=histogram.percentile(99),
        highest_us=histogram.highest if histogram.count else None,
    )


SHOWN: Final[Mapping[str, Shown]] = MappingProxyType(
    {
        "usage/show": Shown(UsageProjection, usage_answer),
        "trace/show": Shown(TraceProjection, trace_answer),
        "plan/show": Shown(PlanProjection, plan_answer),
        "task/show": Shown(TaskProjection, task_answer),
        "sample/list": Shown(SampleProjection, samples_answer),
    }
)
