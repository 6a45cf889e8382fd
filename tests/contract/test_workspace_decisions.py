"""Accept, reject and undo on real folders: exact bytes, typed conflicts, all or nothing."""

import io
import os
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import orjson
import pytest
import unidiff
from tests.kit.workspaces import folders_of, make_tree, part, propose, quick_folder, read_tree, whole

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events.change import ChangeProposed
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.plan import Plan, Selected
from gloveport.server.workspace.taking_back import Part

TEN = b"".join(b"line %d\r\n" % n for n in range(10)) + b"last\rone"
FILES = {
    "ten.txt": TEN, "src/a.py": b"a = 1\n", "src/b.py": b"b = 1\n", "data.bin": b"\x00\x01", "gone.txt": b"bye\n",
    ".gitignore": b"*.log\n",
}  # fmt: skip
CHANGED = TEN.replace(b"line 1\r", b"LINE 1\r").replace(b"last\rone", b"last\rtwo")


@pytest.fixture
async def workspace() -> AsyncIterator[SessionWorkspace]:
    """A session over FILES with a script and a link."""
    with quick_folder() as folder:
        root = make_tree(folder / "root", FILES)
        (root / "run.sh").write_bytes(b"#!/bin/sh\n")
        (root / "run.sh").chmod(0o755)
        (root / "link").symlink_to("src/a.py")
        opened = await SessionWorkspace.create(root, folder / "session")
        yield opened
        opened.close()


async def change_everything(workspace: SessionWorkspace) -> None:
    """One change of every kind."""
    await workspace.write("ten.txt", CHANGED)
    await workspace.write("data.bin", b"\x00\x02")
    await workspace.write("new/deep/made.py", b"made = 1\n")
    await workspace.write("new/empty", b"")
    await workspace.delete("gone.txt")
    (workspace.worktree / "src" / "b.py").chmod(0o755)
    (workspace.worktree / "link").unlink()
    (workspace.worktree / "link").symlink_to("src/b.py")


async def test_every_kind_is_proposed_and_fills_its_event(workspace: SessionWorkspace) -> None:
    """Each kind has its name, hashes and modes; hunks where lines can be taken one by one."""
    await change_everything(workspace)
    found = await propose(workspace)
    assert {path: (each.kind, len(each.hunks)) for path, each in found.items()} == {
        "ten.txt": ("modify", 2), "data.bin": ("binary", 0), "new/deep/made.py": ("create", 1),
        "new/empty": ("create", 0), "gone.txt": ("delete", 1), "src/b.py": ("mode", 0), "link": ("symlink", 0),
    }  # fmt: skip
    assert (found["src/b.py"].base_mode, found["src/b.py"].result_mode) == (0o644, 0o755)
    assert found["gone.txt"].result_digest is None
    assert found["new/empty"].base_digest is None
    kinds = ChangeProposed.model_fields["kind"].annotation
    assert {each.kind for each in found.values()} <= set(getattr(kinds, "__args__", ()))
    assert len({each.digest for each in found.values()} | {each.change_id for each in found.values()}) == 14


async def test_a10_accept_all_is_the_result_and_undo_is_the_base(workspace: SessionWorkspace) -> None:
    """Bytes, modes, links and folders, there and back and there again (A06, A10)."""
    await change_everything(workspace)
    before, folders = read_tree(workspace.root), folders_of(workspace.root)
    accepted = await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))
    assert read_tree(workspace.root) == read_tree(workspace.worktree)
    assert await workspace.proposals() == ()
    undone = await workspace.apply(await workspace.plan_undo(accepted.record))
    assert read_tree(workspace.root) == before
    assert folders_of(workspace.root) == folders
    assert len(await workspace.proposals()) == 7
    await workspace.apply(await workspace.plan_undo(undone.record))
    assert read_tree(workspace.root) == read_tree(workspace.worktree)
    assert await workspace.proposals() == ()


async def test_a06_reject_all_is_the_base_and_can_be_undone(workspace: SessionWorkspace) -> None:
    """A06: the user's folder is not touched; a misclick on reject-all comes back exactly."""
    await change_everything(workspace)
    user, ours = read_tree(workspace.root), read_tree(workspace.worktree)
    rejected = await workspace.apply(await workspace.plan_reject(whole(*await workspace.proposals())))
    assert await workspace.proposals() == ()
    assert read_tree(workspace.worktree) == read_tree(workspace.root) == user
    await workspace.apply(await workspace.plan_undo(rejected.record))
    assert read_tree(workspace.worktree) == ours
    assert read_tree(workspace.root) == user


async def test_one_hunk_and_the_rest_stays_pending(workspace: SessionWorkspace) -> None:
    """Accepting the second of two hunks leaves the first pending; rejecting that one leaves nothing (A01)."""
    await workspace.write("ten.txt", CHANGED)
    proposal = (await propose(workspace))["ten.txt"]
    done = await workspace.apply(await workspace.plan_accept(part(proposal, 1)))
    assert (workspace.root / "ten.txt").read_bytes() == TEN.replace(b"last\rone", b"last\rtwo")
    assert (done.decided[0].whole, done.decided[0].digests) == (False, (proposal.hunks[1].digest,))
    pending = (await propose(workspace))["ten.txt"]
    assert (len(pending.hunks), pending.change_id) == (1, proposal.change_id)
    assert pending.hunks[0].old_lines == (b"line 1\r\n",)
    rejected = await workspace.apply(await workspace.plan_reject(part(pending, 0)))
    assert rejected.decided[0].whole
    assert await workspace.proposals() == ()
    assert await workspace.read("ten.txt") == (workspace.root / "ten.txt").read_bytes()


async def test_a_proposal_that_changed_since_it_was_shown_is_refused(workspace: SessionWorkspace) -> None:
    """B16: digests bind a decision to what was rendered; unknown ids and hunks are refused too."""
    await workspace.write("ten.txt", CHANGED)
    shown = (await propose(workspace))["ten.txt"]
    await workspace.write("ten.txt", CHANGED + b"more")
    for selected, code in (
        (whole(shown), ErrorCode.CHANGE_SUPERSEDED),
        (part(shown, 0), ErrorCode.CHANGE_SUPERSEDED),
        ([Selected("change-0", shown.digest)], ErrorCode.CHANGE_UNKNOWN),
        ([], ErrorCode.INVALID_PARAMS),
    ):
        for planning in (workspace.plan_accept(selected), workspace.plan_reject(selected)):
            with pytest.raises(GloveportError) as refusal:
                await planning
            assert refusal.value.code is code
    now = (await propose(workspace))["ten.txt"]
    with pytest.raises(GloveportError) as refusal:
        await workspace.plan_accept([Selected(now.change_id, now.digest, (shown.hunks[-1].digest,))])
    assert refusal.value.code is ErrorCode.CHANGE_SUPERSEDED


async def test_drift_before_planning_is_a_conflict_with_both_sides(workspace: SessionWorkspace) -> None:
    """A user's own edit is never overwritten: typed, with hashes and both differences; nothing is written."""
    await workspace.write("src/a.py", b"a = 2\n")
    await workspace.write("ten.txt", CHANGED)
    (workspace.root / "src" / "a.py").write_bytes(b"a = 1\nmine = 1\n")
    before = read_tree(workspace.root)
    with pytest.raises(GloveportError) as refusal:
        await workspace.plan_accept(whole(*await workspace.proposals()))
    assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
    assert refusal.value.data["path"] == "src/a.py"
    assert "+mine = 1" in str(refusal.value.data["theirs"])
    assert "+a = 2" in str(refusal.value.data["ours"])
    assert read_tree(workspace.root) == before
    assert len(await workspace.proposals()) == 2


async def test_a09_touching_a_file_is_no_drift(workspace: SessionWorkspace) -> None:
    """A09: times decide nothing."""
    await workspace.write("src/a.py", b"a = 2\n")
    os.utime(workspace.root / "src" / "a.py", (1, 1))
    await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))
    assert (workspace.root / "src" / "a.py").read_bytes() == b"a = 2\n"


async def test_the_same_change_by_the_user_settles_the_proposal(workspace: SessionWorkspace) -> None:
    """When the user's file is already the result there is nothing to write and nothing to refuse."""
    await workspace.write("src/a.py", b"a = 2\n")
    await workspace.delete("gone.txt")
    (workspace.root / "src" / "a.py").write_bytes(b"a = 2\n")
    (workspace.root / "gone.txt").unlink()
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    assert plan.steps == ()
    await workspace.apply(plan)
    assert await workspace.proposals() == ()


async def drifted(workspace: SessionWorkspace, kind: str) -> None:
    """The user acts between planning and applying."""
    root = workspace.root
    match kind:
        case "edited":
            (root / "ten.txt").write_bytes(TEN + b"mine")
        case "removed":
            (root / "ten.txt").unlink()
        case "created":
            make_tree(root, {"new/deep/made.py": b"mine"})
        case "linked":
            (root / "ten.txt").unlink()
            (root / "ten.txt").symlink_to("src/a.py")
        case "folder":
            (root / "gone.txt").unlink()
            (root / "gone.txt").mkdir()
        case "folder_linked":
            (root / "src").rename(root / "moved")
            (root / "src").symlink_to("moved")


@pytest.mark.parametrize("kind", ["edited", "removed", "created", "linked", "folder", "folder_linked"])
async def test_drift_between_plan_and_apply_writes_nothing(workspace: SessionWorkspace, kind: str) -> None:
    """B16, A11: one step of seven does not hold, so none is done, and no staged file stays."""
    await change_everything(workspace)
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    await drifted(workspace, kind)
    before, folders = read_tree(workspace.root), folders_of(workspace.root)
    with pytest.raises(GloveportError):
        await workspace.apply(plan)
    assert read_tree(workspace.root) == before
    assert folders_of(workspace.root) == folders
    assert len(await workspace.proposals()) == 7


async def test_a_mode_the_user_set_himself_is_kept(workspace: SessionWorkspace) -> None:
    """A content change keeps the mode the file has now, not the one it had at the beginning."""
    await workspace.write("src/a.py", b"a = 2\n")
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    (workspace.root / "src" / "a.py").chmod(0o600)
    await workspace.apply(plan)
    assert read_tree(workspace.root)["src/a.py"] == (0o600, b"a = 2\n")


async def test_a11_existing_destination_is_a_conflict(workspace: SessionWorkspace) -> None:
    """A11: a created file does not overwrite one that came meanwhile, not even one that rules ignore."""
    (workspace.root / "debug.log").write_bytes(b"the user's own\n")
    await workspace.write("debug.log", b"agent\n")
    with pytest.raises(GloveportError) as refusal:
        await workspace.plan_accept(whole(*await workspace.proposals()))
    assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
    assert (workspace.root / "debug.log").read_bytes() == b"the user's own\n"


async def test_a_name_that_is_the_same_elsewhere_is_a_conflict(workspace: SessionWorkspace) -> None:
    """A11: `RUN.SH` beside `run.sh` would be one file on a folding disk."""
    await workspace.write("RUN.SH", b"x")
    with pytest.raises(GloveportError) as refusal:
        await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))
    assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
    assert "RUN.SH" not in os.listdir(workspace.root)


async def test_accept_does_not_follow_a_link_the_user_has(workspace: SessionWorkspace, tmp_path: Path) -> None:
    """R1.3: a folder that became a link out of the root after the snapshot is not written through."""
    outside = make_tree(tmp_path / "outside", {"a.py": b"a = 1\n"})
    await workspace.write("src/a.py", b"a = 2\n")
    (workspace.root / "src").rename(workspace.root / "old")
    (workspace.root / "src").symlink_to(outside)
    with pytest.raises(GloveportError):
        await workspace.plan_accept(whole(*await workspace.proposals()))
    assert read_tree(outside) == {"a.py": (0o644, b"a = 1\n")}


async def test_a06_lines_of_the_user_in_a_created_file_survive_undo(workspace: SessionWorkspace) -> None:
    """Agent creates, user accepts and adds lines: undo leaves those alone, redo brings the others back around them;
    where the user changed a line of the agent's, undo asks (a conflict) instead of deleting it."""
    await workspace.write("new.py", b"made = 1\nmade = 2\n")
    accepted = await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))
    mine = workspace.root / "new.py"
    mine.write_bytes(b"mine = 0\nmade = 1\nmade = 2\nmine = 1\n")
    undone = await workspace.apply(await workspace.plan_undo(accepted.record))
    assert mine.read_bytes() == b"mine = 0\nmine = 1\n"
    assert await workspace.drift() == ()
    (again,) = await workspace.proposals()
    assert (again.kind, again.hunks[0].new_lines) == ("modify", (b"made = 1\n", b"made = 2\n"))
    await workspace.apply(await workspace.plan_undo(undone.record))
    assert mine.read_bytes() == b"mine = 0\nmade = 1\nmade = 2\nmine = 1\n"
    mine.write_bytes(b"made = mine\nmade = 2\n")
    with pytest.raises(GloveportError) as refusal:
        await workspace.plan_undo(accepted.record)
    assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
    assert "+made = mine" in str(refusal.value.data["theirs"])
    assert mine.read_bytes() == b"made = mine\nmade = 2\n"


async def test_a06_delete_and_recreate_then_reject_restores_the_original(workspace: SessionWorkspace) -> None:
    """A06: the original comes back byte for byte."""
    await workspace.delete("run.sh")
    await workspace.write("run.sh", b"other\n")
    await workspace.apply(await workspace.plan_reject(whole(*await workspace.proposals())))
    assert read_tree(workspace.worktree)["run.sh"] == (0o755, b"#!/bin/sh\n")


async def test_decisions_are_undone_in_any_order(workspace: SessionWorkspace) -> None:
    """An earlier accept is taken out from under a later one of other lines."""
    await workspace.write("ten.txt", CHANGED)
    first = await workspace.apply(await workspace.plan_accept(part((await propose(workspace))["ten.txt"], 0)))
    second = await workspace.apply(await workspace.plan_accept(part((await propose(workspace))["ten.txt"], 0)))
    await workspace.apply(await workspace.plan_undo(first.record))
    assert (workspace.root / "ten.txt").read_bytes() == TEN.replace(b"last\rone", b"last\rtwo")
    await workspace.apply(await workspace.plan_undo(second.record))
    assert (workspace.root / "ten.txt").read_bytes() == TEN


async def test_a_later_decision_on_the_same_lines_is_undone_first(workspace: SessionWorkspace) -> None:
    """Undo never guesses: an earlier accept under a later one is refused with both sides."""
    records = []
    for text in (b"a = 2\n", b"a = 3\n"):
        await workspace.write("src/a.py", text)
        done = await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))
        records.append(done.record)
    with pytest.raises(GloveportError) as refusal:
        await workspace.plan_undo(records[0])
    assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
    assert "+a = 3" in str(refusal.value.data["theirs"])
    assert "later decision" in refusal.value.hint
    for record in reversed(records):
        await workspace.apply(await workspace.plan_undo(record))
    assert (workspace.root / "src/a.py").read_bytes() == b"a = 1\n"


async def test_a_plan_is_plain_data(workspace: SessionWorkspace) -> None:
    """Journalled as intent and read back, the plan is the same; one that names `.git` or climbs is refused."""
    await change_everything(workspace)
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    raw = orjson.dumps(plan.as_json())
    assert Plan.from_json(orjson.loads(raw)) == plan
    for path in ("../x", "/etc/passwd", ".git/config"):
        with pytest.raises(GloveportError):
            Plan.from_json(orjson.loads(raw.replace(b'"path":"link"', b'"path":"' + path.encode() + b'"')))
    with pytest.raises(GloveportError):
        Plan.from_json({"version": 1, "steps": [{}]})


async def test_another_folder_at_the_same_path_inherits_nothing(workspace: SessionWorkspace) -> None:
    """Identity is real path, device and inode."""
    await workspace.write("src/a.py", b"a = 2\n")
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    workspace.root.rename(workspace.root.with_name("moved"))
    make_tree(workspace.root, FILES)
    with pytest.raises(GloveportError) as refusal:
        await workspace.apply(plan)
    assert refusal.value.code is ErrorCode.WORKSPACE_MISSING
    assert (workspace.root / "src" / "a.py").read_bytes() == b"a = 1\n"


async def test_previews_are_read_by_an_independent_parser(workspace: SessionWorkspace) -> None:
    """Each text change parses as one file of a patch with the same places; both sides are given as text."""
    await change_everything(workspace)
    for path, proposal in (await propose(workspace)).items():
        shown = await workspace.preview(proposal.change_id)
        if not proposal.hunks:
            continue
        (patched,) = unidiff.PatchSet(io.StringIO(shown.diff))
        assert patched.path == path
        assert (patched.is_added_file, patched.is_removed_file) == (
            proposal.kind == "create",
            proposal.kind == "delete",
        )
        assert len(patched) == len(proposal.hunks)
        assert (shown.old_text is None, shown.new_text is None) == (proposal.base is None, proposal.result is None)
    with pytest.raises(GloveportError) as refusal:
        await workspace.preview("change-none")
    assert refusal.value.code is ErrorCode.CHANGE_UNKNOWN


async def test_a_change_within_the_clocks_grain_is_seen(workspace: SessionWorkspace) -> None:
    """Same size, same mtime, written again at once: still a proposal."""
    path = workspace.worktree / "src" / "a.py"
    for text in (b"a = 2\n", b"a = 3\n", b"a = 4\n"):
        info = path.stat()
        path.write_bytes(text)
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
        found = await propose(workspace)
        assert found["src/a.py"].hunks[0].new_lines == (text,)


@pytest.mark.parametrize("forward", [True, False])
async def test_an_edit_caught_by_a_crash_comes_back(workspace: SessionWorkspace, forward: bool) -> None:
    """A user's save between the check and the swap, then a crash before the look at what came out: it is put back."""
    await workspace.write("src/a.py", b"a = 2\n")
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    (workspace.root / "src" / "a.py").write_bytes(b"a = 2\n")
    (workspace.root / "src" / plan.staged(0)).write_bytes(b"mine\n")
    assert (await workspace.reconcile(plan)).finding == "partial"
    if forward:
        with pytest.raises(GloveportError) as refusal:
            await workspace.finish(plan)
        assert refusal.value.code is ErrorCode.CHANGE_CONFLICT
    else:
        await workspace.roll_back(plan)
    assert read_tree(workspace.root / "src") == {"a.py": (0o644, b"mine\n"), "b.py": (0o644, b"b = 1\n")}
    assert (await workspace.reconcile(plan)).finding == "unknown"


async def test_an_edit_after_a_crash_is_unknown(workspace: SessionWorkspace) -> None:
    """Neither before nor after: said so, with the path; neither way out touches it."""
    await workspace.write("src/a.py", b"a = 2\n")
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    (workspace.root / "src" / "a.py").write_bytes(b"mine\n")
    found = await workspace.reconcile(plan)
    assert (found.finding, found.words) == ("unknown", "root src/a.py: other; base src/a.py: before")
    with pytest.raises(GloveportError):
        await workspace.finish(plan)
    assert await workspace.roll_back(plan) == ()
    assert (workspace.root / "src" / "a.py").read_bytes() == b"mine\n"


async def test_calls_at_once_do_not_mix(workspace: SessionWorkspace) -> None:
    """Writes, looks and applies started together run one after the other; a second apply of a plan is refused."""
    await change_everything(workspace)
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    outcomes: list[str] = []

    async def once() -> None:
        try:
            await workspace.apply(plan)
        except GloveportError as error:
            outcomes.append(error.code.value)
        else:
            outcomes.append("applied")

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(once)
            group.start_soon(workspace.proposals)
    assert sorted(outcomes) == ["applied", "change.superseded", "change.superseded"]
    assert read_tree(workspace.root) == read_tree(workspace.worktree)


async def test_a_part_of_a_decision_is_taken_back(workspace: SessionWorkspace) -> None:
    """One file or one hunk of an accept, and of a reject; what is not named stays as it was decided."""
    await change_everything(workspace)
    proposals = await propose(workspace)
    first, second = proposals["ten.txt"].hunks
    done = (await workspace.apply(await workspace.plan_accept(whole(*proposals.values())))).record
    one_file = Part(paths=frozenset({"gone.txt"}))
    await workspace.apply(await workspace.plan_back("undo", (("a", done),), one_file))
    assert (workspace.root / "gone.txt").read_bytes() == b"bye\n"
    assert (workspace.root / "ten.txt").read_bytes() == CHANGED
    one_hunk = Part(hunks=frozenset({first.digest}))
    back = await workspace.apply(await workspace.plan_back("undo", (("a", done),), one_hunk))
    assert (workspace.root / "ten.txt").read_bytes() == TEN.replace(b"last\rone", b"last\rtwo")
    assert (await propose(workspace))["ten.txt"].hunks[0].digest == first.digest
    await workspace.apply(await workspace.plan_back("redo", (("b", back.record),)))
    assert (workspace.root / "ten.txt").read_bytes() == CHANGED
    await workspace.apply(await workspace.plan_back("undo", (("a", done),)))
    rejected = (await workspace.apply(await workspace.plan_reject(whole((await propose(workspace))["ten.txt"])))).record
    one_hunk = Part(hunks=frozenset({second.digest}))
    await workspace.apply(await workspace.plan_back("undo", (("c", rejected),), one_hunk))
    assert [each.digest for each in (await propose(workspace))["ten.txt"].hunks] == [second.digest]
    with pytest.raises(GloveportError) as refusal:
        await workspace.plan_back("undo", (("c", rejected),), Part(hunks=frozenset({"0" * 64})))
    assert refusal.value.code is ErrorCode.CHANGE_UNKNOWN


async def test_many_decisions_are_taken_back_as_one(workspace: SessionWorkspace) -> None:
    """A chain of accepts of one file, with an edit of the user's taken over in between: the user's lines stay."""
    mine = workspace.root / "ten.txt"
    records = []
    for number, (old, new) in enumerate(((b"line 1\r", b"one\r"), (b"line 5\r", b"five\r"), (b"one\r", b"ONE\r"))):
        await workspace.write("ten.txt", (await workspace.read("ten.txt")).replace(old, new))
        done = await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))
        records.insert(0, (str(number), done.record))
        mine.write_bytes(mine.read_bytes().replace(b"line 9\r", b"mine\r"))
        await workspace.refresh()
    undone = await workspace.apply(await workspace.plan_back("undo", records))
    assert mine.read_bytes() == TEN.replace(b"line 9\r", b"mine\r")
    assert await workspace.drift() == ()
    await workspace.apply(await workspace.plan_back("redo", (("u", undone.record),)))
    assert mine.read_bytes() == TEN.replace(b"line 9\r", b"mine\r").replace(b"line 1\r", b"ONE\r").replace(
        b"line 5\r", b"five\r"
    )


async def test_a_restore_touches_what_was_decided_and_can_be_undone(workspace: SessionWorkspace) -> None:
    """Files and the agent's copy go back together; what the user made beside it stays; undone, all is there again."""
    await change_everything(workspace)
    done = (await workspace.apply(await workspace.plan_accept(whole(*await workspace.proposals())))).record
    await workspace.write("src/a.py", b"pending\n")
    (workspace.root / "untracked.txt").write_bytes(b"the user's\n")
    before, ours = read_tree(workspace.root), read_tree(workspace.worktree)
    plan = await workspace.plan_restore((("a", done),), ("src/a.py",))
    assert "untracked.txt" not in plan.paths
    restored = await workspace.apply(plan)
    assert (workspace.root / "ten.txt").read_bytes() == TEN
    assert not (workspace.root / "new/deep/made.py").exists()
    assert await workspace.proposals() == ()
    assert (workspace.root / "untracked.txt").read_bytes() == b"the user's\n"
    await workspace.apply(await workspace.plan_back("undo", (("r", restored.record),)))
    assert read_tree(workspace.root) == before
    assert read_tree(workspace.worktree) == ours
