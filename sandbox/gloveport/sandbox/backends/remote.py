"""Containers of an engine on another machine, reached by ssh or by mutual TLS.

Purpose: the rungs `remote-ssh` and `remote-tls` behind the contract of all rungs: supervisors here, keepers there.
Invariant: no folder of this machine is mounted over there: content is sent, and what comes back is checked and written
here; a machine's programs are its image's own. Two runs share nothing but contents that only a keeper reads.
Must never: reach a machine that the user's settings do not name, lend a credential to it, or claim that another
machine stands between where the trial saw this one's own kernel.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.jail.requests import EnginePlan, ParcelPlan, RemotePlan, RunRequest
from gloveport.sandbox.backends.context import describe_limits
from gloveport.sandbox.backends.docker import DockerSandbox, Ready, refuse_trial
from gloveport.sandbox.backends.docker_choice import EngineChoice
from gloveport.sandbox.backends.docker_plan import (
    LEASE_LABEL,
    OWNER_LABEL,
    RUN_LABEL,
    Facts,
    Making,
    plan_container,
    plan_environment,
)
from gloveport.sandbox.backends.docker_trials import read_boot_id, trial_profile, try_files, try_memory
from gloveport.sandbox.backends.remote_choice import SSH, TLS, RemoteChoice, key_files, plan_link
from gloveport.sandbox.backends.remote_engine import RemoteEngine
from gloveport.sandbox.backends.supervised import SupervisedLease, SupervisedRung, plan_limits
from gloveport.sandbox.backends.view import Hidden, find_written, plan_covers, plan_mounts, resolve_source
from gloveport.sandbox.contract import Availability, Claim, Command, SandboxError, Strength
from gloveport.sandbox.egress.way import refuse_egress
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.profile import Access, Mount, Profile, is_below
from gloveport.sandbox.runner import tree

USER: Final = "65534:65534"
"""Whom the command runs as over there; what comes back belongs to the user here."""
KEEPER_CAPABILITIES: Final = ("SETUID", "SETGID", "SETPCAP", "KILL", "CHOWN", "DAC_OVERRIDE", "FOWNER")
"""What the keeper needs to unpack, end and read what the command may hide; the command has none."""
KEEPER_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
IMAGE_PYTHON: Final = "python3"
_NO_LIST: Final = (
    Claim.EGRESS_LIST,
    "The proxy stands on this machine; from another one all of the network is closed.",
)


class RemoteSandbox(DockerSandbox):
    """Commands in containers on another machine; `kind` is how it is reached."""

    name = "remote"
    kind = ""
    takes_images = False

    def __init__(
        self,
        runs_dir: Path,
        hidden: Iterable[Path] = (),
        exposed: Iterable[Path] = (),
        choice: RemoteChoice | None = None,
    ) -> None:
        self._remote = choice or RemoteChoice()
        engine = EngineChoice(image=self._remote.image, runtime=self._remote.runtime)
        covered = Hidden([runs_dir, *hidden, *key_files(self._remote)], exposed)
        self._begin(runs_dir, engine, covered, os.devnull)
        self._memory = runs_dir / f"{self.name}.memory"
        self._far: RemoteEngine | None = None
        self._is_elsewhere = False
        self._has_ipv6 = True

    @property
    def strength(self) -> Strength:  # type: ignore[override] # - found by the trial, not known before
        """Another machine stands between only where the trial saw another kernel than this one's."""
        return Strength.VIRTUAL_MACHINE if self._is_elsewhere else Strength.CONTAINER

    @property
    def host(self) -> str:
        """The machine to which the workspace is sent."""
        return self._remote.host

    @property
    def statement(self) -> str:  # type: ignore[override] # - names the machine
        """What the user is told."""
        where = self._remote.place or "another machine"
        words = (
            f"Code runs in a container on {where}: the session's copy of the project is sent there, and who runs that "
            "machine can read it. No network from the container. "
        )
        if not self._remote.place:
            return words + "No machine is named in your settings yet."
        if self._is_elsewhere:
            return words + "What breaks out of the container is on that machine, not on yours."
        return words + "As far as was seen that machine is this one: a flaw in the kernel is a way out."

    async def probe(self) -> Availability:
        """Open the way, ask the engine, run `true`, get a file back, look at the kernel, see a memory limit held."""
        try:
            self._ready = await self._in_thread(self._look)
        except SandboxError as error:
            self._ready = None
            return refuse_trial(error.message, error.hint)
        fault = await self.try_run(trial_profile())
        if fault is not None and "ipv6" in fault:
            self._has_ipv6 = False
            fault = await self.try_run(trial_profile())
        fault = fault or await try_files(self)
        if fault is not None:
            self._ready = None
            return refuse_trial(fault, "Read the reason above; the image must have python3. Then run the doctor again.")
        self._is_elsewhere = await read_boot_id(self) not in (None, tree.read_boot_id())
        await self._in_thread(self._remove_strays)
        groups = self._ready.facts.holds_limits and self._ready.facts.limits_memory
        return self._claim(await try_memory(self) if groups else "This engine holds no limit of memory.")

    async def prepare(self, profile: Profile, lease_id: str) -> SupervisedLease:
        """Check what is to be sent; it is sent, and the container made, at each start."""
        refuse_egress(profile, self.name)
        ready, _profile = await self._check(replace(profile, mounts=(), covered=()))
        parcels = self._plan_parcels(profile)

        def plan(command: Command, folder: Path) -> RunRequest:
            return self._plan_run(ready, profile, parcels, command, lease_id)

        return SupervisedLease(lease_id, profile, self.folders, plan, self._describe_far(profile, ready, parcels))

    async def find_image(self, reference: str) -> str:
        """None: over there the image is the one that the user's settings name, and no folder chooses another."""
        return ""

    async def prewarm(self, profile: Profile) -> None:
        """Nothing waits on another machine."""

    async def reap(self) -> tuple[str, ...]:
        """Kill every run of an earlier daemon that was not attached; what stays over there goes at the next trial."""
        return await anyio.to_thread.run_sync(self.folders.reap)

    async def close(self) -> None:
        """Let go of the fork server and the way; runs go on."""
        await SupervisedRung.close(self)
        if self._far is not None:
            await anyio.to_thread.run_sync(self._far.close)

    def _look(self) -> Ready:
        far = self._open_far()
        facts = far.look()
        if not facts.filters_calls:
            words = "That engine filters no system calls (its build or its kernel lacks seccomp)."
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, words, hint="Use an engine with seccomp.")
        if not far.has_image(self._remote.image):
            raise SandboxError(
                ErrorCode.SANDBOX_UNAVAILABLE,
                f"The engine at {self._remote.place} has no image {self._remote.image!r}, and none is fetched.",
                hint="Build or load it there: scripts/image.py packs one from Debian packages.",
            )
        return Ready(facts, self._remote.image, self._pick_runtime(facts), has_init=False)

    def _open_far(self) -> RemoteEngine:
        """The door to the engine, made when it is first needed. Raises `SandboxError` for settings that are none."""
        if self._far is None:
            self._far = RemoteEngine(plan_link(self._remote, self.kind), self._remote.place)
        return self._far

    def _claim(self, memory_fault: str | None) -> Availability:
        found = super()._claim(memory_fault)
        return replace(found, holds=found.holds - {Claim.EGRESS_LIST}, does_not_hold=(*found.does_not_hold, _NO_LIST))

    def _plan_parcels(self, profile: Profile) -> tuple[ParcelPlan, ...]:
        """Folders whose content is sent. Raises `SandboxError` for what cannot be shown over there."""
        sent = tuple(mount for mount in profile.mounts if not is_program(mount, profile))
        plan_mounts(sent, self._hidden)
        plan_covers(sent, [path for path in profile.covered if any(is_below(path, one.target) for one in sent)])
        parcels = []
        for mount in sent:
            source = resolve_source(mount.source, self._hidden)
            if not os.path.isdir(source):
                raise _refuse(f"{mount.source} is a single file; folders alone are sent to another machine.")
            if self._hidden.below(source):
                raise _refuse(f"{mount.source} contains the daemon's own files; it is not sent to another machine.")
            parcels.append(ParcelPlan(source, mount.target, mount.access is Access.READ_WRITE))
        for outer in parcels:
            for inner in parcels:
                if inner != outer and not outer.is_writable and is_below(inner.target, outer.target):
                    raise _refuse(f"{inner.target} lies below a folder that nobody may write over there.")
        return tuple(parcels)

    def _plan_run(
        self, ready: Ready, profile: Profile, parcels: tuple[ParcelPlan, ...], command: Command, lease_id: str
    ) -> RunRequest:
        labels = {RUN_LABEL: command.run_id, LEASE_LABEL: lease_id, OWNER_LABEL: self._owner()}
        far = self._open_far()
        name = f"gloveport-{command.run_id[:48]}-{secrets.token_hex(6)}"
        owner = hashlib.sha256(self._owner().encode()).hexdigest()[:32]
        return RunRequest(
            run_id=command.run_id,
            argv=translate(command.argv),
            working_dir=profile.working_dir,
            environment=tuple(part.partition("=")[::2] for part in plan_environment(profile) if "=" in part),
            stdin=command.stdin,
            blobs=(),
            wrapper_depth=0,
            limits=plan_limits(profile, None),
            cgroup=None,
            engine=EnginePlan(far.address, name, self._fill_far(ready, profile, labels), ""),
            written=tuple(sorted(find_written(profile))),
            bounds=profile.bounds,
            remote=RemotePlan(
                link=plan_link(self._remote, self.kind),
                parcels=parcels,
                covered=profile.covered,
                store=f"gloveport-store-{owner}",
                owner=owner,
                memory=str(self._memory),
                away_s=self._remote.away_s,
                user=USER,
            ),
        )

    def _fill_far(self, ready: Ready, profile: Profile, labels: Mapping[str, str]) -> str:
        """The container's body but for what is mounted, which the supervisor knows when it has looked."""
        bare = replace(profile, mounts=(), covered=(), environment={}, working_dir="/")
        making = Making(ready.image, False, ready.runtime, has_init=True, has_own_kernel=False, labels=labels)
        body: dict[str, Any] = json.loads(plan_container(bare, (IMAGE_PYTHON,), making, self._hidden, ready.facts))
        body |= {"User": "0:0", "Env": [KEEPER_PATH], "StdinOnce": False}
        host = body["HostConfig"]
        host |= {"CapAdd": list(KEEPER_CAPABILITIES), "Init": False}
        host["Ulimits"] = [one for one in host["Ulimits"] if one["Name"] in ("core", "nofile", "memlock")]
        host.pop("UsernsMode", None)
        if not self._has_ipv6:
            host.pop("Sysctls", None)
        return json.dumps(body, separators=(",", ":"))

    def _remove_strays(self) -> None:
        """Containers and volumes of runs that no supervisor of ours follows."""
        far, owner = self._open_far(), self._owner()
        followed = self._containers_in_use()
        kept = set()
        for container in far.list_ours(owner):
            names, run = {str(name).lstrip("/") for name in container["Names"]}, str(container["Labels"][RUN_LABEL])
            if names & followed or self.folders.is_ours(run):
                kept.add(run)
            else:
                far.remove(str(container["Id"]))
        lost = (name for name, run in far.list_volumes(owner).items() if run not in kept)
        far.remove_volumes(tuple(name for name in lost if not any(name.startswith(f"{one}-") for one in followed)))

    def _describe_far(self, profile: Profile, ready: Ready, parcels: tuple[ParcelPlan, ...]) -> Mapping[str, object]:
        facts: Facts = ready.facts
        groups = int(facts.cgroup_version) if facts.holds_limits and facts.cgroup_version.isdigit() else None
        return {
            "sandbox": self.name,
            "host": self._remote.place,
            "another_machine": self._is_elsewhere,
            "isolation": f"container on another machine ({ready.runtime})",
            "engine": f"{facts.version}{' rootless' if facts.rootless else ''}",
            "image": ready.image,
            "network": "loopback only",
            "seccomp": f"deny list for {profile.tool_kind} tools, held by the kernel",
            "capabilities": "none",
            "uid": USER,
            "environment_names": sorted(profile.environment),
            "mounts": [
                {
                    "target": one.target,
                    "cover": "sent, changes come back" if one.is_writable else "sent",
                    "source": one.source,
                }
                for one in parcels
            ],
            "not_sent": sorted(mount.target for mount in profile.mounts if is_program(mount, profile)),
            **describe_limits(profile, groups),
        }


class RemoteSshSandbox(RemoteSandbox):
    """The engine's socket, forwarded by an ssh of ours."""

    name = "remote-ssh"
    kind = SSH


class RemoteTlsSandbox(RemoteSandbox):
    """The engine's port, with both sides proven by certificates."""

    name = "remote-tls"
    kind = TLS


def is_program(mount: Mount, profile: Profile) -> bool:
    """A folder of this machine's own programs, shown at its own place: over there the image's stand in for them."""
    if mount.access is not Access.READ_ONLY or os.path.realpath(mount.target) != os.path.realpath(mount.source):
        return False
    worked = [one.target for one in profile.mounts if one.access is Access.READ_WRITE]
    return not any(is_below(mount.target, target) for target in worked)


def translate(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The command with the image's Python in the place of this program's own."""
    own = {find_interpreter().path, find_interpreter(packages=True).path}
    return (IMAGE_PYTHON, *argv[1:]) if argv[0] in own else argv


def _refuse(words: str) -> SandboxError:
    return SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="Send a folder that can be sent.")
