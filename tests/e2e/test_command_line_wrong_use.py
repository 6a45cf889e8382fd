"""What a user gives that cannot be meant: told as wrong usage with exit code 2, and never a traceback."""

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.command_line import RUN_S, STEPS, TEXT, Cli, run_json, running_command_line

BEYOND = "99999999999999999999999"


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    """One daemon for the commands of this module."""
    with running_command_line(STEPS) as running:
        yield running


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one file."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text(TEXT)
    return folder


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"budget --turn {BEYOND}", "1000000000000"),
        (f"budget --total {BEYOND}", "1000000000000"),
        (f"replay --at {BEYOND}", "1000000000000"),
        ("budget --none --turn 5", "--none"),
        ("budget --none --total 5", "--none"),
        ("mode bogus", "agent, plan"),
        ("transcript --format x", "--format plain"),
    ],
)
def test_a_wrong_value_is_wrong_usage(cli: Cli, root: Path, words: str, told: str) -> None:
    """Exit code 2, and what there is instead is named; nothing was asked of a daemon."""
    assert told in " ".join(cli(*words.split(), cwd=root, code=2).stderr.split())


@pytest.mark.parametrize("words", ["diff", "run hello", "trust", "sessions -C .", "accept a.txt"])
def test_a_deleted_working_folder_is_told(cli: Cli, tmp_path: Path, words: str) -> None:
    """The folder the user is in was deleted: one sentence and the way on; with -C the same command works."""
    run_json(cli, tmp_path, "hello")
    gone = tmp_path / "gone"
    gone.mkdir()
    command = shlex.join(cli.command(*words.split()))
    done = subprocess.run(
        ["sh", "-c", f"rmdir {shlex.quote(str(gone))} && exec {command}"],
        cwd=gone, env=cli.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "the folder you are in no longer exists" in done.stderr
    assert "-C FOLDER" in done.stderr
    assert "Traceback" not in done.stderr
