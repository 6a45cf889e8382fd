"""What git tracks is content though a rule ignores it; its index is read as a file and never believed."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.kit.history.repository import NEUTRAL
from tests.kit.require import require
from tests.kit.workspaces import make_tree, propose, whole

from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.contents import Contents
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.tracked import Tracked, read_tracked

FILES = {
    ".gitignore": b"CMake*\nbuild/\n",
    "CMakeLists.txt": b"project\n",
    "CMakeCache.txt": b"not tracked\n",
    "build/kept.txt": b"tracked below an ignored folder\n",
    "build/made.o": b"not tracked\n",
    "src/a-rather-long-name.c": b"int x;\n",
    "src/a-rather-long-name.h": b"int y;\n",
    "node_modules/x/index.js": b"committed\n",
}
TRACKED = {"CMakeLists.txt", "build/kept.txt", ".gitignore", "src/a-rather-long-name.c", "src/a-rather-long-name.h"}
COMMITTED = "node_modules/x/index.js"


def repository(root: Path, version: int, form: str = "sha1") -> Path:
    """A folder whose index names some ignored files too."""
    require(shutil.which("git") is not None, "git is not installed")
    make_tree(root, FILES)
    named = (*TRACKED, "node_modules/x/index.js")
    for words in (
        ("init", "--quiet", f"--object-format={form}"),
        ("update-index", "--index-version", str(version)),
        ("add", "-f", *sorted(named)),
        ("update-index", "--index-version", str(version)),
    ):
        subprocess.run(["git", *words], cwd=root, env=dict(NEUTRAL), check=True, capture_output=True, timeout=60)
    return root


@pytest.mark.parametrize(("version", "form"), [(2, "sha1"), (3, "sha1"), (4, "sha1"), (2, "sha256"), (4, "sha256")])
def test_every_form_of_the_index(tmp_path: Path, version: int, form: str) -> None:
    """Exactly git's list, without installed dependencies."""
    with Root(repository(tmp_path / "root", version, form)) as root:
        assert read_tracked(root) == Tracked(frozenset(TRACKED), frozenset({"node_modules"}))


async def test_what_is_tracked_is_read_edited_and_accepted(tmp_path: Path) -> None:
    """Though a rule ignores it; what is only ignored stays out."""
    root = repository(tmp_path / "root", 2)
    workspace = await SessionWorkspace.create(root, tmp_path / "s")
    try:
        assert {path for path in FILES if (workspace.worktree / path).exists()} == TRACKED | {COMMITTED}
        assert await workspace.proposals() == ()
        await workspace.write("CMakeLists.txt", b"project 2\n")
        (workspace.worktree / "build/kept.txt").write_bytes(b"by a program\n")
        proposals = await propose(workspace)
        assert {path: one.kind for path, one in proposals.items()} == {
            "CMakeLists.txt": "modify",
            "build/kept.txt": "modify",
        }
        await workspace.apply(await workspace.plan_accept(whole(*proposals.values())))
        assert (root / "CMakeLists.txt").read_bytes() == b"project 2\n"
        (root / "build/kept.txt").write_bytes(b"the user's\n")
        assert (await workspace.refresh()).taken == ("build/kept.txt",)
    finally:
        workspace.close()


async def test_committed_dependencies_are_content_and_can_be_changed(tmp_path: Path) -> None:
    """Read, edited by a tool and by a program, found, accepted, seen again over a restart; what lies beside too."""
    root = repository(tmp_path / "root", 2)
    make_tree(root, {"node_modules/x/node_modules/y.js": b"nested, not committed\n", "pkg/node_modules/z.js": b"z\n"})
    workspace = await SessionWorkspace.create(root, tmp_path / "s")
    try:
        assert workspace.snapshot.dependency_folders == ("node_modules/x/node_modules", "pkg/node_modules")
        assert COMMITTED in (await workspace.list()).paths
        await workspace.write(COMMITTED, b"changed\n")
        (workspace.worktree / "node_modules/x/made.js").write_bytes(b"made\n")
        with pytest.raises(WorkspaceError):
            await workspace.write("pkg/node_modules/z.js", b"never\n")
        proposals = await propose(workspace)
        assert set(proposals) == {COMMITTED, "node_modules/x/made.js"}
        await workspace.apply(await workspace.plan_accept(whole(*proposals.values())))
        assert (root / COMMITTED).read_bytes() == b"changed\n"
    finally:
        workspace.close()
    again = await SessionWorkspace.open(tmp_path / "s")
    try:
        assert await again.proposals() == ()
        (root / COMMITTED).write_bytes(b"the user's\n")
        assert (await again.refresh()).taken == (COMMITTED,)
        assert await again.read(COMMITTED) == b"the user's\n"
    finally:
        again.close()


async def test_what_is_ignored_stays_installed_though_a_part_is_committed(tmp_path: Path) -> None:
    """Else a program would miss the rest of it; and what an earlier session saw of the folder does not count."""
    root = repository(tmp_path / "root", 2)
    (tmp_path / "sessions").mkdir()
    with Contents(tmp_path / "contents", tmp_path / "sessions") as contents:
        seen = []
        for name, rules in (("a", FILES[".gitignore"]), ("b", b"node_modules/\n"), ("c", FILES[".gitignore"])):
            (root / ".gitignore").write_bytes(rules)
            workspace = await SessionWorkspace.create(root, tmp_path / "sessions" / name, contents=contents)
            seen.append((workspace.snapshot.dependency_folders, COMMITTED in (await workspace.list()).paths))
            workspace.close()
        (root / ".git/index").unlink()
        workspace = await SessionWorkspace.create(root, tmp_path / "sessions" / "d", contents=contents)
        seen.append((workspace.snapshot.dependency_folders, COMMITTED in (await workspace.list()).paths))
        workspace.close()
    assert seen == [((), True), (("node_modules",), False), ((), True), (("node_modules",), False)]


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_index_names_nothing_that_may_not_be(tmp_path: Path, seed: int) -> None:
    """Any bytes in it: an answer, and only names that a change may have."""
    chance = random.Random(seed)
    root = repository(tmp_path / "root", chance.choice((2, 4)))
    index = root / ".git/index"
    raw = bytearray(index.read_bytes())
    for _ in range(chance.randint(1, 12)):
        raw[chance.randrange(len(raw))] = chance.choice((0, 255, 0x2E, 0x2F, chance.randrange(256)))
    index.write_bytes(raw[: chance.randint(0, len(raw))] if chance.random() < 0.5 else raw)
    with Root(root) as tree:
        tracked = read_tracked(tree)
        found = tracked.paths | tracked.folders
    assert not any(part in ("", ".", "..", ".git") for path in found for part in path.split("/"))


def test_no_link_and_no_gitfile_is_followed(tmp_path: Path) -> None:
    """An index of another folder says nothing of this one."""
    other = repository(tmp_path / "other", 2)
    make_tree(tmp_path / "root", {"a": b""})
    with Root(tmp_path / "root") as root:
        (tmp_path / "root/.git").symlink_to(other / ".git")
        assert read_tracked(root) == Tracked()
        (tmp_path / "root/.git").unlink()
        (tmp_path / "root/.git").write_text(f"gitdir: {other}/.git\n")
        assert read_tracked(root) == Tracked()
