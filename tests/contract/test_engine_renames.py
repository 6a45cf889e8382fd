"""Renames in a real room: proposed as one, decided as one, said as one; and what a card shows of an edit."""

import base64
import subprocess
from collections.abc import Iterator

import pytest
from tests.kit.require import require
from tests.kit.room import Home, Kit, call, new_home
from tests.kit.workspaces import make_tree

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.wire.change import ChangePreviewParams

DONE = {"text": "Done."}
TEXT = "".join(f"line {number}\n" for number in range(1, 31))
PATCH = """*** Begin Patch
*** Update File: a.txt
*** Move to: lib/b.txt
-line 2
+second
*** Update File: plain.py
*** Move to: conftest.py
*** End Patch"""


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with two files that the model moves, one of them with an edit."""
    with new_home() as made:
        made.write(a__txt=TEXT, plain__py="x = 1\n")
        made.play({"when": {"turns_total": 0}, "calls": [call("apply_patch", patch=PATCH)]}, DONE)
        yield made


async def moved(kit: Kit) -> str:
    """A session whose turn has moved the files."""
    session = await kit.begin()
    await kit.send(session)
    await kit.answer(session, await kit.waiting(session))  # conftest.py is asked about
    await kit.idle(session)
    assert await kit.ends(session) == ["ok"]
    return session


async def test_a_rename_is_accepted_undone_and_rejected_as_one(home: Home) -> None:
    """Both names in the proposal, the preview and the patch, which other programs take."""
    require(subprocess.run(["git", "--version"], check=False).returncode == 0, "git is not installed")
    async with home.room() as kit:
        session = await moved(kit)
        changes = await kit.changes(session)
        assert {path: (each.kind, each.renamed_from) for path, each in changes.items()} == {
            "lib/b.txt": ("rename", "a.txt"), "conftest.py": ("rename", "plain.py"),
        }  # fmt: skip
        ask = ChangePreviewParams(session_id=session, change_id=changes["lib/b.txt"].change_id, exact=True)
        preview = await kit.call("change/preview", ask)
        assert "rename from a.txt" in preview.diff
        copy = make_tree(home.root.parent / "copy", {"a.txt": TEXT.encode()})
        patch = base64.b64decode(preview.patch)
        subprocess.run(["git", "apply", "-"], cwd=copy, input=patch, check=True, env={"PATH": "/usr/bin:/bin"})
        await kit.call("change/accept", kit.decision(session, changes["lib/b.txt"]))
        wanted = TEXT.replace("line 2\n", "second\n")
        assert (home.root / "lib" / "b.txt").read_text() == (copy / "lib" / "b.txt").read_text() == wanted
        assert not (home.root / "a.txt").exists()
        assert not (copy / "a.txt").exists()
        assert set((await kit.undo(session)).paths) == {"lib/b.txt"}
        assert (home.root / "a.txt").read_text() == TEXT
        assert not (home.root / "lib").exists()
        await kit.call("change/reject", kit.decision(session, (await kit.changes(session))["lib/b.txt"]))
        assert (home.worktree(session) / "a.txt").read_text() == TEXT


async def test_a_name_that_runs_by_itself_makes_the_rename_one(home: Home) -> None:
    """Either end counts; such a rename is not taken with others."""
    async with home.room() as kit:
        session = await moved(kit)
        changes = await kit.changes(session)
        assert "conftest.py" in (changes["conftest.py"].runs_by_itself or "")
        refused = await kit.refused("change/accept", kit.decision(session, *changes.values()))
        assert refused.code is ErrorCode.POLICY_DENIED
        await kit.call("change/accept", kit.decision(session, changes["conftest.py"]))
        assert (home.root / "conftest.py").read_text() == "x = 1\n"


async def test_a_move_by_a_program_takes_the_deletion_over(home: Home) -> None:
    """First deleted, then found under another name: the deletion is withdrawn as superseded, not as undone."""
    home.play(
        {"when": {"turns_total": 0}, "calls": [call("delete_file", path="a.txt")]},
        {"when": {"turns_total": 2}, "calls": [call("write_file", path="other.txt", content="x")]},
        DONE,
    )
    async with home.room() as kit:
        session = await kit.allowed()
        await kit.idle(session)
        assert (await kit.changes(session))["a.txt"].kind == "delete"
        (home.worktree(session) / "c.txt").write_text(TEXT)
        await kit.send(session)
        await kit.idle(session)
        assert [each["reason"] for each in await kit.bodies(session, "ChangeWithdrawn")] == ["superseded"]
        changes = await kit.changes(session)
        assert (changes["c.txt"].kind, changes["c.txt"].renamed_from) == ("rename", "a.txt")


async def test_a_card_shows_what_an_edit_changes(home: Home) -> None:
    """Asked before the worktree is written: the diff with both names; what is hidden in it is shown."""
    hidden = PATCH.replace("+second", "+sec\u202eond")
    home.play({"when": {"turns_total": 0}, "calls": [call("apply_patch", patch=hidden)]}, DONE)
    async with home.room() as kit:
        session = await kit.begin(None)
        await kit.send(session)
        asked = await kit.waiting(session)
        shown = asked.card["diff"]
        assert "-line 2" in shown
        assert "a.txt → lib/b.txt" in shown
        assert any(line.startswith("+sec") and "\u202e" not in line and "202e" in line.lower() for line in shown)
        assert {"delete", "write"} == {one["kind"] for one in asked.card["effects"]}
        assert {one["target"] for one in asked.card["effects"]} == {"a.txt", "lib/b.txt", "plain.py", "conftest.py"}
