"""What can be called, with its types.

Purpose: one `call` whose result follows from the method's name, for people and type checkers alike.
Invariant: the overloads say exactly what the method table says.
Must never: hold behaviour; `_ask` does the work.
"""

from typing import Literal, Protocol, overload

from gloveport.protocol.wire.base import Empty, SessionParams, WireModel
from gloveport.protocol.wire.change import (
    ChangeDecideParams,
    ChangeDecideResult,
    ChangeDocumentParams,
    ChangeDocumentResult,
    ChangeHunksParams,
    ChangeHunksResult,
    ChangeListResult,
    ChangePreviewParams,
    ChangePreviewResult,
    ChangeRedoParams,
    ChangeUndoParams,
)
from gloveport.protocol.wire.place import (
    AuditExportParams,
    AuditExportResult,
    AuditVerifyResult,
    DaemonStatusResult,
    DevContainerResult,
    ModelChooseParams,
    ModelInfo,
    ModelListResult,
    SandboxChooseParams,
    SandboxDoctorParams,
    SandboxDoctorResult,
    SandboxInfo,
    SandboxListResult,
    WorkspaceInfo,
    WorkspaceListResult,
    WorkspaceShowParams,
    WorkspaceTrustParams,
)
from gloveport.protocol.wire.policy import (
    PolicyExplainParams,
    PolicyExplainResult,
    PolicyShowParams,
    PolicyShowResult,
    SessionRulesParams,
    SessionRulesResult,
)
from gloveport.protocol.wire.session import (
    AckParams,
    ItemListParams,
    ItemListResult,
    SessionBudgetParams,
    SessionDeleteParams,
    SessionDeleteResult,
    SessionDetail,
    SessionEraseParams,
    SessionEraseResult,
    SessionExportParams,
    SessionExportResult,
    SessionInfo,
    SessionListParams,
    SessionListResult,
    SessionModeParams,
    SessionRenameParams,
    SessionSearchParams,
    SessionSearchResult,
    SessionStartParams,
    SessionThawParams,
    SubscribeParams,
    SubscribeResult,
    SubscriptionParams,
    WidenParams,
)
from gloveport.protocol.wire.snapshot import (
    SnapshotListResult,
    SnapshotPreviewParams,
    SnapshotPreviewResult,
    SnapshotRestoreParams,
)
from gloveport.protocol.wire.turn import (
    ApprovalListResult,
    ApprovalResolveParams,
    ApprovalResolveResult,
    GrantListResult,
    GrantRevokeParams,
    ToolSettleParams,
    ToolSettleResult,
    TurnCancelParams,
    TurnCancelResult,
    TurnEditParams,
    TurnInterruptParams,
    TurnQueueParams,
    TurnQueueResult,
    TurnStartParams,
    TurnStartResult,
    TurnSteerParams,
    TurnSteerResult,
    TurnUnqueueParams,
    WhyParams,
    WhyResult,
)
from gloveport.protocol.wire.views import (
    MetricsShowParams,
    MetricsShowResult,
    PlanShowParams,
    PlanShowResult,
    SampleListParams,
    SampleListResult,
    TaskShowParams,
    TaskShowResult,
    TraceShowParams,
    TraceShowResult,
    TranscriptParams,
    TranscriptResult,
    UsageShowParams,
    UsageShowResult,
)


class Calls(Protocol):
    """The calls of a connected client."""

    async def _ask(self, method: str, params: WireModel | None, timeout_s: float | None) -> WireModel: ...

    @overload
    async def call(
        self, method: Literal["session/start"], params: SessionStartParams, *, timeout_s: float | None = None
    ) -> SessionInfo: ...

    @overload
    async def call(
        self, method: Literal["session/list"], params: SessionListParams, *, timeout_s: float | None = None
    ) -> SessionListResult: ...

    @overload
    async def call(
        self, method: Literal["session/search"], params: SessionSearchParams, *, timeout_s: float | None = None
    ) -> SessionSearchResult: ...

    @overload
    async def call(
        self, method: Literal["session/show"], params: SessionParams, *, timeout_s: float | None = None
    ) -> SessionDetail: ...

    @overload
    async def call(
        self, method: Literal["session/delete"], params: SessionDeleteParams, *, timeout_s: float | None = None
    ) -> SessionDeleteResult: ...

    @overload
    async def call(
        self, method: Literal["session/erase"], params: SessionEraseParams, *, timeout_s: float | None = None
    ) -> SessionEraseResult: ...

    @overload
    async def call(
        self, method: Literal["session/budget"], params: SessionBudgetParams, *, timeout_s: float | None = None
    ) -> Empty: ...

    @overload
    async def call(
        self, method: Literal["session/mode"], params: SessionModeParams, *, timeout_s: float | None = None
    ) -> Empty: ...

    @overload
    async def call(
        self, method: Literal["session/thaw"], params: SessionThawParams, *, timeout_s: float | None = None
    ) -> Empty: ...

    @overload
    async def call(
        self, method: Literal["session/rename"], params: SessionRenameParams, *, timeout_s: float | None = None
    ) -> Empty: ...

    @overload
    async def call(
        self, method: Literal["session/subscribe"], params: SubscribeParams, *, timeout_s: float | None = None
    ) -> SubscribeResult: ...

    @overload
    async def call(
        self, method: Literal["session/widen"], params: WidenParams, *, timeout_s: float | None = None
    ) -> Empty: ...
    @overload
    async def call(
        self, method: Literal["session/unsubscribe"], params: SubscriptionParams, *, timeout_s: float | None = None
    ) -> Empty: ...

    @overload
    async def call(
        self, method: Literal["session/ack"], params: AckParams, *, timeout_s: float | None = None
    ) -> Empty: ...

    @overload
    async def call(
        self, method: Literal["session/item/list"], params: ItemListParams, *, timeout_s: float | None = None
    ) -> ItemListResult: ...

    @overload
    async def call(
        self, method: Literal["session/export"], params: SessionExportParams, *, timeout_s: float | None = None
    ) -> SessionExportResult: ...

    @overload
    async def call(
        self, method: Literal["turn/start"], params: TurnStartParams, *, timeout_s: float | None = None
    ) -> TurnStartResult: ...

    @overload
    async def call(
        self, method: Literal["turn/queue"], params: TurnQueueParams, *, timeout_s: float | None = None
    ) -> TurnQueueResult: ...

    @overload
    async def call(
        self, method: Literal["turn/steer"], params: TurnSteerParams, *, timeout_s: float | None = None
    ) -> TurnSteerResult: ...

    @overload
    async def call(
        self, method: Literal["turn/interrupt"], params: TurnInterruptParams, *, timeout_s: float | None = None
    ) -> TurnSteerResult: ...

    @overload
    async def call(
        self, method: Literal["turn/edit"], params: TurnEditParams, *, timeout_s: float | None = None
    ) -> Empty: ...

    @overload
    async def call(
        self, method: Literal["turn/unqueue"], params: TurnUnqueueParams, *, timeout_s: float | None = None
    ) -> Empty: ...

    @overload
    async def call(
        self, method: Literal["turn/cancel"], params: TurnCancelParams, *, timeout_s: float | None = None
    ) -> TurnCancelResult: ...

    @overload
    async def call(
        self, method: Literal["sandbox/devcontainer"], params: SessionParams, *, timeout_s: float | None = None
    ) -> DevContainerResult: ...

    @overload
    async def call(
        self, method: Literal["approval/list"], params: SessionParams, *, timeout_s: float | None = None
    ) -> ApprovalListResult: ...

    @overload
    async def call(
        self, method: Literal["approval/resolve"], params: ApprovalResolveParams, *, timeout_s: float | None = None
    ) -> ApprovalResolveResult: ...

    @overload
    async def call(
        self, method: Literal["grant/list"], params: SessionParams, *, timeout_s: float | None = None
    ) -> GrantListResult: ...

    @overload
    async def call(
        self, method: Literal["grant/revoke"], params: GrantRevokeParams, *, timeout_s: float | None = None
    ) -> Empty: ...

    @overload
    async def call(
        self, method: Literal["change/list"], params: SessionParams, *, timeout_s: float | None = None
    ) -> ChangeListResult: ...

    @overload
    async def call(
        self, method: Literal["change/hunks"], params: ChangeHunksParams, *, timeout_s: float | None = None
    ) -> ChangeHunksResult: ...

    @overload
    async def call(
        self, method: Literal["change/preview"], params: ChangePreviewParams, *, timeout_s: float | None = None
    ) -> ChangePreviewResult: ...

    @overload
    async def call(
        self,
        method: Literal["change/accept", "change/reject"],
        params: ChangeDecideParams,
        *,
        timeout_s: float | None = None,
    ) -> ChangeDecideResult: ...

    @overload
    async def call(
        self, method: Literal["change/undo"], params: ChangeUndoParams, *, timeout_s: float | None = None
    ) -> ChangeDecideResult: ...

    @overload
    async def call(
        self, method: Literal["change/redo"], params: ChangeRedoParams, *, timeout_s: float | None = None
    ) -> ChangeDecideResult: ...

    @overload
    async def call(
        self, method: Literal["change/document"], params: ChangeDocumentParams, *, timeout_s: float | None = None
    ) -> ChangeDocumentResult: ...

    @overload
    async def call(
        self, method: Literal["snapshot/list"], params: SessionParams, *, timeout_s: float | None = None
    ) -> SnapshotListResult: ...

    @overload
    async def call(
        self, method: Literal["snapshot/preview"], params: SnapshotPreviewParams, *, timeout_s: float | None = None
    ) -> SnapshotPreviewResult: ...

    @overload
    async def call(
        self, method: Literal["snapshot/restore"], params: SnapshotRestoreParams, *, timeout_s: float | None = None
    ) -> ChangeDecideResult: ...

    @overload
    async def call(
        self, method: Literal["metrics/show"], params: MetricsShowParams, *, timeout_s: float | None = None
    ) -> MetricsShowResult: ...

    @overload
    async def call(
        self, method: Literal["plan/show"], params: PlanShowParams, *, timeout_s: float | None = None
    ) -> PlanShowResult: ...

    @overload
    async def call(
        self, method: Literal["sample/list"], params: SampleListParams, *, timeout_s: float | None = None
    ) -> SampleListResult: ...

    @overload
    async def call(
        self, method: Literal["task/show"], params: TaskShowParams, *, timeout_s: float | None = None
    ) -> TaskShowResult: ...

    @overload
    async def call(
        self, method: Literal["trace/show"], params: TraceShowParams, *, timeout_s: float | None = None
    ) -> TraceShowResult: ...

    @overload
    async def call(
        self, method: Literal["session/transcript"], params: TranscriptParams, *, timeout_s: float | None = None
    ) -> TranscriptResult: ...

    @overload
    async def call(
        self, method: Literal["usage/show"], params: UsageShowParams, *, timeout_s: float | None = None
    ) -> UsageShowResult: ...

    @overload
    async def call(
        self, method: Literal["tool/settle"], params: ToolSettleParams, *, timeout_s: float | None = None
    ) -> ToolSettleResult: ...

    @overload
    async def call(
        self, method: Literal["tool/why"], params: WhyParams, *, timeout_s: float | None = None
    ) -> WhyResult: ...

    @overload
    async def call(
        self, method: Literal["workspace/list"], params: Empty | None = None, *, timeout_s: float | None = None
    ) -> WorkspaceListResult: ...

    @overload
    async def call(
        self, method: Literal["workspace/show"], params: WorkspaceShowParams, *, timeout_s: float | None = None
    ) -> WorkspaceInfo: ...

    @overload
    async def call(
        self, method: Literal["workspace/trust"], params: WorkspaceTrustParams, *, timeout_s: float | None = None
    ) -> WorkspaceInfo: ...

    @overload
    async def call(
        self, method: Literal["sandbox/list"], params: Empty | None = None, *, timeout_s: float | None = None
    ) -> SandboxListResult: ...

    @overload
    async def call(
        self, method: Literal["sandbox/choose"], params: SandboxChooseParams, *, timeout_s: float | None = None
    ) -> SandboxInfo: ...

    @overload
    async def call(
        self, method: Literal["sandbox/doctor"], params: SandboxDoctorParams, *, timeout_s: float | None = None
    ) -> SandboxDoctorResult: ...

    @overload
    async def call(
        self, method: Literal["model/list"], params: Empty | None = None, *, timeout_s: float | None = None
    ) -> ModelListResult: ...

    @overload
    async def call(
        self, method: Literal["model/choose"], params: ModelChooseParams, *, timeout_s: float | None = None
    ) -> ModelInfo: ...

    @overload
    async def call(
        self, method: Literal["session/rules"], params: SessionRulesParams, *, timeout_s: float | None = None
    ) -> SessionRulesResult: ...

    @overload
    async def call(
        self, method: Literal["policy/show"], params: PolicyShowParams | None = None, *, timeout_s: float | None = None
    ) -> PolicyShowResult: ...

    @overload
    async def call(
        self, method: Literal["policy/explain"], params: PolicyExplainParams, *, timeout_s: float | None = None
    ) -> PolicyExplainResult: ...

    @overload
    async def call(
        self, method: Literal["audit/verify"], params: Empty | None = None, *, timeout_s: float | None = None
    ) -> AuditVerifyResult: ...

    @overload
    async def call(
        self, method: Literal["audit/export"], params: AuditExportParams, *, timeout_s: float | None = None
    ) -> AuditExportResult: ...

    @overload
    async def call(
        self, method: Literal["daemon/status"], params: Empty | None = None, *, timeout_s: float | None = None
    ) -> DaemonStatusResult: ...

    @overload
    async def call(
        self, method: Literal["daemon/stop"], params: Empty | None = None, *, timeout_s: float | None = None
    ) -> Empty: ...

    async def call(self, method: str, params: WireModel | None = None, *, timeout_s: float | None = None) -> WireModel:
        """The daemon's answer. A cancelled or timed-out call is cancelled at the daemon too.

        Raises:
            GloveportError: what the daemon refused, or UNREACHABLE when it went away.
            TimeoutError: no answer within `timeout_s`.
        """
        return await self._ask(method, params, timeout_s)
