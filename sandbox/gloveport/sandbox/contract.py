"""The contract of every sandbox backend.

Purpose: prepare a lease from a profile, start commands in it, stream output, tell how they ended.
Invariant: `Availability.holds` names only what a real trial run showed or what the build of the jail ensures;
a result's kind comes from evidence (our kill, a kernel counter), never from an exit number.
Must never: fall back to a weaker isolation than the one named.

Errors: `SandboxError` with SANDBOX_UNAVAILABLE (this rung does not work here), SANDBOX_REFUSED (the profile asks
for what the rung cannot hold) or SANDBOX_LOST (the supervisor is gone without evidence).
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum, unique
from typing import Protocol

from gloveport.protocol.errors import GloveportError
from gloveport.sandbox.profile import Profile


class SandboxError(GloveportError):
    """A sandbox refused, is unavailable, or lost a run."""


@unique
class Strength(IntEnum):
    """How much stands between the code and the user; a larger number is stronger."""

    PROCESS = 1
    CONTAINER = 2
    VIRTUAL_MACHINE = 3


@unique
class Claim(StrEnum):
    """What a rung may say of itself; each is tested by the contract suite and probed by the doctor."""

    PROCESS_ISOLATION = "process_isolation"
    FILESYSTEM_VIEW = "filesystem_view"
    PRIVATE_TMP = "private_tmp"
    TMP_QUOTA = "tmp_quota"
    DISK_QUOTA = "disk_quota"
    NO_NETWORK = "no_network"
    LOOPBACK = "loopback"
    EGRESS_LIST = "egress_list"
    SYSCALL_FILTER = "seccomp"
    NAMED_DENIALS = "named_denials"
    LANDLOCK = "landlock"
    NO_NEW_NAMESPACES = "no_new_namespaces"
    NO_CAPABILITIES = "no_capabilities"
    RUNS_APART = "runs_apart"
    OWN_USER = "own_user"
    MEMORY_LIMIT = "memory_limit"
    MEMORY_CAP = "memory_cap"
    PROCESS_LIMIT = "process_limit"
    WALL_LIMIT = "wall_limit"
    IDLE_LIMIT = "idle_limit"
    CPU_LIMIT = "cpu_limit"
    FILE_LIMIT = "file_limit"
    OUTPUT_LIMIT = "output_limit"
    CLEAN_ENVIRONMENT = "clean_environment"
    ONLY_PIPES = "only_pipes"
    TREE_KILL = "tree_kill"
    HIDES_DAEMON = "hides_daemon"
    SURVIVES_DAEMON = "survives_daemon"


@dataclass(frozen=True, slots=True)
class Availability:
    """Outcome of a real trial run. `reason` and `fix` are for the user; empty when ok."""

    ok: bool
    reason: str
    fix: str
    holds: frozenset[Claim]
    does_not_hold: tuple[tuple[Claim, str], ...]


@unique
class ResultKind(StrEnum):
    """How a run ended. `lost`: no evidence, the outcome is unknown."""

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OOM = "oom"
    KILLED = "killed"
    POLICY = "policy"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a run. `output` holds stdout and stderr as they arrived, head and tail when `truncated`.

    `denied`: calls that the sandbox refused, in words with how often, the first one first; `alarms`: thresholds that
    were passed; `dump`: what the processes were doing when they were ended.
    """

    kind: ResultKind
    exit_code: int | None
    signal: int | None
    evidence: str
    wall_s: float
    cpu_s: float
    memory_peak_bytes: int | None
    output: bytes
    output_bytes_total: int
    truncated: bool
    denied: tuple[tuple[str, int], ...] = ()
    alarms: tuple[str, ...] = ()
    dump: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start. `run_id` is the caller's call id: letters, digits, `-`, `_`, `.`; unique per runs folder."""

    argv: tuple[str, ...]
    run_id: str
    stdin: bytes = b""


class Execution(Protocol):
    """A started command."""

    @property
    def run_id(self) -> str:
        """The caller's id of this run."""
        ...

    @property
    def is_of_this_boot(self) -> bool:
        """False when the machine went down since: what it wrote may be gone, though its end is known."""
        ...

    def output(self) -> AsyncIterator[bytes]:
        """Chunks from the first byte on, until the tree is dead; a slow reader misses the middle, never the end."""
        ...

    async def result(self) -> Result:
        """Wait for the end; returns only when no process of the tree is left (or the run is lost)."""
        ...

    async def stop(self) -> None:
        """TERM the whole tree, KILL it after the profile's grace, return when it is dead."""
        ...


class Lease(Protocol):
    """A jail made ready for one profile."""

    @property
    def lease_id(self) -> str:
        """The caller's id of this lease."""
        ...

    @property
    def security_context(self) -> Mapping[str, object]:
        """The values in force, JSON-ready, for the audit."""
        ...

    async def start(self, command: Command) -> Execution:
        """Start a command; returns once the run's identity is on disk. Raises `SandboxError`."""
        ...

    async def collect(self, globs: tuple[str, ...]) -> Mapping[str, bytes]:
        """Regular files that match, path inside the jail -> content; refuses while a run is alive."""
        ...

    async def release(self) -> None:
        """Stop what runs, remove the run folders of this lease. Idempotent."""
        ...


class Sandbox(Protocol):
    """One rung of the ladder."""

    @property
    def name(self) -> str:
        """Stable name of the backend."""
        ...

    @property
    def strength(self) -> Strength:
        """Its place on the ladder."""
        ...

    @property
    def statement(self) -> str:
        """What the user is told about this rung."""
        ...

    @property
    def host(self) -> str:
        """The machine to which everything that a run sees is sent; empty for this one."""
        ...

    async def probe(self) -> Availability:
        """Try the rung with a real run under a hard time limit."""
        ...

    async def prepare(self, profile: Profile, lease_id: str) -> Lease:
        """Check the profile against what this rung holds and make a lease. Raises `SandboxError`."""
        ...

    @property
    def takes_images(self) -> bool:
        """Whether a profile may name an image here."""
        ...

    async def find_image(self, reference: str) -> str:
        """What names the bytes of an image that is here; empty where there is none or this rung takes none."""
        ...

    async def attach(self, run_id: str) -> Execution | None:
        """Find a run of an earlier daemon by its folder; None when there is none."""
        ...

    async def forget(self, run_id: str) -> None:
        """Remove the folder of a run that has ended and whose result is kept elsewhere."""
        ...

    async def reap(self) -> tuple[str, ...]:
        """Kill every run of an earlier daemon that was not attached; returns their ids."""
        ...

    async def sweep(self, keep: frozenset[str]) -> tuple[str, ...]:
        """Remove what ended runs of an earlier daemon left, but those of `keep` and those attached; their ids."""
        ...

    async def close(self) -> None:
        """Let go of helper processes; runs go on."""
        ...
