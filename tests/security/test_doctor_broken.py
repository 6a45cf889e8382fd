"""The doctor on machines where exactly one property is broken: that probe fails, with its fix, and no other does.

Purpose: a probe that cannot fail proves nothing; each is seen failing for the one thing that it is there for.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.kit.require import require
from tests.kit.sandboxes import Rig, open_rig

from gloveport.protocol.jail.requests import BLOB_FD_FIRST, RunRequest, UserPlan
from gloveport.sandbox.backends import bubblewrap, entering, supervised
from gloveport.sandbox.backends.bubblewrap import BubblewrapSandbox
from gloveport.sandbox.backends.entry import Assembly
from gloveport.sandbox.backends.process import ProcessSandbox
from gloveport.sandbox.contract import Claim, Command
from gloveport.sandbox.doctor.examine import PROBES, examine
from gloveport.sandbox.doctor.findings import Verdict
from gloveport.sandbox.doctor.judging import AUDIT_FIELDS
from gloveport.sandbox.profile import Profile
from gloveport.sandbox.runner.users import STAGE

Edit = Callable[[RunRequest], RunRequest]
NO_COUNT = {"processes_max": None, "user_processes_max": None}
FILES = {"mounts_isolated", "hooks_protected", "links_contained"}


class Broken(BubblewrapSandbox):
    """A rung whose runs are changed on their way, and which claims what it always does."""

    edit: Edit = staticmethod(lambda request: request)
    forgets = False
    silent = False
    shares_user = False
    dropped_field = ""

    def _plan(self, profile: Profile, command: Command, *, own_user: bool) -> RunRequest:
        if self.silent and profile.label != "trial":
            self._entering = replace(self._entering, reports=False)
        own = own_user and (profile.label == "trial" or not self.shares_user)
        request = super()._plan(profile, command, own_user=own)
        return request if profile.label == "trial" else self.edit(request)

    def _describe(self, profile: Profile, *, own_user: bool) -> Mapping[str, object]:
        told = super()._describe(profile, own_user=own_user)
        return {name: value for name, value in told.items() if name != self.dropped_field}

    async def attach(self, run_id: str) -> Any:
        """A rung that forgets what runs."""
        return None if self.forgets else await super().attach(run_id)


def options(change: Callable[[list[str]], list[str]]) -> Edit:
    """Change bubblewrap's own options, as a wrapper in its place could."""

    def edit(request: RunRequest) -> RunRequest:
        at = int(request.argv[2]) - BLOB_FD_FIRST
        words = [word.decode() for word in request.blobs[at].split(b"\0")[:-1]]
        blobs = list(request.blobs)
        blobs[at] = b"".join(word.encode() + b"\0" for word in change(words))
        return replace(request, blobs=tuple(blobs))

    return edit


def drop(*words: str) -> Edit:
    """Leave options out: a run of words, wherever it stands."""

    def change(given: list[str]) -> list[str]:
        at = next(i for i in range(len(given)) if tuple(given[i : i + len(words)]) == words)
        return given[:at] + given[at + len(words) :]

    return options(change)


def add(*words: str) -> Edit:
    """Put options before the last steps, in which the root becomes read-only."""
    return options(lambda given: [*given[: given.index("--remount-ro")], *words, *given[given.index("--remount-ro") :]])


def limit(**changes: Any) -> Edit:
    """Hold another limit than the profile asks for, and no control group where one would hold it."""
    grouped = {"memory_bytes_max", "processes_max"} & set(changes)
    return lambda request: replace(
        request, cgroup=None if grouped else request.cgroup, limits=replace(request.limits, **changes)
    )


def staged(request: RunRequest, source: str) -> tuple[RunRequest, str]:
    """One more source that a jail under a user of its own can bind, and where it binds it from."""
    if request.user is None:
        return request, source
    place = f"{STAGE}/{len(request.user.mounts)}"
    return replace(request, user=UserPlan((*request.user.mounts, (source, place)))), place


def bare_tmp(request: RunRequest) -> RunRequest:
    """The machine's own temporary folder in place of a new one."""
    request, place = staged(request, "/tmp")

    def change(given: list[str]) -> list[str]:
        at = next(i for i, word in enumerate(given) if given[i : i + 2] == ["--tmpfs", "/tmp"])
        return [*given[: at - 4], "--bind", place, "/tmp", *given[at + 2 :]]

    return options(change)(request)


def keep_rights(given: list[str]) -> list[str]:
    """All capabilities of the jail's own namespaces."""
    return ["--cap-add" if word == "--cap-drop" else word for word in given]


def roomy_tmp(given: list[str]) -> list[str]:
    """A new temporary folder without its bound."""
    return ["999999999" if word == "4194304" else word for word in given]


def no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that lets everything through: one instruction."""
    monkeypatch.setattr(entering, "build_filter", lambda *_a, **_k: bytes.fromhex("060000000000ff7f"))


def no_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing inside leads to the way out."""
    monkeypatch.setattr(bubblewrap, "_entry", lambda _profile: ())


def calls_left_out(*names: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Entry programs without some of their calls."""
    usual = Assembly.call

    def call(self: Assembly, name: str, *arguments: int, on_failure: str) -> None:
        if name not in names:
            usual(self, name, *arguments, on_failure=on_failure)

    return lambda monkeypatch: monkeypatch.setattr(Assembly, "call", call)


def leaky_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon's environment goes inside."""
    monkeypatch.setenv("SECRET_OF_OURS", "x")
    usual = bubblewrap.plan_environment
    monkeypatch.setattr(bubblewrap, "plan_environment", lambda profile: {**usual(profile), "SECRET_OF_OURS": "x"})


def trusting_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Artifacts are read by name."""

    def collect(profile: Profile, _globs: Iterable[str]) -> dict[str, bytes]:
        folder = Path(profile.mounts[-1].source)
        return {path.name: path.read_bytes() for path in folder.glob("*.txt") if path.is_file()}

    monkeypatch.setattr(supervised, "collect_files", collect)


def leave(marker: str) -> None:
    """A process of this machine that bears the marker."""
    subprocess.run(["sh", "-c", f"sh -c 'sleep 60; : {marker}' >/dev/null 2>&1 &"], check=True)


def surviving_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that a run started lives on."""
    usual = supervised.SupervisedLease.start

    async def start(self: supervised.SupervisedLease, command: Command) -> Any:
        if "-leave-" in command.run_id:
            leave(command.argv[-1].split()[1])
        return await usual(self, command)

    monkeypatch.setattr(supervised.SupervisedLease, "start", start)


def leaked_descriptor(request: RunRequest) -> RunRequest:
    """One more open file in what is started."""
    return replace(request, blobs=(*request.blobs, b"leaked"))


def daemon_shown(request: RunRequest) -> RunRequest:
    """The run folders are in the view."""
    (folder,) = {str(Path(path).parent) for path in request.written if "gloveport-doctor-" in path} or {""}
    if not folder:
        return request
    request, place = staged(request, folder)
    return add("--bind", place, folder)(request)


@dataclass(frozen=True)
class Case:
    """One broken property, and the probes that must fail by it; every other claimed one must hold."""

    name: str
    fails: set[str]
    edit: Edit | None = None
    patch: Callable[[pytest.MonkeyPatch], None] | None = None
    forgets: bool = False
    silent: bool = False
    shares_user: bool = False
    dropped_field: str = ""


CASES = (
    Case("nothing", set()),
    Case("no time limit", {"hang_is_killed"}, limit(wall_s=3600.0)),
    Case("own folder shown", FILES | {"daemon_hidden"}, daemon_shown),
    Case("tmp shared", {"tmp_private", "tmp_bounded", *FILES, "daemon_hidden"}, bare_tmp),
    Case(
        "tmp unbounded", {"tmp_bounded"}, options(lambda given: [w if w != "4194304" else "999999999" for w in given])
    ),
    Case("network shared", {"network_closed"}, drop("--unshare-net")),
    # Set-id bits are seen by the filter; without one that sees them they stay.
    Case("no filter", {"calls_filtered", "socket_families", "denials_named", "set_id_removed"}, None, no_filter),
    Case(
        "no filter, namespaces allowed",
        {"calls_filtered", "socket_families", "denials_named", "set_id_removed", "no_new_namespaces"},
        drop("--disable-userns"),
        no_filter,
    ),
    Case("no bridge to the list", {"network_list"}, None, no_bridge),
    Case("filter silent", {"denials_named"}, silent=True),
    Case("user shared", {"own_user"}, shares_user=True),
    Case("no Landlock", {"landlock"}, None, calls_left_out("landlock_restrict_self")),
    Case("rights kept", {"rights_dropped"}, options(keep_rights)),
    Case("processes unlimited", {"fork_bomb_held"}, limit(**NO_COUNT), calls_left_out("setrlimit")),
    Case("memory unlimited", {"memory_held"}, limit(memory_bytes_max=None)),
    Case("processor unlimited", {"cpu_held"}, limit(cpu_s=None)),
    Case("files unlimited", {"file_size_held"}, limit(file_bytes_max=None)),
    Case("output unlimited", {"output_bounded"}, limit(output_bytes_max=64 << 20)),
    Case("environment leaks", {"no_secrets"}, None, leaky_environment),
    Case("descriptor leaks", {"only_pipes"}, leaked_descriptor, calls_left_out("close_range")),
    Case("process survives", {"leftovers_gone"}, None, surviving_child),
    Case("collector trusts", {"artifacts_plain"}, None, trusting_collector),
    Case("set-id bits stay", {"set_id_removed"}, lambda request: replace(request, written=())),
    Case("record lacks a field", {"audit_fields"}, dropped_field=AUDIT_FIELDS[3]),
    Case("run forgotten", {"run_found_again"}, forgets=True),
)


async def failing(rig: Rig) -> dict[str, tuple[str, str]]:
    """Probes whose claim does not hold, with evidence and fix."""
    found = await examine(rig.backend)
    return {one.name: (one.evidence, one.fix) for one in found if one.verdict is Verdict.DOES_NOT_HOLD}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_one_broken_property_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own probe and by no other."""
    async with open_rig("bubblewrap") as rig:
        usual, broken = rig.backend, Broken(rig.runs_dir)
        broken.edit = case.edit or broken.edit  # type: ignore[method-assign] # - a static one, replaced on the instance
        broken.forgets, broken.silent, broken.dropped_field = case.forgets, case.silent, case.dropped_field
        broken.shares_user = case.shares_user
        rig.backend = broken
        try:
            if case.patch is not None:
                assert (await broken.probe()).ok
                case.patch(monkeypatch)
            found = await failing(rig)
        finally:
            await broken.close()
            rig.backend = usual
    assert set(found) == case.fails, found
    assert all(evidence and fix for evidence, fix in found.values())


class NotApart(ProcessSandbox):
    """The rung without namespaces, on a kernel that seemed to bound signals and does not."""

    def _plan(self, profile: Profile, command: Command, folder: Path) -> RunRequest:
        request = super()._plan(profile, command, folder)
        return request if profile.label == "trial" else replace(request, domain=None)


async def test_runs_that_are_not_kept_apart_are_found() -> None:
    """In the rung that has no processes of its own, by the one probe."""
    async with open_rig("process") as rig:
        require(Claim.RUNS_APART in rig.availability.holds, "this kernel bounds no signals")
        usual, rig.backend = rig.backend, NotApart(rig.runs_dir)
        try:
            found = await failing(rig)
        finally:
            await rig.backend.close()
            rig.backend = usual
    assert set(found) == {"runs_apart"}, found


def test_every_probe_is_seen_failing() -> None:
    """None is there that cannot fail; that of `runs_apart` fails in the case above."""
    assert set(PROBES) == set().union({"runs_apart"}, *(case.fails for case in CASES))


MACHINE = r"""
import asyncio, ctypes, errno, json, struct, sys, tempfile
from pathlib import Path
def refuse(numbers, flag=None):
    steps = [(0x20, 0, 0, 0)]
    for number, argument in numbers:
        if argument is None:  # clone3 is one that programs do without when it is not there
            steps += [(0x15, 0, 1, number), (6, 0, 0, 0x50000 | (errno.ENOSYS if number == 435 else errno.EPERM))]
        else:
            index, bits = argument
            steps += [(0x15, 0, 4, number), (0x20, 0, 0, 16 + 8 * index), (0x45, 0, 1, bits),
                      (6, 0, 0, 0x50000 | errno.EPERM), (6, 0, 0, 0x7fff0000)]
    steps.append((6, 0, 0, 0x7fff0000))
    program = b"".join(struct.pack("<HBBI", *step) for step in steps)
    libc, body = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(program)
    described = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(body)))
    libc.prctl(38, 1, 0, 0, 0)
    assert libc.prctl(22, 2, ctypes.byref(described), 0, 0) == 0
if sys.argv[1] == "no user namespaces":
    refuse([(272, (0, 0x10000000)), (56, (0, 0x10000000)), (435, None)])
elif sys.argv[1] == "no filters":
    refuse([(317, None)])
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.doctor.examine import examine
async def main():
    with tempfile.TemporaryDirectory(prefix="gp-", dir="/tmp") as folder:
        backend = open_backend("bubblewrap", Path(folder))
        found = await backend.probe()
        findings = await examine(backend)
        print(json.dumps({"ok": found.ok, "reason": found.reason, "fix": found.fix, "holds": sorted(found.holds),
                          "lacks": dict(found.does_not_hold),
                          "failing": [one.name for one in findings if one.verdict == "does_not_hold"]}))
        await backend.close()
asyncio.run(main())
"""


def on_machine(state: str, *wrapper: str) -> dict[str, Any]:
    """The bubblewrap rung as a program finds it on a machine in that state."""
    import json

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    argv = [*wrapper, sys.executable, "-c", MACHINE, state]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_a_machine_without_user_namespaces() -> None:
    """Every probe says so, with what to set."""
    told = on_machine("no user namespaces")
    assert not told["ok"]
    assert "namespace" in told["reason"]
    assert "userns" in told["fix"]
    assert told["failing"] == list(PROBES)


def test_a_machine_on_which_no_filter_can_report() -> None:
    """The seccomp call itself is refused: a filter is set the older way, its refusals have no name, and it is said."""
    told = on_machine("no filters")
    assert told["ok"]
    assert Claim.NAMED_DENIALS not in told["holds"]
    assert "unnamed" in told["lacks"][Claim.NAMED_DENIALS]
    assert told["failing"] == []


def test_a_machine_whose_control_groups_are_read_only() -> None:
    """The cap is not claimed; the limit is held by the watchdog, and holds."""
    require(os.geteuid() == 0, "needs root to change what a program sees of the control groups")
    script = "for d in /sys/fs/cgroup /sys/fs/cgroup/*; do mountpoint -q $d && mount -o remount,bind,ro $d; done; exec "
    wrapper = ("unshare", "-m", "sh", "-c", script + '"$@"', "sh")
    told = on_machine("read-only control groups", *wrapper)
    assert told["ok"]
    assert Claim.MEMORY_CAP not in told["holds"]
    assert "sampled" in told["lacks"][Claim.MEMORY_CAP]
    assert told["failing"] == []
