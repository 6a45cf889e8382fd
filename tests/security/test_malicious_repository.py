"""A repository that wants to run a program on the host: opened, read, edited, accepted, closed; it never does."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import accept_all, request_id, run_turn, running_daemon, send, start_session, trust
from tests.kit.hostile import POISON, TRAPS, Hostile, make_hostile, set_off_poison
from tests.kit.require import require, require_bubblewrap
from tests.kit.workspaces import read_tree

from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import ChangeUndoParams
from gloveport.server.client.connect import Client

EVERY_POISON = {"pyc", "pth", "bin"}


def script(folder: Path, repo: Hostile, *, commands: bool) -> Path:
    """What the model does: look, search, edit, and poison what it can where it may run commands."""
    calls: list[dict[str, Any]] = [
        {"name": "list_files", "arguments": {"pattern": "**"}},
        {"name": "read_file", "arguments": {"path": "notes.txt"}},
        {"name": "search", "arguments": {"pattern": "two"}},
        {"name": "edit_file", "arguments": {"path": "notes.txt", "old": "two\n", "new": "2\n"}},
        {"name": "write_file", "arguments": {"path": "made.txt", "content": "made\n"}},
        {"name": "delete_file", "arguments": {"path": "code.py"}},
    ]
    if commands:
        program = POISON.format(canaries=str(repo.canaries))
        calls.append({"name": "run_command", "arguments": {"argv": ["python3", "-c", program]}})
    path = folder / "script.json"
    steps = [{"when": {"turn": 0}, "calls": calls}, {"text": "Done.\n"}]
    path.write_text(json.dumps({"name": "hostile", "steps": steps}))
    return path


async def work(client: Client, repo: Hostile) -> list[dict[str, Any]]:
    """Open, snapshot, look, edit, show, accept all, undo, accept again, a second session; each call's end by tool."""
    session = await start_session(client, repo.root)
    await send(client, session.session_id, "Do it.")
    assert await run_turn(client, session.session_id) == "completed"
    changes = (await client.call("change/list", SessionParams(session_id=session.session_id))).changes
    assert {each.path for each in changes} == {"notes.txt", "made.txt", "code.py"}
    await accept_all(client, session.session_id)
    undo = ChangeUndoParams(client_request_id=request_id(), session_id=session.session_id)
    await client.call("change/undo", undo)
    await accept_all(client, session.session_id)
    await start_session(client, repo.root)
    follow = client.follow(session.session_id)
    async for _ in follow:
        tools = [item["fields"] for item in follow.view.items() if item["kind"] == "tool"]
        if tools:
            return tools
    raise AssertionError("the stream ended")


@pytest.mark.parametrize("level", [None, "untrusted", "restricted", "trusted"])
async def test_no_program_of_the_repository_runs(tmp_path: Path, level: Any) -> None:
    """Before anything was said of trust, and under each level; git's own files are as they were."""
    require(shutil.which("git") is not None, "git is not installed")
    if level is not None:
        require_bubblewrap()
    repo = make_hostile(tmp_path)
    own = {path: each for path, each in read_tree(repo.root).items() if ".git" in path.split("/")}
    with running_daemon(script(tmp_path, repo, commands=level is not None)) as daemon:
        async with daemon.client() as client:
            if level is not None:
                await trust(client, repo.root, level)
            tools = await work(client, repo)
        if level in ("restricted", "trusted"):  # the others run nothing in this jail
            assert (tools[-1]["state"], tools[-1]["output"]) == ("ok", "poisoned\n")
            (worktree,) = daemon.home.glob("sessions/*/worktree/.venv")
            assert (worktree.parent / "node_modules/.bin/lint").exists()
        assert daemon.stop() == 0
    after = read_tree(repo.root)
    assert (after["notes.txt"][1], after["made.txt"][1], "code.py" in after) == (b"one\n2\nthree\n", b"made\n", False)
    assert {path: each for path, each in after.items() if ".git" in path.split("/")} == own
    assert repo.rang() == set()
    set_off_poison(repo.root)
    assert repo.rang() == set()


@pytest.mark.parametrize("name", sorted(TRAPS))
def test_the_trap_goes_off_for_the_users_git(tmp_path: Path, name: str) -> None:
    """The control: laid the same way, one ordinary command of the user's own git runs the program."""
    require(shutil.which("git") is not None, "git is not installed")
    repo = make_hostile(tmp_path, (name,))
    assert repo.rang() == set()
    TRAPS[name][1](repo)
    assert name in repo.rang()


def test_the_poison_works_where_it_lies(tmp_path: Path) -> None:
    """The control: the same command, run in the user's own folder, is followed by every canary."""
    repo = Hostile(tmp_path / "root", tmp_path / "canaries")
    repo.canaries.mkdir()
    repo.write({"mod.py": "x = 1\n"})
    program = POISON.format(canaries=str(repo.canaries))
    subprocess.run([sys.executable, "-c", program], cwd=repo.root, check=True, timeout=60, capture_output=True)
    set_off_poison(repo.root)
    assert repo.rang() == EVERY_POISON
