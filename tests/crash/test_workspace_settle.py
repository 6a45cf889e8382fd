"""A decision that was interrupted ends as all, as nothing, or is told path by path; nothing of ours stays beside."""

import json
import os
import sys
from collections.abc import AsyncIterator

import anyio
import pytest
from tests.kit.workspaces import make_tree, propose, quick_folder, read_tree, whole

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.edit.names import TEMP_PREFIX
from gloveport.server.workspace import placing
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.opened import OpenText
from gloveport.server.workspace.plan import Plan

NAMES = [f"f{number}.txt" for number in range(4)]
FILES = dict.fromkeys(NAMES, b"old\n") | {"gone.txt": b"bye\n"}
DIES = """
import os, signal, sys, anyio, json
from pathlib import Path
from tests.kit.crash_apply import carry_out
from gloveport.server.workspace.opened import OpenText
from gloveport.server.workspace.plan import Plan
from gloveport.server.workspace import placing

def die_at(name, point):
    real, left = getattr(placing, name), [point]
    def counted(*args):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args)
    setattr(placing, name, counted)

die_at(sys.argv[3], int(sys.argv[4]))
anyio.run(carry_out, Path(sys.argv[1]), Plan.from_json(json.loads(sys.argv[2])))
"""


@pytest.fixture
async def workspace() -> AsyncIterator[SessionWorkspace]:
    """A session with four changed files, a new one in a new folder, and a deletion."""
    with quick_folder() as folder:
        opened = await SessionWorkspace.create(make_tree(folder / "root", FILES), folder / "s")
        for name in NAMES:
            await opened.write(name, b"new content\n")
        await opened.write("k/made.txt", b"made\n")
        await opened.delete("gone.txt")
        yield opened
        opened.close()


async def dies(workspace: SessionWorkspace, name: str, point: int) -> Plan:
    """Accept all in a process that is killed before the `point`-th call of a function of the placing."""
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    command = [sys.executable, "-c", DIES, str(workspace.session_dir), json.dumps(plan.as_json()), name, str(point)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = await anyio.run_process(command, env=environment, check=False)
    assert done.returncode == -9, done.stderr
    return plan


def ours(workspace: SessionWorkspace) -> list[str]:
    """What is left of staged files in both trees."""
    return [
        name
        for tree in (workspace.root, workspace.worktree)
        for _, _, names in os.walk(tree)
        for name in names
        if name.startswith(TEMP_PREFIX)
    ]


async def test_dead_while_staging(workspace: SessionWorkspace) -> None:
    """Nothing was swapped: nothing is written, and what was put aside is gone, with the folder made for it."""
    before = read_tree(workspace.root)
    plan = await dies(workspace, "exchange", 1)
    assert ours(workspace)
    settled = await workspace.settle(plan)
    assert (settled.outcome, set(settled.states.values())) == ("not_done", {"before"})
    assert (read_tree(workspace.root), ours(workspace)) == (before, [])
    assert not (workspace.root / "k").exists()
    assert len(await workspace.proposals()) == 6


async def test_dead_in_the_middle(workspace: SessionWorkspace) -> None:
    """What can be finished is finished."""
    plan = await dies(workspace, "exchange", 3)
    settled = await workspace.settle(plan)
    assert settled.applied is not None
    assert read_tree(workspace.root) == read_tree(workspace.worktree)
    assert ours(workspace) == []
    assert (await workspace.settle(plan)).outcome == "done"


async def test_a_half_written_staged_file_is_never_put_in_place(workspace: SessionWorkspace) -> None:
    """A kill in the middle of writing aside: the user's file is not touched by the half, nor is one made of it."""
    before = read_tree(workspace.root)
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    for index, step in enumerate(plan.steps):
        if step.after is not None and "/" not in step.path:
            (workspace.root / plan.staged(index)).write_bytes(b"new con" if index % 2 else b"")
        elif step.after is not None:
            (workspace.root / "k").mkdir()
            (workspace.root / "k" / plan.staged(index)).write_bytes(b"")
    settled = await workspace.settle(plan)
    assert settled.outcome == "not_done"
    assert (read_tree(workspace.root), ours(workspace)) == (before, [])


@pytest.mark.parametrize(("victim", "outcome"), [("f3.txt", "not_done"), ("f0.txt", "unsettled")])
async def test_the_user_edits_one_file_before_the_restart(
    workspace: SessionWorkspace, victim: str, outcome: str
) -> None:
    """All others are as before. If the file was written before the edit, that is told; else nothing is left."""
    before = read_tree(workspace.root)
    plan = await dies(workspace, "exchange", 3)
    assert (workspace.root / "f0.txt").read_bytes() != (workspace.root / "f3.txt").read_bytes()
    (workspace.root / victim).write_bytes(b"the user's\n")
    settled = await workspace.settle(plan)
    assert settled.outcome == outcome
    holds = "suspect" if outcome == "unsettled" else "other"
    assert settled.states == dict.fromkeys(before, "before") | {"k/made.txt": "before", victim: holds}
    assert read_tree(workspace.root) == before | {victim: (before[victim][0], b"the user's\n")}
    assert ours(workspace) == []
    others = [proposal for path, proposal in (await propose(workspace)).items() if path != victim]
    await workspace.apply(await workspace.plan_accept(whole(*others)))
    assert (workspace.root / victim).read_bytes() == b"the user's\n"


async def test_an_edit_after_the_whole_was_written(workspace: SessionWorkspace) -> None:
    """Base and files were there, only the words were missing: it is done, and the edit is one that came later."""
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    await workspace.apply(plan)
    (workspace.root / "f1.txt").write_bytes(b"later\n")
    settled = await workspace.settle(plan)
    assert settled.outcome == "done"
    assert (workspace.root / "f1.txt").read_bytes() == b"later\n"
    assert (workspace.root / "f2.txt").read_bytes() == b"new content\n"


async def test_an_edit_between_swap_and_look_survives_the_way_back(
    workspace: SessionWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user writes into the new file, and another file cannot be swapped: the edit stays, and that is told."""
    plan = await workspace.plan_accept(whole(*await workspace.proposals()))
    real, calls = placing.exchange, []

    def exchange(folder_fd: int, name: str, staged: str) -> None:
        calls.append(name)
        if len(calls) == 3:
            (workspace.root / "f0.txt").write_bytes(b"the user's\n")
            raise OSError(28, "full")
        real(folder_fd, name, staged)

    monkeypatch.setattr(placing, "exchange", exchange)
    with pytest.raises(GloveportError) as refusal:
        await workspace.apply(plan)
    monkeypatch.undo()
    assert refusal.value.code is ErrorCode.CHANGE_UNSETTLED
    assert refusal.value.data["paths"] == ["f0.txt"]
    settled = await workspace.settle(plan)
    assert (settled.outcome, settled.states["f0.txt"]) == ("unsettled", "suspect")
    assert (workspace.root / "f0.txt").read_bytes() == b"the user's\n"
    assert (workspace.root / "f1.txt").read_bytes() == b"old\n"
    assert ours(workspace) == []


@pytest.mark.parametrize("name", ["exchange", "move_to_free", "drop"])
async def test_a_plan_with_a_step_in_an_editor_is_taken_back(workspace: SessionWorkspace, name: str) -> None:
    """Killed at any call of a function: what an editor shows is not known then, so no file holds a part, unless the
    base was moved; the document is named."""
    shown = OpenText("d", "f0.txt", "old\n", "an editor", can_edit=True)
    workspace.opened = lambda: (shown,)
    before = read_tree(workspace.root)
    ends = set()
    for point in range(1, 12):
        try:
            plan = await dies(workspace, name, point)
        except AssertionError:
            break  # there is no such call any more: it ran to its end
        assert plan.in_editors == ("f0.txt",)
        again = await SessionWorkspace.open(workspace.session_dir)
        settled = await again.settle(plan)
        ends.add(settled.outcome)
        if settled.outcome == "done":
            assert read_tree(workspace.root)["f1.txt"][1] == b"new content\n"
            again.close()
            break
        assert (settled.outcome, settled.states["f0.txt"]) == ("unsettled", "suspect")
        assert read_tree(workspace.root) == before
        again.close()
    assert "unsettled" in ends or name == "drop"
