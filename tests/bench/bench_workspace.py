"""Snapshot and proposals of a generated tree beside a plain copy of it.

Purpose: `python tests/bench/bench_workspace.py [FILES]` prints medians and their ratio to `shutil.copytree`.
"""

import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.plan import Selected

FILES = 5_000
ROUNDS = 5
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


def shown(name: str, seconds: list[float], plain: float) -> None:
    """One row: median and ratio."""
    middle = statistics.median(seconds)
    print(f"{name:<44}{middle * 1e3:9.1f} ms  {middle / plain:7.2f} x copytree")


async def measure(base: Path, files: int) -> None:
    """Each figure ROUNDS times, the copies in turn so that all meet the same cache."""
    root = base / "root"
    generate(root, files)
    rows: dict[str, list[float]] = {}

    def note(name: str, seconds: float) -> None:
        rows.setdefault(name, []).append(seconds)

    for number in range(ROUNDS):
        begun = time.perf_counter()
        shutil.copytree(root, base / f"copy{number}")
        note("copytree", time.perf_counter() - begun)
        begun = time.perf_counter()
        workspace = await SessionWorkspace.create(root, base / f"session{number}")
        note("snapshot and worktree", time.perf_counter() - begun)
        note("proposals, first look", await timed(workspace.proposals))
        note("proposals, nothing changed", await timed(workspace.proposals))
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
        note("search for a word", await timed(lambda ws=workspace: ws.search("nowhere")))  # type: ignore[misc] - a default binds the loop's value
        workspace.close()
        begun = time.perf_counter()
        again = await SessionWorkspace.open(base / f"session{number}")
        note("open after a restart", time.perf_counter() - begun)
        note("proposals, first look after a restart", await timed(again.proposals))
        again.close()
        shutil.rmtree(base / f"copy{number}")
        shutil.rmtree(base / f"session{number}")
    plain = statistics.median(rows["copytree"])
    print(f"{files} files, median of {ROUNDS}")
    for name, seconds in rows.items():
        shown(name, seconds, plain)
    few, many = await accepted(base, ACCEPTED // 4), await accepted(base, ACCEPTED)
    print(f"accept of {ACCEPTED} files {many:.2f} s, {many / few:.1f} x that of a quarter of them")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(measure, Path(folder), int(sys.argv[1]) if len(sys.argv) > 1 else FILES)
