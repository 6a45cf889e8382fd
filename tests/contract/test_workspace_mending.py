"""After the machine went down a worktree is what is recorded: the base, and over it the proposals."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.kit.workspaces import make_tree, propose, read_tree, whole

from gloveport.protocol.ids import Sha256
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.mending import Expected
from gloveport.server.workspace.proposal import Proposal

FILES = {"a.txt": b"one\n", "b.txt": b"two\n", "deep/c.txt": b"three\n"}


async def begun(tmp_path: Path, boot_id: str = "first") -> SessionWorkspace:
    """A session's workspace on a boot."""
    root = make_tree(tmp_path / "root", FILES)
    (tmp_path / "sessions").mkdir(exist_ok=True)
    return await SessionWorkspace.create(root, tmp_path / "sessions" / "s", boot_id=boot_id)


def recorded(proposals: Mapping[str, Proposal]) -> dict[str, Expected]:
    """What the journal knows of them."""
    return {path: Expected(one.base_digest, one.result) for path, one in proposals.items()}


async def test_torn_empty_old_and_missing_files_are_put_back(tmp_path: Path) -> None:
    """What a power loss left of unsynced files is no proposal; what was proposed still is, byte for byte."""
    workspace = await begun(tmp_path)
    await workspace.write("a.txt", b"ONE\n")
    await workspace.write("new/made.txt", b"made\n")
    await workspace.delete("b.txt")
    before = await propose(workspace)
    tree = read_tree(workspace.worktree)
    workspace.close()
    (workspace.worktree / "a.txt").write_bytes(FILES["a.txt"])  # the rename was lost
    (workspace.worktree / "b.txt").write_bytes(FILES["b.txt"])  # so was the removal
    (workspace.worktree / "new/made.txt").write_bytes(b"\0" * 5)
    (workspace.worktree / "deep/c.txt").unlink()
    (workspace.worktree / "stray.txt").write_bytes(b"of a run nobody knows the end of\n")
    again = await SessionWorkspace.open(workspace.session_dir, boot_id="second")
    try:
        put_back = await again.mend(recorded(before))
        assert put_back == ("a.txt", "b.txt", "deep/c.txt", "new/made.txt", "stray.txt")
        assert read_tree(again.worktree) == tree
        assert await propose(again) == before
        assert await again.mend(recorded(before)) == ()
    finally:
        again.close()


async def test_a_worktree_that_is_gone_is_made_again(tmp_path: Path) -> None:
    """The folder's very name may be lost with the power."""
    workspace = await begun(tmp_path)
    tree = read_tree(workspace.worktree)
    workspace.close()
    workspace.worktree.rename(tmp_path / "lost")
    again = await SessionWorkspace.open(workspace.session_dir, boot_id="second")
    try:
        assert await again.mend({}) == tuple(sorted(FILES))
        assert read_tree(again.worktree) == tree
    finally:
        again.close()


async def test_on_the_same_boot_nothing_is_put_back(tmp_path: Path) -> None:
    """A killed daemon loses no file: what a run had written is still looked at."""
    workspace = await begun(tmp_path)
    workspace.close()
    (workspace.worktree / "a.txt").write_bytes(b"by a run\n")
    again = await SessionWorkspace.open(workspace.session_dir, boot_id="first")
    try:
        assert await again.mend({}) == ()
        assert set(await propose(again)) == {"a.txt"}
    finally:
        again.close()


async def test_a_base_that_moved_on_keeps_content_that_is_known_whole(tmp_path: Path) -> None:
    """An accept was carried out and not yet recorded: the older proposal is not brought back over it."""
    workspace = await begun(tmp_path)
    await workspace.write("a.txt", b"ONE\n")
    before = await propose(workspace)
    await workspace.apply(await workspace.plan_accept(whole(*before.values())))
    workspace.close()
    again = await SessionWorkspace.open(workspace.session_dir, boot_id="second")
    try:
        assert await again.mend(recorded(before)) == ()
        assert await propose(again) == {}
        assert Sha256(before["a.txt"].result_digest or "") == await again.digest("a.txt")
    finally:
        again.close()


@pytest.mark.parametrize(("agent", "after"), [
    (b"one\ntwo\nTHREE\n", b"ONE\ntwo\nTHREE\n"), (b"1\ntwo\nthree\n", b"ONE\ntwo\nthree\n"),
])  # fmt: skip
async def test_an_old_file_that_came_back_takes_no_edit_of_the_users_away(
    tmp_path: Path, agent: bytes, after: bytes
) -> None:
    """The user's edit was taken over, then the loss brought the first content back: it is no change of the agent's."""
    first = b"one\ntwo\nthree\n"
    workspace = await begun(tmp_path)
    (workspace.root / "a.txt").write_bytes(first)
    await workspace.refresh()
    await workspace.write("a.txt", agent)
    known = recorded(await propose(workspace))
    (workspace.root / "a.txt").write_bytes(b"ONE\ntwo\nthree\n")
    await workspace.refresh()
    if after == (workspace.root / "a.txt").read_bytes():  # they meet: the user decides, and the agent's edit goes
        await workspace.apply(await workspace.plan_reject(whole(*(await propose(workspace)).values())))
        await workspace.refresh()
    workspace.close()
    (workspace.worktree / "a.txt").write_bytes(first)
    again = await SessionWorkspace.open(workspace.session_dir, boot_id="second")
    try:
        await again.mend(known)
        assert await again.read("a.txt") == after
        assert await again.drift() == ()
    finally:
        again.close()


@pytest.mark.parametrize("left", [b"", b"\0" * 2000, b"o" * 512 + b"\0" * 512], ids=["empty", "zeros", "torn"])
async def test_a_staged_file_that_the_power_loss_tore_is_swept(tmp_path: Path, left: bytes) -> None:
    """It holds nothing but sectors of the new content and zeros, so it is ours."""
    workspace = await begun(tmp_path)
    try:
        await workspace.write("a.txt", b"o" * 2000)
        plan = await workspace.plan_accept(whole(*(await propose(workspace)).values()))
        staged = tmp_path / "root" / plan.staged(0)
        staged.write_bytes(left)
        assert (await workspace.settle(plan)).outcome == "not_done"
        assert not staged.exists()
        staged.write_bytes(b"the user's own words")
        await workspace.sweep(plan)
        assert staged.exists()
    finally:
        workspace.close()


async def test_a_moved_file_is_moved_again(tmp_path: Path) -> None:
    """Both names of a recorded rename are put right, and it is a rename still."""
    workspace = await begun(tmp_path)
    (workspace.worktree / "b.txt").rename(workspace.worktree / "deep" / "moved.txt")
    before = await propose(workspace)
    moved = before["deep/moved.txt"]
    assert (moved.kind, moved.renamed_from) == ("rename", "b.txt")
    tree = read_tree(workspace.worktree)
    workspace.close()
    (workspace.worktree / "deep" / "moved.txt").write_bytes(b"")
    (workspace.worktree / "b.txt").write_bytes(FILES["b.txt"])
    again = await SessionWorkspace.open(workspace.session_dir, boot_id="second")
    try:
        recorded_ends = {"b.txt": Expected(moved.base_digest, None), "deep/moved.txt": Expected(None, moved.result)}
        assert await again.mend(recorded_ends) == ("b.txt", "deep/moved.txt")
        assert read_tree(again.worktree) == tree
        assert await propose(again) == before
    finally:
        again.close()
