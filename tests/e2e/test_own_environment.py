"""A project with an environment of its own: its interpreter, its packages, its editable install."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import run_turn, running_daemon, send, start_session, trust
from tests.kit.require import require_bubblewrap

BEFORE = "def add(a, b):\n    return a - b\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A src layout with a `.venv` that holds this run's packages and an editable install of the project."""
    root = tmp_path / "calc project"
    (root / "src" / "calc").mkdir(parents=True)
    (root / "src" / "calc" / "__init__.py").write_text(BEFORE)
    (root / "tests").mkdir()
    (root / "tests" / "test_calc.py").write_text(
        "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
    )
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / ".venv")], check=True)
    packages = next((root / ".venv").glob("lib/python3*/site-packages"))
    (packages / "calc.pth").write_text(f"{root / 'src'}\n")
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py"):
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        source = Path(found.origin)
        if source.name == "__init__.py":
            shutil.copytree(source.parent, packages / name)
        else:
            shutil.copy(source, packages)
    return root


@pytest.mark.parametrize("rung", ["bubblewrap", "process"])
async def test_the_copy_is_tested_with_the_projects_own_packages(project: Path, tmp_path: Path, rung: str) -> None:
    """Red before the edit, green after it, in each rung; the user's own source stays as it was."""
    if rung == "bubblewrap":
        require_bubblewrap()
    edit = {"path": "src/calc/__init__.py", "old": "a - b", "new": "a + b"}
    steps: list[dict[str, Any]] = [
        {"when": {"turn": 0}, "calls": [{"name": "run_tests", "arguments": {}}]},
        {"when": {"turn": 1}, "calls": [{"name": "edit_file", "arguments": edit}]},
        {"when": {"turn": 2}, "calls": [{"name": "run_tests", "arguments": {}}]},
        {"text": "Done."},
    ]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"name": "own", "steps": steps}))
    with running_daemon(script) as daemon:
        async with daemon.client() as client:
            await trust(client, project, "trusted")
            session = await start_session(client, project, sandbox=rung)
            await send(client, session.session_id, "go")
            assert await run_turn(client, session.session_id) == "completed"
            follow = client.follow(session.session_id)
            await anext(follow)
    runs = [item["fields"] for item in follow.view.items() if item["kind"] == "tests"]
    results = [item["fields"]["result"] for item in follow.view.items() if item["kind"] == "tool"]
    assert [(run["passed"], run["failed"]) for run in runs] == [(0, 1), (1, 0)], results
    assert (project / "src/calc/__init__.py").read_text() == BEFORE
