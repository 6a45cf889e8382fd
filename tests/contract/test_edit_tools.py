"""The changing tools over a real worktree: all files of a call or none, both ends judged, previewed hashes written."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.workspaces import make_tree, propose, read_tree, whole
from tests.unit.test_tools import TOOLS, bench, judged, refusal, use

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.edit.names import TEMP_PREFIX
from gloveport.server.edit.replace import hash_of
from gloveport.server.tools.contract import ToolContext, ToolPlan, parse
from gloveport.server.workspace.facade import SessionWorkspace

FOUR = "def a():\n    x = 1\n    return x\n\ndef b():\n    x = 1\n    return x\n"


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[ToolContext]:
    """A worktree with a few files, one of them a script, one a link, one a secret."""
    async with bench(tmp_path, a="one\ntwo\nthree\n", b="bee\n", four__py=FOUR, __env="TOKEN=abc\nMORE=1\n") as made:
        (made.workspace.worktree / "a").chmod(0o755)
        (made.workspace.worktree / "link").symlink_to("b")
        (made.workspace.worktree / "bytes").write_bytes(b"\x00\xff\x00")
        yield made


def tree(context: ToolContext) -> dict[str, tuple[int, bytes]]:
    """What the worktree holds."""
    return read_tree(context.workspace.worktree)


async def plan_of(context: ToolContext, name: str, **arguments: Any) -> ToolPlan:
    """What a call would do."""
    tool = TOOLS.find(name)
    return await tool.plan(parse(tool.arguments, json.dumps(arguments)), context)


PATCH = """*** Begin Patch
*** Update File: a
-two
+TWO
*** Update File: b
*** Move to: sub/c
-bee
+sea
*** Add File: new
+fresh
*** Delete File: bytes
*** End Patch"""
DIFF = """diff --git a/a b/a
old mode 100755
new mode 100644
--- a/a
+++ b/a
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
diff --git a/b b/sub/c
rename from b
rename to sub/c
--- a/b
+++ b/sub/c
@@ -1 +1 @@
-bee
+sea
diff --git a/new b/new
new file mode 100755
--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+fresh
"""


@pytest.mark.parametrize(("name", "field", "text"), [("apply_patch", "patch", PATCH), ("apply_diff", "diff", DIFF)])
async def test_a_patch_changes_all_of_its_files(context: ToolContext, name: str, field: str, text: str) -> None:
    """Updated, moved with an edit, added, deleted; modes as they were, or as the diff says; hashes as planned."""
    plan = await plan_of(context, name, **{field: text})
    done = await use(context, name, **{field: text})
    after = tree(context)
    in_diff = name == "apply_diff"
    assert after["a"] == (0o644 if in_diff else 0o755, b"one\nTWO\nthree\n")
    assert after["sub/c"] == (0o644, b"sea\n")
    assert after["new"] == (0o755 if in_diff else 0o644, b"fresh\n")
    assert ("b" in after, "bytes" in after) == (False, in_diff)
    for mark in plan.fingerprint:
        assert (hash_of(after[mark.path][1]) if mark.path in after else None) == mark.result_hash
    assert "b moved to sub/c written" in done.text
    effects = {(one.kind, one.target) for one in plan.effects}
    assert {("write", "a"), ("delete", "b"), ("write", "sub/c"), ("write", "new")} <= effects
    assert {"-two", "+TWO", "b → sub/c", "-bee", "+sea"} <= set(plan.diff.split("\n"))
    found = await propose(context.workspace)
    assert (found["sub/c"].kind, found["sub/c"].renamed_from) == ("rename", "b")


BAD = [
    PATCH.replace("-bee", "-bees"), PATCH.replace("*** Add File: new", "*** Add File: four.py"),
    PATCH.replace("sub/c", "four.py"), PATCH.replace("*** Delete File: bytes", "*** Delete File: absent"),
    PATCH.replace("*** Add File: new", "*** Add File: a"), PATCH.replace("*** Add File: new", "*** Add File: ../x"),
    PATCH.replace("*** Add File: new", "*** Add File: .git/hooks/x"),
    PATCH.replace("*** Add File: new", "*** Add File: A"),
    PATCH.replace("*** Add File: new", "*** Add File: a/x"), PATCH.replace("*** Add File: new", "*** Add File: link"),
]  # fmt: skip


@pytest.mark.parametrize("patch", BAD)
async def test_a11_one_file_that_cannot_be_changed_leaves_all_as_they_were(context: ToolContext, patch: str) -> None:
    """A hunk that does not match, a destination that is there, a name that may not be: nothing is written."""
    before = tree(context)
    code = await refusal(context, "apply_patch", patch=patch)
    assert code is not ErrorCode.INTERNAL
    assert tree(context) == before
    assert not [name for name in os.listdir(context.workspace.worktree) if name.startswith(".gloveport")]


async def test_a11_a_move_never_lands_on_a_file(context: ToolContext) -> None:
    """The file at the new path is kept; a free path takes bytes, mode, and links as links."""
    before = tree(context)
    assert await refusal(context, "move_file", path="a", to="b") is ErrorCode.CHANGE_CONFLICT
    assert await refusal(context, "move_file", path="absent", to="x") is ErrorCode.FILE_MISSING
    assert await refusal(context, "move_file", path="a", to="node_modules/x") is ErrorCode.PROTECTED_PATH
    assert tree(context) == before
    for old, new in (("a", "deep/er/a2"), ("link", "lnk"), ("bytes", "Bytes")):
        await use(context, "move_file", path=old, to=new)
        assert tree(context)[new] == before[old]
        assert old not in tree(context)


async def test_a11_a_move_of_case_alone(context: ToolContext) -> None:
    """The file is kept, and proposed as what it is."""
    await use(context, "move_file", path="b", to="B")
    found = await propose(context.workspace)
    assert (found["B"].kind, found["B"].renamed_from) == ("case_rename", "b")
    assert tree(context)["B"][1] == b"bee\n"


async def test_a_moved_file_stays_a_rename_whatever_is_written_into_it(context: ToolContext) -> None:
    """Also over two moves, after a restart, and not any more when it is moved back."""
    await use(context, "move_file", path="a", to="x")
    await use(context, "move_file", path="x", to="y")
    await use(context, "write_file", path="y", content="nothing of it\n")
    workspace = context.workspace
    assert {path: each.renamed_from for path, each in (await propose(workspace)).items() if path == "y"} == {"y": "a"}
    again = await SessionWorkspace.open(workspace.session_dir)
    assert (await propose(again))["y"].renamed_from == "a"
    again.close()
    await use(context, "move_file", path="y", to="a")
    assert (await propose(workspace))["a"].kind == "modify"


async def test_several_edits_are_made_together(context: ToolContext) -> None:
    """In order, each on what the one before left; one that does not match leaves the file as it was."""
    edits = [{"old": "one", "new": "1"}, {"old": "1\ntwo", "new": "12"}, {"old": "e", "new": "E", "replace_all": True}]
    await use(context, "multi_edit", path="a", edits=edits)
    assert tree(context)["a"] == (0o755, b"12\nthrEE\n")
    with pytest.raises(GloveportError) as caught:
        await use(context, "multi_edit", path="a", edits=[{"old": "12", "new": "x"}, {"old": "12", "new": "y"}])
    assert "edit 2 of 2" in caught.value.message
    assert tree(context)["a"] == (0o755, b"12\nthrEE\n")


async def test_a04_a_refusal_names_the_places_that_may_be_meant(context: ToolContext) -> None:
    """With their lines, in the words that the model is told."""
    with pytest.raises(GloveportError) as caught:
        await use(context, "edit_file", path="four.py", old="    return x", new="    return 2")
    assert "line 3:     return x" in caught.value.advice
    assert "line 7:     return x" in caught.value.advice


async def test_a_secret_shows_neither_lines_nor_a_match_before_it_is_asked(context: ToolContext) -> None:
    """A patch of a kept file plans alike whether its lines match or not, and its diff is not on the card."""
    plans = []
    for line in ("TOKEN=abc", "TOKEN=wrong"):
        patch = f"*** Begin Patch\n*** Update File: .env\n-{line}\n+TOKEN=x\n*** End Patch"
        plans.append(await plan_of(context, "apply_patch", patch=patch))
    assert [plan.diff for plan in plans] == [".env: not shown here, as it may hold secrets"] * 2
    assert plans[0].title == plans[1].title
    assert plans[0].effects == plans[1].effects
    moved = await plan_of(context, "move_file", path=".env", to="plain.txt")
    assert "abc" not in moved.diff
    assert ("read", ".env") in {(one.kind, one.target) for one in moved.effects}


async def test_what_changed_since_the_plan_is_not_written_over(context: ToolContext) -> None:
    """Neither when a file of the patch moved on, nor when a destination was taken."""
    tool = TOOLS.find("apply_patch")
    parsed = parse(tool.arguments, json.dumps({"patch": PATCH}))
    for path, text in (("b", b"bee\nmore\n"), ("sub/c", b"mine\n")):
        allowed = judged(context, await tool.plan(parsed, context))
        make_tree(context.workspace.worktree, {path: text})
        before = tree(context)
        with pytest.raises(GloveportError) as caught:
            await tool.perform(parsed, allowed)
        assert caught.value.code is ErrorCode.CHANGE_CONFLICT
        assert tree(context) == before
        make_tree(context.workspace.worktree, {"b": b"bee\n"})


async def test_a16_a_cell_of_a_notebook(tmp_path: Path) -> None:
    """24 cells with pictures: one changed, one put in at the top; rejected, the file is what it was, byte for byte."""
    cells = [
        {"cell_type": "code", "execution_count": n, "id": f"c{n}", "metadata": {"widgets": {"state": n}},
         "outputs": [{"data": {"image/png": "iVBOR" * 500}, "metadata": {}, "output_type": "display_data"}],
         "source": [f"x = {n}\n", "show(x)"]}
        for n in range(24)
    ]  # fmt: skip
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"
    async with bench(tmp_path, book__ipynb=text) as context:
        await use(context, "edit_notebook", path="book.ipynb", action="replace", cell=7, source="y = 1")
        await use(
            context, "edit_notebook", path="book.ipynb", action="insert", cell=1, source="# top", cell_type="markdown"
        )
        found = json.loads(await context.workspace.read("book.ipynb"))["cells"]
        assert [each for at, each in enumerate(found[1:]) if at != 6] == [
            each for at, each in enumerate(cells) if at != 6
        ]
        assert found[7]["outputs"] == cells[6]["outputs"]
        (proposal,) = await context.workspace.proposals()
        assert len(proposal.hunks) == 2
        assert (
            await refusal(context, "edit_notebook", path="book.ipynb", action="delete", cell=30)
            is ErrorCode.EDIT_NO_MATCH
        )
        assert await refusal(context, "edit_notebook", path="book.ipynb", action="delete", cell=1, cell_id="no") is (
            ErrorCode.EDIT_NO_MATCH
        )
        await context.workspace.apply(await context.workspace.plan_reject(whole(proposal)))
        assert await context.workspace.read("book.ipynb") == text.encode()
        assert await context.workspace.proposals() == ()


async def test_a_patch_that_was_done_by_half_is_put_back(context: ToolContext) -> None:
    """As after a kill between two files: the call is found not begun, and every file is what it was."""
    tool = TOOLS.find("apply_patch")
    parsed = parse(tool.arguments, json.dumps({"patch": PATCH}))
    plan = await tool.plan(parsed, context)
    before = tree(context)
    await tool.perform(parsed, judged(context, plan))
    worktree = context.workspace.worktree
    make_tree(worktree, {"b": b"bee\n"})
    (worktree / "sub" / "c").unlink()
    (worktree / f"{TEMP_PREFIX}309700934096e5ed-0").write_bytes(b"hal")
    found = await tool.reconcile(parsed, plan.fingerprint, context)
    assert found.finding == "not_started"
    assert {path: data for path, (_, data) in tree(context).items()} == {
        path: data for path, (_, data) in before.items()
    }
    assert tree(context)["a"][0] == 0o755
