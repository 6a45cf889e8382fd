"""Programs of the same user do not look into the daemon, whatever rung they run on: its memory holds keys."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.daemon import Daemon
from tests.kit.require import require

NO_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""The same user without root's right to look into everything; an ordinary user has none anyway."""


def without_rights(argv: list[str]) -> list[str]:
    """The command as somebody whose right comes from being the same user alone."""
    return [*NO_RIGHTS, *argv] if os.geteuid() == 0 else argv


class OrdinaryDaemon(Daemon):
    """A daemon that is nobody's superior."""

    def command(self, program: tuple[str, ...]) -> list[str]:
        return without_rights(super().command(program))


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """One that was just started."""
    require(shutil.which("setpriv") is not None, "setpriv is not installed")
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    one = OrdinaryDaemon(home, loads_itself=True)
    try:
        one.start(SECRET="in the environment")
        yield one
    finally:
        try:
            one.end()
        finally:
            shutil.rmtree(home, ignore_errors=True)


def read(pid: int, name: str) -> bytes:
    """What another program of this user sees of it."""
    argv = without_rights(["head", "-c", "4096", f"/proc/{pid}/{name}"])
    return subprocess.run(argv, capture_output=True, timeout=30, check=False).stdout


def test_nobody_looks_into_the_daemon(daemon: Daemon) -> None:
    """Neither environment nor memory map; of another program of the user's both are seen."""
    assert daemon.process is not None
    argv = without_rights(["sh", "-c", "echo up; exec sleep 60"])
    environment = {"PATH": os.environ["PATH"], "SECRET": "in the environment"}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"up\n"
            assert b"in the environment" in read(other.pid, "environ")
            assert read(other.pid, "maps") != b""
        finally:
            other.kill()
    assert read(daemon.process.pid, "environ") == b""
    assert read(daemon.process.pid, "maps") == b""
    assert read(daemon.process.pid, "cmdline") != b"", "it is there, and what anybody may see is seen"
