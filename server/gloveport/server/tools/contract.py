"""What every tool is.

Purpose: the protocol class of tools and the shapes that pass between a tool and the engine.
Invariant: `plan` reads only; `perform` does exactly what the plan declared.
Must never: decide permission.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import EventBody
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.tool import EffectRecord, FileFingerprint, Outcome
from gloveport.sandbox.contract import Result
from gloveport.server.accounts import Account, Database, MailAccount
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.repository import NO_REPOSITORY, LentRepository

RESULT_CHARACTERS_MAX: Final = 24_000
REFUSED: Final = "the sandbox refused: "
"""With this the evidence of a call names what was refused to it."""
OWN_LABEL: Final = LabelRecord(integrity=0, readers=None, provenance=("gloveport",))

Recovery = Literal["read_only", "idempotent", "fingerprinted", "probeable", "opaque"]
StopClass = Literal["killable", "atomic", "opaque"]
Finding = Literal["succeeded", "failed", "still_running", "not_started", "unknown"]


class ToolError(GloveportError):
    """A tool cannot do what it was asked; the model is told the words."""


class Arguments(BaseModel):
    """Base of every tool's arguments: strict, nothing unknown taken."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """What a call will do, before it does it.

    `argv` and `cwd` are set for programs; `file_digests` bind an approval to the files involved, `unbound` are those
    it can't be bound to, and no answer lasts; `diff` is what would change, as a person is shown it. `sends`: what
    leaves, in words and whole, for the card; `shown`: the same in its parts. `payload`: the very bytes that leave,
    where they are known; they are stored, and what is released are the stored ones.
    """

    title: str
    effects: tuple[EffectRecord, ...]
    recovery: Recovery
    stop_class: StopClass
    executor: str
    label: LabelRecord
    fingerprint: tuple[FileFingerprint, ...] = ()
    argv: tuple[str, ...] | None = None
    cwd: str = ""
    file_digests: tuple[tuple[str, str], ...] = ()
    unbound: tuple[str, ...] = ()
    reversible: bool = True
    test_class: str | None = None
    diff: str = ""
    sends: str = ""
    shown: "Shown | None" = None
    payload: "Payload | None" = None


@dataclass(frozen=True, slots=True)
class Shown:
    """What leaves: the lines before its body, and the body. `is_scanned`: no secret was found in any of it."""

    head: tuple[str, ...]
    body: str
    is_scanned: bool


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes that leave, and for where."""

    data: bytes
    effect: str
    scheme: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Performed:
    """How a call ended. `output` is the whole captured output, `text` what the model is told.

    `hostile` is the evidence of an attack, empty where there was none: the session is then frozen, and its user told
    `hostile_words`. `lasted_us` is what a program's own record says it took, in microseconds; null where there is none.
    """

    outcome: Outcome
    text: str
    evidence: str
    label: LabelRecord
    exit_code: int | None = None
    output: bytes = b""
    output_bytes: int = 0
    facts: tuple[EventBody, ...] = ()
    lasted_us: int | None = None
    hostile: str = ""
    hostile_words: str = ""


class SandboxHands(Protocol):
    """How a tool runs a program: in the session's sandbox, under the call's id."""

    @property
    def name(self) -> str:
        """The rung's name."""

    def security_context(self) -> Mapping[str, Any]:
        """The values that will be in force."""

    @property
    def root(self) -> str:
        """Where the worktree is seen inside."""

    @property
    def hides(self) -> bool:
        """True if single files can be hidden from a run."""

    def refuse_places(self, places: tuple[str, ...]) -> None:
        """Raise SandboxError for places that no list can hold here, or that are not spelled as they must be."""

    def lend(self, name: str) -> "Lent":
        """A credential of the user's for the next run, at its own place. Raises SandboxError."""

    def mail(self) -> MailAccount:
        """The account by which the user's mail goes out. Raises SandboxError where there is none to use."""

    def database(self, name: str) -> Database:
        """A database of the user's. Raises SandboxError naming those that there are."""

    async def run(self, call: "RunRequest", show: Callable[[bytes], Awaitable[None]]) -> Result:
        """Run to the end; pieces of output go to `show`. Raises SandboxError."""

    async def look(self, run_id: str) -> "Found":
        """What is known of a run of an earlier daemon, without waiting for its end."""

    async def attach(self, run_id: str, show: Callable[[bytes], Awaitable[None]]) -> Result:
        """Wait for the end of a run that outlived the last daemon. Raises SandboxError (SANDBOX_LOST)."""

    async def forget(self, run_id: str) -> None:
        """Remove what an ended run left, so that its name can be used again."""


@dataclass(frozen=True, slots=True)
class Lent:
    """How a run uses a credential that it never sees: at `place`, by a stand-in that the proxy knows.

    `header` and `value` are for a request of ours, `variable` and `stand_in` for the environment of a program.
    """

    place: str
    header: str
    value: str
    variable: str
    stand_in: str


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A program to run: argument vector, limits in seconds and bytes, extra environment.

    `hidden` are files of the worktree whose content it may not see. `places` (`host:port`) are what it may reach.
    `shown` are folders of this machine beside the worktree that it may read (a toolchain).
    `repository` is the session's own, which the worktree points to.
    `hand`: the row of the table of hands, for a small program of ours in a jail of its own without the worktree: it has
    the row's limits, `argv` are the interpreter's words, and `shown` may name single files. `account`: it speaks its
    own protocol with this account's place, and is given the password once.
    """

    run_id: str
    argv: tuple[str, ...]
    wall_s: float
    hidden: tuple[str, ...] = ()
    tool_kind: Literal["small", "build"] = "build"
    environment: tuple[tuple[str, str], ...] = ()
    places: tuple[str, ...] = ()
    hand: str = ""
    stdin: bytes = b""
    shown: tuple[str, ...] = ()
    account: Account | None = None
    repository: LentRepository = NO_REPOSITORY


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call may touch.

    `python` runs the tests; `python_is_own`: it is the workspace's. `fingerprint` is what the call's intent on disk
    says, once there is one, and `planned` the effects that were judged. `redact` takes known secrets out of bytes
    before they are cut or shown. `is_kept` tells which paths may not be read without being asked about. `is_stopped`
    is asked right before what cannot be taken back.
    """

    call_id: str
    turn_id: str
    goal_revision: int
    workspace: SessionWorkspace
    hands: SandboxHands
    label: LabelRecord
    python: str
    python_is_own: bool
    show: Callable[[bytes], Awaitable[None]]
    redact: Callable[[bytes], bytes]
    is_kept: Callable[[str], bool]
    is_stopped: Callable[[], bool]
    fingerprint: tuple[FileFingerprint, ...] = ()
    planned: tuple[EffectRecord, ...] = ()
    model_reader: str = ""
    """Under which name the model's provider stands among readers."""
    released: bytes | None = None
    """What the user released for this call; it is sent as it is stored."""

    def was_judged(self, kind: str, path: str) -> bool:
        """True if this effect is among those that were judged."""
        return any((one.kind, one.target) == (kind, path) for one in self.planned)


@dataclass(frozen=True, slots=True)
class Found:
    """A finding and its evidence."""

    finding: Finding
    evidence: str


class Tool(Protocol):
    """One hand of the model."""

    @property
    def name(self) -> str:
        """As the model calls it."""

    @property
    def description(self) -> str:
        """What a model is told of it."""

    @property
    def arguments(self) -> type[Arguments]:
        """The shape of its arguments."""

    async def plan(self, arguments: Any, context: ToolContext) -> ToolPlan:
        """Declare effects and recovery. Reads only. Raises GloveportError when the call cannot be done."""

    async def perform(self, arguments: Any, context: ToolContext) -> Performed:
        """Do what was planned. Raises GloveportError for a failure the model should hear of."""

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """After a restart: find out what became of a call whose end was not recorded."""

    async def attach(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Performed:
        """After a finding other than `not_started` and `unknown`: the outcome, without doing anything again."""


def parse(arguments: type[Arguments], raw: str) -> Arguments:
    """Arguments from strict JSON. Raises ToolError naming every wrong field."""
    try:
        return arguments.model_validate_json(raw)
    except ValidationError as error:
        words = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False, include_context=False)
        )
        raise ToolError(ErrorCode.TOOL_ARGUMENTS, f"wrong arguments: {words}") from None


def bounded(text: str) -> str:
    """`text` cut to head and tail, saying how much is left out."""
    if len(text) <= RESULT_CHARACTERS_MAX:
        return text
    half = RESULT_CHARACTERS_MAX // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[… {left_out} characters left out …]\n{text[-half:]}"


def effect(kind: str, target: str) -> EffectRecord:
    """One declared effect."""
    return EffectRecord(kind=kind, target=target)
