"""What a user meets who does not know the commands yet: each wrong or empty step is told in one sentence."""

import subprocess
from pathlib import Path

import pytest
from tests.kit.command_line import RUN_S, STEPS, TEXT, Cli, run_json, running_command_line

from gloveport.server.cli import cards

PLAY = {"name": "run_command", "arguments": {"argv": ["python3", "play.py"]}}
PLAYED = [{"when": {"user_contains": "play", "turn": 0}, "calls": [PLAY]}, *STEPS]
FILES = {"a.txt": TEXT, "play.py": "print('played')\n"}


def test_why_in_a_session_without_calls(cli: Cli, root: Path) -> None:
    """There is nothing to show, which is no failure."""
    run_json(cli, root, "hello")
    done = cli("why", cwd=root)
    assert done.stdout.startswith("no calls yet")
    assert done.stderr == ""


@pytest.mark.parametrize("home", ["/dev/null/x", "/proc/none/x", "taken"])
def test_a_data_folder_that_cannot_be_used(cli: Cli, tmp_path: Path, home: str) -> None:
    """The folder is named with the reason, and what names another one."""
    (tmp_path / "taken").mkdir(mode=0o700)
    (tmp_path / "taken" / "daemon.log").mkdir()
    for command in ("sessions",) if home == "taken" else ("sessions", "daemon"):
        done = cli(command, code=1, cwd=tmp_path, GLOVEPORT_HOME=str(tmp_path / home))
        assert f"{tmp_path / home} cannot be used" in done.stderr
        assert "GLOVEPORT_HOME" in done.stderr
        assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("words", [("export",), ("policy", "show"), ("--help",)])
def test_output_that_cannot_be_written(cli: Cli, root: Path, words: tuple[str, ...]) -> None:
    """`gloveport export >/dev/full`."""
    run_json(cli, root, "hello")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            cli.command(*words), env=cli.environment, cwd=root, stdin=subprocess.DEVNULL, stdout=full,
            stderr=subprocess.PIPE, encoding="utf-8", timeout=RUN_S, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "the output cannot be written (No space left on device)\nGive it room, or another place.\n"


def test_rights_are_listed_and_taken_back(cli: Cli, root: Path) -> None:
    """What an answer gave is told with its scope, end, uses and place; taken back, the question comes again."""
    assert "No right is in force" in cli_after_hello(cli, root, "grants")
    asked = cli("run", "play", "--root", str(root), "--approve", "session").stdout
    assert "played" in asked
    given, details, _more = cli("grants", cwd=root).stdout.splitlines()
    assert given in cli("grants", cli("show", cwd=root).stdout.splitlines()[1].split()[0]).stdout
    name, scope, sentence = given.split("  ", 2)
    assert scope == "session"
    assert "python3 play.py" in sentence
    assert details.strip().startswith("until ")
    assert "uses" in details
    assert "given in this session at" in details
    assert "no right 'nope' is in force" in cli("revoke", "nope", code=1, cwd=root).stderr
    assert cli("revoke", name, cwd=root).stdout == f"taken back: {sentence}\n"
    assert "No right is in force" in cli("grants", cwd=root).stdout
    cli("run", "play", "--root", str(root), code=5)


def cli_after_hello(cli: Cli, root: Path, *words: str) -> str:
    """What a command prints in a session that has only said hello."""
    run_json(cli, root, "hello")
    return cli(*words, cwd=root).stdout


@pytest.mark.parametrize("content", [None, b"", b"no event\n", b"SQLite format 3\0and nothing more"])
def test_replay_of_what_is_no_log(cli: Cli, tmp_path: Path, content: bytes | None) -> None:
    """A folder, an empty file, a text, a broken database: named; nobody says that something was set aside."""
    wrong = tmp_path / "wrong"
    if content is None:
        wrong.mkdir()
    else:
        wrong.write_bytes(content)
    for command in (("replay", str(wrong)), ("export", "--offline", str(wrong))):
        said = cli(*command, code=1).stderr
        assert "set aside" not in said
        assert "Name a session's id, a data folder" in said or b"SQLite" in (content or b"")


def test_policy_says_that_a_shell_that_only_looks_is_not_asked_about(cli: Cli) -> None:
    """The words of the kernel's check are as it decides."""
    shown = cli("policy", "show").stdout
    assert "kernel:each-time  Shells, wrappers and inline code that may do more than look are asked" in shown


@pytest.mark.parametrize("words", [("replay", "--view", "nope"), ("replay", "--at", "9999")])
def test_the_command_whose_words_help_is_named(cli: Cli, root: Path, words: tuple[str, ...]) -> None:
    """An unknown view or event."""
    run_json(cli, root, "hello")
    said = cli(*words, code=2 if "--view" in words else 1, cwd=root).stderr
    assert f"gloveport {words[0]} --help" in said
    assert "COMMAND" not in said


def test_decisions_are_counted(cli: Cli, root: Path) -> None:
    """One decision is one."""
    run_json(cli, root, "edit")
    cli("accept", "b.txt", "--unseen", cwd=root)
    assert "1 decision since" in cli("restore", cwd=root).stdout


def test_an_answer_that_is_not_offered_is_refused(cli: Cli, root: Path) -> None:
    """A card for once takes no wider answer in silence; what it offers is told, and the workspace may be answered."""
    run_json(cli, root, "run", code=5)
    said = cli("approve", "--how", "session", code=1, cwd=root).stderr
    assert "no answer for 'session'" in said
    assert "It offers: once." in said
    assert "allowed" in cli("approve", "--how", "once", cwd=root).stdout
    cli("resume", cwd=root)
    run_json(cli, root, "play", code=5)
    said = cli("approve", "--how", "workspace", code=1, cwd=root).stderr
    assert "It offers: once, turn, session." in said  # a plain process has nothing that lasts longer
    assert cards.offered_option({"options": [{"scope": "once"}, {"scope": "workspace"}]}, "workspace") == 1


def test_a_killed_daemon_is_told_on_a_line_of_its_own(tmp_path: Path, root: Path) -> None:
    """What the model was saying ends its line before the failure is told."""
    with running_command_line(STEPS) as own:
        process = subprocess.Popen(
            own.command("run", "wait", "--root", str(root), "--trust", "trusted"), env=own.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert process.stdout is not None
        said = b""
        while b"I begin" not in said:
            said += process.stdout.read1()
        own.daemon.kill()
        said += process.stdout.read()
        assert process.wait(timeout=RUN_S) == 6
        process.stdout.close()
        assert b"\nthe daemon closed the connection" in said or b"\nthe connection broke" in said


def test_sessions_are_told_apart_by_what_was_said_first(cli: Cli, root: Path) -> None:
    """Two sessions of one folder: each has the first words of its first message, in one line."""
    run_json(cli, root, "hello there,\nmend the parser")
    run_json(cli, root, "hello again")
    cli("resume", "-m", "hello for the last time", cwd=root)
    for columns in ("200", "60"):
        said = cli("sessions", "--root", str(root), COLUMNS=columns).stdout
        assert "hello there, mend the parser" in said
        assert "hello again" in said
        assert "last time" not in said
