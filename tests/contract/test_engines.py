"""What a container engine adds to the contract: waiting containers, strays, an engine that goes away.

Purpose: nothing of ours stays in an engine, and what is unknown is said to be.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
import pytest_asyncio
from tests.kit.engines import TestEngine, shared_engine
from tests.kit.require import require
from tests.kit.sandboxes import PROJECT, Rig, list_host_processes, open_rig, wait_gone

from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.backends import docker_plan
from gloveport.sandbox.backends.docker import DockerSandbox
from gloveport.sandbox.backends.docker_choice import EngineChoice
from gloveport.sandbox.backends.docker_plan import OWNER_LABEL
from gloveport.sandbox.backends.view import Placing
from gloveport.sandbox.contract import Claim, Command, ResultKind, SandboxError
from gloveport.sandbox.profile import Access, Limits, Mount
from gloveport.sandbox.runner import rundir
from gloveport.sandbox.runner.engine_api import EngineSocket
from gloveport.server.app.resources import Ladder
from gloveport.server.settings import Settings

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.engine]
MIB = 1024 * 1024


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def opened() -> AsyncIterator[Rig]:
    async with open_rig("docker-warm") as rig:
        yield rig


@pytest.fixture
def rig(opened: Rig) -> Rig:
    opened.empty_project()
    return opened


def list_containers(engine: TestEngine) -> list[str]:
    """Names of all containers of the engine, running or not."""
    found = EngineSocket(str(engine.socket)).call("GET", "/containers/json?all=1")
    return sorted(str(one["Names"][0]).lstrip("/") for one in found)


async def wait_removed(*names: str) -> None:
    """Wait until these are gone: a supervisor removes its container after the end is told."""
    with anyio.fail_after(50):
        while set(names) & set(list_containers(shared_engine())):
            await anyio.sleep(0.02)


def list_kept(runs_dir: Path) -> list[str]:
    """Ids of the containers that belong to a folder of runs."""
    found = runs_dir.stat()
    every = EngineSocket(str(shared_engine().socket)).call("GET", "/containers/json?all=1")
    mine = f"-{found.st_dev}-{found.st_ino}"
    return sorted(str(one["Id"]) for one in every if str(one["Labels"].get(OWNER_LABEL)).endswith(mine))


async def test_a_waiting_container_serves_one_run_and_is_gone(rig: Rig) -> None:
    lease = await rig.lease()
    waiting = [name for name in list_containers(shared_engine()) if name.startswith("gloveport-warm-")]
    execution = await rig.start(lease, "say", "hello", "30")
    plan = rundir.read_request(rig.runs_dir / rig.name / execution.run_id).engine
    assert plan is not None
    assert plan.execute
    assert plan.name in waiting
    await execution.stop()
    assert (await execution.result()).output == b"hello\n"
    await wait_removed(plan.name)
    await lease.release()


async def test_an_oom_in_a_waiting_container_is_told_as_one(rig: Rig) -> None:
    source = "input()\nb = []\nwhile True: b.append(bytearray(4 << 20))"  # the input comes when somebody listens
    result = await rig.python(source, b"\n", limits=Limits(wall_s=60.0, memory_bytes_max=64 * MIB))
    assert (result.kind, str(64 * MIB) in result.evidence) == (ResultKind.OOM, True)


async def test_a_waiting_container_that_is_gone_is_made_anew(rig: Rig) -> None:
    lease = await rig.lease()
    for name in list_containers(shared_engine()):
        EngineSocket(str(shared_engine().socket)).call("DELETE", f"/containers/{name}?force=1")
    execution = await rig.start(lease, "echo", "made", "anew")
    assert (await execution.result()).output == b"made anew\n"
    await lease.release()


async def test_a_folder_that_was_replaced_meanwhile_is_the_new_one(rig: Rig) -> None:
    (rig.project / "word").write_text("old")
    lease = await rig.lease()
    rig.empty_project()
    (rig.project / "word").write_text("new")
    execution = await rig.start(lease, "cat", "word")
    assert (await execution.result()).output == b"new"
    await lease.release()


async def test_nothing_waits_where_files_are_covered(rig: Rig) -> None:
    """A file that is replaced while its container waits would lose its cover."""
    (rig.project / ".env").write_text("secret")
    lease = await rig.lease(covered=(f"{PROJECT}/.env",))
    execution = await rig.start(lease, "cat", ".env")
    plan = rundir.read_request(rig.runs_dir / rig.name / execution.run_id).engine
    assert plan is not None
    assert not plan.execute
    assert (await execution.result()).output == b""
    await lease.release()


async def test_nothing_is_left_in_the_engine_when_a_daemon_closes() -> None:
    async with open_rig("docker-warm") as rig:
        before = list_containers(shared_engine())
        for _ in range(3):
            await rig.run("true")
        assert list_containers(shared_engine()) != before
    await wait_removed(*set(list_containers(shared_engine())) - set(before))


KEEPER = """
import asyncio, sys
from pathlib import Path
from gloveport.sandbox.backends import docker_plan
from gloveport.sandbox.backends.docker import DockerSandbox
from gloveport.sandbox.backends.docker_choice import EngineChoice
from gloveport.sandbox.profile import Limits, Profile

async def main():
    backend = DockerSandbox(Path(sys.argv[1]), choice=EngineChoice(host=sys.argv[2], warm=2))
    await backend.prewarm(Profile("test", "build", (), "/", Limits(wall_s=60.0)))
    print("ready", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_what_a_killed_daemon_kept_ready_is_reaped_by_the_next(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", KEEPER, str(tmp_path), shared_engine().choice.host]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    other = DockerSandbox(tmp_path, choice=shared_engine().choice)
    settings = Settings((), "restricted", {}, engine=shared_engine().choice)
    ladder = Ladder(tmp_path, tmp_path, (), lambda: settings)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment) as daemon:  # noqa: ASYNC220 - its words are few
        try:
            assert daemon.stdout is not None
            assert daemon.stdout.readline() == b"ready\n"
            kept = set(list_kept(tmp_path / "docker"))
            assert len(kept) == 1
            await other.reap()
            assert kept == set(list_kept(tmp_path / "docker")), "its daemon lives"
        finally:
            daemon.kill()
            daemon.wait()
    assert list(Path(tmp_path, "docker").iterdir()) == [], "no run tells of the container"
    await ladder.reap()
    assert list_kept(tmp_path / "docker") == []
    await other.close()
    await ladder.close()


async def test_the_engines_socket_is_never_shown(rig: Rig, tmp_path: Path) -> None:
    engine = shared_engine()
    for access in (Access.READ_ONLY, Access.READ_WRITE):
        with pytest.raises(SandboxError) as caught:
            await rig.lease(mounts=(Mount(str(engine.socket), "/mnt/engine", access),))
        assert caught.value.code is ErrorCode.SANDBOX_REFUSED
    with pytest.raises(SandboxError):
        await rig.lease(mounts=(Mount(str(engine.socket.parent), "/mnt/engine", Access.READ_WRITE),))
    around = Mount(str(engine.socket.parent), str(engine.socket.parent), Access.READ_ONLY)
    report = await rig.look({"unix_sockets": [str(engine.socket)]}, mounts=(around,))
    assert report["connect_unix"][str(engine.socket)] != "done"


async def test_positive_control_a_socket_that_is_shown_is_reached(rig: Rig, tmp_path: Path) -> None:
    """What is asked above would be found: another socket in a read-only mount answers."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(rig.folder / "other.sock"))
        server.listen(1)
        around = Mount(str(rig.folder), "/mnt/around", Access.READ_ONLY)
        plain = DockerSandbox(tmp_path / "runs", choice=shared_engine().choice)
        rig.backend, usual = plain, rig.backend
        try:
            report = await rig.look({"unix_sockets": ["/mnt/around/other.sock"]}, mounts=(around,))
        finally:
            await plain.close()
            rig.backend = usual
    assert report["connect_unix"]["/mnt/around/other.sock"] == "done"


async def test_c05_a_machine_without_an_engine_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C05: each state of a machine has its reason and its way out."""
    dead = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(dead))
    for host, words in (
        (f"unix://{tmp_path}/none.sock", "no socket at"),
        (f"unix://{dead}", "No container engine answers"),
        ("tcp://127.0.0.1:1", "not a unix socket"),
    ):
        found = await DockerSandbox(tmp_path / "runs", choice=EngineChoice(host=host)).probe()
        assert (found.ok, found.holds) == (False, frozenset())
        assert words in found.reason
        assert found.fix
    monkeypatch.setitem(sys.modules, "docker", None)
    found = await DockerSandbox(tmp_path / "runs", choice=shared_engine().choice).probe()
    assert "gloveport[docker]" in found.fix
    with pytest.raises(SandboxError) as caught:
        await DockerSandbox(tmp_path / "runs", choice=shared_engine().choice).prepare(
            Rig("docker", tmp_path, (), shared_engine().choice).profile(), "lease"
        )
    assert caught.value.code is ErrorCode.SANDBOX_UNAVAILABLE


async def test_an_engine_that_sees_other_folders_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine on another machine, or in one: what it mounts under a name of ours is not ours."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    make = docker_plan._plan_mount

    def lead_astray(placing: Placing) -> dict[str, object]:
        mount = make(placing)
        return {**mount, "Source": str(elsewhere)} if placing.target.startswith("/mnt/") else mount

    monkeypatch.setattr(docker_plan, "_plan_mount", lead_astray)
    backend = DockerSandbox(tmp_path / "runs", choice=shared_engine().choice)
    found = await backend.probe()
    assert not found.ok
    assert "does not see this machine's folders" in found.reason
    await backend.close()


async def test_an_unknown_runtime_is_no_other_runtime(tmp_path: Path) -> None:
    backend = DockerSandbox(tmp_path / "runs", choice=EngineChoice(shared_engine().choice.host, runtime="kata"))
    found = await backend.probe()
    assert not found.ok
    assert "no runtime 'kata'" in found.reason
    await backend.close()


async def test_an_engine_without_an_init_runs_without_one(tmp_path: Path) -> None:
    require(os.getuid() == 0, "an engine of one's own is started by root")
    engine = TestEngine("--init-path", str(tmp_path / "docker-init"))
    try:
        rig = Rig("docker", tmp_path, (), engine.choice)
        rig.availability = await rig.backend.probe()
        assert rig.availability.ok, rig.availability.reason
        assert (await rig.run("echo", "alone")).output == b"alone\n"
        result = await rig.run_into_wall()
        assert (result.kind, result.output) == (ResultKind.TIMEOUT, b"one\n")
        await rig.backend.close()
    finally:
        engine.stop()


async def test_an_engine_that_dies_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    """No evidence, no verdict: the run is lost, what it wrote is kept, and nobody waits for ever."""
    require(os.getuid() == 0, "an engine of one's own is started by root")
    marker = f"gp{secrets.token_hex(6)}"
    engine = TestEngine()
    try:
        rig = Rig("docker", tmp_path, (), engine.choice)
        rig.availability = await rig.backend.probe()
        require(rig.availability.ok, rig.availability.reason)
        assert Claim.MEMORY_CAP in rig.availability.holds
        lease = await rig.lease()
        execution = await lease.start(Command(("sh", "-c", f"echo one; sleep 100; : {marker}"), "orphaned"))
        async for chunk in execution.output():
            assert chunk == b"one\n"
            break
        engine.process.send_signal(signal.SIGKILL)
        engine.process.wait()
        with anyio.fail_after(60):
            result = await execution.result()
        assert (result.kind, result.output) == (ResultKind.LOST, b"one\n")
        await rig.backend.close()
    finally:
        engine.stop()
        for pid in list_host_processes(marker):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    with anyio.fail_after(50):
        await wait_gone(marker)
    assert engine.mounts() == []
    assert not engine.folder.exists()
