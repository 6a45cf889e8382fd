"""The command line as a user types it, against a real daemon: output, exit codes, words of failure."""

import json
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.kit.command_line import RUN_S, SPENT, TEXT, Cli, lines_of, run_json
from tests.kit.daemon import Daemon


def test_changes_are_decided_hunk_by_hunk(cli: Cli, root: Path) -> None:
    """run, diff, accept --hunk, reject, undo: the user's file at each step; wrong names are told."""
    assert run_json(cli, root, "edit")[-1]["result"] == "completed"
    mine = root / "a.txt"
    assert mine.read_text() == TEXT
    shown = cli("diff", cwd=root).stdout
    assert shown.count(" hunk ") == 3
    assert "+second" in shown
    assert "+++ b.txt" in shown or "b.txt" in shown
    assert "no open hunk" in cli("accept", "a.txt", "--hunk", "9", code=1, cwd=root).stderr
    assert "exactly one path" in cli("accept", "--hunk", "1", code=1, cwd=root).stderr
    assert "nothing is proposed" in cli("accept", "none.txt", code=1, cwd=root).stderr
    assert "accepted: a.txt" in cli("accept", "a.txt", "--hunk", "1", cwd=root).stdout
    assert mine.read_text() == TEXT.replace("line 2\n", "second\n")
    assert "rejected: a.txt" in cli("reject", "a.txt", cwd=root).stdout
    assert "accepted: b.txt" in cli("accept", cwd=root).stdout
    assert "Nothing is proposed" in cli("accept", cwd=root).stdout
    assert "undone: b.txt" in cli("undo", cwd=root).stdout
    assert not (root / "b.txt").exists()
    cli("undo", cwd=root)
    cli("undo", cwd=root)
    assert mine.read_text() == TEXT
    assert "nothing to undo" in cli("undo", code=1, cwd=root).stderr


def test_an_answer_is_needed_given_and_gone_on_with(cli: Cli, root: Path) -> None:
    """Exit code 5 where nobody can be asked; approve shows the card and answers; resume follows to the end; why."""
    assert run_json(cli, root, "run", code=5)[-1]["result"] == "waiting"
    assert "hello from a program" in cli("approve", code=5, cwd=root).stdout
    approved = cli("approve", "--how", "once", cwd=root).stdout
    assert "allowed" in approved
    assert "risk" in approved
    cli("resume", "-m", "something else", cwd=root)
    why = cli("why", cwd=root).stdout
    assert "run_command" in why
    assert "ok" in why
    assert "ask" in why
    shown = cli("show", cwd=root).stdout
    assert "Run python3 -c" in shown
    assert "Nothing waits" in cli("approve", cwd=root).stdout


def test_denied_by_option_the_turn_goes_on(cli: Cli, root: Path) -> None:
    """--approve never: the model hears of it; --approve once: the program runs and its output is streamed."""
    lines = run_json(cli, root, "run", "--approve", "never")
    assert lines[-1]["result"] == "completed"
    assert "denied" in cli("why", cwd=root).stdout
    assert "Then not." in cli("show", cwd=root).stdout
    done = cli("run", "run", "--root", str(root), "--approve", "once")
    assert "hello from a program" in done.stdout
    assert "tokens:" in done.stdout


@pytest.mark.parametrize(
    "words",
    ["sessions", "--help", "show nope", "accept --nonsense"],
)
def test_a_command_of_these_tests_is_as_one_that_is_started(cli: Cli, root: Path, words: str) -> None:
    """Most are forks of a process that has loaded the program: the same words, the same errors, the same code."""
    warm, cold = cli.start_warm(*words.split(), cwd=root), cli.start_cold(*words.split(), cwd=root)
    assert (warm.returncode, warm.stdout, warm.stderr) == (cold.returncode, cold.stdout, cold.stderr)


def test_a_failed_turn_has_its_exit_code(cli: Cli, root: Path) -> None:
    """The model's quota is used up: 3, with words."""
    lines = run_json(cli, root, "hello", "--model", SPENT, code=3)
    assert lines[-1]["result"] == "failed"
    assert "no money left" in cli("show", cwd=root).stdout


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
def test_c14_what_a_model_says_is_harmless_in_a_terminal(cli: Cli, root: Path, more: tuple[str, ...]) -> None:
    """C14: terminal commands, markup and direction marks of a model come out as plain text, wherever it is shown."""
    done = cli("run", "hostile", "--root", str(root), "--trust", "trusted", *more)
    for text in (done.stdout, cli("show", cwd=root).stdout, cli("export", cwd=root).stdout):
        assert not any(char in text for char in "\x1b\x07\u202e\u009b")
        assert "[bold]loud[/bold]" in text
        assert "end" in text


def test_records(cli: Cli, root: Path) -> None:
    """sessions, show, export, replay beside the daemon, audit verify and export agree with one another."""
    lines = run_json(cli, root, "edit")
    session = lines[-1]["sessionId"]
    listed = cli("sessions", "--root", str(root)).stdout
    assert session[-6:] in listed
    assert "project" in listed
    events = lines_of(cli("export", session))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert lines_of(cli("export", session, "--offline")) == events
    assert [one["seq"] for one in lines_of(cli("replay", session, "--at", "3", "--view", "events"))] == [1, 2, 3]
    assert "there is no event" in cli("replay", session, "--at", "9999", code=1).stderr
    replayed = cli("replay", session).stdout
    assert f"{len(events)} events, 0 of a newer version" in replayed
    assert "chain: holds" in replayed
    assert lines[-1]["viewDigest"] in replayed
    assert "✓" in cli("audit", "verify").stdout
    kinds = {line["action"] for line in lines_of(cli("audit", "export"))}
    assert {"exec_start", "exec_end", "decision"} <= kinds
    assert "events" in cli("replay", session, PYTHONIOENCODING="ascii").stdout
    assert cli("audit", "verify", PYTHONIOENCODING="ascii").stdout.startswith("\\u2713")


def test_delete_is_asked_named_and_for_good(cli: Cli, root: Path) -> None:
    """Without `--yes` nothing goes where nobody can be asked; proposals need a word of their own; then it is gone."""
    session = run_json(cli, root, "edit")[-1]["sessionId"]
    assert "Say --yes" in cli("delete", session, code=5, cwd=root).stderr
    assert "that you did not decide on" in cli("delete", session, "--yes", code=1, cwd=root).stderr
    assert "Deleted session" in cli("delete", session, "--yes", "--undecided", cwd=root).stdout
    assert session not in cli("sessions", cwd=root).stdout
    assert cli("show", session, code=1, cwd=root).stderr
    assert (root / "a.txt").read_text() == TEXT
    assert "events take:" in cli("daemon", "status").stdout
    status = json.loads(cli("daemon", "status", "--json").stdout)
    assert status["runningTurns"] == 0
    assert status["data"]["sessions"] >= 0


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
    assert {model["model"] for model in told["models"]} >= {"test", "spent"}
    assert told["probes"]["process"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("show", "nope"), 1, "no session"),
        (("diff", "--session", "nope"), 1, "no session"),
        (("why", "nope"), 1, "there is no"),
        (("export", "nope"), 1, "no session"),
        (("replay", "nope"), 1, "no session"),
        (("run", "x", "--root", "/no/such/folder"), 1, "no folder"),
        (("run", "x", "--approve", "always"), 2, "always"),
        (("run", "x", "--trust", "full"), 2, "full"),
        (("run", "x", "--model", "none/none"), 2, "none/none"),
        (("run", "x", "--sandbox", "none"), 2, "none"),
        (("approve", "--how", "always"), 2, "always"),
        (("doctor", "--sandbox", "none"), 2, "none"),
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
        cli.command("export", "-C", str(root)), env=cli.environment, stdin=subprocess.DEVNULL,
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
        assert daemon.process.wait(timeout=100) == 0
        assert "No daemon runs." in cli("daemon", "status", code=6).stderr
        assert "No daemon runs." in cli("daemon", "stop").stdout
        assert "chain: holds" in cli("replay").stdout
    finally:
        daemon.kill()
        shutil.rmtree(home, ignore_errors=True)
