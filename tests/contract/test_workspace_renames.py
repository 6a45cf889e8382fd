"""Renames on real folders: one proposal, both ends decided together, bytes and attributes kept."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.workspaces import make_tree, part, propose, quick_folder, read_tree, whole

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.workspace.facade import SessionWorkspace

TEXT = b"".join(b"line %d\r\n" % number for number in range(20))
FILES = {"src/old.py": TEXT, "Foo.py": b"x = 1\n", "data.bin": b"\x00\x01\x02", "stay.txt": b"stay\n"}


@pytest.fixture
async def workspace() -> AsyncIterator[SessionWorkspace]:
    """A session over FILES with a script and a link."""
    with quick_folder() as folder:
        root = make_tree(folder / "root", FILES)
        (root / "src" / "old.py").chmod(0o755)
        (root / "link").symlink_to("src/old.py")
        opened = await SessionWorkspace.create(root, folder / "session")
        yield opened
        opened.close()


def move(workspace: SessionWorkspace, old: str, new: str, edit: bytes = b"") -> None:
    """As a program of the agent does it."""
    source, target = workspace.worktree / old, workspace.worktree / new
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
    if edit:
        target.write_bytes(edit)


async def test_moves_of_a_program_are_one_proposal_each(workspace: SessionWorkspace) -> None:
    """Text with an edit, bytes, a link: accepted whole, taken back, and done again."""
    edited = TEXT.replace(b"line 3\r", b"LINE 3\r").replace(b"line 15\r", b"LINE 15\r")
    move(workspace, "src/old.py", "lib/deep/new.py", edited)
    move(workspace, "data.bin", "moved.bin")
    move(workspace, "link", "lnk")
    found = await propose(workspace)
    assert {path: (each.kind, each.renamed_from, len(each.hunks)) for path, each in found.items()} == {
        "lib/deep/new.py": ("rename", "src/old.py", 2), "moved.bin": ("rename", "data.bin", 0),
        "lnk": ("rename", "link", 0),
    }  # fmt: skip
    before = read_tree(workspace.root)
    done = await workspace.apply(await workspace.plan_accept(whole(*found.values())))
    assert read_tree(workspace.root) == read_tree(workspace.worktree)
    assert read_tree(workspace.root)["lib/deep/new.py"] == (0o755, edited)
    assert await workspace.proposals() == ()
    undone = await workspace.apply(await workspace.plan_undo(done.record))
    assert read_tree(workspace.root) == before
    assert {path: each.digest for path, each in (await propose(workspace)).items()} == {
        path: each.digest for path, each in found.items()
    }
    await workspace.apply(await workspace.plan_undo(undone.record))
    assert read_tree(workspace.root) == read_tree(workspace.worktree)


async def test_a_rejected_rename_is_as_if_it_never_was(workspace: SessionWorkspace) -> None:
    """The old file is back byte for byte, the new name is free (A06)."""
    before = read_tree(workspace.worktree)
    move(workspace, "src/old.py", "lib/new.py", TEXT + b"more\r\n")
    await workspace.apply(await workspace.plan_reject(whole(*await workspace.proposals())))
    assert read_tree(workspace.worktree) == before
    assert await workspace.proposals() == ()


async def test_hunks_of_a_rename_are_taken_under_the_old_name(workspace: SessionWorkspace) -> None:
    """One accepted, one rejected; the rename itself stays pending with nothing but itself."""
    edited = TEXT.replace(b"line 3\r", b"LINE 3\r").replace(b"line 15\r", b"LINE 15\r")
    move(workspace, "src/old.py", "new.py", edited)
    found = await propose(workspace)
    plan = await workspace.plan_accept(part(found["new.py"], 0))
    assert [each.whole for each in plan.decided] == [False]
    await workspace.apply(plan)
    half = TEXT.replace(b"line 3\r", b"LINE 3\r")
    assert read_tree(workspace.root)["src/old.py"] == (0o755, half)
    assert "new.py" not in read_tree(workspace.root)
    found = await propose(workspace)
    await workspace.apply(await workspace.plan_reject(part(found["new.py"], 0)))
    found = await propose(workspace)
    assert (found["new.py"].kind, found["new.py"].hunks) == ("rename", ())
    assert read_tree(workspace.worktree)["new.py"][1] == half
    await workspace.apply(await workspace.plan_accept(whole(*found.values())))
    assert read_tree(workspace.root)["new.py"] == (0o755, half)
    assert "src/old.py" not in read_tree(workspace.root)


async def test_a11_a_rename_never_lands_on_a_file_of_the_users(workspace: SessionWorkspace) -> None:
    """The destination was made meanwhile: a conflict with both sides, and nothing is written."""
    move(workspace, "src/old.py", "new.py")
    (workspace.root / "new.py").write_bytes(b"mine\n")
    before = read_tree(workspace.root)
    with pytest.raises(GloveportError) as refusal:
        await workspace.plan_accept(whole(*await workspace.proposals()))
    assert (refusal.value.code, refusal.value.data["path"]) == (ErrorCode.CHANGE_CONFLICT, "new.py")
    assert read_tree(workspace.root) == before


async def test_a11_a_rename_of_a_file_that_moved_on_is_a_conflict(workspace: SessionWorkspace) -> None:
    """The old file was edited by the user: its lines are not lost under the new name."""
    move(workspace, "src/old.py", "new.py")
    (workspace.root / "src" / "old.py").write_bytes(TEXT + b"mine\n")
    before = read_tree(workspace.root)
    with pytest.raises(GloveportError) as refusal:
        await workspace.plan_accept(whole(*await workspace.proposals()))
    assert (refusal.value.code, refusal.value.data["path"]) == (ErrorCode.CHANGE_CONFLICT, "src/old.py")
    assert read_tree(workspace.root) == before


async def test_a11_a_rename_of_case_alone(workspace: SessionWorkspace) -> None:
    """The file is kept, in both directions; another file of that name in the user's folder is a conflict."""
    move(workspace, "Foo.py", "foo.py")
    found = await propose(workspace)
    assert (found["foo.py"].kind, found["foo.py"].renamed_from) == ("case_rename", "Foo.py")
    done = await workspace.apply(await workspace.plan_accept(whole(*found.values())))
    assert read_tree(workspace.root)["foo.py"][1] == b"x = 1\n"
    assert "Foo.py" not in read_tree(workspace.root)
    await workspace.apply(await workspace.plan_undo(done.record))
    assert read_tree(workspace.root)["Foo.py"][1] == b"x = 1\n"
    assert "foo.py" not in read_tree(workspace.root)
    (workspace.root / "FOO.py").write_bytes(b"other\n")
    with pytest.raises(GloveportError) as refusal:
        await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))
    assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
    assert read_tree(workspace.root)["FOO.py"][1] == b"other\n"
    assert read_tree(workspace.root)["Foo.py"][1] == b"x = 1\n"


async def test_a10_owner_and_attributes_move_with_the_file(workspace: SessionWorkspace) -> None:
    """Mode, group and extended attributes of the user's file are those of the new name."""
    source = workspace.root / "src" / "old.py"
    source.chmod(0o750)
    os.setxattr(source, "user.note", b"kept")
    if os.geteuid() == 0:
        os.chown(source, 12345, 12345)
    owner = (source.stat().st_uid, source.stat().st_gid)
    await workspace.refresh()
    move(workspace, "src/old.py", "new.py")
    done = await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))
    for path in ("new.py", "src/old.py"):
        info = (workspace.root / path).stat()
        assert (info.st_mode & 0o777, info.st_uid, info.st_gid) == (0o750, *owner)
        assert os.getxattr(workspace.root / path, "user.note") == b"kept"
        if path == "new.py":
            await workspace.apply(await workspace.plan_undo(done.record))


async def test_a_rename_as_text(workspace: SessionWorkspace, tmp_path: Path) -> None:
    """The preview names both ends in the common extended form."""
    move(workspace, "src/old.py", "new.py", TEXT + b"more\r\n")
    (proposal,) = await workspace.proposals()
    lines = (await workspace.preview(proposal.change_id)).diff.splitlines()
    assert lines[:5] == [
        "diff --git a/src/old.py b/new.py", "rename from src/old.py", "rename to new.py", "--- a/src/old.py",
        "+++ b/new.py",
    ]  # fmt: skip


async def test_names_that_are_one_somewhere_are_a_conflict(workspace: SessionWorkspace) -> None:
    """Two new files, two new folders, one beside the user's: refused on every file system; one alone is taken."""
    make_tree(
        workspace.worktree, {"New/a": b"1\n", "new/b": b"2\n", "SRC/c": b"3\n", "Re\u0301": b"4\n", "R\u00e9": b"5\n"}
    )
    before = read_tree(workspace.root)
    found = await propose(workspace)
    for pair in (("New/a", "new/b"), ("Re\u0301", "R\u00e9")):
        with pytest.raises(GloveportError) as refusal:
            await workspace.plan_accept(whole(*(found[path] for path in pair)))
        assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
        assert refusal.value.data["path"] != refusal.value.data["other"]
    with pytest.raises(GloveportError) as refusal:
        await workspace.apply(await workspace.plan_accept(whole(found["SRC/c"])))
    assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
    assert read_tree(workspace.root) == before
    await workspace.apply(await workspace.plan_accept(whole(found["New/a"])))
    assert read_tree(workspace.root)["New/a"][1] == b"1\n"


async def test_a_folder_whose_case_changes_is_moved_with_all_that_is_in_it(workspace: SessionWorkspace) -> None:
    """The old spelling goes with the files that leave it."""
    move(workspace, "src/old.py", "Src/old.py")
    (workspace.worktree / "src").rmdir()
    done = await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))
    assert read_tree(workspace.root)["Src/old.py"] == (0o755, TEXT)
    assert "src/old.py" not in read_tree(workspace.root)
    await workspace.apply(await workspace.plan_undo(done.record))
    assert read_tree(workspace.root)["src/old.py"] == (0o755, TEXT)


async def test_what_the_user_edits_under_the_old_name_goes_to_the_new_one(workspace: SessionWorkspace) -> None:
    """Merged line by line, also into an edit of the agent's; the rename stays pending, and accepting loses nothing."""
    move(workspace, "src/old.py", "new.py", TEXT.replace(b"line 15\r", b"LINE 15\r"))
    move(workspace, "Foo.py", "bar.py")
    (workspace.root / "src" / "old.py").write_bytes(TEXT.replace(b"line 3\r", b"mine\r"))
    (workspace.root / "Foo.py").write_bytes(b"x = 2\n")
    told = await workspace.refresh()
    assert (told.taken, told.conflicted) == (("Foo.py", "src/old.py"), ())
    both = TEXT.replace(b"line 15\r", b"LINE 15\r").replace(b"line 3\r", b"mine\r")
    assert read_tree(workspace.worktree)["new.py"] == (0o755, both)
    found = await propose(workspace)
    assert {path: (each.renamed_from, len(each.hunks)) for path, each in found.items()} == {
        "new.py": ("src/old.py", 1), "bar.py": ("Foo.py", 0),
    }  # fmt: skip
    await workspace.apply(await workspace.plan_accept(whole(*found.values())))
    assert read_tree(workspace.root)["new.py"] == (0o755, both)
    assert read_tree(workspace.root)["bar.py"][1] == b"x = 2\n"
    assert not {"src/old.py", "Foo.py"} & set(read_tree(workspace.root))


async def test_where_user_and_agent_meet_in_a_renamed_file_nothing_moves(workspace: SessionWorkspace) -> None:
    """The same line: named as a conflict; both sides are as they were."""
    move(workspace, "src/old.py", "new.py", TEXT.replace(b"line 3\r", b"LINE 3\r"))
    (workspace.root / "src" / "old.py").write_bytes(TEXT.replace(b"line 3\r", b"mine\r"))
    before = read_tree(workspace.root), read_tree(workspace.worktree)
    assert (await workspace.refresh()).conflicted == ("src/old.py",)
    assert (read_tree(workspace.root), read_tree(workspace.worktree)) == before
