"""The user goes on working while the agent does: seen by content, merged where they do not meet, told where they do."""

import os
from collections.abc import AsyncIterator

import pytest
from tests.kit.workspaces import make_tree, part, propose, quick_folder, read_tree, whole

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.workspace.drift import Refreshed
from gloveport.server.workspace.facade import SessionWorkspace

LINES = b"".join(b"line %d\n" % n for n in range(20))
FILES = {"a.txt": LINES, "b.txt": LINES, "c.bin": b"\x00", "sub/d.txt": b"d\n", ".gitignore": b"*.log\n"}


@pytest.fixture
async def workspace() -> AsyncIterator[SessionWorkspace]:
    """A session over FILES whose data lie below its own root."""
    with quick_folder() as folder:
        root = make_tree(folder / "root", FILES)
        opened = await SessionWorkspace.create(root, root / ".data" / "s", exclude=[root / ".data"])
        yield opened
        opened.close()


def user_tree(workspace: SessionWorkspace) -> dict[str, tuple[int, bytes]]:
    """The user's files without the data directory below."""
    return {path: each for path, each in read_tree(workspace.root).items() if not path.startswith(".data/")}


async def test_nothing_moves_when_nothing_changed(workspace: SessionWorkspace) -> None:
    """A09: a touched file is no drift, nor is an ignored one or our own data."""
    os.utime(workspace.root / "a.txt", (1, 1))
    (workspace.root / "x.log").write_bytes(b"noise")
    (workspace.root / ".data" / "other").write_bytes(b"ours")
    assert await workspace.drift() == ()
    assert await workspace.refresh() == Refreshed((), ())


async def test_edits_of_every_kind_are_taken_over(workspace: SessionWorkspace) -> None:
    """Where the agent changed nothing, the worktree becomes what the user has; nothing is proposed."""
    root = workspace.root
    (root / "a.txt").write_bytes(b"other\n")
    (root / "new.txt").write_bytes(b"new\n")
    (root / "sub" / "d.txt").unlink()
    (root / "b.txt").chmod(0o755)
    (root / "c.bin").unlink()
    (root / "c.bin").symlink_to("a.txt")
    before = user_tree(workspace)
    assert [each.path for each in await workspace.drift()] == ["a.txt", "b.txt", "c.bin", "new.txt", "sub/d.txt"]
    told = await workspace.refresh()
    assert (told.taken, told.conflicted) == (("a.txt", "b.txt", "c.bin", "new.txt", "sub/d.txt"), ())
    assert read_tree(workspace.worktree) == user_tree(workspace) == before
    assert await workspace.drift() == ()
    assert await workspace.proposals() == ()


async def test_both_changes_of_one_file_are_kept(workspace: SessionWorkspace) -> None:
    """The agent's hunk stays pending on top of the user's edit, and accepting it keeps both."""
    await workspace.write("a.txt", LINES.replace(b"line 3\n", b"agent\n"))
    (workspace.root / "a.txt").write_bytes(LINES.replace(b"line 15\n", b"user\r\n"))
    assert await workspace.refresh() == Refreshed(("a.txt",), ())
    (hunk,) = (await propose(workspace))["a.txt"].hunks
    assert hunk.new_lines == (b"agent\n",)
    await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))
    both = LINES.replace(b"line 3\n", b"agent\n").replace(b"line 15\n", b"user\r\n")
    assert (workspace.root / "a.txt").read_bytes() == both


async def test_an_accept_keeps_what_the_user_changed_meanwhile(workspace: SessionWorkspace) -> None:
    """Nothing was taken over before: the accept merges, the worktree follows, undo and redo keep the user's lines."""
    agent, user = (b"line 3\n", b"agent\n"), (b"line 15\n", b"user\n")
    await workspace.write("a.txt", LINES.replace(*agent).replace(b"line 9\n", b"later\n"))
    mine = workspace.root / "a.txt"
    mine.write_bytes(LINES.replace(*user))
    accepted = await workspace.apply(await workspace.plan_accept(part((await propose(workspace))["a.txt"], 0)))
    assert mine.read_bytes() == LINES.replace(*agent).replace(*user)
    assert await workspace.drift() == ()
    (left,) = (await propose(workspace))["a.txt"].hunks
    assert left.new_lines == (b"later\n",)
    mine.write_bytes(mine.read_bytes() + b"more\n")
    undone = await workspace.apply(await workspace.plan_undo(accepted.record))
    assert mine.read_bytes() == LINES.replace(*user) + b"more\n"
    assert await workspace.drift() == ()
    assert len((await propose(workspace))["a.txt"].hunks) == 2
    await workspace.apply(await workspace.plan_undo(undone.record))
    assert mine.read_bytes() == LINES.replace(*agent).replace(*user) + b"more\n"
    assert await workspace.drift() == ()
    await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))
    assert await workspace.proposals() == ()


async def test_where_they_meet_nothing_moves(workspace: SessionWorkspace) -> None:
    """One clear conflict per path, the same every time; other paths go on; rejecting resolves it (A09)."""
    await workspace.write("a.txt", LINES.replace(b"line 3\n", b"agent\n"))
    await workspace.write("c.bin", b"\x00agent")
    await workspace.delete("sub/d.txt")
    await workspace.write("made.txt", b"agent\n")
    (workspace.root / "a.txt").write_bytes(LINES.replace(b"line 3\n", b"user\n"))
    (workspace.root / "c.bin").write_bytes(b"\x00user")
    (workspace.root / "sub" / "d.txt").write_bytes(b"user\n")
    (workspace.root / "made.txt").write_bytes(b"user\n")
    (workspace.root / "b.txt").write_bytes(b"user\n")
    user, ours = user_tree(workspace), read_tree(workspace.worktree)
    meeting = ("a.txt", "c.bin", "made.txt", "sub/d.txt")
    assert await workspace.refresh() == Refreshed(("b.txt",), meeting)
    assert await workspace.refresh() == Refreshed((), meeting)
    assert read_tree(workspace.worktree) == ours | {"b.txt": (0o644, b"user\n")}
    with pytest.raises(GloveportError) as refusal:
        await workspace.plan_accept(whole(*await workspace.proposals()))
    assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
    await workspace.apply(await workspace.plan_reject(whole(*await workspace.proposals())))
    assert await workspace.refresh() == Refreshed(meeting, ())
    assert read_tree(workspace.worktree) == user_tree(workspace) == user


async def test_the_same_edit_on_both_sides_leaves_nothing(workspace: SessionWorkspace) -> None:
    """The user typed what the agent proposed."""
    for path in ("a.txt", "c.bin", "created.txt"):
        await workspace.write(path, b"same\x00\n")
        (workspace.root / path).write_bytes(b"same\x00\n")
    assert await workspace.refresh() == Refreshed(("a.txt", "c.bin", "created.txt"), ())
    assert await workspace.proposals() == ()
