"""A process that lets a child die at every file operation of a snapshot and looks at what is left.

Purpose: `python crash_snapshot.py FOLDER` prints one JSON line per point of death, the last one "survived".
"""

import json
import sys
from functools import partial
from pathlib import Path

import anyio
from tests.kit.crash_apply import die_at
from tests.kit.workspaces import folders_of, make_tree, read_tree

from gloveport.protocol.errors import GloveportError
from gloveport.server.workspace.contents import Contents
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.limits import DEFAULT_LIMITS
from gloveport.server.workspace.snapshot import take_snapshot

FILES = {
    "a.txt": b"a\n",
    "b/c.txt": b"c\n",
    "sub/.git": b"gitdir: ../.git/modules/sub\n",
    "sub/code.c": b"int x;\n",
    ".git/config": b"[core]\n",
    "nested/.git/HEAD": b"ref: refs/heads/main\n",
}
CONTENT = ("a.txt", "b/c.txt", "sub/code.c")
POINTS_MAX = 400


def take(folder: Path, name: str) -> None:
    """One session begins."""
    with Contents(folder / "contents", folder / "sessions") as contents:
        take_snapshot(folder / "root", folder / "sessions" / name, DEFAULT_LIMITS, (), "", contents)


async def opened(folder: Path, name: str) -> dict[str, bytes] | None:
    """The worktree of a session that can be opened, None where it is refused."""
    with Contents(folder / "contents", folder / "sessions") as contents:
        try:
            session = await SessionWorkspace.open(folder / "sessions" / name, contents=contents)
        except GloveportError:
            return None
        try:
            assert await session.proposals() == ()
            return {path: data for path, (_, data) in read_tree(session.worktree).items()}
        finally:
            session.close()


def main(folder: Path) -> None:
    """Every point of death in turn, all in the same data."""
    root = make_tree(folder / "root", FILES)
    (folder / "sessions").mkdir()
    before = (read_tree(root), folders_of(root))
    wanted = {path: FILES[path] for path in CONTENT}
    for point in range(1, POINTS_MAX):
        survived = die_at(point, partial(take, folder, f"s{point}"))
        found = anyio.run(opened, folder, f"s{point}")
        problems = []
        if found is not None and found != wanted:
            problems.append("a half snapshot can be opened")
        if (read_tree(root), folders_of(root)) != before:
            problems.append("the user's folder was touched")
        if survived and found is None:
            problems.append("what was taken to its end cannot be opened")
        print(json.dumps({"point": point, "opens": found is not None, "survived": survived, "problems": problems}))
        if survived:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
