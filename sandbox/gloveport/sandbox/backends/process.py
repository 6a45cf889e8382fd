"""The weakest rung: a process group of its own under limits, on the user's own machine.

Purpose: run trusted code where no jail works, and say plainly what does not hold.
Invariant: limits, tree kill, clean environment and pipes hold, and with Landlock that no content is written but where
the run works (rights, owner, times and attributes are not bounded); everything about views and network is declared not
held.
Must never: be taken for isolation.
"""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.jail.requests import RunRequest
from gloveport.sandbox.backends.cgroups import find_version, plan_groups
from gloveport.sandbox.backends.context import describe_limits
from gloveport.sandbox.backends.execution import RUN_MARK
from gloveport.sandbox.backends.landlock import ABI_BUILD_MIN, ABI_MAX, find_abi, plan_domain
from gloveport.sandbox.backends.supervised import SCRATCH, RunFolders, SupervisedLease, SupervisedRung, plan_limits
from gloveport.sandbox.backends.view import refuse_covers, refuse_image
from gloveport.sandbox.contract import Availability, Claim, Command, SandboxError, Strength
from gloveport.sandbox.egress.way import refuse_egress
from gloveport.sandbox.monitor.thresholds import plan_breaker
from gloveport.sandbox.profile import Access, Limits, Profile, is_below
from gloveport.sandbox.programs import PATH_DEFAULT
from gloveport.sandbox.runner.apart import SCOPES_ABI

_HELD: Final = frozenset(
    {Claim.PROCESS_ISOLATION, Claim.MEMORY_LIMIT, Claim.PROCESS_LIMIT, Claim.WALL_LIMIT, Claim.IDLE_LIMIT,
     Claim.CPU_LIMIT, Claim.FILE_LIMIT, Claim.OUTPUT_LIMIT, Claim.CLEAN_ENVIRONMENT, Claim.ONLY_PIPES,
     Claim.TREE_KILL, Claim.SURVIVES_DAEMON, Claim.LOOPBACK}
)  # fmt: skip
_NOT_HELD: Final = (
    (
        Claim.FILESYSTEM_VIEW,
        "Code run here sees every file you can see, and can change rights, owner, times and attributes of yours, which "
        "Landlock does not bound.",
    ),
    (Claim.PRIVATE_TMP, "Temporary folders are the machine's; only TMPDIR points to one of the run's own."),
    (Claim.TMP_QUOTA, "Temporary files are bounded by the disk alone."),
    (Claim.DISK_QUOTA, "Files are bounded one by one, not in sum."),
    (Claim.NO_NETWORK, "Code run here reaches every network you reach."),
    (Claim.EGRESS_LIST, "Code run here reaches every network you reach; no list of hosts can be held."),
    (Claim.SYSCALL_FILTER, "No system call is filtered."),
    (Claim.NAMED_DENIALS, "Nothing is refused, so nothing is named."),
    (Claim.NO_NEW_NAMESPACES, "Namespaces may be made as far as your system lets you."),
    (Claim.NO_CAPABILITIES, "Code run here has the rights of this daemon."),
    (
        Claim.OWN_USER,
        "Code run here has your own user id: another could not reach your folders without a view of its own.",
    ),
    (Claim.HIDES_DAEMON, "Code run here can read your keys and the daemon's files, and answer approvals."),
)
_NO_CAP: Final = (Claim.MEMORY_CAP, "Memory is sampled and the tree killed; a burst between two samples passes.")
_NO_APART: Final = (
    Claim.RUNS_APART,
    "This kernel cannot bound a program's signals (Landlock ABI 6, Linux 6.12): code run here can signal and trace "
    "other runs and every process of yours.",
)
_NO_LANDLOCK: Final = (
    Claim.LANDLOCK,
    "This kernel has no Landlock that lets builds move files between folders (it begins with ABI 2, Linux 5.19): code "
    "run here writes wherever you may.",
)
_WRITES: Final = "its folders and temporary ones (Landlock); rights, owner, times, attributes: wherever the user may"
_TEMPORARY: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - the machine's own, as is declared
_WRITE_OUTSIDE: Final = ("sh", "-c", '(: >"$1") 2>/dev/null && exit 1; : >"$TMPDIR/made"', "sh")
"""Ends well only where the file named cannot be made and one in the run's own folder can."""
_SIGNAL_OUTSIDE: Final = ("sh", "-c", 'kill -0 "$1" 2>/dev/null && exit 1; kill -0 $$', "sh")
"""Ends well only where the process named is out of reach and its own is not."""
_TRIAL_LABEL: Final = "trial"
_TRIAL: Final = Limits(wall_s=5.0, output_bytes_max=4096)


class ProcessSandbox(SupervisedRung):
    """Commands as plain processes of the daemon's user."""

    name = "process"
    strength = Strength.PROCESS
    statement = (
        "Protects against accidents, not against hostile code. Code run here can act as you, read your keys, "
        "reach the network and answer approvals."
    )

    def __init__(self, runs_dir: Path, *, landlock_abi_max: int = ABI_MAX) -> None:
        super().__init__(RunFolders(runs_dir / self.name, scratch=True))
        self._runs_dir = runs_dir / self.name
        self._groups = find_version()
        self._abi_max = landlock_abi_max
        self._abi: int | None = None
        self._apart = False

    async def probe(self) -> Availability:
        """Run `true` once under the supervisor; see whether a run can be kept from writing elsewhere and signalling."""
        profile = Profile(label=_TRIAL_LABEL, tool_kind="small", mounts=(), working_dir="/", limits=_TRIAL)
        self._abi, self._apart = 0, False
        if (fault := await self.try_run(profile)) is not None:
            fix = "Check that the interpreter may start processes and that the data folder is writable."
            return Availability(ok=False, reason=fault, fix=fix, holds=frozenset(), does_not_hold=_NOT_HELD)
        found = min(find_abi(), self._abi_max)
        if found >= ABI_BUILD_MIN:
            self._abi = found
            outside = self._runs_dir / f"outside-{secrets.token_hex(8)}"
            if await self.try_run(profile, (*_WRITE_OUTSIDE, str(outside))) is not None:
                outside.unlink(missing_ok=True)
                self._abi = 0
        if self._abi >= SCOPES_ABI:
            self._apart = await self.try_run(profile, (*_SIGNAL_OUTSIDE, str(os.getpid()))) is None
        more = {_NO_CAP: self._groups is not None, _NO_APART: self._apart, _NO_LANDLOCK: self._abi > 0}
        lacks = tuple(words for words, held in more.items() if not held)
        held = _HELD | {words[0] for words, held in more.items() if held}
        return Availability(True, "", "", held, (*_NOT_HELD, *lacks))

    async def prepare(self, profile: Profile, lease_id: str) -> SupervisedLease:
        """Take any profile that hides nothing; what else this rung cannot hold is in its claims."""
        if self._abi is None:
            await self.probe()
        refuse_covers(profile, self.name)
        refuse_egress(profile, self.name)
        refuse_image(profile, self.name)
        for mount in profile.mounts:
            if not os.path.exists(mount.source):
                raise SandboxError(ErrorCode.SANDBOX_REFUSED, f"Nothing to work on at {mount.source}.", hint="")

        def plan(command: Command, folder: Path) -> RunRequest:
            return self._plan(profile, command, folder)

        return SupervisedLease(lease_id, profile, self.folders, plan, self._describe(profile))

    def _plan(self, profile: Profile, command: Command, folder: Path) -> RunRequest:
        working_dir = map_to_source(profile, profile.working_dir)
        scratch = str(folder / SCRATCH)
        environment = {"PATH": PATH_DEFAULT, "LANG": "C.UTF-8", "HOME": scratch, **profile.environment}
        environment |= {"TMPDIR": scratch, "PWD": working_dir, RUN_MARK: secrets.token_hex(8)}
        return RunRequest(
            run_id=command.run_id,
            argv=command.argv,
            working_dir=working_dir,
            environment=tuple(environment.items()),
            stdin=command.stdin,
            blobs=(),
            wrapper_depth=0,
            limits=plan_limits(profile, None),
            cgroup=plan_groups(self._groups, command.run_id, profile.limits),
            breaker=plan_breaker(profile),
            bounds=profile.bounds,
            domain=plan_domain(self._abi, [scratch, *self._find_writable(profile)]) if self._abi else None,
        )

    def _find_writable(self, profile: Profile) -> list[str]:
        """Where a run may write; a trial, beside which nobody else's folders are, nowhere but in its own."""
        if profile.label == _TRIAL_LABEL:
            return []
        return [*_TEMPORARY, *(each.source for each in profile.mounts if each.access is Access.READ_WRITE)]

    def _describe(self, profile: Profile) -> Mapping[str, object]:
        return {
            "sandbox": self.name,
            "isolation": "none",
            "writes": _WRITES if self._abi else "wherever the user may",
            "signals": "its own processes alone (Landlock)" if self._apart else "every process of the user's",
            "network": "unrestricted",
            "seccomp": "none",
            "uid": os.getuid(),
            "environment_names": sorted(profile.environment),
            "mounts": [],
            **describe_limits(profile, self._groups),
        }


def map_to_source(profile: Profile, path: str) -> str:
    """Where a path inside lies on the host: there is no view of its own here."""
    for mount in sorted(profile.mounts, key=lambda mount: -len(mount.target)):
        if is_below(path, mount.target):
            return os.path.normpath(mount.source + path[len(mount.target) :])
    return path
