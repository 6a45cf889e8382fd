"""Opening rungs by name, refusals, import cost and the doctor's way to the wire.

Purpose: no silent fallback, plain words, light imports.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.wire.place import ProbeInfo
from gloveport.sandbox.backends.bubblewrap import BubblewrapSandbox, advise
from gloveport.sandbox.backends.cgroups import find_version, plan_groups
from gloveport.sandbox.backends.names import used_rungs
from gloveport.sandbox.backends.select import NAMES, available, open_backend
from gloveport.sandbox.contract import Availability, Claim, Command, SandboxError
from gloveport.sandbox.doctor.examine import PROBES, examine
from gloveport.sandbox.doctor.findings import Verdict, judge
from gloveport.sandbox.profile import Limits, Profile

PROFILE = Profile("test", "build", (), "/", Limits(wall_s=5.0))


class Broken(BubblewrapSandbox):
    """The rung on a machine whose only bubblewrap does not work."""

    def __init__(self, runs_dir: Path, path: str) -> None:
        super().__init__(runs_dir)
        self._binaries = () if not path else (type(self._binaries[0])(path, "test"),)


def test_unknown_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SandboxError) as caught:
        open_backend("docker-maybe", tmp_path)
    assert caught.value.code is ErrorCode.SANDBOX_UNAVAILABLE
    assert NAMES[0] in caught.value.hint


async def test_what_a_rung_may_have_left_is_seen_without_opening_it(tmp_path: Path) -> None:
    """Runs by their folders; what is with an engine alone by the folder that is made first and stays."""
    assert used_rungs(tmp_path / "none") == ()
    backend = open_backend("process", tmp_path)
    lease = await backend.prepare(PROFILE, "lease")
    execution = await lease.start(Command(("true",), "run"))
    await execution.result()
    assert used_rungs(tmp_path) == ("process",)
    await lease.release()
    assert used_rungs(tmp_path) == ()
    await backend.close()
    for name in NAMES:
        (tmp_path / name).mkdir(exist_ok=True)
    assert used_rungs(tmp_path) == ("gvisor", "docker", "remote-ssh", "remote-tls")


@pytest.mark.parametrize("path", ["", "/bin/false", "/no/such/bwrap"])
async def test_c05_broken_rung_says_why_and_refuses(tmp_path: Path, path: str) -> None:
    """C05: found at the start, with reason and fix; never run without the jail."""
    backend = Broken(tmp_path, path)
    found = (await available([backend]))["bubblewrap"]
    assert not found.ok
    assert found.reason
    assert found.fix
    assert found.holds == frozenset()
    with pytest.raises(SandboxError) as caught:
        await backend.prepare(PROFILE, "lease")
    assert caught.value.code is ErrorCode.SANDBOX_UNAVAILABLE
    findings = await examine(backend)
    assert [finding.name for finding in findings] == list(PROBES)
    assert {finding.verdict for finding in findings} == {Verdict.DOES_NOT_HOLD}
    await backend.close()


def test_c05_blocked_namespaces_are_explained() -> None:
    """C05: the fix names the setting of the distribution."""
    assert "apparmor_restrict_unprivileged_userns" in advise("bwrap: setting up uid map: Permission denied")
    assert "user namespaces" in advise("bwrap: No permissions to create new namespace")


async def test_egress_is_refused_where_no_host_can_be_let_through(tmp_path: Path) -> None:
    backend = BubblewrapSandbox(tmp_path)
    if (await backend.probe()).ok:
        with pytest.raises(SandboxError) as caught:
            await backend.prepare(Profile("t", "build", (), "/", Limits(wall_s=1.0), egress=("a.example:443",)), "x")
        assert caught.value.code is ErrorCode.SANDBOX_REFUSED
    await backend.close()


async def test_findings_fit_the_wire(tmp_path: Path) -> None:
    backend = open_backend("memory", tmp_path)
    for finding in await examine(backend):
        ProbeInfo(name=finding.name, verdict=finding.verdict.value, evidence=finding.evidence, fix=finding.fix)


def test_judge_never_calls_an_unclaimed_thing_held() -> None:
    held = Availability(True, "", "", frozenset({Claim.NO_NETWORK}), ((Claim.LOOPBACK, "Not here."),))
    assert judge("n", (Claim.NO_NETWORK,), held, None, "seen").verdict is Verdict.HOLDS
    assert judge("n", (Claim.NO_NETWORK,), held, "fault", "").verdict is Verdict.DOES_NOT_HOLD
    assert judge("n", (Claim.NO_NETWORK, Claim.LOOPBACK), held, None, "seen").verdict is Verdict.NOT_CLAIMED


@pytest.mark.parametrize("room", ["profile", "contract", "runner.forkserver"])
def test_light_modules_import_nothing_heavy(room: str) -> None:
    module = f"gloveport.sandbox.{room}"
    heavy = ("pydantic", "anyio", "asyncio", "orjson", "pygls")
    source = f"import sys, {module}; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True, env=_environment()
    )
    assert done.stdout.strip() == "[]"


def _environment() -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(path for path in sys.path if path)}


def test_control_groups_of_both_versions_are_planned(tmp_path: Path) -> None:
    assert find_version(tmp_path) is None
    limits = Limits(wall_s=1.0, memory_bytes_max=1000, processes_max=5)
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids")
    assert find_version(tmp_path) == 2
    second = plan_groups(2, "run", limits, 2, tmp_path)
    assert second is not None
    written = {Path(file).name: value for file, value in second.writes}
    assert written == {"memory.max": "1000", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "7"}
    for kind in ("memory", "pids"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "tasks").touch()
    assert find_version(tmp_path) == 1
    first = plan_groups(1, "run", limits, 2, tmp_path)
    assert first is not None
    assert {Path(file).name: value for file, value in first.writes} == {
        "memory.limit_in_bytes": "1000",
        "pids.max": "7",
    }
    assert plan_groups(1, "run", Limits(wall_s=1.0), 2, tmp_path) is None
    assert plan_groups(None, "run", limits, 2, tmp_path) is None
