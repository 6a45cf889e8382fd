"""Faults that users met elsewhere with edits, each from the model's call to the user's file."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
import unidiff
from tests.kit.workspaces import part, propose, read_tree, whole
from tests.unit.test_tools import TOOLS, bench, judged, refusal, use

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.edit.replace import hash_of
from gloveport.server.tools.contract import ToolContext, parse


async def accept_all(context: ToolContext) -> Any:
    """Accept everything that is pending."""
    workspace = context.workspace
    return await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))


async def reject_all(context: ToolContext) -> Any:
    """Reject everything that is pending."""
    workspace = context.workspace
    return await workspace.apply(await workspace.plan_reject(whole(*await workspace.proposals())))


PATCHED = "*** Begin Patch\n*** Update File: f\n alpha\n+mid\n beta\n*** End Patch"
DIFFED = "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n alpha\n+mid\n beta\n"


@pytest.mark.parametrize(("tool", "arguments"), [
    ("edit_file", {"path": "f", "old": "alpha\n", "new": "alpha\nmid\n"}), ("apply_patch", {"patch": PATCHED}),
    ("apply_diff", {"diff": DIFFED}), ("write_file", {"path": "f", "content": "alpha\nmid\nbeta\n"}),
    ("multi_edit", {"path": "f", "edits": [{"old": "beta", "new": "mid\nbeta"}]}),
])  # fmt: skip
async def test_a01_a_line_put_into_a_crlf_file(tmp_path: Path, tool: str, arguments: dict[str, Any]) -> None:
    """By every tool: the new line ends like its neighbours, and the shown diff is the diff of the files on disk."""
    async with bench(tmp_path, f="alpha\r\nbeta\r\n") as context:
        await use(context, tool, **arguments)
        (proposal,) = await context.workspace.proposals()
        shown = (await context.workspace.preview(proposal.change_id)).diff
        (changed,) = unidiff.PatchSet(io.StringIO(shown))
        assert [str(line) for hunk in changed for line in hunk] == [" alpha\n", "+mid\n", " beta\n"]
        await accept_all(context)
        assert (context.workspace.root / "f").read_bytes() == b"alpha\r\nmid\r\nbeta\r\n"


@pytest.mark.parametrize("data", [
    b"word 1\n" + b"".join(b"line %d\n" % number for number in range(2, 999)) + b"caf\x99\n",
    "名前 = 1\nword 1\n".encode("gb2312"),
    "word 1\r\nzwei\r\n".encode("utf-16"), "word 1\nand more of it\n".encode("utf-16-le"),
])  # fmt: skip
async def test_a02_one_word_in_a_file_of_another_encoding(tmp_path: Path, data: bytes) -> None:
    """Only its bytes change; a write of all of it that would lose letters is refused before anything is written."""
    async with bench(tmp_path) as context:
        (context.workspace.root / "f").write_bytes(data)
        await context.workspace.refresh()
        plain = await use(context, "read_file", path="f")
        assert "word 1" in plain.text
        await use(context, "edit_file", path="f", old="word 1", new="name 1")
        await accept_all(context)
        now = (context.workspace.root / "f").read_bytes()
        wide = b"\0" in data
        word, name = (text.encode("utf-16-le") if wide else text.encode() for text in ("word 1", "name 1"))
        assert now == data.replace(word, name, 1)
        if not wide:
            assert await refusal(context, "write_file", path="f", content="all new\n") is ErrorCode.EDIT_ENCODING
            assert (context.workspace.worktree / "f").read_bytes() == now


async def test_a03_mark_and_last_newline(tmp_path: Path) -> None:
    """The mark is there once after an edit and after a rewrite; a newline alone is a real change, shown as one."""
    async with bench(tmp_path, bom="\ufeffone\ntwo\n", x="x", xn="x\n") as context:
        await use(context, "edit_file", path="bom", old="one", new="1")
        assert await context.workspace.read("bom") == b"\xef\xbb\xbf1\ntwo\n"
        await use(context, "write_file", path="bom", content="all\n")
        assert await context.workspace.read("bom") == b"\xef\xbb\xbfall\n"
        for path, end in (("x", b""), ("xn", b"\n")):
            await use(context, "edit_file", path=path, old="x", new="y")
            assert await context.workspace.read(path) == b"y" + end
        await accept_all(context)
        await use(context, "edit_file", path="x", old="y", new="y\n")
        (proposal,) = await context.workspace.proposals()
        assert "\\ No newline at end of file" in (await context.workspace.preview(proposal.change_id)).diff
        await accept_all(context)
        assert (context.workspace.root / "x").read_bytes() == b"y\n"


async def test_a04_success_means_the_hash_that_was_shown(tmp_path: Path) -> None:
    """The plan's hash, the file's and the accepted file's are one."""
    async with bench(tmp_path, f="a\nb\n") as context:
        tool = TOOLS.find("edit_file")
        parsed = parse(tool.arguments, json.dumps({"path": "f", "old": "b", "new": "c"}))
        plan = await tool.plan(parsed, context)
        done = await tool.perform(parsed, judged(context, plan))
        assert plan.fingerprint[0].result_hash == hash_of(b"a\nc\n")
        assert str(plan.fingerprint[0].result_hash) in done.evidence
        await accept_all(context)
        assert hash_of((context.workspace.root / "f").read_bytes()) == plan.fingerprint[0].result_hash


async def test_a06_lines_of_the_users_in_a_new_file_survive(tmp_path: Path) -> None:
    """Accepted, three lines added by the user, then undone and everything rejected: the lines stay."""
    async with bench(tmp_path) as context:
        await use(context, "write_file", path="new.py", content="made = 1\n")
        done = await accept_all(context)
        mine = context.workspace.root / "new.py"
        mine.write_bytes(b"made = 1\na\nb\nc\n")
        await context.workspace.apply(await context.workspace.plan_undo(done.record))
        assert mine.read_bytes() == b"a\nb\nc\n"
        await context.workspace.refresh()
        await reject_all(context)
        assert mine.read_bytes() == (context.workspace.worktree / "new.py").read_bytes() == b"a\nb\nc\n"


async def test_a06_deleted_and_made_anew_then_rejected(tmp_path: Path) -> None:
    """The original comes back byte for byte; a reject of all is itself undone."""
    async with bench(tmp_path, a__py="one\r\ntwo", b="bee\n") as context:
        await use(context, "delete_file", path="a.py")
        await use(context, "write_file", path="a.py", content="new\n")
        await use(context, "write_file", path="c", content="sea\n")
        await use(context, "delete_file", path="b")
        before = read_tree(context.workspace.worktree)
        done = await reject_all(context)
        assert read_tree(context.workspace.worktree) == read_tree(context.workspace.root)
        assert (context.workspace.worktree / "a.py").read_bytes() == b"one\r\ntwo"
        await context.workspace.apply(await context.workspace.plan_undo(done.record))
        assert read_tree(context.workspace.worktree) == before


async def test_a09_a_touched_file_is_not_a_changed_one(tmp_path: Path) -> None:
    """Only the time moved, before the write and before the accept; other bytes are one clear conflict."""
    async with bench(tmp_path, f="a\nb\n") as context:
        tool = TOOLS.find("edit_file")
        parsed = parse(tool.arguments, json.dumps({"path": "f", "old": "b", "new": "c"}))
        allowed = judged(context, await tool.plan(parsed, context))
        os.utime(context.workspace.worktree / "f", (1, 1))
        await tool.perform(parsed, allowed)
        os.utime(context.workspace.root / "f", (2, 2))
        found = await propose(context.workspace)
        await context.workspace.apply(await context.workspace.plan_accept(part(found["f"], 0)))
        assert (context.workspace.root / "f").read_bytes() == b"a\nc\n"
        parsed = parse(tool.arguments, json.dumps({"path": "f", "old": "c", "new": "d"}))
        allowed = judged(context, await tool.plan(parsed, context))
        (context.workspace.worktree / "f").write_bytes(b"a\n  c\n")  # a formatter came between
        with pytest.raises(GloveportError) as refused:
            await tool.perform(parsed, allowed)
        assert refused.value.code is ErrorCode.CHANGE_CONFLICT
        assert (context.workspace.worktree / "f").read_bytes() == b"a\n  c\n"


async def test_a10_an_edit_through_a_link_keeps_link_and_mode(tmp_path: Path) -> None:
    """The target changes, the link stays one, the script may still run; one that leads out is refused."""
    async with bench(tmp_path, real__md="one\n", run__sh="#!/bin/sh\necho 1\n") as context:
        root = context.workspace.root
        (root / "link.md").symlink_to("real.md")
        (root / "run.sh").chmod(0o755)
        await context.workspace.refresh()
        (context.workspace.worktree / "out").symlink_to("/etc/hostname")
        await use(context, "edit_file", path="link.md", old="one", new="two")
        await use(context, "edit_file", path="run.sh", old="echo 1", new="echo 2")
        assert await refusal(context, "edit_file", path="out", old="a", new="b") is ErrorCode.OUTSIDE_WORKSPACE
        assert {path: each.kind for path, each in (await propose(context.workspace)).items()} == {
            "real.md": "modify", "run.sh": "modify",
        }  # fmt: skip
        done = await accept_all(context)
        assert (root / "link.md").is_symlink()
        assert (root / "real.md").read_bytes() == b"two\n"
        assert (root / "run.sh").stat().st_mode & 0o777 == 0o755
        await context.workspace.apply(await context.workspace.plan_undo(done.record))
        assert (root / "link.md").is_symlink()
        assert (root / "run.sh").stat().st_mode & 0o777 == 0o755
