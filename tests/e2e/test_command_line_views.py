"""usage, trace, plan, task, transcript, samples, metrics as a user types them: beside a daemon and without one."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.kit.command_line import STEPS, Cli, lines_of, run_json

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.methods import METHODS

TOKEN = "ghp_" + "a1B2" * 9
PLAN = {"name": "update_plan", "arguments": {"items": [{"text": "look", "status": "running"}]}}
PLAYED = [{"when": {"user_contains": "plan", "turn": 0}, "calls": [PLAN]}, *STEPS]


def object_of(cli: Cli, *words: str, cwd: Path) -> dict[str, Any]:
    """The one object that a command prints."""
    (told,) = lines_of(cli(*words, "--json", cwd=cwd))
    return told


@pytest.mark.parametrize("method", ["usage/show", "sample/list", "session/transcript", "metrics/show"])
async def test_a_session_that_does_not_exist_is_told_as_such(cli: Cli, method: Any) -> None:
    """Over the wire: a typed error, whichever view is asked for."""
    async with cli.daemon.client() as client:
        with pytest.raises(GloveportError) as refused:
            await client.call(method, METHODS[method].params.model_validate({"session_id": "session-none"}))
    assert refused.value.code is ErrorCode.SESSION_UNKNOWN


def test_usage_is_unpriced_where_there_is_no_price(cli: Cli, root: Path) -> None:
    """The scripted model costs nothing that a list could know: unpriced, never $0."""
    run_json(cli, root, "edit")
    told = object_of(cli, "usage", cwd=root)
    assert told["total"]["costNanoUsd"] is None
    assert told["total"]["unpriced"] == told["total"]["requests"] == 2
    assert [row["name"] for row in told["byModel"]] == ["scripted/test"]
    shown = cli("usage", cwd=root).stdout
    assert "unpriced" in shown
    assert "$" not in shown


def test_r8_2_the_parts_of_a_turn_sum_up_to_its_time(cli: Cli, root: Path) -> None:
    """As JSON and in words: every call on its line."""
    run_json(cli, root, "edit")
    (turn,) = object_of(cli, "trace", cwd=root)["turns"]
    assert sum(turn["parts"].values()) == turn["durationUs"] > 0
    assert [line["kind"] for line in turn["lines"]].count("call") == 3
    shown = cli("trace", cwd=root).stdout
    assert "edit_file" in shown
    assert "completed" in shown


def test_plan_and_task_say_where_it_stands(cli: Cli, root: Path) -> None:
    """A plan with its step; a session at rest; one that waits for an answer."""
    run_json(cli, root, "plan it")
    assert "running  look" in cli("plan", cwd=root).stdout
    assert "idle" in cli("task", cwd=root).stdout
    run_json(cli, root, "run", code=5)
    task = object_of(cli, "task", cwd=root)
    assert task["phase"] == "waiting"
    assert [one["kind"] for one in task["waiting"]] == ["approval"]
    assert "waits: approval" in cli("task", cwd=root).stdout
    cli("cancel", cwd=root)


def test_transcript_and_samples_are_redacted_unless_asked(cli: Cli, root: Path) -> None:
    """What looks like a credential is taken out of both, and left in with --raw."""
    run_json(cli, root, f"edit {TOKEN}")
    for command in ("transcript", "samples"):
        assert TOKEN not in cli(command, cwd=root).stdout
        assert TOKEN in cli(command, "--raw", cwd=root).stdout
    (sample,) = lines_of(cli("samples", cwd=root))
    assert [call["outcome"] for call in sample["calls"]] == ["ok"] * 3
    cli("accept", "--unseen", cwd=root)
    (sample,) = lines_of(cli("samples", cwd=root))
    assert sample["hunks"] == {"accepted": 3}
    told = cli("transcript", "--format", "plain", cwd=root).stdout
    assert "written into your files" in told
    assert "## You" not in told
    assert "## You" in cli("transcript", cwd=root).stdout
    assert "html" in cli("transcript", "--format", "html", code=2, cwd=root).stderr


def test_the_log_tells_the_same_without_a_daemon(cli: Cli, root: Path) -> None:
    """Every view, read from the files: the daemon's own answer, the data left as it was."""
    session = run_json(cli, root, "edit")[-1]["sessionId"]
    commands = (
        ("usage", "--json"), ("trace", "--json"), ("plan", "--json"), ("task", "--json"), ("transcript",), ("samples",),
        ("metrics", "--json"),
    )  # fmt: skip
    asked = {words: cli(*words[:1], session, *words[1:]).stdout for words in commands}
    assert all(asked.values())
    beside = {words: cli(*words[:1], session, *words[1:], "--offline").stdout for words in commands}
    assert beside == asked
    cli.stop_daemon()
    before = sorted(path.name for path in cli.daemon.home.iterdir())
    alone = {words: cli(*words[:1], session, *words[1:], "--offline").stdout for words in commands}
    assert alone == asked
    assert sorted(path.name for path in cli.daemon.home.iterdir()) == before
    assert "edit" in cli("show", session, "--offline").stdout
    assert sorted(path.name for path in cli.daemon.home.iterdir()) == before
    assert "no session" in cli("usage", "nope", "--offline", code=1).stderr
    assert "no session" in cli("usage", "nope", code=1).stderr


def test_sessions_are_found_by_what_was_said(cli: Cli, root: Path) -> None:
    """In words and as JSON, in this folder alone; a word that nobody said is told as such."""
    session = run_json(cli, root, "edit the gazebo")[-1]["sessionId"]
    (told,) = lines_of(cli("search", "GAZEBO", "--root", str(root), "--json"))
    assert [one["session"]["sessionId"] for one in told["found"]] == [session]
    assert "› edit the gazebo" in cli("search", "gazebo", "edit").stdout
    assert "None of" in cli("search", "gazebo", "--root", str(root.parent)).stdout


def test_metrics_of_all_sessions_together(cli: Cli, root: Path) -> None:
    """As many sessions as there are; rates with both counts."""
    run_json(cli, root, "edit")
    (told,) = lines_of(cli("metrics", "--json"))
    assert told["sessions"] >= 1
    assert {rate["name"] for rate in told["rates"]} >= {"accepted hunks undone", "questions denied"}
    assert json.dumps(told).count("p99Us") >= 4
    assert "stop to released" in cli("metrics").stdout
