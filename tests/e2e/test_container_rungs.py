"""The main job through the rungs of a container engine, by a real daemon and a real engine.

Purpose: what is built of these rungs works where people use it: settings, policy, doctor, run_tests, ends.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.command_line import running_command_line
from tests.kit.daemon import Daemon, accept_all, run_turn, running_daemon, send, start_session, trust
from tests.kit.engines import require_gvisor, shared_engine
from tests.kit.require import require

import gloveport
from gloveport.protocol.wire.place import SandboxDoctorParams, TrustLevelName
from gloveport.sandbox.runner.engine_api import EngineSocket
from gloveport.server.cli.demo_repo import SCRIPT, TASK, materialise


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon whose settings name the engine; its model plays the demo's script."""
    engine = shared_engine()
    with running_daemon(started=False) as daemon:
        daemon.write_settings(
            f'[[models]]\nprovider = "scripted"\nmodel = "test"\nscript = "{SCRIPT}"\n'
            f'[engine]\nhost = "{engine.choice.host}"\n'
            '[sandbox]\nrestricted = "docker"\nuntrusted = "gvisor"\n'
        )
        daemon.start()
        yield daemon


def ours() -> list[str]:
    """Containers of the engine that were made for this daemon's runs or wait for them."""
    found = EngineSocket(str(shared_engine().socket)).call("GET", "/containers/json?all=1")
    return [str(one["Names"][0]) for one in found]


@pytest.mark.engine
@pytest.mark.parametrize(("level", "rung"), [("restricted", "docker"), ("untrusted", "gvisor")])
async def test_the_main_job_in_a_container(daemon: Daemon, tmp_path: Path, level: TrustLevelName, rung: str) -> None:
    """Read, edit, approve, test, accept: the same as on bubblewrap, by the user's choice for this level of trust."""
    if rung == "gvisor":
        require_gvisor()
    root = tmp_path / "tinystat"
    materialise(root)
    before = set(ours())
    async with daemon.client() as client:
        await trust(client, root, level)
        session = await start_session(client, root)
        assert session.sandbox == rung
        await send(client, session.session_id, TASK)
        assert await run_turn(client, session.session_id) == "completed"
        follow = client.follow(session.session_id)
        async for update in follow:
            if update.caught_up and update.in_sync:
                break
        runs = [item["fields"] for item in follow.view.items() if item["kind"] == "tests"]
        assert [bool(run["failed"]) for run in runs] == [True, False]
        assert await accept_all(client, session.session_id) == ("tinystat/stats.py",)
    assert daemon.stop() == 0
    assert set(ours()) <= before, "nothing stays in the engine"


@pytest.mark.engine
async def test_the_doctor_examines_a_container(daemon: Daemon) -> None:
    """Every probe holds or is declared, asked over the wire."""
    async with daemon.client() as client:
        told = await client.call("sandbox/doctor", SandboxDoctorParams(sandbox="docker"))
    wrong = [probe for probe in told.probes if probe.verdict == "does_not_hold"]
    require(not any("control groups" in probe.evidence for probe in wrong), "control groups do not work here")
    assert wrong == []
    assert any(probe.verdict == "holds" for probe in told.probes)


def test_c05_the_doctor_asked_for_an_engine_that_is_not_there() -> None:
    """C05: why it does not work and what to do, on standard output, with the exit code of a failure."""
    with running_daemon(started=False) as daemon:
        daemon.write_settings('[engine]\nhost = "unix:///nowhere/docker.sock"\n')
        daemon.start()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(daemon.home),
            "GLOVEPORT_HOME": str(daemon.home),
            "PYTHONPATH": os.pathsep.join(os.path.dirname(root) for root in gloveport.__path__),
        }
        for rung in ("docker", "gvisor"):
            done = subprocess.run(
                [sys.executable, "-m", "gloveport.server", "doctor", "--sandbox", rung],
                env=environment, capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
            told = " ".join(done.stdout.split())
            assert done.returncode == 1, done.stdout + done.stderr
            assert "there is no socket at /nowhere/docker.sock" in told
            assert "DOCKER_HOST" in told


@pytest.mark.parametrize("rung", ["docker", "gvisor"])
def test_a_session_in_a_sandbox_that_does_not_work_here_is_refused(rung: str, tmp_path: Path) -> None:
    """At the beginning, before a model is asked, with the doctor's reason and the way on."""
    with running_command_line([{"text": "Done."}], more='[engine]\nhost = "unix:///nowhere/docker.sock"\n') as cli:
        cli("trust", "trusted", cwd=tmp_path)
        told = " ".join(cli("run", "--sandbox", rung, "hello", cwd=tmp_path, code=2).stderr.split())
        assert f"{rung} does not work here: " in told
        assert "there is no socket at /nowhere/docker.sock" in told
        assert f"gloveport doctor --sandbox {rung}" in told
        assert "no session" in cli("show", cwd=tmp_path, code=1).stderr
