"""A sandbox that starts no process: commands are coroutines in this program.

Purpose: a real fake. Tests of other rooms run on it; it keeps the contract's promises about output, limits and ends.
Invariant: what it claims is shown by the same suite as any other rung; it claims no isolation.
Must never: be offered to a user, or start anything outside this process.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.backends.collect import collect_files
from gloveport.sandbox.backends.context import describe_limits
from gloveport.sandbox.backends.memory_programs import PROGRAMS
from gloveport.sandbox.backends.memory_run import MemoryExecution, Program, Stage
from gloveport.sandbox.backends.supervised import check_command
from gloveport.sandbox.backends.view import refuse_covers, refuse_image
from gloveport.sandbox.contract import Availability, Claim, Command, SandboxError, Strength
from gloveport.sandbox.egress.way import refuse_egress
from gloveport.sandbox.profile import Limits, Profile

_HELD: Final = frozenset({Claim.WALL_LIMIT, Claim.IDLE_LIMIT, Claim.OUTPUT_LIMIT, Claim.CLEAN_ENVIRONMENT})
_NOT_HELD: Final = tuple((claim, "No process is started here.") for claim in Claim if claim not in _HELD)
_NO_PROGRAMS: Final[Mapping[str, Program]] = MappingProxyType({})


class MemorySandbox:
    """Runs programs given as coroutines, by the first word of the command."""

    name = "memory"
    host = ""
    strength = Strength.PROCESS
    takes_images = False
    statement = "For tests: nothing is isolated and no program is started."

    def __init__(self, programs: Mapping[str, Program] = _NO_PROGRAMS) -> None:
        self._programs = {**PROGRAMS, **programs}
        self._runs: dict[str, MemoryExecution] = {}

    async def probe(self) -> Availability:
        """Run `true` once."""
        execution = MemoryExecution(Command(("true",), "trial"), _trial_profile(), self._programs["true"])
        result = await execution.result()
        if result.exit_code != 0:
            return Availability(
                False, result.evidence, "Give a program `true` that ends with 0.", frozenset(), _NOT_HELD
            )
        return Availability(True, "", "", _HELD, _NOT_HELD)

    async def prepare(self, profile: Profile, lease_id: str) -> "MemoryLease":
        """Make a lease; every profile is taken that hides nothing and reaches nothing."""
        refuse_covers(profile, self.name)
        refuse_egress(profile, self.name)
        refuse_image(profile, self.name)
        return MemoryLease(lease_id, profile, self._programs, self._runs)

    async def find_image(self, reference: str) -> str:
        """There is none."""
        return ""

    async def attach(self, run_id: str) -> MemoryExecution | None:
        """A run of this very program; nothing outlives it."""
        return self._runs.get(run_id)

    async def forget(self, run_id: str) -> None:
        """Drop a run that has ended."""
        execution = self._runs.get(run_id)
        if execution is not None and not execution.is_over():
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, f"The run {run_id!r} goes on; stop it first.")
        self._runs.pop(run_id, None)

    async def reap(self) -> tuple[str, ...]:
        """There are no runs of an earlier daemon."""
        return ()

    async def sweep(self, keep: frozenset[str]) -> tuple[str, ...]:
        """There is nothing of an earlier daemon."""
        return ()

    async def close(self) -> None:
        """Stop what runs: it cannot go on without this program."""
        for execution in tuple(self._runs.values()):
            await execution.stop()


class MemoryLease:
    """A lease of the memory rung."""

    def __init__(
        self, lease_id: str, profile: Profile, programs: Mapping[str, Program], runs: dict[str, MemoryExecution]
    ) -> None:
        self._lease_id, self._profile = lease_id, profile
        self._programs, self._runs = programs, runs
        self._mine: list[MemoryExecution] = []
        self._released = False

    @property
    def lease_id(self) -> str:
        """The caller's id."""
        return self._lease_id

    @property
    def security_context(self) -> Mapping[str, object]:
        """The values in force."""
        return {"sandbox": "memory", "isolation": "none", "network": "none", "seccomp": "none", "mounts": [],
                "environment_names": sorted(self._profile.environment),
                **describe_limits(self._profile, None)}  # fmt: skip

    async def start(self, command: Command) -> MemoryExecution:
        """Start the program that the first word names."""
        check_command(command)
        if self._released:
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, "This lease was released.", hint="Prepare a new one.")
        if command.run_id in self._runs:
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, f"A run with the id {command.run_id!r} exists already.")
        execution = MemoryExecution(command, self._profile, self._programs.get(command.argv[0], _not_found))
        self._runs[command.run_id] = execution
        self._mine.append(execution)
        return execution

    async def collect(self, globs: tuple[str, ...]) -> Mapping[str, bytes]:
        """Matching files of the writable mounts."""
        if any(not execution.is_over() for execution in self._mine):
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, "Files are collected when the run is over, not before.")
        return collect_files(self._profile, globs)

    async def release(self) -> None:
        """Stop what runs and drop it."""
        self._released = True
        for execution in self._mine:
            await execution.stop()
            self._runs.pop(execution.run_id, None)
        self._mine.clear()


async def _not_found(stage: Stage) -> int:
    raise FileNotFoundError(f"start {stage.argv[0]}: no such program here")


def _trial_profile() -> Profile:
    return Profile(label="trial", tool_kind="small", mounts=(), working_dir="/", limits=Limits(wall_s=5.0))
