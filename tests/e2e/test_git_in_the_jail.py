"""The agent asks git what it changed: in the jail, of a repository of the session's own."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.kit.daemon import run_turn, running_daemon, send, start_session, trust
from tests.kit.require import require, require_bubblewrap
from tests.kit.workspaces import make_tree, read_tree


async def test_git_diff_in_the_jail_shows_the_edit(tmp_path: Path) -> None:
    """Branch, state and difference; the secret is in no object; the user's folder stays as it was."""
    require_bubblewrap()
    require(shutil.which("git") is not None, "git is not installed")
    root = make_tree(tmp_path / "project", {"a.py": b"one\n", "b.py": b"b\n", ".env": b"TOKEN=abc\n"})
    subprocess.run(["git", "init", "--quiet", "--initial-branch=topic"], cwd=root, check=True)
    before = read_tree(root)
    commands = (
        ["git", "status", "--short", "--branch"],
        ["git", "diff", "--no-color", "-U0"],
        ["git", "ls-tree", "-r", "--name-only", "HEAD"],
    )
    edit = {"path": "a.py", "old": "one", "new": "two"}
    calls = [{"name": "run_command", "arguments": {"argv": words}} for words in commands]
    steps: list[dict[str, Any]] = [
        {"when": {"turn": 0}, "calls": [{"name": "edit_file", "arguments": edit}]},
        *({"when": {"turn": turn}, "calls": [call]} for turn, call in enumerate(calls, 1)),
        {"text": "Done."},
    ]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"name": "own", "steps": steps}))
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, root, "trusted")
            session = await start_session(client, root)
            await send(client, session.session_id, "go")
            assert await run_turn(client, session.session_id) == "completed"
            follow = client.follow(session.session_id)
            await anext(follow)
    status, diff, tree = [item["fields"]["result"] for item in follow.view.items() if item["kind"] == "tool"][1:]
    assert status.startswith("## topic\n M a.py\n\n[exit code 0"), status
    assert "-one\n+two\n" in diff
    assert tree.startswith("a.py\nb.py\n\n[exit code 0"), tree
    assert read_tree(root) == before
