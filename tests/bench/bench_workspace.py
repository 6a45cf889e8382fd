"""Snapshot, looks and proposals of a generated tree beside a plain copy of it and beside git.

Purpose: `python tests/bench/bench_workspace.py [FILES]` prints medians and their ratio to `shutil.copytree`, and that
of a look to `git add -A && git write-tree` on the same tree, taken in turn.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from gloveport.server.workspace.contents import Contents
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.plan import Selected

FILES = 5_000
ROUNDS = 5
MANY = 500
TREE_GIT = "tree by git, nothing changed"
TREE_OURS = "look by us, nothing changed"
WORK = "the same in processor time"
ACCEPTED = 2_000


def generate(root: Path, files: int) -> None:
    """A tree like a project: folders of 25 files, 0.2 to 12 KiB each, some ignored."""
    chance = random.Random(7)
    line = b"    value = compute(other, 12345)  # words about it\n"
    for number in range(files):
        folder = root / f"pkg{number // 500}" / f"mod{number // 25}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file{number}.py").write_bytes(b"# %d\n" % number + line * chance.randint(4, 240))
    (root / ".gitignore").write_text("*.log\nbuild/\n/dist\n!keep.log\n" + "".join(f"*.x{n}\n" for n in range(40)))


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """Seconds of one call."""
    begun = time.perf_counter()
    await call()
    return time.perf_counter() - begun


async def accepted(base: Path, files: int) -> float:
    """Seconds in which so many changed files are planned, written and looked at again."""
    root = base / "many"
    generate(root, files)
    workspace = await SessionWorkspace.create(root, base / "session-many")
    for path in workspace.worktree.rglob("*.py"):
        path.write_bytes(b"changed\n")
    chosen = [Selected(each.change_id, each.digest) for each in await workspace.proposals()]
    begun = time.perf_counter()
    await workspace.apply(await workspace.plan_accept(chosen))
    await workspace.proposals()
    lasted = time.perf_counter() - begun
    workspace.close()
    shutil.rmtree(root)
    shutil.rmtree(base / "session-many")
    return lasted


def by_git(root: Path, store: Path) -> float:
    """Seconds of `git add -A && git write-tree`, the store and the index outside of the tree."""
    names = {"GIT_DIR": str(store), "GIT_WORK_TREE": str(root), "GIT_INDEX_FILE": str(store / "bench-index")}
    begun = time.perf_counter()
    for words in (("add", "-A"), ("write-tree",)):
        subprocess.run(["git", *words], env={**os.environ, **names}, check=True, capture_output=True)
    return time.perf_counter() - begun


def resident_bytes() -> int:
    """What this process holds in memory; 0 where that cannot be told."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


async def change_many(workspace: SessionWorkspace, note: Callable[[str, float], None]) -> None:
    """MANY files changed by the agent, accepted at once, taken back."""
    paths = (await workspace.list("*.py")).paths[:MANY]
    for path in paths:
        await workspace.write(path, b"changed\n" + await workspace.read(path))
    note(f"proposals of {len(paths)} files", await timed(workspace.proposals))
    chosen = [Selected(each.change_id, each.digest) for each in await workspace.proposals()]
    begun = time.perf_counter()
    plan = await workspace.plan_accept(chosen)
    note(f"plan of {len(paths)} files", time.perf_counter() - begun)
    begun = time.perf_counter()
    done = await workspace.apply(plan)
    note(f"apply of {len(paths)} files", time.perf_counter() - begun)
    await workspace.apply(await workspace.plan_undo(done.record))


def shown(name: str, seconds: list[float], plain: float) -> None:
    """One row: median and ratio."""
    middle = statistics.median(seconds)
    print(f"{name:<44}{middle * 1e3:9.1f} ms  {middle / plain:7.2f} x copytree")


async def measure(base: Path, files: int) -> None:
    """Each figure ROUNDS times, the copies in turn so that all meet the same cache."""
    root, store = base / "root", base / "git"
    generate(root, files)
    rows: dict[str, list[float]] = {}

    def note(name: str, seconds: float) -> None:
        rows.setdefault(name, []).append(seconds)

    subprocess.run(["git", "init", "--quiet", "--bare", str(store)], check=True)
    note("tree by git, cold", by_git(root, store))
    before, held = resident_bytes(), 0
    for number in range(ROUNDS):
        await one_round(base, number, note)
        held = resident_bytes() - before
    plain = statistics.median(rows["copytree"])
    print(f"{files} files, median of {ROUNDS}")
    for name, seconds in rows.items():
        shown(name, seconds, plain)
    ratios = [ours / theirs for ours, theirs in zip(rows[TREE_OURS], rows[TREE_GIT], strict=True)]
    print(f"{'look beside git, in turn':<44}{statistics.median(ratios):9.2f} x git")
    print(f"{'memory after all rounds':<44}{held / 1e6:9.1f} MB  {held / files:7.0f} bytes a file")


async def one_round(base: Path, number: int, note: Callable[[str, float], None]) -> None:
    """Everything once, in data of its own."""
    root, data = base / "root", base / f"data{number}"
    sessions = data / "sessions"
    sessions.mkdir(parents=True)
    begun = time.perf_counter()
    shutil.copytree(root, base / f"copy{number}")
    note("copytree", time.perf_counter() - begun)
    with Contents(data / "contents", sessions) as contents:
        begun = time.perf_counter()
        workspace = await SessionWorkspace.create(root, sessions / "a", contents=contents)
        note("snapshot and worktree, cold", time.perf_counter() - begun)
        begun = time.perf_counter()
        (await SessionWorkspace.create(root, sessions / "b", contents=contents)).close()
        note("snapshot and worktree, a second session", time.perf_counter() - begun)
        note("proposals, first look", await timed(workspace.proposals))
        note("proposals, nothing changed", await timed(workspace.proposals))
        await workspace.refresh()
        note(TREE_GIT, by_git(root, base / "git"))
        worked = time.process_time()
        note(TREE_OURS, await timed(workspace.refresh))
        note(WORK, time.process_time() - worked)
        (root / "pkg0/mod0/file2.py").write_bytes(b"# the user's, %d\n" % number)
        note("look by us, one file changed and taken over", await timed(workspace.refresh))
        await workspace.write("pkg0/mod0/file1.py", b"changed\n")
        note("proposals, one file changed", await timed(workspace.proposals))
        (proposal,) = await workspace.proposals()
        begun = time.perf_counter()
        plan = await workspace.plan_accept([Selected(proposal.change_id, proposal.digest)])
        note("plan of an accept", time.perf_counter() - begun)
        begun = time.perf_counter()
        done = await workspace.apply(plan)
        note("apply of one file", time.perf_counter() - begun)
        await workspace.apply(await workspace.plan_undo(done.record))
        await workspace.apply(await workspace.plan_reject([Selected(proposal.change_id, proposal.digest)]))
        await change_many(workspace, note)
        note("search for a word", await timed(lambda: workspace.search("nowhere")))
        workspace.close()
        begun = time.perf_counter()
        again = await SessionWorkspace.open(sessions / "a", contents=contents)
        note("open after a restart", time.perf_counter() - begun)
        note("proposals, first look after a restart", await timed(again.proposals))
        again.close()
    shutil.rmtree(base / f"copy{number}")
    shutil.rmtree(data)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as folder:
        anyio.run(measure, Path(folder), int(sys.argv[1]) if len(sys.argv) > 1 else FILES)
