"""How tools start programs: the session's rung, one lease a run.

Purpose: turn a request of a tool into a profile, a lease and a run, and find runs of an earlier daemon again.
Invariant: a run's name is its call's id; what was asked to stop is dead when `run` returns, or was waited for.
Must never: fall back to another rung than the session's.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import anyio
import anyio.to_thread

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.jail.requests import BoundPlan
from gloveport.sandbox.contract import (
    Availability,
    Claim,
    Command,
    Execution,
    Result,
    ResultKind,
    Sandbox,
    SandboxError,
)
from gloveport.sandbox.egress.credentials import Loan
from gloveport.sandbox.egress.way import equip
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.profile import COVERED_MAX, Access, Limits, Mount, Profile, is_below
from gloveport.server.accounts import Database, MailAccount
from gloveport.server.engine.way_out import Notes, WaysOut
from gloveport.server.hands.table import HANDS
from gloveport.server.tools.contract import Found, Lent, RunRequest
from gloveport.server.workspace.repository import (
    PLACE,
    REPOSITORY_BYTES_MAX,
    REPOSITORY_FILES_MAX,
    LentRepository,
)

SANDBOX: Final = "sandbox:"
"""How the name of an executor begins that is a rung."""
BUILD_MEMORY_BYTES_MAX: Final = 4 * 1024**3
BUILD_PROCESSES_MAX: Final = 512
BUILD_FILE_BYTES_MAX: Final = 1024**3
OUTPUT_BYTES_MAX: Final = 1024 * 1024
HAND_FILE_BYTES_MAX: Final = 64 * 1024**2
HAND_TMP_BYTES_MAX: Final = 64 * 1024**2
LOOK_S: Final = 0.5
MACHINE_WENT_DOWN: Final = "it had ended, and the machine went down before what it changed was recorded"

Show = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Place:
    """What a run sees: the worktree at the workspace's own path, and folders that may be read."""

    root: str
    worktree: str
    dependency_folders: Mapping[str, str]
    """Shown at their own place; what is written over one goes into its layer, and nowhere else."""

    read_only_roots: tuple[str, ...]

    def shown(self) -> tuple[Mount, ...]:
        """What is mounted beside the worktree, each once; what lies in the root comes with it."""
        layered = self.dependency_folders
        outside = {path: None for path in self.read_only_roots if not is_below(path, self.root) and path not in layered}
        return (
            *(Mount(path, path, Access.COPY_ON_WRITE, layer) for path, layer in layered.items()),
            *(Mount(path, path, Access.READ_ONLY) for path in outside),
        )


@dataclass(slots=True)
class Hands:
    """The hands of one call. Set `stop` to end its run; one that is not `killable` is then followed to its own end."""

    backend: Sandbox
    available: Availability
    place: Place
    trust_level: str
    stop: anyio.Event
    killable: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    ways: WaysOut | None = None
    notes: Notes = field(default_factory=Notes)
    loans: list[Loan] = field(default_factory=list)
    image: str = ""

    @property
    def name(self) -> str:
        """The rung's name."""
        return self.backend.name

    @property
    def root(self) -> str:
        """Where the worktree is seen inside."""
        return self.place.root if Claim.FILESYSTEM_VIEW in self.available.holds else self.place.worktree

    @property
    def hides(self) -> bool:
        """True if single files can be hidden from a run."""
        return Claim.FILESYSTEM_VIEW in self.available.holds

    def security_context(self, places: tuple[str, ...] = ()) -> Mapping[str, Any]:
        """What will be in force, for the record; `places` are those that are let through. Raises SandboxError."""
        listed = {"egress": [str(self._ways().entry_of(place)) for place in places]} if places else {}
        return {
            **listed,
            **({"host": self.backend.host} if self.backend.host else {}),
            "sandbox": self.backend.name,
            "strength": int(self.backend.strength),
            "trust_level": self.trust_level,
            "network": "none" if Claim.NO_NETWORK in self.available.holds else "not isolated",
            "holds": sorted(claim.value for claim in self.available.holds),
            "does_not_hold": sorted(claim.value for claim, _ in self.available.does_not_hold),
            "root": self.root,
            **({"image": self.image} if self.image else {}),
        }

    def _profile(self, request: RunRequest) -> Profile:
        views = Claim.FILESYSTEM_VIEW in self.available.holds
        held = self.available.holds
        if request.hand:
            return self._hand_profile(request)
        mounts = [Mount(self.place.worktree, self.root, Access.READ_WRITE)]
        if views:
            beside = self.place.shown()
            there = {mount.target for mount in beside}
            tools = [path for path in dict.fromkeys(request.shown) if path not in there]
            mounts += [*beside, *(Mount(path, path, Access.READ_ONLY) for path in tools)]
            mounts += own_repository(request.repository)
        limits = Limits(
            wall_s=request.wall_s,
            memory_bytes_max=BUILD_MEMORY_BYTES_MAX if Claim.MEMORY_LIMIT in held or Claim.MEMORY_CAP in held else None,
            processes_max=BUILD_PROCESSES_MAX if Claim.PROCESS_LIMIT in held else None,
            file_bytes_max=BUILD_FILE_BYTES_MAX if Claim.FILE_LIMIT in held else None,
            output_bytes_max=OUTPUT_BYTES_MAX,
        )
        return Profile(
            label=request.run_id,
            tool_kind=request.tool_kind,
            mounts=tuple(mounts),
            working_dir=self.root,
            limits=limits,
            environment={**self.environment, **dict(request.environment)},
            covered=self._covered(request),
            image=self.image,
            bounds=bounds_of(request.repository) if views else (),
        )

    def _hand_profile(self, request: RunRequest) -> Profile:
        """A jail that sees nothing of the user's but what the row of the hand says."""
        held, hand = self.available.holds, HANDS[request.hand]
        limits = Limits(
            wall_s=request.wall_s,
            memory_bytes_max=hand.memory_bytes_max if Claim.MEMORY_LIMIT in held else None,
            processes_max=hand.processes_max if Claim.PROCESS_LIMIT in held else None,
            file_bytes_max=HAND_FILE_BYTES_MAX if Claim.FILE_LIMIT in held else None,
            output_bytes_max=hand.output_bytes_max,
            tmp_bytes_max=HAND_TMP_BYTES_MAX,
        )
        return Profile(
            label=request.run_id,
            tool_kind="small",
            hand=request.hand,
            mounts=self._hand_mounts(request),
            working_dir=self.root if hand.looks else "/",
            limits=limits,
            environment=dict(request.environment),
            covered=self._covered(request) if hand.looks else (),
        )

    def _hand_mounts(self, request: RunRequest) -> tuple[Mount, ...]:
        """The interpreter and what the hand needs beside it, each at its own place, read-only."""
        if HANDS[request.hand].looks:
            return (Mount(self.place.worktree, self.root, Access.READ_ONLY),)
        own = find_interpreter().mounts
        asked = (Mount(os.path.realpath(path), path, Access.READ_ONLY) for path in dict.fromkeys(request.shown))
        system = ("/usr",)
        return (
            *own,
            *(
                one
                for one in asked
                if not any(is_below(one.target, top) for top in (*system, *(m.target for m in own)))
            ),
        )

    def refuse_places(self, places: tuple[str, ...]) -> None:
        """Refuse places that this rung cannot hold as a list, and spellings that are not taken. Raises SandboxError."""
        if places and Claim.EGRESS_LIST not in self.available.holds:
            words = f"The sandbox {self.name} cannot let {', '.join(places)} through and keep the rest out."
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="Choose a sandbox that holds a list of hosts.")
        for place in places:
            self._ways().entry_of(place)

    def lend(self, name: str) -> Lent:
        """A credential of the user's for the next run, at its own place. Raises SandboxError."""
        loan, credential = self._ways().lend(name)
        self.loans.append(loan)
        value = credential.form.replace("{}", loan.stand_in)
        return Lent(credential.place, credential.header, value, credential.variable, loan.stand_in)

    def mail(self) -> MailAccount:
        """The account by which the user's mail goes out. Raises SandboxError where there is none to use."""
        return self._ways().mail_account()

    def database(self, name: str) -> Database:
        """A database of the user's. Raises SandboxError naming those that there are."""
        return self._ways().database(name)

    def _ways(self) -> WaysOut:
        if self.ways is None:
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, "There is no way out here.", hint="Ask for no network.")
        return self.ways

    def _covered(self, request: RunRequest) -> tuple[str, ...]:
        """The hidden files as paths inside; what lies below another mount is not of the worktree."""
        if len(request.hidden) > COVERED_MAX:
            words = (
                f"{len(request.hidden)} files of the workspace may hold secrets; at most {COVERED_MAX} can be hidden"
            )
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="Open a folder without them.")
        paths = (f"{self.root}/{path}" for path in request.hidden)
        others = [folder for folder in self.place.dependency_folders if self.hides and is_below(folder, self.root)]
        return tuple(path for path in paths if not any(is_below(path, other) for other in others))

    async def run(self, call: RunRequest, show: Show) -> Result:
        """Start the program and wait for its end; `show` gets its output as it comes.

        The run's folder stays until `forget`, so that its end is found again if this daemon dies before writing it.
        """
        if not call.places:
            return await self._run(call, self._profile(call), show)
        self.refuse_places(call.places)
        egress, opening = self._ways().open(call.run_id, call.places, self.notes, tuple(self.loans), call.account)
        profile = replace(self._profile(call), egress=egress)
        async with opening as way:
            return await self._run(call, equip(profile, way), show)

    async def _run(self, call: RunRequest, profile: Profile, show: Show) -> Result:
        lease = await self.backend.prepare(profile, call.run_id)
        if self.stop.is_set():
            raise SandboxError(ErrorCode.CANCELLED, "stopped before it began")
        interpreter = (find_interpreter().path, "-I", "-S", "-B") if call.hand and not HANDS[call.hand].looks else ()
        return await self._follow(await lease.start(Command((*interpreter, *call.argv), call.run_id, call.stdin)), show)

    async def look(self, run_id: str) -> Found:
        """What is known of an earlier daemon's run."""
        execution = await self.backend.attach(run_id)
        if execution is None:
            return Found("not_started", "there is no run of this call on this machine")
        with anyio.move_on_after(LOOK_S):
            result = await execution.result()
            if result.kind is ResultKind.LOST:
                return Found("unknown", result.evidence)
            if not execution.is_of_this_boot:
                return Found("unknown", f"{MACHINE_WENT_DOWN} ({result.evidence})")
            return Found("succeeded" if result.kind is ResultKind.OK else "failed", result.evidence)
        return Found("still_running", "the run goes on under its supervisor")

    async def attach(self, run_id: str, show: Show) -> Result:
        """Wait for the end of an earlier daemon's run; its way out ended with that daemon."""
        if self.ways is not None:
            await anyio.to_thread.run_sync(self.ways.recall, run_id, self.notes)
        execution = await self.backend.attach(run_id)
        if execution is None:
            raise SandboxError(ErrorCode.SANDBOX_LOST, "the run is gone and left no result")
        return await self._follow(execution, show)

    async def forget(self, run_id: str) -> None:
        """The run's end is in the journal: its folder may go."""
        await self.backend.forget(run_id)

    async def _follow(self, execution: Execution, show: Show) -> Result:
        ended: Result | None = None
        failure: GloveportError | None = None
        async with anyio.create_task_group() as tasks:
            if self.killable:
                tasks.start_soon(self._stop_when_asked, execution)
            try:
                async for piece in execution.output():
                    await show(piece)
                ended = await execution.result()
            except GloveportError as error:
                failure = error
            tasks.cancel_scope.cancel()
        if ended is None:
            raise failure or SandboxError(ErrorCode.SANDBOX_LOST, "the run ended without a result")
        return ended

    async def _stop_when_asked(self, execution: Execution) -> None:
        await self.stop.wait()
        with anyio.CancelScope(shield=True), suppress(GloveportError):  # then it is followed to its own end
            await execution.stop()


def bounds_of(lent: LentRepository) -> tuple[BoundPlan, ...]:
    """What the session's repository may grow to within a run; on another machine nobody looks before the run's end."""
    if not lent.folder or not lent.writable:
        return ()
    return (BoundPlan(lent.folder, "the session's own git repository", REPOSITORY_BYTES_MAX, REPOSITORY_FILES_MAX),)


def own_repository(lent: LentRepository) -> list[Mount]:
    """Where git finds the session's repository; one that grew too large is only read."""
    access = Access.READ_WRITE if lent.writable else Access.READ_ONLY
    return [Mount(lent.folder, PLACE, access)] if lent.folder else []
