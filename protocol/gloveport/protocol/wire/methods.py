"""The one table of methods a client may call.

Purpose: name, parameters, result, and whether the call decides (needs the decision token).
Invariant: every served method is here, every method here is served, documented and in the schema.
Must never: list a method that nothing serves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gloveport.protocol.wire import change, place, policy, session, snapshot, turn, views
from gloveport.protocol.wire.base import Empty, SessionParams, WireModel
from gloveport.protocol.wire.version import PROTOCOL_VERSION

__all__ = ["METHODS", "NOTIFICATIONS", "PROTOCOL_VERSION", "Method"]


@dataclass(frozen=True, slots=True)
class Method:
    """A request: the types of its parameters and result; `decides` calls need the decision token."""

    params: type[WireModel]
    result: type[WireModel]
    decides: bool = False


METHODS: Final[Mapping[str, Method]] = MappingProxyType(
    {
        "session/start": Method(session.SessionStartParams, session.SessionInfo),
        "session/list": Method(session.SessionListParams, session.SessionListResult),
        "session/search": Method(session.SessionSearchParams, session.SessionSearchResult),
        "session/show": Method(SessionParams, session.SessionDetail),
        "session/rename": Method(session.SessionRenameParams, Empty),
        "session/budget": Method(session.SessionBudgetParams, Empty, decides=True),
        "session/mode": Method(session.SessionModeParams, Empty, decides=True),
        "session/rules": Method(policy.SessionRulesParams, policy.SessionRulesResult, decides=True),
        "session/thaw": Method(session.SessionThawParams, Empty, decides=True),
        "session/delete": Method(session.SessionDeleteParams, session.SessionDeleteResult, decides=True),
        "session/erase": Method(session.SessionEraseParams, session.SessionEraseResult, decides=True),
        "session/subscribe": Method(session.SubscribeParams, session.SubscribeResult),
        "session/widen": Method(session.WidenParams, Empty),
        "session/unsubscribe": Method(session.SubscriptionParams, Empty),
        "session/ack": Method(session.AckParams, Empty),
        "session/item/list": Method(session.ItemListParams, session.ItemListResult),
        "session/export": Method(session.SessionExportParams, session.SessionExportResult),
        "turn/start": Method(turn.TurnStartParams, turn.TurnStartResult),
        "turn/queue": Method(turn.TurnQueueParams, turn.TurnQueueResult),
        "turn/steer": Method(turn.TurnSteerParams, turn.TurnSteerResult),
        "turn/interrupt": Method(turn.TurnInterruptParams, turn.TurnSteerResult),
        "turn/edit": Method(turn.TurnEditParams, Empty),
        "turn/unqueue": Method(turn.TurnUnqueueParams, Empty),
        "turn/cancel": Method(turn.TurnCancelParams, turn.TurnCancelResult),
        "approval/list": Method(SessionParams, turn.ApprovalListResult),
        "approval/resolve": Method(turn.ApprovalResolveParams, turn.ApprovalResolveResult, decides=True),
        "grant/list": Method(SessionParams, turn.GrantListResult),
        "grant/revoke": Method(turn.GrantRevokeParams, Empty, decides=True),
        "change/list": Method(SessionParams, change.ChangeListResult),
        "change/hunks": Method(change.ChangeHunksParams, change.ChangeHunksResult),
        "change/preview": Method(change.ChangePreviewParams, change.ChangePreviewResult),
        "change/accept": Method(change.ChangeDecideParams, change.ChangeDecideResult, decides=True),
        "change/reject": Method(change.ChangeDecideParams, change.ChangeDecideResult, decides=True),
        "change/undo": Method(change.ChangeUndoParams, change.ChangeDecideResult, decides=True),
        "change/redo": Method(change.ChangeRedoParams, change.ChangeDecideResult, decides=True),
        "snapshot/list": Method(SessionParams, snapshot.SnapshotListResult),
        "snapshot/preview": Method(snapshot.SnapshotPreviewParams, snapshot.SnapshotPreviewResult),
        "snapshot/restore": Method(snapshot.SnapshotRestoreParams, change.ChangeDecideResult, decides=True),
        "change/document": Method(change.ChangeDocumentParams, change.ChangeDocumentResult),
        "session/transcript": Method(views.TranscriptParams, views.TranscriptResult),
        "task/show": Method(views.TaskShowParams, views.TaskShowResult),
        "plan/show": Method(views.PlanShowParams, views.PlanShowResult),
        "usage/show": Method(views.UsageShowParams, views.UsageShowResult),
        "trace/show": Method(views.TraceShowParams, views.TraceShowResult),
        "sample/list": Method(views.SampleListParams, views.SampleListResult),
        "metrics/show": Method(views.MetricsShowParams, views.MetricsShowResult),
        "tool/settle": Method(turn.ToolSettleParams, turn.ToolSettleResult, decides=True),
        "tool/why": Method(turn.WhyParams, turn.WhyResult),
        "workspace/list": Method(Empty, place.WorkspaceListResult),
        "workspace/show": Method(place.WorkspaceShowParams, place.WorkspaceInfo),
        "workspace/trust": Method(place.WorkspaceTrustParams, place.WorkspaceInfo, decides=True),
        "sandbox/list": Method(Empty, place.SandboxListResult),
        "sandbox/choose": Method(place.SandboxChooseParams, place.SandboxInfo, decides=True),
        "sandbox/devcontainer": Method(SessionParams, place.DevContainerResult),
        "sandbox/doctor": Method(place.SandboxDoctorParams, place.SandboxDoctorResult),
        "model/list": Method(Empty, place.ModelListResult),
        "model/choose": Method(place.ModelChooseParams, place.ModelInfo, decides=True),
        "policy/show": Method(policy.PolicyShowParams, policy.PolicyShowResult),
        "policy/explain": Method(policy.PolicyExplainParams, policy.PolicyExplainResult),
        "audit/verify": Method(Empty, place.AuditVerifyResult),
        "audit/export": Method(place.AuditExportParams, place.AuditExportResult),
        "daemon/status": Method(Empty, place.DaemonStatusResult),
        "daemon/stop": Method(Empty, Empty, decides=True),
    }
)

NOTIFICATIONS: Final[Mapping[str, type[WireModel]]] = MappingProxyType(
    {"session/events": session.SessionEvents, "daemon/told": place.DaemonTold}
)
