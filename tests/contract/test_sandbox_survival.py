"""A run outlives the daemon, is found again, and nothing is left of it in the end.

Purpose: kill -9 of a real starting process, attach from another, evidence in every case.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
import pytest_asyncio
from tests.kit.sandboxes import Rig, bystander, open_rig, rungs_of, wait_gone

from gloveport.protocol.jail.replies import RunState, RunStatus, encode_status
from gloveport.protocol.jail.requests import RunLimits, RunRequest
from gloveport.sandbox.backends import supervised
from gloveport.sandbox.contract import Command, Execution, ResultKind
from gloveport.sandbox.runner import rundir, tree
from gloveport.server.engine.hands import Hands, Place

DAEMON = """
import asyncio, json, os, sys
from pathlib import Path
from gloveport.sandbox.backends.remote_choice import RemoteChoice
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Command
from gloveport.sandbox.profile import Limits, Profile

async def main():
    remote = json.loads(os.environ.get("GLOVEPORT_TEST_REMOTE", "{}"))
    backend = open_backend(sys.argv[1], Path(sys.argv[2]), remotes={sys.argv[1]: RemoteChoice(**remote)})
    limits = Limits(wall_s=60.0, memory_bytes_max=256 * 1024 * 1024, processes_max=64)
    profile = Profile("test", "build", (), "/", limits, grace_s=0.3)
    lease = await backend.prepare(profile, "lease")
    for run_id, script in json.loads(sys.argv[3]).items():
        await lease.start(Command(("sh", "-c", script), run_id))
    print("started", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


LIMIT_S = 120.0
"""Beyond what anything here takes on a machine with far more to do than it can: a way to another machine that is opened
anew is two programs and a talk between them."""
pytestmark = pytest.mark.asyncio(loop_scope="module")


BY_EITHER_WAY = frozenset(
    {"test_run_goes_on_after_the_daemon_is_killed", "test_end_is_kept_for_a_daemon_that_was_away",
     "test_dead_supervisor_is_lost_not_failed"}
)  # fmt: skip
"""They come back to a run over there."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The rungs of each test."""
    if "rig" in metafunc.fixturenames:
        metafunc.parametrize("rig", rungs_of(metafunc, BY_EITHER_WAY), indirect=True, scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with open_rig(request.param) as rig:
        yield rig


@contextlib.contextmanager
def killed_daemon(rig: Rig, run_id: str, script: str) -> Iterator[None]:
    """Another process starts the run and is killed; the run is ended with the block."""
    with killed_daemon_of(rig, {run_id: script}):
        yield


@contextlib.contextmanager
def killed_daemon_of(rig: Rig, scripts: Mapping[str, str]) -> Iterator[None]:
    """Of several runs, by their ids."""
    argv = [sys.executable, "-c", DAEMON, rig.name, str(rig.runs_dir), json.dumps(scripts)]
    environment = {**os.environ, **rig.environment, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment) as daemon:
        try:
            assert daemon.stdout is not None
            assert daemon.stdout.readline() == b"started\n"
        finally:
            daemon.kill()
    try:
        yield
    finally:
        for status in (rundir.read_status(folder_of(rig, run_id)) for run_id in scripts):
            if status is not None:
                tree.send_signal(status.supervisor_pid, status.supervisor_start_ticks, signal.SIGTERM)


def folder_of(rig: Rig, run_id: str) -> Path:
    """The run folder."""
    return rig.runs_dir / rig.name / run_id


async def attach(rig: Rig, run_id: str) -> Execution:
    """The run, which must be there."""
    execution = await rig.backend.attach(run_id)
    assert execution is not None
    return execution


async def test_run_goes_on_after_the_daemon_is_killed(rig: Rig) -> None:
    with killed_daemon(rig, "going", "echo one; read x; sleep 60"), anyio.fail_after(LIMIT_S):
        execution = await attach(rig, "going")
        async for chunk in execution.output():
            assert chunk == b"one\n"
            break
        await execution.stop()
        result = await execution.result()
        assert result.kind is ResultKind.KILLED
        assert result.output == b"one\n"


async def test_end_is_kept_for_a_daemon_that_was_away(rig: Rig) -> None:
    with killed_daemon(rig, "ended", "echo done; exit 7"), anyio.fail_after(LIMIT_S):
        execution = await attach(rig, "ended")
        result = await execution.result()
        assert (result.kind, result.exit_code, result.output) == (ResultKind.FAILED, 7, b"done\n")
        await rig.backend.forget("ended")
        assert not folder_of(rig, "ended").exists()


async def test_dead_supervisor_is_lost_not_failed(rig: Rig) -> None:
    """Unknown is a legal answer: no evidence, no verdict; and stop leaves no process."""
    marker = f"gp{secrets.token_hex(6)}"
    script = f"setsid sh -c 'sleep 60; : {marker}' & echo up; sleep 60"
    with killed_daemon(rig, "lost", script), anyio.fail_after(LIMIT_S):
        execution = await attach(rig, "lost")
        async for _chunk in execution.output():
            break
        status = rundir.read_status(folder_of(rig, "lost"))
        assert status is not None
        assert tree.send_signal(status.supervisor_pid, status.supervisor_start_ticks, signal.SIGKILL)
        result = await execution.result()
        assert (result.kind, result.exit_code, result.output) == (ResultKind.LOST, None, b"up\n")
        await execution.stop()
        await wait_gone(marker)
        plan = rundir.read_request(folder_of(rig, "lost")).cgroup
        await rig.backend.forget("lost")
        assert not [path for path in (plan.directories if plan is not None else ()) if Path(path).exists()]


async def test_reap_ends_what_nobody_attached(rig: Rig) -> None:
    marker = f"gp{secrets.token_hex(6)}"
    with killed_daemon(rig, "orphan", f"setsid sh -c 'sleep 60; : {marker}' & sleep 60"), anyio.fail_after(LIMIT_S):
        assert await rig.backend.reap() == ("orphan",)
        assert await rig.backend.reap() in ((), ("orphan",))
        await wait_gone(marker)


async def test_reap_leaves_attached_runs_alone(rig: Rig) -> None:
    with killed_daemon(rig, "mine", "sleep 60"), anyio.fail_after(LIMIT_S):
        execution = await attach(rig, "mine")
        assert await rig.backend.reap() == ()
        await execution.stop()


async def test_sweep_removes_what_is_over_and_nothing_else(rig: Rig) -> None:
    """An ended run and a trial of an earlier daemon go; what is kept, attached or still alive stays."""
    ended = ("trial-1234", "asked", "followed")
    scripts = {**dict.fromkeys(ended, "exit 0"), "alive": "sleep 60"}
    with killed_daemon_of(rig, scripts), anyio.fail_after(LIMIT_S):
        await attach(rig, "followed")
        for run_id in ended:
            while rundir.read_exit(folder_of(rig, run_id)) is None:
                await anyio.sleep(0.02)
        swept = await rig.open().sweep(frozenset({"asked", "followed"}))
        assert "trial-1234" in swept
        assert not {"asked", "alive", "followed"} & set(swept)
        assert "followed" not in await rig.backend.sweep(frozenset({"asked"}))
        assert [folder_of(rig, run_id).exists() for run_id in (*ended, "alive")] == [False, True, True, True]


async def test_what_is_just_being_started_is_neither_reaped_nor_swept(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the folder of a run and its supervisor's identity, a sweep finds nothing that it may take."""
    swept: list[str] = []
    sync = supervised.sync_names

    def sweep_meanwhile(folder: Path) -> None:
        folders = rig.backend.folders  # type: ignore[attr-defined] # every rung with processes has them
        swept.extend((*folders.reap(), *folders.sweep(frozenset())))
        sync(folder)

    monkeypatch.setattr(supervised, "sync_names", sweep_meanwhile)
    lease = await rig.lease()
    execution = await lease.start(Command(rig.words("true"), "beginning"))
    assert (await execution.result()).kind is ResultKind.OK
    assert "beginning" not in swept
    await lease.release()


async def test_a_copy_of_the_data_ends_no_run_of_the_original(rig: Rig) -> None:
    """A daemon on copied data finds the folder of a run that is not its own: lost to it, untouched, swept."""
    with killed_daemon(rig, "copied", "echo one; sleep 60"), anyio.fail_after(LIMIT_S):
        copy = Path(shutil.copytree(rig.runs_dir, rig.runs_dir.with_name(f"copy-{rig.name}"), symlinks=True))
        other = rig.open(copy)
        execution = await other.attach("copied")
        assert execution is not None
        await execution.stop()
        result = await execution.result()
        assert result.kind is ResultKind.LOST
        assert "copy" in result.evidence
        await other.forget("copied")
        shutil.copytree(folder_of(rig, "copied"), copy / rig.name / "copied", symlinks=True)
        again = rig.open(copy)
        assert await again.reap() == ()
        assert "copied" in await again.sweep(frozenset())
        mine = await attach(rig, "copied")
        assert not mine.is_over()
        await mine.stop()
        shutil.rmtree(copy)


async def test_the_end_of_a_run_of_another_boot_proves_nothing_of_what_it_wrote(rig: Rig) -> None:
    """Its end is on disk, what it changed may not be: after a power loss its outcome is unknown."""
    with killed_daemon(rig, "of-another-boot", "exit 0"), anyio.fail_after(LIMIT_S):
        while rundir.read_exit(folder_of(rig, "of-another-boot")) is None:
            await anyio.sleep(0.02)
        place = Place(str(rig.project), str(rig.project), {}, ())
        hands = Hands(rig.open(), rig.availability, place, "trusted", anyio.Event())
        assert (await hands.look("of-another-boot")).finding == "succeeded"
        status = rundir.read_status(folder_of(rig, "of-another-boot"))
        assert status is not None
        (folder_of(rig, "of-another-boot") / rundir.STATUS_FILE).write_bytes(
            encode_status(replace(status, boot_id="another"))
        )
        hands = Hands(rig.open(), rig.availability, place, "trusted", anyio.Event())
        found = await hands.look("of-another-boot")
        assert found.finding == "unknown"
        assert "machine went down" in found.evidence


async def test_a_run_folder_appears_whole(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while its request is written, a run was not begun: there is none of its id, and the id is free."""
    limits = RunLimits(1.0, None, None, None, None, None, None, 64, 4096, 0.1)
    request = RunRequest("half", ("true",), "/", (), b"", (), 0, limits, None)

    def dies(_request: RunRequest) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rundir, "encode_request", dies)
        with pytest.raises(KeyboardInterrupt):
            rundir.write_request(folder_of(rig, "half"), request)
    assert await rig.open().attach("half") is None
    lease = await rig.lease()
    assert (await (await lease.start(Command(rig.words("true"), "half"))).result()).kind is ResultKind.OK
    with pytest.raises(FileExistsError):
        rundir.write_request(folder_of(rig, "half"), request)
    await lease.release()


async def test_a_run_has_its_name_on_disk_before_it_begins(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a power loss left no folder, nothing was begun: that is why it may be begun then."""
    synced: list[tuple[Path, bool]] = []
    sync = supervised.sync_names

    def watch(folder: Path) -> None:
        synced.append((folder, (folder / "named" / rundir.STATUS_FILE).exists()))
        sync(folder)

    monkeypatch.setattr(supervised, "sync_names", watch)
    lease = await rig.lease()
    execution = await lease.start(Command(rig.words("true"), "named"))
    await execution.result()
    assert synced == [(rig.runs_dir / rig.name, False)]
    await lease.release()


async def test_reused_pid_is_never_signalled(rig: Rig) -> None:
    """Identity is pid and start time together: another process with a recorded pid stays alive."""
    with bystander({}) as other:
        folder = folder_of(rig, "stale")
        limits = RunLimits(1.0, None, None, None, None, None, None, 64, 4096, 0.1)
        request = RunRequest("stale", ("true",), "/", (), b"", (), 0, limits, None)
        rundir.write_request(folder, request)
        ticks = (tree.read_start_ticks(other.pid) or 0) + 1
        identity = (other.pid, ticks)
        status = RunStatus("stale", RunState.RUNNING, tree.read_boot_id(), *identity, *identity)
        (folder / rundir.STATUS_FILE).write_bytes(encode_status(status))
        assert await rig.backend.reap() == ()
        found = await attach(rig, "stale")
        assert (await found.result()).kind is ResultKind.LOST
        await found.stop()
        assert other.poll() is None


async def test_killed_fork_server_is_replaced_and_closing_leaves_none(rig: Rig) -> None:
    """H02: helper processes end with the daemon's hold on them."""
    others = set(find_fork_servers())
    backend = rig.open()
    lease = await backend.prepare(rig.profile(), "lease")
    await (await lease.start(Command(rig.words("true"), "before"))).result()
    servers = set(find_fork_servers()) - others
    assert len(servers) >= 2  # the server and its spare; a supervisor may still be syncing an end
    for pid in servers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for number in range(3):
        result = await (await lease.start(Command(rig.words("true"), f"after-{number}"))).result()
        assert result.kind is ResultKind.OK
    await lease.release()
    with anyio.fail_after(LIMIT_S):
        await backend.close()
        while set(find_fork_servers()) - others:
            await anyio.sleep(0.01)


def find_fork_servers() -> list[int]:
    """Fork servers of this very process, and their spares."""
    return [process.pid for process in tree.find_descendants(os.getpid()) if is_fork_server(process.pid)]


def is_fork_server(pid: int) -> bool:
    """Whether the process runs the runner's entry."""
    with contextlib.suppress(OSError):
        return b"sandbox/runner/__main__.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


async def test_cancelled_start_lets_go_of_nothing(rig: Rig) -> None:
    lease = await rig.lease()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await lease.start(Command(rig.words("sleep", "60"), "cancelled"))
    found = await attach(rig, "cancelled")
    await found.stop()
    assert (await found.result()).kind is ResultKind.KILLED
    await rig.backend.forget("cancelled")
    await lease.release()
