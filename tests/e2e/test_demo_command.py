"""The command that a newcomer runs first."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit.left_running import end_owner
from tests.kit.require import require_bubblewrap

import gloveport
from gloveport.server.client.paths import find_places

RUN_S = 100.0
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty home with a short path."""
    folder = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def run(home: Path) -> Iterator[Run]:
    """Runs the program in that home; the daemon it started is ended."""
    roots = os.pathsep.join(os.path.dirname(root) for root in gloveport.__path__)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": roots, "COLUMNS": "200"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "gloveport.server", *words]
        return subprocess.run(
            argv, cwd=home, env=environment, capture_output=True, text=True, timeout=RUN_S, check=False
        )

    yield run
    run("daemon", "stop")
    end_owner(find_places({"HOME": str(home)}).data_dir)  # it answers before it has ended


def test_the_demo_ends_green_each_time_and_says_what_is_what(run: Run, home: Path) -> None:
    """It names the model that is none, who answered the card, and where the records lie; a second run is as good."""
    require_bubblewrap()
    for _ in range(2):
        done = run("demo")
        assert done.returncode == 0, done.stdout + done.stderr
        for told in ("(no model)", "trust: trusted", "you were not asked", "accepted: tinystat/stats.py", "Green."):
            assert told in done.stdout
        for record in ("journal.db", "audit.jsonl"):
            path = home / ".local" / "state" / "gloveport" / record
            assert str(path) in done.stdout
            assert path.stat().st_size > 0
    assert run("audit", "verify").returncode == 0
