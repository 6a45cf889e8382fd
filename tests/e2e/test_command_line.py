"""The command line as a user types it, against a real daemon: output, exit codes, words of failure."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import Daemon

import gloveport

HOSTILE = "\x1b[2J\x1b]52;c;eA==\x07[bold]loud[/bold] \u202etxt.exe\u202c \u009b31m end"
TEXT = "".join(f"line {number}\n" for number in range(1, 31))
RUN_S = 60.0
SETTINGS = """
[[models]]
provider = "scripted"
model = "test"
script = "{script}"

[[models]]
provider = "openai"
model = "down"
base_url = "http://127.0.0.1:9/v1"

[sandbox]
trusted = "process"
"""


def edits() -> list[dict[str, Any]]:
    """Two hunks in one file and a new file."""
    return [
        {"name": "edit_file", "arguments": {"path": "a.txt", "old": "line 2\n", "new": "second\n"}},
        {"name": "edit_file", "arguments": {"path": "a.txt", "old": "line 29\n", "new": "last but one\n"}},
        {"name": "write_file", "arguments": {"path": "b.txt", "content": "new\n"}},
    ]


STEPS: list[dict[str, Any]] = [
    {"when": {"user_contains": "edit", "turn": 0}, "text": "I edit.", "calls": edits()},
    {
        "when": {"user_contains": "run", "turn": 0},
        "calls": [{"name": "run_command", "arguments": {"argv": ["echo", "hello from a program"]}}],
    },
    {"when": {"user_contains": "hostile"}, "text": HOSTILE},
    {
        "when": {"user_contains": "wait"},
        "text": "I begin and never end.",
        "chunk_chars": 7,
        "wait_after_chunks": 1,
        "wait_for_file": "never",
    },
    {"when": {"result_contains": "said no"}, "text": "Then not."},
    {"text": "Done."},
]


class Cli:
    """`gloveport` with a home of its own."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(daemon.home),
            "GLOVEPORT_HOME": str(daemon.home),
            "PYTHONPATH": os.pathsep.join(os.path.dirname(root) for root in gloveport.__path__),
            "COLUMNS": "200",
        }

    def command(self, *words: str) -> list[str]:
        """The words of a command."""
        return [sys.executable, "-P", "-m", "gloveport.server", *words]

    def __call__(self, *words: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, which must have this exit code and never a traceback."""
        done = subprocess.run(
            self.command(*words),
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=RUN_S,
            check=False,
            cwd=self.daemon.home,
        )
        assert done.returncode == code, (words, done.returncode, done.stdout[-800:], done.stderr[-800:])
        assert "Traceback" not in done.stdout + done.stderr
        return done


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    """One daemon for the commands of this module."""
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    daemon = Daemon(home)
    script = home / "script.json"
    script.write_text(json.dumps({"name": "cli", "steps": STEPS}))
    daemon.write_settings(SETTINGS.format(script=script))
    try:
        daemon.start()
        yield Cli(daemon)
    finally:
        daemon.kill()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one file."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text(TEXT)
    return folder


def lines_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Output as NDJSON."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_json(cli: Cli, root: Path, task: str, *options: str, code: int = 0) -> list[dict[str, Any]]:
    """`run --json` in a trusted folder; its lines, of which the last is the result and names the exit code."""
    done = cli("run", task, "--root", str(root), "--trust", "trusted", "--json", *options, code=code)
    lines = lines_of(done)
    assert lines[-1]["type"] == "result"
    assert lines[-1]["exitCode"] == code
    assert all("seq" in line for line in lines[:-1])
    return lines


def test_changes_are_decided_hunk_by_hunk(cli: Cli, root: Path) -> None:
    """run, diff, accept --hunk, reject, undo: the user's file at each step; wrong names are told."""
    assert run_json(cli, root, "edit")[-1]["result"] == "completed"
    mine = root / "a.txt"
    assert mine.read_text() == TEXT
    shown = cli("diff").stdout
    assert "hunk 2" in shown
    assert "+second" in shown
    assert "+++ b.txt" in shown or "b.txt" in shown
    assert "no hunk" in cli("accept", "a.txt", "--hunk", "9", code=1).stderr
    assert "exactly one path" in cli("accept", "--hunk", "1", code=1).stderr
    assert "nothing is proposed" in cli("accept", "none.txt", code=1).stderr
    assert "accepted: a.txt" in cli("accept", "a.txt", "--hunk", "1").stdout
    assert mine.read_text() == TEXT.replace("line 2\n", "second\n")
    assert "rejected: a.txt" in cli("reject", "a.txt").stdout
    assert "accepted: b.txt" in cli("accept").stdout
    assert "Nothing is proposed" in cli("accept").stdout
    assert "undone: b.txt" in cli("undo").stdout
    assert not (root / "b.txt").exists()
    cli("undo")
    cli("undo")
    assert mine.read_text() == TEXT
    assert "nothing to undo" in cli("undo", code=1).stderr


def test_an_answer_is_needed_given_and_gone_on_with(cli: Cli, root: Path) -> None:
    """Exit code 5 where nobody can be asked; approve shows the card and answers; resume follows to the end; why."""
    assert run_json(cli, root, "run", code=5)[-1]["result"] == "waiting"
    assert "echo hello from a program" in cli("approve", code=5).stdout
    approved = cli("approve", "--how", "once").stdout
    assert "allowed" in approved
    assert "risk" in approved
    cli("resume", "-m", "something else")
    why = cli("why").stdout
    assert "run_command" in why
    assert "ok" in why
    assert "ask" in why
    shown = cli("show").stdout
    assert "Run echo hello" in shown
    assert "Nothing waits" in cli("approve").stdout


def test_denied_by_option_the_turn_goes_on(cli: Cli, root: Path) -> None:
    """--approve never: the model hears of it; --approve once: the program runs and its output is streamed."""
    lines = run_json(cli, root, "run", "--approve", "never")
    assert lines[-1]["result"] == "completed"
    assert "denied" in cli("why").stdout
    assert "Then not." in cli("show").stdout
    done = cli("run", "run", "--root", str(root), "--approve", "once")
    assert "hello from a program" in done.stdout
    assert "tokens:" in done.stdout


def test_a_failed_turn_has_its_exit_code(cli: Cli, root: Path) -> None:
    """Nobody answers at the model's address: 3, with words."""
    lines = run_json(cli, root, "hello", "--model", "openai/down", code=3)
    assert lines[-1]["result"] == "failed"
    assert "cannot be reached" in cli("show").stdout or "reach" in cli("show").stdout


def test_ctrl_c_stops_the_turn(cli: Cli, root: Path) -> None:
    """One interrupt: the turn is stopped, what arrived was shown, the exit code says so."""
    words = cli.command("run", "wait", "--root", str(root), "--trust", "trusted", "--json")
    process = subprocess.Popen(
        words, env=cli.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if b"I begin" in line:
                process.send_signal(signal.SIGINT)
                break
        out, errors = process.communicate(timeout=RUN_S)
    finally:
        process.kill()
    assert process.returncode == 4, errors
    assert json.loads(out.splitlines()[-1])["result"] == "cancelled"
    assert b"Traceback" not in errors


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_what_a_model_says_is_harmless_in_a_terminal(cli: Cli, root: Path, more: tuple[str, ...]) -> None:
    """C14: terminal commands, markup and direction marks of a model come out as plain text, wherever it is shown."""
    done = cli("run", "hostile", "--root", str(root), "--trust", "trusted", *more)
    for text in (done.stdout, cli("show").stdout, cli("export").stdout):
        assert not any(char in text for char in "\x1b\x07\u202e\u009b")
        assert "[bold]loud[/bold]" in text
        assert "end" in text


def test_records(cli: Cli, root: Path) -> None:
    """sessions, show, export, replay beside the daemon, audit verify and export agree with one another."""
    lines = run_json(cli, root, "edit")
    session = lines[-1]["sessionId"]
    listed = cli("sessions", "--root", str(root)).stdout
    assert session in listed
    assert "project" in listed
    events = lines_of(cli("export", session))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    replayed = cli("replay", session).stdout
    assert f"{len(events)} events, 0 of a newer version" in replayed
    assert "chain: holds" in replayed
    assert lines[-1]["viewDigest"] in replayed
    assert "✓" in cli("audit", "verify").stdout
    kinds = {line["action"] for line in lines_of(cli("audit", "export"))}
    assert {"exec_start", "exec_end", "decision"} <= kinds
    assert "events" in cli("replay", session, PYTHONIOENCODING="ascii").stdout
    assert cli("audit", "verify", PYTHONIOENCODING="ascii").stdout.startswith("\\u2713")


def test_doctor_as_json(cli: Cli) -> None:
    """One object: who serves, which models, each rung with what it holds; of one rung when asked."""
    done = subprocess.run(
        cli.command("doctor", "--json", "--sandbox", "process"),
        env=cli.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=RUN_S, check=False,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert [rung["name"] for rung in told["sandboxes"]] == ["process"]
    assert done.returncode in (0, 1)
    assert told["daemon"]["pid"]
    assert {model["model"] for model in told["models"]} >= {"test", "down"}
    assert told["probes"]["process"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "nope"), 1, "no session"),
        (("diff", "--session", "nope"), 1, "no session"),
        (("why", "nope"), 1, "there is no"),
        (("export", "nope"), 1, "no session"),
        (("replay", "nope"), 1, "0 sessions"),
        (("run", "x", "--root", "/no/such/folder"), 1, "no folder"),
        (("run", "x", "--approve", "always"), 2, "always"),
        (("run", "x", "--trust", "full"), 2, "full"),
        (("run", "x", "--model", "none/none"), 1, "none/none"),
        (("run", "x", "--sandbox", "none"), 1, "none"),
        (("approve", "--how", "always"), 2, "always"),
        (("doctor", "--sandbox", "none"), 1, "none"),
        (("sessions", "--limit", "0"), 2, "limit"),
        (("run",), 2, "run --help"),
        (("nonsense",), 2, "nonsense"),
    ],
)
def test_what_went_wrong_is_said(cli: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    """One message on standard error, nothing on standard output, the right exit code, no traceback."""
    done = cli(*words, code=code)
    assert said in done.stderr
    assert done.stdout == ""


def test_a_reader_that_goes_away_ends_the_command_quietly(cli: Cli, root: Path) -> None:
    """`gloveport export | head -1`."""
    run_json(cli, root, "edit")
    process = subprocess.Popen(
        cli.command("export"), env=cli.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    errors = process.stderr.read()
    process.wait(timeout=RUN_S)
    process.stderr.close()
    assert b"Traceback" not in errors


def test_the_demo_twice_and_replay_without_a_daemon(tmp_path: Path) -> None:
    """A folder of one's own: mended, and mended again; a folder with other files is refused; then, with the daemon
    gone, the log can still be read."""
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    daemon = Daemon(home)
    cli, folder = Cli(daemon), tmp_path / "demo"
    try:
        daemon.start()
        for _ in range(2):
            done = cli("demo", "--folder", str(folder))
            assert "Green." in done.stdout
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "mine").write_text("x")
        assert "not the demo's" in cli("demo", "--folder", str(tmp_path / "other"), code=1).stderr
        assert "daemon ends" in cli("daemon", "stop").stdout
        assert daemon.process is not None
        assert daemon.process.wait(timeout=20) == 0
        assert "chain: holds" in cli("replay").stdout
    finally:
        daemon.kill()
        shutil.rmtree(home, ignore_errors=True)
