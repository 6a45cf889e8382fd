"""Messages about the places work happens in: workspaces, sandboxes, models, rules, the daemon itself.

Purpose: trust, choice of sandbox and model, the doctor, audit, status.
Invariant: choices come from the user alone, never from a workspace.
Must never: carry a key.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from gloveport.protocol.wire.base import PAGE_MAX, Mutation, Name, Path, SessionMutation, WireModel

REFERENCE_CHARACTERS_MAX: Final = 512
Reference = Annotated[str, StringConstraints(max_length=REFERENCE_CHARACTERS_MAX)]
TrustLevelName = Literal["trusted", "restricted", "untrusted"]


class WorkspaceTrustParams(Mutation):
    """Say how far the content of a folder is trusted; `unset` forgets what was said."""

    root: Path
    trust_level: TrustLevelName | Literal["unset"]


class WorkspaceInfo(WireModel):
    """A known workspace. `words`: what limits the trust in it; empty where nothing does."""

    workspace_id: str
    root: str
    trust_level: str
    words: str = ""


class WorkspaceShowParams(WireModel):
    """How far a folder is trusted; refused where no session can begin in it."""

    root: Path


class WorkspaceListResult(WireModel):
    """The workspaces this user gave a trust level."""

    workspaces: tuple[WorkspaceInfo, ...]


class ClaimInfo(WireModel):
    """A claim of a sandbox that does not hold here, in words."""

    claim: str
    words: str


class SandboxInfo(WireModel):
    """A rung of the ladder as a real trial found it."""

    name: str
    available: bool
    reason: str
    fix: str
    strength: int
    statement: str
    holds: tuple[str, ...]
    does_not_hold: tuple[ClaimInfo, ...]
    trust_levels: tuple[str, ...]


class SandboxListResult(WireModel):
    """All rungs."""

    sandboxes: tuple[SandboxInfo, ...]


class SandboxChooseParams(SessionMutation):
    """Use another sandbox in this session.

    `image` is the reference that `sandbox/devcontainer` told and the user agreed to; empty for the sandbox's own.
    """

    sandbox: Name
    image: Reference = ""


class ImageInfo(WireModel):
    """An image that a folder asks for. `sandboxes` are those that have it already; none is fetched."""

    registry: str
    name: str
    tag: str
    digest: str
    reference: str
    question: str
    sandboxes: tuple[str, ...]


class DevContainerResult(WireModel):
    """What a folder's devcontainer.json asks for: an image at most, and what of the file is ignored.

    `path` is empty where the file is not there or not read, `words` say what to tell the user, `in_use` is the id of
    the image that the session uses now.
    """

    path: str
    image: ImageInfo | None
    ignored: tuple[str, ...]
    words: str
    in_use: str


class SandboxDoctorParams(WireModel):
    """Probe one sandbox's claims from outside."""

    sandbox: Name


class ProbeInfo(WireModel):
    """One probe's finding."""

    name: str
    verdict: Literal["holds", "does_not_hold", "not_claimed"]
    evidence: str
    fix: str


class SandboxDoctorResult(WireModel):
    """All probes of a sandbox."""

    sandbox: str
    probes: tuple[ProbeInfo, ...]


class ModelInfo(WireModel):
    """A model that can be chosen; `label` says honestly what it is.

    `key_env` names the variable that holds its key; it is empty where no key is asked for.
    """

    provider: str
    model: str
    label: str
    key_env: str = ""


class ModelListResult(WireModel):
    """The configured models, and the file that configures them."""

    models: tuple[ModelInfo, ...]
    settings_path: str = ""


class ModelChooseParams(SessionMutation):
    """Use another model from the next request on."""

    provider: Name
    model: Name


class AuditVerifyResult(WireModel):
    """Whether the chain of the audit file holds; `first_bad_line` counts from 1."""

    ok: bool
    lines: int
    first_bad_line: int | None
    words: str
    path: str


class AuditExportParams(WireModel):
    """Lines of the audit file from `after_line` on, as they are or in the shape of OCSF events."""

    after_line: int = Field(default=0, ge=0)
    format: Literal["lines", "ocsf"] = "lines"
    limit: int = Field(default=PAGE_MAX, ge=1, le=PAGE_MAX)


class AuditExportResult(WireModel):
    """Audit lines as objects; `next_line` is null at the end."""

    lines: tuple[dict[str, Any], ...]
    next_line: int | None


class DataInfo(WireModel):
    """What the data directory holds, and how the journal is. Sizes are bytes.

    `sessions` and `events_bytes` are null while the journal cannot be read. `told` is empty while all is well;
    otherwise each entry says what is the matter and what to do.
    """

    sessions: int | None
    events_bytes: int | None
    blobs_bytes: int
    log_bytes: int
    accepting: bool
    has_reserve: bool
    told: tuple[str, ...]


class DaemonTold(WireModel):
    """To every client, at once: the journal stopped, or it accepts again. Not an event: no stream can hold it.

    `accepting`: whether what is done is saved; `words` say what is the matter and what to do. While it is false no
    session goes on; who connects meanwhile is told first. An editor that does not speak this protocol is shown the
    words alone.
    """

    accepting: bool
    words: str


class DaemonStatusResult(WireModel):
    """Who serves here.

    `sandboxes_told` is empty while every sandbox that the settings choose works, or is still being tried; otherwise
    each entry says which does not, for what, why, and what to do.
    """

    pid: int
    program_version: str
    protocol_version: int
    generation: int
    started_at: int
    clients: int
    running_turns: int
    data_dir: str
    journal_path: str
    audit_path: str
    data: DataInfo
    sandboxes_told: tuple[str, ...] = ()
