"""A process that lets a child die at every file operation of an apply and looks at what is left.

Purpose: `python crash_apply.py FOLDER ACTION` prints one JSON line per point of death, the last one "survived".
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
from tests.kit.workspaces import folders_of, make_tree, read_tree, whole

from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.plan import Plan

FILES = {
    "mod.txt": b"a\nb\nc\n",
    "gone.txt": b"bye\n",
    "src/data.bin": b"\x00\x01",
    "run.sh": b"#!/bin/sh\n",
    "to-run.sh": b"#!/bin/sh\n",
    "old/moved.txt": b"one\ntwo\nthree\nfour\n",
    "Case.txt": b"case\n",
}
KINDS = {"create", "modify", "delete", "rename", "case_rename", "mode", "symlink", "binary"}
POINTS_MAX = 800
Trees = tuple[object, ...]


def trees_of(workspace: SessionWorkspace) -> Trees:
    """Both trees, byte by byte, and their folders."""
    return tuple(part for tree in (workspace.root, workspace.worktree) for part in (read_tree(tree), folders_of(tree)))


async def move(workspace: SessionWorkspace, old: str, new: str, data: bytes) -> None:
    """A file under another name."""
    await workspace.delete(old)
    await workspace.write(new, data)


async def prepare(folder: Path, action: str) -> Plan:
    """A session with changes of several kinds and the plan of the action."""
    root = make_tree(folder / "root", FILES)
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("mod.txt")
    workspace = await SessionWorkspace.create(root, folder / "s")
    try:
        await workspace.write("mod.txt", b"a\nB\nc\n")
        await workspace.write("new/deep/made.txt", b"made\n")
        await workspace.write("run.sh", b"#!/bin/sh\necho\n")
        await workspace.write("src/data.bin", b"\x00\x02")
        await workspace.delete("gone.txt")
        await move(workspace, "old/moved.txt", "moved/here.txt", b"one\n2\nthree\nfour\n")
        await move(workspace, "Case.txt", "case.txt", FILES["Case.txt"])
        (workspace.worktree / "to-run.sh").chmod(0o755)
        (workspace.worktree / "link").unlink()
        (workspace.worktree / "link").symlink_to("run.sh")
        proposals = await workspace.proposals()
        assert {proposal.kind for proposal in proposals} == KINDS
        chosen = whole(*proposals)
        if action == "reject":
            return await workspace.plan_reject(chosen)
        plan = await workspace.plan_accept(chosen)
        if action == "accept":
            return plan
        return await workspace.plan_undo((await workspace.apply(plan)).record)
    finally:
        workspace.close()


def die_at(point: int, run: Callable[[], object]) -> bool:
    """Run in a child that is killed at its `point`-th file operation; True when it lived to the end."""
    child = os.fork()
    if not child:
        left = point

        def count(event: str, _: object) -> None:
            nonlocal left
            if event == "open" or event.startswith("os."):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        run()
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


async def carry_out(session: Path, plan: Plan) -> None:
    """What the child does."""
    workspace = await SessionWorkspace.open(session)
    await workspace.apply(plan)


async def recover(folder: Path, plan: Plan, point: int, ends: tuple[Trees, Trees]) -> dict[str, object]:
    """Reconcile and go the way the point's number says; the finding and what is wrong with the result."""
    workspace = await SessionWorkspace.open(folder / "s")
    try:
        found = await workspace.reconcile(plan)
        forward = bool(point % 2)
        if forward:
            await workspace.finish(plan)
        else:
            await workspace.roll_back(plan)
        problems = []
        if trees_of(workspace) != ends[forward]:
            problems.append("the trees are not the expected ones")
        if (await workspace.reconcile(plan)).finding != ("done" if forward else "not_done"):
            problems.append("a second look differs")
        for way in (workspace.finish(plan), workspace.roll_back(plan)) if forward else (workspace.roll_back(plan),):
            await way
        if trees_of(workspace) != ends[False]:
            problems.append("a second recovery differs")
        return {"point": point, "finding": found.finding, "problems": problems}
    finally:
        workspace.close()


async def ends_of(folder: Path, action: str) -> tuple[Trees, Trees]:
    """The trees before and after an apply that nothing disturbs."""
    plan = await prepare(folder, action)
    workspace = await SessionWorkspace.open(folder / "s")
    try:
        before = trees_of(workspace)
        await workspace.apply(plan)
        return before, trees_of(workspace)
    finally:
        workspace.close()


def main(base: Path, action: str) -> None:
    """Every point of death in turn."""
    ends = anyio.run(ends_of, base / "undisturbed", action)
    for point in range(1, POINTS_MAX):
        folder = base / str(point)
        plan = anyio.run(prepare, folder, action)
        survived = die_at(point, partial(anyio.run, carry_out, folder / "s", plan))
        print(json.dumps({"survived": survived} | anyio.run(recover, folder, plan, point, ends)), flush=True)
        if survived:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
