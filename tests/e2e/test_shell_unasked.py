"""What a command line of the agent is asked about, in the real daemon and the real sandbox."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.kit.daemon import run_turn, running_daemon, send, start_session, trust
from tests.kit.require import require_bubblewrap


def script_for(path: Path, *commands: list[str]) -> Path:
    """A model that runs these, one after the other."""
    calls = [{"name": "run_command", "arguments": {"argv": argv}} for argv in commands]
    path.write_text(json.dumps({"name": "s", "steps": [{"when": {"turn": 0}, "calls": calls}, {"text": "Done."}]}))
    return path


async def told(
    tmp_path: Path, root: Path, *commands: list[str], level: str = "restricted", rung: str = "bubblewrap"
) -> tuple[int, list[dict[str, Any]]]:
    """How many cards there were, and what became of each call."""
    with running_daemon(script_for(tmp_path / "script.json", *commands)) as daemon:
        async with daemon.client() as client:
            await trust(client, root, level)
            session = await start_session(client, root, provider="scripted", model="test", sandbox=rung)
            await send(client, session.session_id, "look around")
            assert await run_turn(client, session.session_id) == "completed"
            follow = client.follow(session.session_id)
            await anext(follow)
        found = follow.view.items()
    cards = [item for item in found if item["kind"] == "approval"]
    return len(cards), [item["fields"] for item in found if item["kind"] == "tool"]


async def test_a_line_that_only_looks_runs_unasked(tmp_path: Path) -> None:
    """Pipes, folders and quoted words included; the program is the system's, not the one that lies in the folder."""
    require_bubblewrap()
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("import os\nimport sys\n")
    planted = root / "cat"
    planted.write_text("#!/bin/sh\necho PLANTED\n")
    planted.chmod(0o755)
    asked, calls = await told(
        tmp_path,
        root,
        ["bash", "-c", "cd src && grep -n 'import' a.py | wc -l"],
        ["cat", "src/a.py"],
        ["timeout", "5", "head", "-1", f"{root}/src/a.py"],
    )
    assert asked == 0
    assert ["exit code 0" in call["result"] for call in calls] == [True, True, True]
    assert calls[0]["result"].startswith("2")
    assert "PLANTED" not in calls[1]["result"]


async def test_a_line_that_may_do_more_is_asked_about(tmp_path: Path) -> None:
    """Each of them once; a link that leads to a secret is no way around it."""
    require_bubblewrap()
    root = tmp_path / "root"
    root.mkdir()
    (root / ".env").write_text("TOKEN=abc\n")
    (root / "cat").write_text("#!/bin/sh\necho PLANTED\n")
    (root / "cat").chmod(0o755)
    os.symlink(".env", root / "notes")
    commands = [
        ["bash", "-c", "ls; touch made"],
        ["bash", "-c", "echo $(id)"],
        ["./cat", "a"],
        ["cat", "notes"],
        ["bash", "-c", "cat notes | head"],
        ["find", ".", "-delete"],
    ]
    asked, calls = await told(tmp_path, root, *commands)
    assert asked == len(commands) == len(calls)


async def test_b03_git_is_asked_about_once_its_settings_are_somebody_elses(tmp_path: Path) -> None:
    """In the repository that was made for the session git looks unasked; after a program changed it, it asks."""
    require_bubblewrap()
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    look = ["git", "status", "--short"]
    asked, calls = await told(tmp_path, root, look, look)
    assert asked == 0
    assert ["exit code 0" in call["result"] for call in calls] == [True, True]
    for bend in (["git", "config", "core.fsmonitor", "./x"], ["git", "config", "core.fsmonitor", "./x", "--get"]):
        asked, calls = await told(tmp_path, root, look, bend, look)
        assert asked == 2, bend
        assert len(calls) == 3


async def test_without_a_view_of_its_own_even_a_look_is_asked_about(tmp_path: Path) -> None:
    """On the rung `process` one that only looks reaches other processes and files outside; in the jail it runs."""
    require_bubblewrap()
    root = tmp_path / "root"
    root.mkdir()
    for rung, cards in (("process", 1), ("bubblewrap", 0)):
        asked, _calls = await told(tmp_path, root, ["ps", "-e"], level="trusted", rung=rung)
        assert (rung, asked) == (rung, cards)
