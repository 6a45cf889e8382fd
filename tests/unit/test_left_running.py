"""The kit ends what a home's tests leave, and says so where something stays."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit import left_running
from tests.kit.left_running import check_nothing_left, end_owner, processes_of

from gloveport.server.journal.lease import DataLease, read_owner

HOLDER = (
    "import sys, time; from pathlib import Path; from gloveport.server.journal.lease import DataLease\n"
    "DataLease.acquire(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
)


def holder(home: Path) -> subprocess.Popen[bytes]:
    """A process that holds the lease of a home."""
    environment = {"PYTHONPATH": ":".join(sys.path), "GLOVEPORT_HOME": str(home)}
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(home)], env=environment, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    return process


def test_whoever_holds_the_lease_is_ended(tmp_path: Path) -> None:
    """Also when nobody here started it; a lease that was given back, or of a dead owner, is nobody's."""
    end_owner(tmp_path)
    with holder(tmp_path) as process:
        assert list(processes_of(tmp_path)) == [process.pid]
        end_owner(tmp_path)
        check_nothing_left(tmp_path)
    end_owner(tmp_path)
    with DataLease.acquire(tmp_path):
        owner = read_owner(tmp_path)
    assert owner is not None
    end_owner(tmp_path)


def test_what_stays_is_named_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that leaves a process fails, and the process goes."""
    monkeypatch.setattr(left_running, "LEAVE_S", 0.1)
    with holder(tmp_path) as process:
        with pytest.raises(AssertionError, match=str(process.pid)):
            check_nothing_left(tmp_path)
        assert process.wait() < 0
    assert processes_of(tmp_path) == {}
