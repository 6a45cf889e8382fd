"""Everything that can happen to a session, as one closed union.

Purpose: user commands, model output, judgements, tool outcomes and findings after a restart enter here alone.
Invariant: an input carries what the shell knows (ids, times, bytes' hashes); the machine adds nothing of its own.
Must never: hold a handle or a callback.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gloveport.protocol.journal.events import EventBody, GrantIssued, ShortenedResult
from gloveport.protocol.journal.events.base import Json, LabelRecord
from gloveport.protocol.journal.events.change import Decision
from gloveport.protocol.journal.events.steering import SteeringKind
from gloveport.protocol.journal.events.tool import EffectRecord, FileFingerprint, Outcome

PathHolds = Literal["before", "after", "other", "suspect"]
"""What a path of an apply holds now."""


@dataclass(frozen=True, slots=True)
class SendMessage:
    """The user typed something. `turn_id` is used if it begins a turn; `queue` lets it wait for the running one."""

    message_id: str
    turn_id: str
    text: str
    queue: bool


@dataclass(frozen=True, slots=True)
class UnqueueMessage:
    """The user takes a waiting message back."""

    message_id: str


@dataclass(frozen=True, slots=True)
class EditMessage:
    """The user gives a waiting message another text."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class SteerMessage:
    """The user says something to the running turn; `text` null: the queued message of this id is meant.

    `kind` null: what it means is read from its words.
    """

    message_id: str
    expected_turn_id: str
    text: str | None
    kind: SteeringKind | None
    by: str


@dataclass(frozen=True, slots=True)
class InterruptMessage:
    """The user wants the running turn stopped and the turn `turn_id` begun with this; `text` null: as for steering."""

    message_id: str
    turn_id: str
    expected_turn_id: str
    text: str | None
    by: str


@dataclass(frozen=True, slots=True)
class ThawSession:
    """The user typed what lets a frozen session work again."""

    by: str


@dataclass(frozen=True, slots=True)
class FreezeSession:
    """Something outside of any call asks that the session stands still: `evidence` was seen, `words` are the user's."""

    freeze_id: str
    evidence: str
    words: str


@dataclass(frozen=True, slots=True)
class TellOutcome:
    """The user says what became of a call whose outcome nobody knows."""

    call_id: str
    said: Literal["done", "not_done"]
    by: str


@dataclass(frozen=True, slots=True)
class CancelTurn:
    """Somebody pressed stop; `turn_id` null means whatever runs."""

    turn_id: str | None
    by: str


@dataclass(frozen=True, slots=True)
class RequestAccepted:
    """The provider's headers arrived."""

    request_id: str
    provider_request_id: str | None


@dataclass(frozen=True, slots=True)
class TextArrived:
    """A coalesced piece of the answer."""

    request_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A tool call as the provider gave it, arguments unparsed."""

    provider_call_id: str
    tool: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class ResponseEnded:
    """The stream ended properly. So many bytes of words were sent, and arrived; 0 = not known."""

    request_id: str
    calls: tuple[ModelCall, ...]
    stop: Literal["end", "tool_calls", "length", "refusal"]
    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Trouble:
    """What the shell knows of a failed request, for the table of retries.

    `now_us` is the moment of the failure (UTC microseconds); `pause_us` is how long the provider, or the breaker before
    it, asks to be left alone from that moment on, null when nobody asked.
    """

    error_class: str
    now_us: int
    pause_us: int | None = None
    provider_request_id: str | None = None


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """The stream broke, was stopped or never began; `code` is of the error table.

    Without `trouble` the failure is none of a provider's: it is never tried again. Tokens that the provider had counted
    before it broke off are paid for, too; null = it did not say. So many bytes of words were sent, and arrived; 0 = not
    known.
    """

    request_id: str
    code: str
    message: str
    hint: str
    trouble: Trouble | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RetryDue:
    """The pause after the failed request `request_id` is over."""

    request_id: str


@dataclass(frozen=True, slots=True)
class ContextShrunk:
    """What can be shown shorter; sizes in characters of the whole conversation."""

    compaction_id: str
    results: tuple[ShortenedResult, ...]
    chars_before: int
    chars_after: int


@dataclass(frozen=True, slots=True)
class ShrinkFailed:
    """The compaction gave nothing."""

    compaction_id: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a call would do, declared by its tool from its arguments before it runs."""

    title: str
    effects: tuple[EffectRecord, ...]
    recovery: Literal["read_only", "idempotent", "fingerprinted", "probeable", "opaque"]
    stop_class: Literal["killable", "atomic", "opaque"]
    executor: str
    fingerprint: tuple[FileFingerprint, ...]
    label: LabelRecord
    security_context: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Policy's answer as facts."""

    verdict: Literal["allow", "ask", "deny"]
    risk: str
    reason: str
    rule_ids: tuple[str, ...]
    rules_hash: str
    grant_id: str | None
    grant_uses_left: int | None


@dataclass(frozen=True, slots=True)
class CardShown:
    """The card to be shown when policy asks."""

    card: Mapping[str, Json]
    card_digest: str
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class CallJudged:
    """A proposed call was planned and judged; `card` is set exactly when the verdict is ask.

    `beside` are the calls right behind it that are asked about together with it, in their order.
    """

    call_id: str
    plan: Plan
    judgement: Judgement
    card: CardShown | None
    beside: "tuple[CallJudged, ...]" = ()


@dataclass(frozen=True, slots=True)
class CallRejected:
    """A proposed call cannot run as it is: unknown tool, wrong arguments, a path that is not allowed to exist."""

    call_id: str
    message: str


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """A card was answered, or expired. `grant` is set exactly when the answer allows; `unasked`: by an answer that was
    given beforehand, and nobody saw the card."""

    approval_id: str
    card_digest: str
    decision: Literal["allowed", "denied", "expired"]
    grant: GrantIssued | None
    by: str
    unasked: bool = False


@dataclass(frozen=True, slots=True)
class ToolProgressed:
    """A piece of a running tool's output, ready to be shown."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A running tool ended. `facts` are what it changed: plan, test results, proposals."""

    call_id: str
    outcome: Outcome
    text: str
    evidence: str
    exit_code: int | None
    output_blob: str | None
    output_bytes: int
    duration_us: int | None
    label: LabelRecord
    facts: tuple[EventBody, ...] = ()


@dataclass(frozen=True, slots=True)
class CallReconciled:
    """After a restart: what became of an execution whose end was not recorded."""

    call_id: str
    finding: Literal["succeeded", "failed", "still_running", "not_started", "unknown"]
    evidence: str


@dataclass(frozen=True, slots=True)
class RequestInterrupted:
    """After a restart: the answer broke off with the daemon; `fate` is what its provider knows of the request."""

    request_id: str
    fate: Literal["finished", "never_accepted", "unknown"]
    evidence: str


@dataclass(frozen=True, slots=True)
class ApprovalRechecked:
    """After a restart, or a right that was given: whether a card that waits still says what would be asked now."""

    approval_id: str
    holds: bool
    by: str = "recovery"


@dataclass(frozen=True, slots=True)
class RecordLost:
    """After a restart: acknowledged events are gone, so what was under way may be further than the log says."""

    reason: str


@dataclass(frozen=True, slots=True)
class TakenUp:
    """After a restart: everything was found out; a turn that waits for nothing has to go on."""


@dataclass(frozen=True, slots=True)
class ApplyRequested:
    """A decision about changes was planned; the plan names each step's hashes."""

    apply_id: str
    action: Decision
    plan: Mapping[str, Json]
    by: str


@dataclass(frozen=True, slots=True)
class ApplyDone:
    """All steps of the plan hold, read back. `facts` are the decided hunks and what is still pending."""

    apply_id: str
    paths: tuple[str, ...]
    record: Mapping[str, Json]
    facts: tuple[EventBody, ...]


@dataclass(frozen=True, slots=True)
class ApplyRefused:
    """Nothing of the plan was written."""

    apply_id: str
    code: str
    message: str
    paths: tuple[str, ...]
    facts: tuple[EventBody, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplyUnsettled:
    """What became of the plan cannot be said: `waits` when it is looked at again, else told path by path."""

    apply_id: str
    code: str
    message: str
    states: Mapping[str, PathHolds]
    waits: bool
    facts: tuple[EventBody, ...] = ()


Input = (
    SendMessage
    | UnqueueMessage
    | EditMessage
    | SteerMessage
    | InterruptMessage
    | CancelTurn
    | ThawSession
    | FreezeSession
    | TellOutcome
    | RequestAccepted
    | TextArrived
    | ResponseEnded
    | RequestFailed
    | RetryDue
    | ContextShrunk
    | ShrinkFailed
    | CallJudged
    | CallRejected
    | ApprovalAnswered
    | ToolProgressed
    | ToolEnded
    | CallReconciled
    | RequestInterrupted
    | ApprovalRechecked
    | RecordLost
    | TakenUp
    | ApplyRequested
    | ApplyDone
    | ApplyRefused
    | ApplyUnsettled
)
