"""The one table of error codes.

Purpose: every failure a client can meet has a stable code, a JSON-RPC number and a hint on what to do next.
Invariant: a code, once released, keeps its meaning and number; each `GloveportError` carries a code of this table.
Must never: carry a traceback, a secret or a path of this machine that the client did not name itself.

Tree of errors: `GloveportError` is the root; each room derives its own (`JournalError`, `SandboxError`,
`WorkspaceError`, `ModelError`, `ToolError`, `PolicyError`, `TransportError`) in the room itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final


@unique
class ErrorCode(StrEnum):
    """Stable names of failures; `<room>.<what>`."""

    # JSON-RPC and LSP themselves
    PARSE = "rpc.parse"
    INVALID_REQUEST = "rpc.invalid_request"
    METHOD_NOT_FOUND = "rpc.method_not_found"
    INVALID_PARAMS = "rpc.invalid_params"
    INTERNAL = "rpc.internal"
    NOT_INITIALIZED = "rpc.not_initialized"
    CANCELLED = "rpc.cancelled"
    TOO_LARGE = "rpc.too_large"
    SHUTTING_DOWN = "rpc.shutting_down"
    BUSY = "rpc.busy"
    # who may decide
    DECISION_TOKEN = "auth.decision_token"  # noqa: S105 - a code's name, not a secret
    CAPABILITY_MISSING = "auth.capability_missing"
    # daemon and journal
    LEASE_HELD = "daemon.lease_held"
    UNSAFE_DIRECTORY = "daemon.unsafe_directory"
    VERSION_MISMATCH = "daemon.version_mismatch"
    UNREACHABLE = "daemon.unreachable"
    NOT_SAVED = "journal.not_saved"
    CONFLICT = "journal.conflict"
    CORRUPT = "journal.corrupt"
    UNSUPPORTED_FS = "journal.unsupported_filesystem"
    NEWER_DATA = "journal.newer_data"
    BLOB_MISSING = "journal.blob_missing"
    DATA_FULL = "journal.disk_full"
    # session, turn, approvals
    SESSION_UNKNOWN = "session.unknown"
    SESSION_READ_ONLY = "session.read_only"
    SESSION_FROZEN = "session.frozen"
    TURN_BUSY = "turn.busy"
    TURN_MISMATCH = "turn.mismatch"
    APPROVAL_UNKNOWN = "approval.unknown"
    SUPERSEDED = "approval.superseded"
    TOO_WIDE = "approval.too_wide"
    # workspace and changes
    WORKSPACE_MISSING = "workspace.missing"
    WORKSPACE_UNREADABLE = "workspace.unreadable"
    WORKSPACE_UNWRITABLE = "workspace.unwritable"
    WORKSPACE_UNTRUSTED = "workspace.untrusted"
    OUTSIDE_WORKSPACE = "workspace.outside"
    PROTECTED_PATH = "workspace.protected"
    FILE_MISSING = "workspace.file_missing"
    NOT_A_FILE = "workspace.not_a_file"
    TOO_LARGE_FILE = "workspace.file_too_large"
    DISK_FULL = "workspace.disk_full"
    CHANGE_UNKNOWN = "change.unknown"
    CHANGE_CONFLICT = "change.conflict"
    CHANGE_SUPERSEDED = "change.superseded"
    CHANGE_UNSETTLED = "change.unsettled"
    EDIT_NO_MATCH = "edit.no_match"
    EDIT_AMBIGUOUS = "edit.ambiguous"
    EDIT_ENCODING = "edit.encoding"
    # sandbox
    SANDBOX_UNAVAILABLE = "sandbox.unavailable"
    SANDBOX_REFUSED = "sandbox.refused"
    SANDBOX_LOST = "sandbox.lost"
    # model
    MODEL_UNREACHABLE = "model.unreachable"
    MODEL_AUTH = "model.auth"
    MODEL_RATE = "model.rate_limited"
    MODEL_QUOTA = "model.quota"
    MODEL_REFUSED = "model.refused"
    MODEL_BROKEN = "model.broken_stream"
    MODEL_UNKNOWN = "model.unknown"
    MODEL_CONTEXT = "model.context_overflow"
    # tools and policy
    TOOL_UNKNOWN = "tool.unknown"
    TOOL_ARGUMENTS = "tool.invalid_arguments"
    TOOL_FAILED = "tool.failed"
    TOOL_UNAVAILABLE = "tool.unavailable"
    POLICY_DENIED = "policy.denied"
    RULES_INVALID = "policy.rules_invalid"
    LIMIT = "limit.reached"
    BUDGET = "budget.reached"
    UNPRICED = "budget.unpriced"


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """JSON-RPC number of a code and the default hint shown to the user."""

    rpc: int
    hint: str


ERRORS: Final[Mapping[ErrorCode, ErrorSpec]] = MappingProxyType(
    {
        ErrorCode.PARSE: ErrorSpec(-32700, "Send one valid JSON object per message."),
        ErrorCode.INVALID_REQUEST: ErrorSpec(-32600, "Send a JSON-RPC 2.0 request object; batches are not taken."),
        ErrorCode.METHOD_NOT_FOUND: ErrorSpec(-32601, "Check the method's name against the protocol schema."),
        ErrorCode.INVALID_PARAMS: ErrorSpec(-32602, "Mend the named fields and send the request again."),
        ErrorCode.INTERNAL: ErrorSpec(-32603, "Look the reference up in the daemon's log and report it."),
        ErrorCode.NOT_INITIALIZED: ErrorSpec(-32002, "Send initialize first."),
        ErrorCode.CANCELLED: ErrorSpec(-32800, "The request was cancelled by its sender."),
        ErrorCode.TOO_LARGE: ErrorSpec(-32010, "Send a smaller message; large bodies go by reference."),
        ErrorCode.SHUTTING_DOWN: ErrorSpec(-32011, "Connect again; the daemon is going down."),
        ErrorCode.BUSY: ErrorSpec(-32012, "Wait for earlier requests to finish, then send it again."),
        ErrorCode.DECISION_TOKEN: ErrorSpec(-32020, "Connect with the daemon's decision token to decide."),
        ErrorCode.CAPABILITY_MISSING: ErrorSpec(-32021, "Declare the capability in initialize."),
        ErrorCode.LEASE_HELD: ErrorSpec(-32030, "Attach to the running daemon, or stop it first."),
        ErrorCode.UNSAFE_DIRECTORY: ErrorSpec(-32031, "Make the directory yours alone (mode 0700, no link)."),
        ErrorCode.VERSION_MISMATCH: ErrorSpec(-32032, "Restart the daemon with the version of this client."),
        ErrorCode.UNREACHABLE: ErrorSpec(-32033, "Start it with: gloveport daemon"),
        ErrorCode.NOT_SAVED: ErrorSpec(-32040, "Free disk space or mend the data directory; nothing was started."),
        ErrorCode.CONFLICT: ErrorSpec(-32041, "Somebody wrote first; read the stream again and retry."),
        ErrorCode.CORRUPT: ErrorSpec(
            -32042, "What is named cannot be read; gloveport doctor tells how the data stands."
        ),
        ErrorCode.UNSUPPORTED_FS: ErrorSpec(-32043, "Put the data directory on a local file system with locking."),
        ErrorCode.NEWER_DATA: ErrorSpec(-32044, "Update gloveport; this data was written by a newer version."),
        ErrorCode.BLOB_MISSING: ErrorSpec(-32045, "The body was pruned or never stored."),
        ErrorCode.DATA_FULL: ErrorSpec(-32046, "Free space on the data disk; nothing was started, nothing is lost."),
        ErrorCode.SESSION_UNKNOWN: ErrorSpec(-32050, "List the sessions with session/list."),
        ErrorCode.SESSION_READ_ONLY: ErrorSpec(-32051, "Update gloveport to go on with this session."),
        ErrorCode.SESSION_FROZEN: ErrorSpec(-32059, "Look at what it did (gloveport why), then say gloveport thaw."),
        ErrorCode.TURN_BUSY: ErrorSpec(-32052, "A turn is running and the queue is full; cancel or wait."),
        ErrorCode.TURN_MISMATCH: ErrorSpec(-32053, "The turn has moved on; look at the session and try again."),
        ErrorCode.APPROVAL_UNKNOWN: ErrorSpec(-32054, "List what waits with approval/list."),
        ErrorCode.SUPERSEDED: ErrorSpec(-32055, "The card changed or was answered; look at the new one."),
        ErrorCode.TOO_WIDE: ErrorSpec(-32056, "Narrow the answer to what the card asks for."),
        ErrorCode.WORKSPACE_MISSING: ErrorSpec(-32060, "Name an existing folder."),
        ErrorCode.WORKSPACE_UNREADABLE: ErrorSpec(-32061, "Give yourself read access to the folder."),
        ErrorCode.WORKSPACE_UNWRITABLE: ErrorSpec(-32069, "Give yourself write access; the original is unchanged."),
        ErrorCode.WORKSPACE_UNTRUSTED: ErrorSpec(-32062, "Trust the workspace first (workspace/trust)."),
        ErrorCode.OUTSIDE_WORKSPACE: ErrorSpec(-32063, "Use a path inside the workspace."),
        ErrorCode.PROTECTED_PATH: ErrorSpec(-32064, "This path is never changed by the agent."),
        ErrorCode.FILE_MISSING: ErrorSpec(-32065, "List the folder to see what exists."),
        ErrorCode.NOT_A_FILE: ErrorSpec(-32066, "Name a regular file."),
        ErrorCode.TOO_LARGE_FILE: ErrorSpec(-32067, "Read a part of the file instead."),
        ErrorCode.DISK_FULL: ErrorSpec(-32068, "Free disk space; the original file is unchanged."),
        ErrorCode.CHANGE_UNKNOWN: ErrorSpec(-32070, "List the changes with change/list."),
        ErrorCode.CHANGE_CONFLICT: ErrorSpec(-32071, "The file changed under the proposal; nothing was written."),
        ErrorCode.CHANGE_SUPERSEDED: ErrorSpec(-32072, "The proposal changed since it was shown; look again."),
        ErrorCode.CHANGE_UNSETTLED: ErrorSpec(-32076, "Look at the named files; what each holds is told."),
        ErrorCode.EDIT_NO_MATCH: ErrorSpec(-32073, "Quote the text exactly as the file has it."),
        ErrorCode.EDIT_AMBIGUOUS: ErrorSpec(-32074, "Quote more of the surroundings so that one place matches."),
        ErrorCode.EDIT_ENCODING: ErrorSpec(-32075, "This file cannot be edited as text without loss."),
        ErrorCode.SANDBOX_UNAVAILABLE: ErrorSpec(-32080, "Run gloveport doctor for the reason and the fix."),
        ErrorCode.SANDBOX_REFUSED: ErrorSpec(-32081, "Choose a stronger sandbox for this trust level."),
        ErrorCode.SANDBOX_LOST: ErrorSpec(-32082, "The outcome is unknown; check before running it again."),
        ErrorCode.MODEL_UNREACHABLE: ErrorSpec(-32090, "Check the model's address and the network."),
        ErrorCode.MODEL_AUTH: ErrorSpec(-32091, "Set a valid key for the model in your user settings."),
        ErrorCode.MODEL_RATE: ErrorSpec(-32092, "Wait; the provider asked for a pause."),
        ErrorCode.MODEL_QUOTA: ErrorSpec(-32093, "The provider's quota is used up; raise it or change the model."),
        ErrorCode.MODEL_REFUSED: ErrorSpec(-32094, "The provider refused the request; see its words."),
        ErrorCode.MODEL_BROKEN: ErrorSpec(-32095, "The stream broke off; what arrived is kept. Send again to go on."),
        ErrorCode.MODEL_UNKNOWN: ErrorSpec(-32096, "Choose a model with model/list."),
        ErrorCode.MODEL_CONTEXT: ErrorSpec(-32097, "Choose a model with a larger window, or begin anew."),
        ErrorCode.TOOL_UNKNOWN: ErrorSpec(-32100, "Use one of the offered tools."),
        ErrorCode.TOOL_ARGUMENTS: ErrorSpec(-32101, "Mend the named arguments."),
        ErrorCode.TOOL_FAILED: ErrorSpec(-32102, "Read the tool's words."),
        ErrorCode.TOOL_UNAVAILABLE: ErrorSpec(-32103, "Install or set up what is named."),
        ErrorCode.POLICY_DENIED: ErrorSpec(-32110, "A rule forbids this; see gloveport why."),
        ErrorCode.RULES_INVALID: ErrorSpec(-32111, "Mend the named rule in your user rules."),
        ErrorCode.LIMIT: ErrorSpec(-32120, "A named limit was reached."),
        ErrorCode.BUDGET: ErrorSpec(-32121, "Set a higher limit (gloveport budget), then send a message to go on."),
        ErrorCode.UNPRICED: ErrorSpec(
            -32122,
            "Write its price into config.toml (input_usd and output_usd of its [[models]] entry) and set the limit"
            " again, or bound tokens instead.",
        ),
    }
)


class GloveportError(Exception):
    """Root of all typed failures: a code, words that name what happened, and a hint on what to do next."""

    def __init__(self, code: ErrorCode, message: str, *, hint: str | None = None, **data: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint if hint is not None else ERRORS[code].hint
        self.data = data

    @property
    def advice(self) -> str:
        """What happened and what to do next, in one line of prose."""
        return f"{self.message.rstrip('.')}. {self.hint}".rstrip()

    @property
    def rpc(self) -> int:
        """The JSON-RPC number of the code."""
        return ERRORS[self.code].rpc
