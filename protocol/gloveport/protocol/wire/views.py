"""Messages about a session's usage, trace, plan, task, transcript, samples and measures.

Purpose: what projections of a session's events say, in the words of the wire.
Invariant: durations are microseconds, money is whole nano-USD (billionths of a US dollar); what is not known is null.
Must never: carry a price of nothing for something that has no price.
"""

from typing import Any, Literal

from pydantic import Field

from gloveport.protocol.wire.base import PAGE_MAX, Name, Page, SessionParams, WireModel

TURNS_MAX = 100


class UsageSums(WireModel):
    """Sums over requests; `cost_nano_usd` is that of the `priced` ones, null when there is none.

    `unpriced` answers have no price; `unseen` requests gave no count and may have been billed (an estimate, if any).
    """

    requests: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_nano_usd: int | None
    priced: int
    unpriced: int
    unseen: int
    unseen_nano_usd: int | None


class UsageRow(WireModel):
    """The sums of one model (`provider/model`) or one turn."""

    name: str
    sums: UsageSums


class RequestRow(WireModel):
    """One request; `unpriced` says why it has no cost."""

    request_id: str
    turn_id: str
    model: str
    at: int
    end: Literal["open", "answered", "interrupted"]
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    cost_nano_usd: int | None
    unpriced: str
    billed_unseen: bool


class UsageShowParams(SessionParams):
    """Tokens and cost of a session, with its newest turns and requests."""

    turns: int = Field(default=20, ge=0, le=PAGE_MAX)
    requests: int = Field(default=0, ge=0, le=PAGE_MAX)


class UsageShowResult(WireModel):
    """Usage; `priced_by` names the list of prices, `note` says what an estimate leaves out."""

    session_id: str
    total: UsageSums
    by_model: tuple[UsageRow, ...]
    by_turn: tuple[UsageRow, ...]
    requests: tuple[RequestRow, ...]
    priced_by: str
    note: str


class TraceLine(WireModel):
    """A line of a turn's timeline; `begins_us` counts from the turn's start, `lasts_us` null = not ended."""

    kind: str
    id: str
    title: str
    begins_us: int
    lasts_us: int | None
    outcome: str
    goal_revision: int | None


class TraceParts(WireModel):
    """Where the time went, in microseconds. `cold_start_us` is 0 as long as the log has no event for it."""

    context_build_us: int
    first_token_us: int
    generation_us: int
    tool_queue_us: int
    approval_us: int
    tool_run_us: int
    verification_us: int
    cold_start_us: int
    retry_us: int
    compaction_us: int
    away_us: int
    unaccounted_us: int


class TraceTurn(WireModel):
    """Where a turn's time went: `parts` sum to `duration_us`. `clock_set_back`: how often the clock jumped back."""

    turn_id: str
    goal_revision: int
    began_at: int
    end: Literal["running", "completed", "failed", "cancelled"]
    code: str
    duration_us: int
    parts: TraceParts
    first_token_us: int | None
    first_action_us: int | None
    released_us: int | None
    clock_set_back: int
    lines: tuple[TraceLine, ...]
    lines_left_out: int


class LateResult(WireModel):
    """A result that came for an older goal or an ended turn, and on which nothing was done."""

    seq: int
    at: int
    type: str
    turn_id: str
    call_id: str
    goal_revision: int
    current_revision: int


class TraceShowParams(SessionParams):
    """The latency split of the newest turns, or of one."""

    turn_id: Name | None = None
    turns: int = Field(default=1, ge=1, le=TURNS_MAX)


class TraceShowResult(WireModel):
    """Turns, oldest first; `not_recorded` names parts for which the log has no event yet."""

    session_id: str
    turns: tuple[TraceTurn, ...]
    turns_before: int
    late: tuple[LateResult, ...]
    late_left_out: int
    not_recorded: tuple[str, ...]


class PlanStepInfo(WireModel):
    """A step, the goal it was made for, and whether that goal has changed while it was open."""

    title: str
    state: str
    goal_revision: int
    superseded: bool


class PlanShowParams(SessionParams):
    """The plan as it stands."""


class PlanShowResult(WireModel):
    """The plan under today's goal; `turn_id` and `at` of its last update."""

    session_id: str
    goal_revision: int
    turn_id: str | None
    at: int | None
    steps: tuple[PlanStepInfo, ...]


class TaskActivity(WireModel):
    """Something that runs or waits since `since` (UTC microseconds)."""

    kind: str
    id: str
    title: str
    since: int


class TaskFailure(WireModel):
    """How the last turn failed."""

    turn_id: str
    code: str
    message: str
    hint: str
    at: int


class TaskShowParams(SessionParams):
    """What runs, what waits, what failed."""


class TaskShowResult(WireModel):
    """The state of the task; `last_failure` is null once a later turn began."""

    session_id: str
    phase: str
    turn_id: str | None
    goal_revision: int
    since: int | None
    running: tuple[TaskActivity, ...]
    waiting: tuple[TaskActivity, ...]
    last_failure: TaskFailure | None


class TranscriptParams(SessionParams):
    """The session in words, redacted unless asked otherwise, from `after_seq` on."""

    after_seq: int = Field(default=0, ge=0)
    format: Literal["markdown", "plain"] = "markdown"
    redacted: bool = True


class TranscriptResult(WireModel):
    """A page of the transcript; `next_seq` is null at the end."""

    session_id: str
    text: str
    next_seq: int | None


class SampleListParams(Page, SessionParams):
    """One evaluation record for each turn, redacted unless asked otherwise."""

    redacted: bool = True


class SampleListResult(WireModel):
    """A page of records, each a JSON object of its own; `next_offset` is null at the end."""

    session_id: str
    samples: tuple[dict[str, Any], ...]
    next_offset: int | None


class Percentiles(WireModel):
    """Durations: how many, and what so many of a hundred do not exceed (never below, at most 1/32 above)."""

    name: str
    count: int
    p50_us: int | None
    p95_us: int | None
    p99_us: int | None
    highest_us: int | None


class Rate(WireModel):
    """A part of a whole, with both counts; `percent` is rounded down and null where the whole is 0."""

    name: str
    part: int
    whole: int
    percent: int | None


class CountRow(WireModel):
    """How often something happened."""

    name: str
    count: int


class MetricsShowParams(WireModel):
    """Measures of one session, or of the `sessions` newest ones together."""

    session_id: Name | None = None
    sessions: int = Field(default=100, ge=1, le=PAGE_MAX)


class RuleRow(WireModel):
    """How often a rule (`source:id`) was a reason to ask, and how often that was allowed and denied."""

    rule_id: str
    asked: int
    allowed: int
    denied: int


class MetricsShowResult(WireModel):
    """Counts, rates and durations of `sessions` sessions; what the answers suggest about the rules, in words."""

    sessions: int
    counts: tuple[CountRow, ...]
    rates: tuple[Rate, ...]
    durations: tuple[Percentiles, ...]
    tools: tuple[Percentiles, ...]
    rules: tuple[RuleRow, ...] = ()
    suggestions: tuple[str, ...] = ()
