"""What `gloveport why` says can be done next, where no answer of the user's would have allowed the call."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.kit.command_line import STEPS, Cli, run_json

from gloveport.sandbox.runner import rundir

PLAYED = [
    {
        "when": {"user_contains": "lose it", "turn": 0},
        "calls": [{"name": "run_command", "arguments": {"argv": ["sleep", "300"]}}],
    },
    *STEPS,
]
KEEPER_S = 60.0
RULES = """
version = 1
[[rule]]
id = "user.no-python"
effects = ["execute"]
verdict = "deny"
justification = "No Python here."
match = [{ effect = "execute", target = "python3" }]
"""


def end_keeper(runs: Path) -> None:
    """Wait for the only run, and kill what would have recorded its end."""
    deadline = time.monotonic() + KEEPER_S
    while time.monotonic() < deadline:
        found = [rundir.read_status(folder) for folder in runs.glob("*/turn-*")]
        if found and found[0] is not None and found[0].supervisor_pid:
            os.kill(found[0].supervisor_pid, signal.SIGKILL)
            return
        time.sleep(0.02)
    raise AssertionError("no run began")


def test_in_plan_mode_the_way_on_is_the_mode(cli: Cli, root: Path) -> None:
    """No answer allows anything there: another one is not what to ask for."""
    run_json(cli, root, "edit", "--mode", "plan")
    told = cli("why", cwd=root).stdout
    assert "gloveport mode agent" in told
    assert "can be answered with yes" not in told


def test_the_file_of_the_users_own_rule_is_named(cli: Cli, root: Path) -> None:
    """A rule of the user's forbids it: which one and where it stands; what he himself refused is as before."""
    cli.daemon.stop()
    rules = cli.daemon.home / "rules.toml"
    rules.write_text(RULES)
    cli.daemon.start()
    try:
        run_json(cli, root, "run")
        told = cli("why", cwd=root).stdout
    finally:
        cli.daemon.stop()
        rules.unlink()
        cli.daemon.start()
    assert f"user.no-python in {rules}" in told
    assert "can be answered with yes" not in told
    run_json(cli, root, "run", "--approve", "never")
    assert "can be answered with yes" in cli("why", cwd=root).stdout


def test_a_rule_of_the_session_is_named(cli: Cli, root: Path) -> None:
    """With the command that lists it."""
    (root.parent / "own.toml").write_text(RULES)
    run_json(cli, root, "hello")
    cli("policy", "rules", str(root.parent / "own.toml"), cwd=root)
    assert "Not allowed: No Python here" in cli("resume", "-m", "run", cwd=root).stdout
    assert "this session's own forbids it, and no answer can allow it: user.no-python. See gloveport policy rules" in (
        cli("why", cwd=root).stdout
    )


def test_what_nobody_knows_is_said_by_the_user(cli: Cli, root: Path) -> None:
    """The way on is named where the turn ended and by why; the word is shown, taken once, and kept."""
    words = ("run", "lose it", "--root", str(root), "--trust", "trusted", "--approve", "once")
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(cli, *words, code=3)
        end_keeper(cli.daemon.home / "runs")
        shown = run.result()
    assert "gloveport settle done" in shown.stdout + shown.stderr
    assert "gloveport settle not-done" in cli("why", cwd=root).stdout
    assert "This is the user's word" in cli("settle", "done", cwd=root).stdout
    told = cli("why", cwd=root).stdout
    assert "said of it: treat it as done" in told
    assert "gloveport settle" not in told
    assert "has an unknown outcome" in cli("settle", "not-done", cwd=root, code=1).stderr
    assert "treated as done" in cli("transcript", cwd=root).stdout
