"""The frozen state of a session.

Purpose: everything the machine needs to decide, folded from events.
Invariant: built by the fold alone; equal logs give equal states.
Must never: hold a handle, a task, a clock reading of its own or anything that is not in the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.journal.events import (
    ApprovalRequested,
    ArtifactSuspected,
    BudgetSet,
    ChangeApplied,
    ChangeApplyStarted,
    ChangeProposed,
    GrantIssued,
    ReleaseIssued,
    RetryScheduled,
    ToolExecutionStarted,
)
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.bounds import Mode
from gloveport.protocol.journal.events.steering import SteeringKind
from gloveport.protocol.journal.events.tool import PlanItem
from gloveport.server.edit.hunk_states import HunkState
from gloveport.server.session.series import Series


class Phase(StrEnum):
    """Where a turn stands."""

    IDLE = "idle"
    MODEL = "model"
    TOOLS = "tools"
    WAITING = "waiting"
    RETRYING = "retrying"
    COMPACTING = "compacting"
    STOPPING = "stopping"


class CallStage(StrEnum):
    """Where a tool call stands."""

    PROPOSED = "proposed"
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True)
class Call:
    """One tool call of the current batch."""

    call_id: str
    provider_call_id: str
    tool: str
    arguments_json: str
    arguments_digest: str
    goal_revision: int
    label: LabelRecord
    """Of all that the model had read when it made the call; those that stand beside it were not answered then."""
    stage: CallStage = CallStage.PROPOSED
    started: ToolExecutionStarted | None = None
    shown_utf16: int = 0
    asks: int = 0
    is_unknown: bool = False
    """It ended, and whether it took effect is not known."""
    stop_requested: bool = False
    release: ReleaseIssued | None = None
    """What it may send: these stored bytes alone."""


@dataclass(frozen=True)
class Request:
    """The model request under way, for the goal of its beginning; `text` is what arrived so far."""

    request_id: str
    goal_revision: int
    provider_request_id: str | None = None
    text: str = ""
    text_utf16: int = 0
    provider: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the newest request of a turn may cost, also after its end: so much input and output at most.

    `entries` is how much of the history it was made from; `may_be_billed` what was found out of it later (null =
    nothing); `broken`: its answer did not come to its end.
    """

    request_id: str
    provider: str
    model: str
    mode: Mode
    entries: int
    input_tokens: int
    output_tokens: int
    accepted: bool = False
    may_be_billed: bool | None = None
    broken: bool = False

    @property
    def is_billed(self) -> bool:
        """Whether its provider may bill it: it took the request, or that was found out later."""
        return self.accepted if self.may_be_billed is None else self.may_be_billed


@dataclass(frozen=True)
class Turn:
    """The running turn; `goal_revision` is today's, its calls and its request keep that of their birth.

    `attempt` counts the attempts to get the answer that is due, `waited_us` the pauses between them in microseconds;
    `retry` is the pause under way, `compaction` the id of the one under way.
    """

    turn_id: str
    goal_revision: int
    requests: int = 0
    held_back: int = 0
    """How many of them were never sent; they count for no limit."""
    request: Request | None = None
    calls: tuple[Call, ...] = ()
    calls_made: int = 0
    restarts: int = 0
    """How often in a row an answer of it broke off with the daemon."""
    cancelled_by: str | None = None
    attempt: int = 1
    waited_us: int = 0
    retry: RetryScheduled | None = None
    compaction: str | None = None
    tokens: int = 0
    """What its requests were counted to have used, in and out, and about what was not counted."""
    uncounted: int = 0
    """How many of them nobody counted."""
    asked: Asked | None = None
    spent_from: int = 0
    """The first request of it in what the session spent."""
    nano_usd: int = 0
    """What they cost, where money is limited."""

    @property
    def is_held(self) -> bool:
        """True while the turn waits for a retry or a compaction: the next request comes by itself."""
        return self.retry is not None or self.compaction is not None

    @property
    def is_request_late(self) -> bool:
        """True while an answer still comes for a goal that was changed."""
        return self.request is not None and self.request.goal_revision < self.goal_revision

    @property
    def next_proposed(self) -> Call | None:
        """The first call that was not judged yet."""
        return next((call for call in self.calls if call.stage is CallStage.PROPOSED), None)

    @property
    def is_busy(self) -> bool:
        """True while a call runs or waits for an answer."""
        return any(call.stage in (CallStage.RUNNING, CallStage.WAITING) for call in self.calls)


@dataclass(frozen=True, slots=True)
class Spent:
    """A request that has ended and may be billed; `counted`: as the provider counted it, else the most it may be."""

    request_id: str
    provider: str
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    counted: bool


@dataclass(frozen=True, slots=True)
class Counted:
    """The newest count of a request's input: of how much of the history, in which mode, by which model."""

    input_tokens: int
    entries: int
    mode: Mode
    provider: str
    model: str


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """What the newest turn that ended used: tokens, how many of them nobody counted, and its requests in what the
    session spent."""

    tokens: int = 0
    uncounted: int = 0
    spent_from: int = 0


@dataclass(frozen=True, slots=True)
class Queued:
    """A message that waits, and the id its turn will have."""

    message_id: str
    turn_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Steered:
    """A message for the running turn that is not delivered yet.

    `next_turn_id` is set for one that ends the turn and begins the next.
    """

    message_id: str
    text: str
    kind: SteeringKind
    next_turn_id: str | None = None

    @property
    def is_acted_on(self) -> bool:
        """True if the work under way was changed for it already."""
        return self.kind in ("correct", "replace")


@dataclass(frozen=True, slots=True)
class UserEntry:
    """A typed message in the model's history; `kind` is set for one that reached a running turn."""

    text: str
    kind: SteeringKind | None = None


@dataclass(frozen=True, slots=True)
class CallEntry:
    """A call inside an assistant entry."""

    call_id: str
    provider_call_id: str
    tool: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class AssistantEntry:
    """An answer of the model; `interrupted` marks text that broke off."""

    text: str
    calls: tuple[CallEntry, ...] = ()
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class ResultEntry:
    """What the model was told of a call; `is_late`: it ended after its goal was changed.

    `kept_chars` is how much of the text the model is shown, null the whole.
    """

    call_id: str
    provider_call_id: str
    text: str
    is_error: bool
    is_late: bool = False
    kept_chars: int | None = None


Entry = UserEntry | AssistantEntry | ResultEntry

_NO_ENTRIES: Final[Series[Entry]] = Series()
_NO_WORDS: Final[Series[str]] = Series()
_NOTHING_SPENT: Final[Series[Spent]] = Series()
USER_LABEL = LabelRecord(integrity=0, readers=None, provenance=("user",))


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Unknown:
    """A call of which nobody knows whether it took effect, and of which the user has not said it."""

    call_id: str
    tool: str


@dataclass(frozen=True)
class EndedHunk:
    """A hunk that is pending no more, and where it stands."""

    digest: str
    hunk_id: str
    change_id: str
    path: str
    state: HunkState


@dataclass(frozen=True)
class SessionState:
    """A session, folded. Mappings are read-only; a fold replaces them."""

    session_id: str = ""
    workspace_id: str = ""
    root: str = ""
    title: str = ""
    trust_level: str = "untrusted"
    sandbox: str = ""
    image: str = ""
    provider: str = ""
    model: str = ""
    model_label: str = ""
    goal_revision: int = 0
    label: LabelRecord = USER_LABEL
    turn: Turn | None = None
    last_failure: str | None = None
    ended_turn: EndedTurn = EndedTurn()
    queue: tuple[Queued, ...] = ()
    steering: tuple[Steered, ...] = ()
    history: Series[Entry] = _NO_ENTRIES
    user_messages: Series[str] = _NO_WORDS
    unanswered_look: str = ""
    """The message that may still answer for one look at an address: the goal's only one, until another came or a call
    that reaches outside began."""
    approvals: Mapping[str, ApprovalRequested] = field(default_factory=_empty)
    grants: Mapping[str, GrantIssued] = field(default_factory=_empty)
    grant_uses: Mapping[str, int] = field(default_factory=_empty)
    changes: Mapping[str, ChangeProposed] = field(default_factory=_empty)
    ended_hunks: Mapping[str, EndedHunk] = field(default_factory=_empty)
    """By digest, those that ended last; a hunk of `changes` is not among them."""
    file_labels: Mapping[str, LabelRecord] = field(default_factory=_empty)
    """Labels of paths that calls of this session wrote, where they say more than that it is the workspace's."""
    unseen: tuple[str, ...] = ()
    """Files in its copy that calls left and nobody looked through, the newest by name."""
    releases: Mapping[str, ReleaseIssued] = field(default_factory=_empty)
    """Releases that were not used, by their grant."""
    suspected: Mapping[str, ArtifactSuspected] = field(default_factory=_empty)
    """What was found in pending proposals, by their id: shown where the user decides."""
    applying: Mapping[str, ChangeApplyStarted] = field(default_factory=_empty)
    applied: tuple[ChangeApplied, ...] = ()
    plan: tuple[PlanItem, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    """The newest calls with an unknown outcome."""
    input_tokens: int = 0
    output_tokens: int = 0
    uncounted_tokens: int = 0
    """How many of both nobody counted: about what requests used that ended without a count."""
    overflows: int = 0
    """How often in a row the conversation did not fit the model's window, over turns."""
    compactions: int = 0
    unknown_events: int = 0
    faults: tuple[str, ...] = ()
    """In what its record contradicts itself, as far as it was told."""
    sealed: bool = False
    frozen: str = ""
    """The freeze in force, by its id; empty where there is none."""
    frozen_words: str = ""
    mode: Mode = "agent"
    rules: str = ""
    """Rules of its own, as text."""
    turn_tokens_max: int | None = None
    session_tokens_max: int | None = None
    next_tokens: int | None = 0
    """What the next request has to be expected to take: the input of the newest one that was counted; null where the
    newest answer was not counted."""
    counted: Counted | None = None
    spent: Series[Spent] = _NOTHING_SPENT
    money: BudgetSet | None = None
    """The limits of money in force, with their rates; null = there are none, and nothing is counted in money."""
    nano_usd: int = 0
    """What all of `spent` costs by these rates."""
    unpriced: str = ""
    """A model of `spent` for which they have no price."""

    @property
    def phase(self) -> Phase:
        """Where the session stands, derived from the turn."""
        turn = self.turn
        if turn is None:
            return Phase.IDLE
        if turn.cancelled_by is not None:
            return Phase.STOPPING
        if any(call.stage is CallStage.WAITING for call in turn.calls):
            return Phase.WAITING
        if turn.retry is not None:
            return Phase.RETRYING
        if turn.compaction is not None:
            return Phase.COMPACTING
        return Phase.MODEL if turn.request is not None else Phase.TOOLS

    @property
    def interrupting(self) -> Steered | None:
        """The message that begins the next turn as soon as this one has stopped."""
        return next((waiting for waiting in self.steering if waiting.next_turn_id is not None), None)

    @property
    def read_only(self) -> bool:
        """True when nothing may be written on top of the log; `read_only_words` says why."""
        return self.unknown_events > 0 or self.sealed

    @property
    def read_only_words(self) -> str:
        """Why nothing may be written: events of a newer version, or a record that contradicts itself."""
        if self.sealed:
            return f"this session's record contradicts itself ({'; '.join(self.faults)})"
        return f"this session holds {self.unknown_events} events of a newer version"

    def call(self, call_id: str) -> Call | None:
        """The call of the current batch with this id."""
        if self.turn is None:
            return None
        return next((call for call in self.turn.calls if call.call_id == call_id), None)
