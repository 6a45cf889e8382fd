"""Containers of an engine on this machine, hardened, one a run.

Purpose: the rungs `docker` (the engine's own runtime) and `gvisor` (its runtime runsc) behind the same contract as
the others: run folders, supervisors, attach, reap.
Invariant: what is claimed was seen in trial runs; a container is made by the supervisor of its run, bears its labels
and is gone when the end is written.
Must never: bind the engine's socket inward, or run where the engine does not filter system calls.
"""

import contextlib
import functools
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.jail.codec import JailFormatError
from gloveport.protocol.jail.requests import EnginePlan, RunRequest
from gloveport.sandbox.backends.context import describe_limits
from gloveport.sandbox.backends.docker_choice import EngineChoice, find_socket
from gloveport.sandbox.backends.docker_engine import Engine
from gloveport.sandbox.backends.docker_plan import (
    LEASE_LABEL,
    OWNER_LABEL,
    PLACE_LABEL,
    POOL_LABEL,
    RUN_LABEL,
    Facts,
    Making,
    name_user,
    plan_container,
    plan_view,
)
from gloveport.sandbox.backends.docker_trials import TRIAL_LABEL, trial_profile, try_files, try_memory
from gloveport.sandbox.backends.docker_warm import WarmContainers, is_daemon_alive, plan_inside
from gloveport.sandbox.backends.execution import is_supervised
from gloveport.sandbox.backends.supervised import RunFolders, SupervisedLease, SupervisedRung, plan_limits
from gloveport.sandbox.backends.view import Hidden, find_written
from gloveport.sandbox.contract import Availability, Claim, Command, SandboxError, Strength
from gloveport.sandbox.egress.way import bridge_argv, check_way_out, missing_mounts, refuse_egress
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.monitor.thresholds import plan_breaker
from gloveport.sandbox.profile import Profile
from gloveport.sandbox.runner import rundir

_HELD: Final = frozenset(
    {Claim.PROCESS_ISOLATION, Claim.RUNS_APART, Claim.FILESYSTEM_VIEW, Claim.PRIVATE_TMP, Claim.TMP_QUOTA,
     Claim.NO_NETWORK, Claim.LOOPBACK, Claim.SYSCALL_FILTER, Claim.NO_NEW_NAMESPACES, Claim.NO_CAPABILITIES,
     Claim.WALL_LIMIT, Claim.IDLE_LIMIT, Claim.FILE_LIMIT, Claim.OUTPUT_LIMIT, Claim.CLEAN_ENVIRONMENT,
     Claim.ONLY_PIPES, Claim.TREE_KILL, Claim.HIDES_DAEMON, Claim.SURVIVES_DAEMON}
)  # fmt: skip
_NEVER_HELD: Final = (
    (Claim.DISK_QUOTA, "Files in writable mounts are bounded one by one, not in sum."),
    (Claim.NAMED_DENIALS, "The engine's filter refuses without naming what it refused."),
    (Claim.LANDLOCK, "No rules of Landlock are set in a container."),
    (Claim.OWN_USER, "All runs have one user id; the engine's namespaces alone keep them apart."),
)
_NO_GROUPS: Final = "This engine runs without control groups: it takes such limits and holds none."
_GROUP_CLAIMS: Final = (Claim.MEMORY_LIMIT, Claim.MEMORY_CAP, Claim.PROCESS_LIMIT, Claim.CPU_LIMIT)
_LOOSE_COUNT: Final = (
    Claim.PROCESS_LIMIT,
    "The limit bounds the threads of the kernel inside: processes are bounded, but at several times the number.",
)
_NO_LIST: Final = (
    Claim.EGRESS_LIST,
    "gVisor shows no socket of this machine to code inside; all of the network is closed.",
)
INIT_PROGRAM: Final = "docker-init"
"""An engine's own init, which some are installed without; runs do without it then."""
IMAGE_PYTHON: Final = "/usr/bin/python3"
"""What an image must hold for a list of hosts to be let through."""
MEMORY_BYTES_MIN: Final = 6 * 1024 * 1024
"""Engines take no smaller limit."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Ready:
    """What a working trial found."""

    facts: Facts
    image: str
    runtime: str
    has_init: bool


class DockerSandbox(SupervisedRung):
    """Commands in containers of the engine's own runtime."""

    name = "docker"
    strength = Strength.CONTAINER
    statement = (
        "Code run here sees the session's copy of the project in a container: no network, none of your other files. "
        "It shares your kernel: a flaw in the kernel is a way out. Whoever may use the engine may become root, unless "
        "it is rootless; its socket is never shown to a container."
    )
    filter_holder = "kernel"
    has_own_kernel = False
    takes_images = True

    def __init__(
        self,
        runs_dir: Path,
        hidden: Iterable[Path] = (),
        exposed: Iterable[Path] = (),
        choice: EngineChoice | None = None,
    ) -> None:
        choice = choice or EngineChoice()
        self._socket, self._refusal = _find(choice)
        self._engine = Engine(self._socket)
        self._begin(runs_dir, choice, Hidden([runs_dir, *hidden, Path(self._socket)], exposed), self._socket)

    def _begin(self, runs_dir: Path, choice: EngineChoice, hidden: Hidden, socket: str) -> None:
        """What every rung of containers begins with; `socket` is where waiting ones are made."""
        SupervisedRung.__init__(self, RunFolders(runs_dir / self.name))
        self._choice, self._hidden = choice, hidden
        self._runs_dir = runs_dir / self.name
        self._warm = WarmContainers(socket, choice.warm)
        self._turn = anyio.CapacityLimiter(1)
        self._ready: Ready | None = None

    async def probe(self) -> Availability:
        """Ask the engine, run `true`, make a file, and see a run that takes too much memory killed."""
        try:
            self._ready = await self._in_thread(self._look)
        except SandboxError as error:
            self._ready = None
            return refuse_trial(error.message, error.hint)
        fault = await self.try_run(trial_profile())
        if fault is not None and INIT_PROGRAM in fault:
            self._ready = replace(self._ready, has_init=False)
            fault = await self.try_run(trial_profile())
        if fault is None:
            fault = await try_files(self)
        if fault is not None:
            self._ready = None
            return refuse_trial(fault, "Read the reason above; run the doctor again after mending it.")
        groups = self._ready.facts.holds_limits and self._ready.facts.limits_memory
        return self._claim(await try_memory(self) if groups else _NO_GROUPS)

    async def prepare(self, profile: Profile, lease_id: str) -> SupervisedLease:
        """Check the view and the limits; the container itself is made at each start."""
        ready, profile = await self._check(profile)

        def plan(command: Command, folder: Path) -> RunRequest:
            return self._plan(ready, profile, command, lease_id, folder)

        return SupervisedLease(lease_id, profile, self.folders, plan, self._describe(profile, ready))

    async def prewarm(self, profile: Profile) -> None:
        """Make a container ready for the next run of this profile. A hint: it may come to nothing."""
        ready, profile = await self._check(profile)
        await self._warm.make(profile, self._fill_body(ready, profile, (), {OWNER_LABEL: self._owner()}))

    async def _check(self, profile: Profile) -> tuple[Ready, Profile]:
        """The engine as it was tried, and the profile with what its way out needs. Raises `SandboxError`."""
        if self._ready is None and not (availability := await self.probe()).ok:
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, availability.reason, hint=availability.fix)
        if self._ready is None:
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, "The container engine was not tried.")
        _check_limits(profile, self._ready)
        profile = self._lead_out(profile)
        plan_view(profile, not self._image_of(profile), self._hidden)
        if profile.image and not await self.find_image(profile.image):
            raise _no_image(profile.image)
        return self._ready, profile

    def _lead_out(self, profile: Profile) -> Profile:
        """The profile with what its way out needs inside. Raises `SandboxError` where a list cannot be held."""
        check_way_out(profile)
        if profile.way_out is None:
            return profile
        if self.has_own_kernel:
            refuse_egress(profile, self.name)
        if self._image_of(profile):
            return profile
        return replace(profile, mounts=(*profile.mounts, *missing_mounts(profile, find_interpreter().mounts)))

    def _words_of(self, profile: Profile, command: Command) -> tuple[str, ...]:
        """The command, behind the bridge where there is a way out."""
        if profile.way_out is None:
            return command.argv
        python = IMAGE_PYTHON if self._image_of(profile) else find_interpreter().path
        return (*bridge_argv(profile.way_out, python), *command.argv)

    async def find_image(self, reference: str) -> str:
        """The id of an image that the engine has; none is fetched."""
        try:
            return await self._in_thread(functools.partial(self._engine.find_image, reference))
        except (SandboxError, OSError):
            return ""

    def _image_of(self, profile: Profile) -> str:
        """The image that a container shows; empty where it shows this machine's programs."""
        return profile.image or self._choice.image

    async def reap(self) -> tuple[str, ...]:
        """Kill every run of an earlier daemon that was not attached, and remove containers that nobody follows."""
        reaped = await super().reap()
        if os.path.exists(self._socket):
            try:
                await self._in_thread(self._remove_strays)
            except (SandboxError, OSError):
                return reaped
        return reaped

    async def close(self) -> None:
        """Let go of the fork server and the engine; runs go on."""
        await self._warm.close()
        await super().close()
        self._engine.close()

    def _look(self) -> Ready:
        if self._refusal is not None:
            raise self._refusal
        facts = self._engine.look()
        if not facts.filters_calls:
            words = "This engine filters no system calls (its build or its kernel lacks seccomp)."
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, words, hint="Use an engine with seccomp.")
        try:
            return self._find_image(facts)
        except OSError as error:
            words = f"The engine does not take our root image: {error}."
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, words, hint="Look into the engine's own log.") from error

    def _find_image(self, facts: Facts) -> Ready:
        image = self._choice.image
        if not image:
            image = self._engine.place_machine_image()
        elif not self._engine.has_image(image):
            raise _no_image(image)
        return Ready(facts, image, self._pick_runtime(facts), has_init=True)

    def _pick_runtime(self, facts: Facts) -> str:
        fix = "Add it to the engine's configuration."
        return self._need_runtime(facts, self._choice.runtime or facts.default_runtime, fix)

    def _need_runtime(self, facts: Facts, runtime: str, fix: str) -> str:
        if runtime not in facts.runtimes:
            known = ", ".join(facts.runtimes)
            words = f"The engine has no runtime {runtime!r}; it has: {known}."
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, words, hint=fix)
        return runtime

    def forget_trial(self) -> None:
        """What the trial found is not enough: nothing is prepared before another one."""
        self._ready = None

    def _claim(self, memory_fault: str | None) -> Availability:
        ready = self._ready
        holds, not_held = set(_HELD), list(_NEVER_HELD)
        if memory_fault is None and ready is not None and ready.facts.limits_processes:
            holds |= set(_GROUP_CLAIMS)
        else:
            words = memory_fault or _NO_GROUPS
            not_held += [(claim, words) for claim in _GROUP_CLAIMS]
        if self.has_own_kernel:
            not_held.append(_NO_LIST)
        else:
            holds.add(Claim.EGRESS_LIST)
        if self.has_own_kernel and Claim.PROCESS_LIMIT in holds:
            holds.remove(Claim.PROCESS_LIMIT)
            not_held.append(_LOOSE_COUNT)
        return Availability(True, "", "", frozenset(holds), tuple(not_held))

    def _plan(self, ready: Ready, profile: Profile, command: Command, lease_id: str, folder: Path) -> RunRequest:
        labels = {
            RUN_LABEL: command.run_id, LEASE_LABEL: lease_id, OWNER_LABEL: self._owner(), PLACE_LABEL: str(folder),
        }  # fmt: skip
        create = self._fill_body(ready, profile, self._words_of(profile, command), labels)
        name = f"gloveport-{command.run_id[:48]}-{secrets.token_hex(6)}"
        return RunRequest(
            run_id=command.run_id,
            argv=command.argv,
            working_dir=profile.working_dir,
            environment=(),
            stdin=command.stdin,
            blobs=(),
            wrapper_depth=0,
            limits=plan_limits(profile, None),
            cgroup=None,
            breaker=plan_breaker(profile),
            engine=self._place_run(profile, create, name),
            written=tuple(sorted(find_written(profile))),
            bounds=profile.bounds,
        )

    def _place_run(self, profile: Profile, create: str, name: str) -> EnginePlan:
        """In a container that waits, where there is one; else in a new one."""
        waiting = None if profile.label == TRIAL_LABEL else self._warm.take(profile, create)
        if waiting is None:
            return EnginePlan(self._socket, name, create, "")
        return plan_inside(waiting, self._socket, create)

    def _fill_body(self, ready: Ready, profile: Profile, argv: tuple[str, ...], labels: Mapping[str, str]) -> str:
        shows_machine = not self._image_of(profile)
        image = profile.image or ready.image
        making = Making(image, shows_machine, ready.runtime, ready.has_init, self.has_own_kernel, labels)
        return plan_container(profile, argv, making, self._hidden, ready.facts)

    def _owner(self) -> str:
        """This very folder of runs: a copy of it owns none of its containers."""
        self._runs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self._runs_dir.stat()
        return f"{_machine_id()}-{found.st_dev}-{found.st_ino}"

    def _remove_strays(self) -> None:
        """Containers of this folder whose supervisor is dead and whose run nobody here follows."""
        if not self._runs_dir.is_dir():
            return
        followed = self._containers_in_use()
        for container in self._engine.list_ours(self._owner()):
            labels, names = container["Labels"], {str(name).lstrip("/") for name in container["Names"]}
            waits = is_daemon_alive(str(labels.get(POOL_LABEL, "")))
            if not waits and not names & followed and not self.folders.is_ours(str(labels.get(RUN_LABEL, ""))):
                self._engine.remove(str(container["Id"]))

    def _containers_in_use(self) -> set[str]:
        """Names of the containers whose supervisors live."""
        used = set()
        for folder in self._runs_dir.iterdir():
            status = rundir.read_status(folder)
            if status is not None and is_supervised(status):
                with contextlib.suppress(OSError, JailFormatError):
                    engine = rundir.read_request(folder).engine
                    used.add(engine.name if engine is not None else "")
        return used

    def _describe(self, profile: Profile, ready: Ready) -> Mapping[str, object]:
        facts = ready.facts
        groups = int(facts.cgroup_version) if facts.holds_limits and facts.cgroup_version.isdigit() else None
        return {
            "sandbox": self.name,
            "isolation": f"container ({ready.runtime})",
            "engine": f"{facts.version}{' rootless' if facts.rootless else ''}",
            "users_remapped": "by the engine, not for this run" if facts.remaps_users else "no",
            "image": profile.image or ready.image,
            "network": "loopback only" if profile.way_out is None else "the list alone, through the proxy",
            "seccomp": f"deny list for {profile.tool_kind} tools, held by the {self.filter_holder}",
            "capabilities": "none",
            "uid": name_user(facts),
            "environment_names": sorted(profile.environment),
            "mounts": [
                {"target": placing.target, "cover": placing.cover.name.lower(), "source": placing.source}
                for placing in plan_view(profile, not self._image_of(profile), self._hidden)
            ],
            **describe_limits(profile, groups),
        }

    async def _in_thread(self, action: Callable[[], Answer]) -> Answer:
        """One call to the engine at a time: its client is not made for more."""
        return await anyio.to_thread.run_sync(action, limiter=self._turn)


def _find(choice: EngineChoice) -> tuple[str, SandboxError | None]:
    try:
        return find_socket(choice.host), None
    except SandboxError as error:
        return os.devnull, error


@functools.cache
def _machine_id() -> str:
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip()[:16] or "here"
    except OSError:
        return "here"


def _no_image(image: str) -> SandboxError:
    words = f"The engine has no image {image!r}, and none is fetched."
    hint = "Build, load or pull it yourself; scripts/image.py packs one from Debian packages."
    return SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, words, hint=hint)


def refuse_trial(reason: str, fix: str) -> Availability:
    """A rung that does not work here."""
    return Availability(False, reason, fix, frozenset(), ())


def _check_limits(profile: Profile, ready: Ready) -> None:
    """Refuse what an engine cannot hold."""
    limits = profile.limits
    asks = limits.memory_bytes_max is not None or limits.processes_max is not None
    if asks and not ready.facts.holds_limits:
        raise SandboxError(ErrorCode.SANDBOX_REFUSED, _NO_GROUPS, hint="Ask for no such limit, or mend the engine.")
    if limits.memory_bytes_max is not None and limits.memory_bytes_max < MEMORY_BYTES_MIN:
        words = f"A container needs a memory limit of at least {MEMORY_BYTES_MIN} bytes."
        raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="Ask for more.")
