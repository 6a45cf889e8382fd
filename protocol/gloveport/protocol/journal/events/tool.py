"""Facts about tool calls, plans and test runs.

Purpose: proposal, intent, progress, outcome; what ran, with what effects, and how its outcome can be found again.
Invariant: `ToolExecutionStarted` is durable before the effect begins; each started call has one finish.
Must never: hold a body larger than its cap (large bodies go to the blob store) or an unredacted secret.
"""

from typing import ClassVar, Literal

from pydantic import Field, JsonValue

from gloveport.protocol.journal.events.base import CallBody, HexDigest, LabelRecord, Record, TurnBody

Outcome = Literal[
    "ok", "failed", "timeout", "oom", "killed", "policy", "lost", "denied", "invalid", "cancelled", "unknown"
]


class EffectRecord(Record):
    """One declared effect: its kind and its resolved target."""

    kind: str
    target: str


class FileFingerprint(Record):
    """What a file edit does: hash before and after; null = the file is absent."""

    path: str
    base_hash: HexDigest | None
    result_hash: HexDigest | None


class ToolCallProposed(CallBody):
    """The model wants this; nothing has happened. Arguments are strict JSON."""

    provider_call_id: str
    tool: str
    arguments_json: str
    arguments_digest: HexDigest
    label: LabelRecord


class ToolExecutionStarted(CallBody):
    """Intent, durable before the effect: what will run and how its outcome can be found after a crash."""

    tool: str
    title: str
    arguments_digest: HexDigest
    effects: tuple[EffectRecord, ...]
    recovery: Literal["read_only", "idempotent", "fingerprinted", "probeable", "opaque"]
    stop_class: Literal["killable", "atomic", "opaque"]
    executor: str
    fingerprint: tuple[FileFingerprint, ...]
    label: LabelRecord
    grant_id: str | None
    security_context: dict[str, JsonValue]


class ToolExecutionProgress(CallBody):
    """Output arrived. `offset` counts UTF-16 code units of the shown output before this piece."""

    offset: int = Field(ge=0)
    text: str


class ToolExecutionFinished(CallBody):
    """The outcome with its evidence. `text` is what the model is told; the whole output lies in the blob."""

    tool: str
    outcome: Outcome
    text: str
    evidence: str
    exit_code: int | None
    output_blob: HexDigest | None
    output_bytes: int = Field(ge=0)
    duration_us: int | None
    label: LabelRecord


class PlanItem(Record):
    """A step of the plan, and the goal it serves; `superseded`: the user put another task in its place."""

    title: str
    state: Literal["pending", "running", "done", "dropped", "superseded"]
    goal_revision: int = Field(ge=1)


class PlanUpdated(TurnBody):
    """The whole plan as it stands."""

    version: ClassVar[int] = 2
    items: tuple[PlanItem, ...]


class TestCase(Record):
    """One test as the code under test reported it."""

    __test__ = False

    name: str
    status: Literal["passed", "failed", "error", "skipped"]
    duration_us: int | None
    message: str


class TestRunFinished(CallBody):
    """Per-test results of a run; reported by the code under test, never an input to policy."""

    __test__ = False

    framework: str
    passed: int
    failed: int
    errors: int
    skipped: int
    cases: tuple[TestCase, ...]
    cases_left_out: int


class EgressPlace(Record):
    """What a call tried at one place: verdict and reason, how often, bytes each way, the trace of the first attempt.

    `credentials` are the names of those whose value was sent there. `host` is empty where what was asked for names no
    place that can be read; `port` is 0 then.
    """

    host: str
    port: int = Field(ge=0, le=65_535)
    allowed: bool
    reason: str
    trace_id: str
    attempts: int = Field(ge=1)
    sent_bytes: int = Field(ge=0)
    received_bytes: int = Field(ge=0)
    credentials: tuple[str, ...]


class EgressRecorded(CallBody):
    """What a call reached outside, and what it was refused; `left_out` counts places beyond those listed."""

    places: tuple[EgressPlace, ...]
    left_out: int = Field(ge=0)
