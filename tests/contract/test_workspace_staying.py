"""What programs leave where nothing is proposed is found: no less than that, and nothing behind a link."""

import os
import time
from pathlib import Path

import pytest
from tests.kit.workspaces import make_tree

from gloveport.server.workspace import staying
from gloveport.server.workspace.facade import SessionWorkspace

FILES = {".gitignore": b"ign/\n*.log\n", "src/a.py": b"a = 1\n"}
LEFT = ("ign/deep/x", "run.log", "src/run.log", "src/__pycache__/a.pyc", "node_modules/p/x.js")
MANY = 1 << 20
HOUR_US = 3_600_000_000


async def left_in(folder: Path) -> SessionWorkspace:
    """A session in whose worktree a program left `LEFT`, a proposal, and links that lead away."""
    opened = await SessionWorkspace.create(make_tree(folder / "root", FILES), folder / "s")
    for path in (*LEFT, "src/new.py"):
        place = opened.worktree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.encode())
    away = folder / "away"
    away.mkdir()
    (away / "secret").write_bytes(b"secret")
    os.symlink(away, opened.worktree / "ign" / "folder")
    os.symlink(away / "secret", opened.worktree / "ign" / "file")
    os.link(away / "secret", opened.worktree / "ign" / "hard")
    await opened.proposals()
    return opened


async def test_what_is_no_content_is_found_where_it_lies(tmp_path: Path) -> None:
    workspace = await left_in(tmp_path)
    found = {one.path: one.data for one in await workspace.staying(0, MANY, MANY) if one.data is not None}
    assert found == {path: path.encode() for path in LEFT}
    workspace.close()


async def test_what_was_there_before_and_what_is_too_large_is_left_out(tmp_path: Path) -> None:
    workspace = await left_in(tmp_path)
    assert await workspace.staying(time.time_ns() // 1_000 + HOUR_US, MANY, MANY) == ()
    assert {one.path for one in await workspace.staying(0, 8, MANY) if one.data is not None} == {"run.log"}
    assert {one.path for one in await workspace.staying(0, MANY, 12) if one.data is not None} == {"ign/deep/x"}
    workspace.close()


async def test_what_nobody_read_is_named_as_such_and_no_link_is(tmp_path: Path) -> None:
    """Too large, behind the room there is, with another name somewhere; a link leads nowhere and is no content."""
    workspace = await left_in(tmp_path)
    large = {one.path for one in await workspace.staying(0, 8, MANY) if one.is_unseen}
    assert large == {path for path in LEFT if path != "run.log"} | {"ign/hard"}
    assert not {one.path for one in await workspace.staying(0, MANY, MANY) if one.is_unseen} - {"ign/hard"}
    workspace.close()


async def test_no_more_names_are_gone_through_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = await left_in(tmp_path)
    monkeypatch.setattr(staying, "STAYING_FILES_MAX", 0)
    found = await workspace.staying(0, MANY, MANY)
    assert {one.path for one in found if one.data is not None} == {"run.log", "src/run.log"}
    assert {one.path for one in found if one.is_unseen} == {"ign", "src/__pycache__", "node_modules"}
    workspace.close()
