"""What a user gives that cannot be meant: told as wrong usage with exit code 2, and never a traceback."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.kit.command_line import RUN_S, SPENT, Cli, lines_of, run_json

BEYOND = "99999999999999999999999"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (f"budget --turn {BEYOND}", "1000000000000"),
        (f"budget --total {BEYOND}", "1000000000000"),
        (f"replay --at {BEYOND}", "1000000000000"),
        ("budget --none --turn 5", "--none"),
        ("budget --none --total 5", "--none"),
        ("budget --none --usd 5", "--none"),
        ("budget --usd 0", "'0' is no amount of US dollars"),
        ("budget --turn-usd 2e3", "--turn-usd '2e3' is no amount"),
        ("run hello --usd -1", "'-1' is no amount"),
        ("mode bogus", "agent, plan"),
        ("transcript --format x", "--format plain"),
        ("run hello --mode bogus", "agent, plan"),
        (f"run hello --turn-tokens {BEYOND}", "1000000000000"),
        ("run hello --sandbox nope", "there is no sandbox 'nope'"),
        ("run hello --model a/b", "no model 'a/b' is set up"),
        ("run hello --model x", "no model 'x' is set up"),
        ("models use a/b", "no model 'a/b' is set up"),
        ("doctor --sandbox nope", "there is no sandbox 'nope'"),
        ("replay --view nope", "there is no view 'nope'"),
    ],
)
def test_a_wrong_value_is_wrong_usage(cli: Cli, root: Path, words: str, told: str) -> None:
    """Exit code 2, and what there is instead is named."""
    run_json(cli, root, "hello")
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


def test_a_run_begins_within_its_mode_and_limits(cli: Cli, root: Path) -> None:
    """They stand in the log before the first message; budget takes the same names, and the short ones."""
    run_json(cli, root, "hello", "--mode", "plan", "--turn-tokens", "5000000", "--session-tokens", "9000000")
    types = [event["type"] for event in lines_of(cli("export", cwd=root))]
    assert max(types.index("ModeChosen"), types.index("BudgetSet")) < types.index("UserMessageAdded")
    assert "plan, it looks" in cli("mode", cwd=root).stdout
    told = cli("budget", cwd=root).stdout
    assert "of 5,000,000 at most" in told
    assert "of 9,000,000 at most" in told
    told = cli("budget", "--turn-tokens", "6000000", "--total", "8000000", cwd=root).stdout
    assert "of 6,000,000 at most" in told
    assert "of 8,000,000 at most" in told


def test_a_run_begins_within_its_limits_of_money(cli: Cli, root: Path) -> None:
    """A model with a price of the user's own; what is not named stays; where there is no price no turn begins."""
    run_json(cli, root, "hello", "--usd", "2", "--model", SPENT, code=3)
    types = [event["type"] for event in lines_of(cli("export", cwd=root))]
    assert types.index("BudgetSet") < types.index("UserMessageAdded")
    told = cli("budget", cwd=root).stdout
    (spent,) = re.findall(r"session: (\S+) spent, of \$2\.00 at most", told)
    assert f"{spent} of it is the most that uncounted requests may cost" in told
    told = cli("budget", "--turn-usd", "$0.055", "--turn", "9000", cwd=root).stdout
    assert f"turn: {spent} spent, of $0.0550 at most" in told
    assert f"session: {spent} spent, of $2.00 at most" in told
    assert "of 9,000 at most" in told
    assert "spent" not in cli("budget", "--none", cwd=root).stdout
    refused = cli("run", "hello", "--usd", "2", cwd=root, code=1).stderr
    assert "no price is known for scripted/test" in refused
    assert "input_usd" in refused


BY_OPTION = ("show", "transcript", "plan", "task", "usage", "trace", "samples", "export", "cancel", "resume", "thaw")


@pytest.mark.parametrize("command", BY_OPTION)
def test_every_command_of_a_session_takes_its_name_as_an_option(
    cli: Cli, root: Path, tmp_path: Path, command: str
) -> None:
    """`-s ID` is what `ID` alone is, also from another folder; both at once are wrong usage."""
    name = run_json(cli, root, "hello")[-1]["sessionId"][-6:]
    fails = int(command == "thaw")
    alone, given = cli(command, name, cwd=tmp_path, code=fails), cli(command, "-s", name, cwd=tmp_path, code=fails)
    assert (given.stdout, given.stderr) == (alone.stdout, alone.stderr)
    assert given.stdout + given.stderr
    assert "named twice" in cli(command, name, "-s", name, cwd=tmp_path, code=2).stderr


@pytest.mark.parametrize("options", [(), ("--type", "abcdef")])
def test_thaw_of_a_session_that_is_not_frozen_says_so(cli: Cli, root: Path, options: tuple[str, ...]) -> None:
    """At once, before anybody is asked to type something."""
    name = run_json(cli, root, "hello")[-1]["sessionId"][-6:]
    told = cli("thaw", *options, cwd=root, code=1).stderr
    assert f"session {name} 'hello' is not frozen" in told
    assert "--type" not in told


def test_thaw_at_a_terminal_asks_nothing_where_nothing_is_frozen(cli: Cli, root: Path) -> None:
    """No question comes first."""
    run_json(cli, root, "hello")
    with cli.at_terminal("thaw", cwd=root) as shell:
        shell.wait_for("is not frozen")
        assert shell.end() == 1
        assert "Type" not in shell.text
