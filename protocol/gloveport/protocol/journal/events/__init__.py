"""All event bodies, and the registry that finds a body's class by its stored type name.

Purpose: one closed vocabulary of facts; the log is their only home.
Invariant: `REGISTRY[type]` is the class whose name is `type`; names are in the past tense and never reused.
Must never: interpret an event (that is the fold's work) or drop an unknown one.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gloveport.protocol.journal.events.base import EventBody, decode_body, encode_body
from gloveport.protocol.journal.events.bounds import BudgetSet, ModeChosen, SessionRulesSet
from gloveport.protocol.journal.events.change import (
    ChangeApplied,
    ChangeApplyStarted,
    ChangeProposed,
    ChangeRefused,
    ChangeUnsettled,
    ChangeWithdrawn,
    EditsTaken,
    HunkDecided,
    HunkRecord,
    PathState,
    SnapshotTaken,
)
from gloveport.protocol.journal.events.daemon import DaemonStarted, WorkspaceTrusted
from gloveport.protocol.journal.events.freeze import SessionFrozen, SessionThawed
from gloveport.protocol.journal.events.grant import (
    ApprovalRequested,
    ApprovalResolved,
    GrantIssued,
    GrantRevoked,
    GrantUsed,
    PolicyDecided,
)
from gloveport.protocol.journal.events.label import (
    ArtifactSuspected,
    ContentLabelled,
    CopyUnseen,
    Hint,
    InjectionSuspected,
    LabelledFile,
    ReleaseIssued,
    ReleaseUsed,
    SecretPlace,
)
from gloveport.protocol.journal.events.model import (
    ModelRequestAccepted,
    ModelRequestStarted,
    ModelResponseReceived,
    ModelSelected,
    ModelStreamInterrupted,
    ModelTextDelta,
    UsageRecorded,
)
from gloveport.protocol.journal.events.recovery import (
    DriftDetected,
    FaultsFound,
    ModelRequestReconciled,
    OutcomeTold,
    RecoveredItem,
    RecoverySummarised,
    ToolReconciled,
)
from gloveport.protocol.journal.events.retention import SessionDeleted, TextErased
from gloveport.protocol.journal.events.retry import (
    BreakerClosed,
    BreakerOpened,
    CompactionDiscarded,
    CompactionStarted,
    ContextCompacted,
    ContextOverflowed,
    RetryScheduled,
    RetryStarted,
    ShortenedResult,
)
from gloveport.protocol.journal.events.session import (
    GoalRevised,
    SandboxChosen,
    SessionCreated,
    SessionRenamed,
    UserMessageAdded,
    UserMessageQueued,
    UserMessageUnqueued,
)
from gloveport.protocol.journal.events.steering import (
    CallFate,
    ResultSuperseded,
    SteeringDecided,
    ToolStopRequested,
    UserMessageEdited,
)
from gloveport.protocol.journal.events.tool import (
    EgressPlace,
    EgressRecorded,
    PlanUpdated,
    TestRunFinished,
    ToolCallProposed,
    ToolExecutionFinished,
    ToolExecutionProgress,
    ToolExecutionStarted,
)
from gloveport.protocol.journal.events.turn import (
    TurnCancelled,
    TurnCancelRequested,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)

_ALL: Final[tuple[type[EventBody], ...]] = (
    SessionCreated, SessionRenamed, SandboxChosen, UserMessageAdded, UserMessageQueued, UserMessageUnqueued,
    GoalRevised, TurnStarted, TurnCompleted, TurnFailed, TurnCancelRequested, TurnCancelled,
    ModelSelected, ModelRequestStarted, ModelRequestAccepted, ModelTextDelta, ModelResponseReceived,
    ModelStreamInterrupted, UsageRecorded,
    ToolCallProposed, ToolExecutionStarted, ToolExecutionProgress, ToolExecutionFinished, PlanUpdated,
    TestRunFinished, PolicyDecided, ApprovalRequested, ApprovalResolved, GrantIssued, GrantUsed, GrantRevoked,
    SnapshotTaken, ChangeProposed, ChangeWithdrawn, HunkDecided, ChangeApplyStarted, ChangeApplied, ChangeRefused,
    ChangeUnsettled, EditsTaken,
    ToolReconciled, ModelRequestReconciled, DriftDetected, FaultsFound, RecoverySummarised, DaemonStarted,
    WorkspaceTrusted, SessionDeleted,
    RetryScheduled, RetryStarted, ContextOverflowed, CompactionStarted, ContextCompacted, CompactionDiscarded,
    BreakerOpened, BreakerClosed,
    SteeringDecided, UserMessageEdited, ToolStopRequested, ResultSuperseded,
    EgressRecorded,
    ContentLabelled, ReleaseIssued, ReleaseUsed, InjectionSuspected, ArtifactSuspected,
    SessionFrozen, SessionThawed,
    BudgetSet, ModeChosen,
    OutcomeTold,
    TextErased, SessionRulesSet, CopyUnseen,
)  # fmt: skip

REGISTRY: Final[Mapping[str, type[EventBody]]] = MappingProxyType({body.__name__: body for body in _ALL})

__all__ = [
    "REGISTRY",
    "ApprovalRequested",
    "ApprovalResolved",
    "ArtifactSuspected",
    "BreakerClosed",
    "BreakerOpened",
    "BudgetSet",
    "CallFate",
    "ChangeApplied",
    "ChangeApplyStarted",
    "ChangeProposed",
    "ChangeRefused",
    "ChangeUnsettled",
    "ChangeWithdrawn",
    "CompactionDiscarded",
    "CompactionStarted",
    "ContentLabelled",
    "ContextCompacted",
    "ContextOverflowed",
    "CopyUnseen",
    "DaemonStarted",
    "DriftDetected",
    "EditsTaken",
    "EgressPlace",
    "EgressRecorded",
    "EventBody",
    "FaultsFound",
    "GoalRevised",
    "GrantIssued",
    "GrantRevoked",
    "GrantUsed",
    "Hint",
    "HunkDecided",
    "HunkRecord",
    "InjectionSuspected",
    "LabelledFile",
    "ModeChosen",
    "ModelRequestAccepted",
    "ModelRequestReconciled",
    "ModelRequestStarted",
    "ModelResponseReceived",
    "ModelSelected",
    "ModelStreamInterrupted",
    "ModelTextDelta",
    "OutcomeTold",
    "PathState",
    "PlanUpdated",
    "PolicyDecided",
    "RecoveredItem",
    "RecoverySummarised",
    "ReleaseIssued",
    "ReleaseUsed",
    "ResultSuperseded",
    "RetryScheduled",
    "RetryStarted",
    "SandboxChosen",
    "SecretPlace",
    "SessionCreated",
    "SessionDeleted",
    "SessionFrozen",
    "SessionRenamed",
    "SessionRulesSet",
    "SessionThawed",
    "ShortenedResult",
    "SnapshotTaken",
    "SteeringDecided",
    "TestRunFinished",
    "TextErased",
    "ToolCallProposed",
    "ToolExecutionFinished",
    "ToolExecutionProgress",
    "ToolExecutionStarted",
    "ToolReconciled",
    "ToolStopRequested",
    "TurnCancelRequested",
    "TurnCancelled",
    "TurnCompleted",
    "TurnFailed",
    "TurnStarted",
    "UsageRecorded",
    "UserMessageAdded",
    "UserMessageEdited",
    "UserMessageQueued",
    "UserMessageUnqueued",
    "WorkspaceTrusted",
    "decode_body",
    "encode_body",
]
