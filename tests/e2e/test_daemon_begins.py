"""The daemon's first moments: clients come before the rooms are open."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.kit.daemon import Daemon, running_daemon

import gloveport
from gloveport.protocol.errors import ErrorCode, GloveportError


async def test_the_first_request_waits_for_the_rooms_and_is_answered() -> None:
    """A client that comes at once gets its answer; the version names the build."""
    with running_daemon(loads_itself=True) as daemon:
        async with daemon.client() as client:
            status = await client.call("daemon/status")
            assert client.server.version.startswith(f"{status.program_version}+")


async def test_what_keeps_the_rooms_from_opening_is_told_and_ends_the_daemon() -> None:
    """Rules with a fault: who waits is told which, the log says it in one line, and the exit code is 1."""
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    daemon = Daemon(home, loads_itself=True)
    (home / "rules.toml").write_text('version = 1\n\n[[rule]]\nid = "mine"\nverdict = "perhaps"\n')
    try:
        daemon.start()
        assert daemon.process is not None
        with pytest.raises(GloveportError) as caught:
            async with daemon.client(deciding=False) as client:
                await client.call("daemon/status")
        assert caught.value.code in (ErrorCode.RULES_INVALID, ErrorCode.UNREACHABLE)
        assert await asyncio.to_thread(daemon.process.wait, 20) == 1
        assert "mine" in daemon.log().splitlines()[-1]
        assert "Traceback" not in daemon.log()
    finally:
        daemon.kill()
        shutil.rmtree(home, ignore_errors=True)


def test_a_command_tells_of_a_daemon_of_another_build(tmp_path: Path) -> None:
    """Its files changed under it: each command says so on standard error and works, but the one that it names."""
    roots = []
    for name in ("protocol", "sandbox", "server"):
        source = next(Path(root) for root in gloveport.__path__ if (Path(root) / name).is_dir())
        shutil.copytree(source, tmp_path / name / "gloveport")
        roots.append(str(tmp_path / name))
    with running_daemon() as daemon:
        told = {}
        mine = [os.path.dirname(root) for root in gloveport.__path__]
        commands = (("same", mine, "sessions"), ("other", roots, "sessions"), ("the way on", roots, "daemon stop"))
        for name, paths, command in commands:
            environment = {"PATH": os.environ["PATH"], "HOME": str(daemon.home), "GLOVEPORT_HOME": str(daemon.home)}
            done = subprocess.run(
                [sys.executable, "-P", "-m", "gloveport.server", *command.split()],
                env=environment | {"PYTHONPATH": os.pathsep.join(paths)},
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            told[name] = done.stderr
            for changed in tmp_path.rglob("version.py"):
                os.utime(changed, (1, 1))
    assert "another build" not in told["same"]
    assert "another build" in told["other"]
    assert told["the way on"] == ""
