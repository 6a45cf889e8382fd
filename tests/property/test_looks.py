"""A look that remembers says what one without a memory says, whatever happened in between."""

import os
import random
import shutil
import time
from pathlib import Path

import pytest
from tests.kit.workspaces import make_tree

from gloveport.protocol.ids import Sha256, SnapshotId
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.glance import CLOCK_GRAIN_NS, DATED_KINDS, Glance
from gloveport.server.workspace.limits import DEFAULT_LIMITS
from gloveport.server.workspace.look import Look, differing
from gloveport.server.workspace.sight import Sight
from gloveport.server.workspace.state import FileState, SnapshotInfo, WorkspaceState

NAMES = ("a", "b.txt", "c.log", "env", "sub", "deep", ".gitignore", "node_modules", "x.pyc", "pyvenv.cfg")
STEPS = 60


def some_path(chance: random.Random) -> str:
    """A path one to three parts deep."""
    return "/".join(chance.choice(NAMES) for _ in range(chance.randint(1, 3)))


def change(root: Path, chance: random.Random) -> None:
    """One thing that a user or a program does to a tree."""
    path = root / some_path(chance)
    match chance.randint(0, 8):
        case 0 | 1 | 2:
            write(root, path, chance.choice((b"one\n", b"two\n", b"*.log\n", b"sub/\n!c.log\n", b"")))
        case 3:
            remove(path)
        case 4 if path.exists() and path.parent.is_dir():
            other = root / some_path(chance)
            if not other.exists() and other.parent.is_dir() and not other.is_relative_to(path):
                path.rename(other)
        case 5 if path.is_file() and not path.is_symlink():
            path.chmod(chance.choice((0o644, 0o755, 0o600)))
        case 6 if path.parent.is_dir() and not path.exists() and not path.is_symlink():
            path.symlink_to(chance.choice(("a", "../a", "/etc/passwd", "sub")))
        case 7 if path.is_file() and not path.is_symlink():
            info = path.stat()
            path.write_bytes(bytes(reversed(path.read_bytes())))
            os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
        case _:
            os.utime(root)


def write(root: Path, path: Path, data: bytes) -> None:
    """Make a file, with folders above it, where nothing is in the way."""
    above = [each for each in path.parents if each != root and each.is_relative_to(root)]
    if path.is_dir() or path.is_symlink() or any(each.is_file() or each.is_symlink() for each in above):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def remove(path: Path) -> None:
    """Remove whatever lies there."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


@pytest.mark.parametrize("kinds", [DATED_KINDS, frozenset[int]()], ids=["by the folder's times", "by listing"])
@pytest.mark.parametrize("seed", range(4))
def test_with_and_without_a_memory(tmp_path: Path, seed: int, kinds: frozenset[int]) -> None:
    """Content, what was left out and why, what is unknown, dependency folders: all the same, with any base."""
    chance = random.Random(seed)
    root = make_tree(tmp_path / "root", {"a": b"a\n", "sub/c.log": b"c\n", "deep/sub/b.txt": b"b\n"})
    sight = Sight(glance=Glance(kinds))
    base: dict[str, FileState] = {}
    glanced = 0
    with Root(root) as tree:
        for step in range(STEPS):
            if chance.random() < 0.4:  # nothing is young any more: the next looks take folders whole
                time.sleep(CLOCK_GRAIN_NS / 0.9e9)
                quiet = WorkspaceState(root, "ws", SnapshotInfo(SnapshotId("s"), 0, 0, (), 0, ()), base)
                for _ in range(3):
                    Look(tree, DEFAULT_LIMITS, sight).current(quiet)
                glanced += sum(bool(seen.glance) for seen in sight.folders.values())
            for _ in range(chance.randint(0, 3)):
                change(root, chance)
            state = WorkspaceState(root, "ws", SnapshotInfo(SnapshotId("s"), 0, 0, (), 0, ()), base)
            with_memory, fresh = Look(tree, DEFAULT_LIMITS, sight), Look(tree, DEFAULT_LIMITS)
            found = with_memory.current(state)
            assert found == fresh.current(state), step
            assert list(with_memory.differing(base, found)) == differing(base, found)
            assert set(with_memory.not_covered) == set(fresh.not_covered)
            assert with_memory.unknown == fresh.unknown
            assert with_memory.dependencies == fresh.dependencies
            assert with_memory.sight.bytes_total() == fresh.sight.bytes_total()
            if chance.random() < 0.3:
                base = {path: state for path, state in found.items() if chance.random() < 0.8}
                if chance.random() < 0.5:
                    base[some_path(chance)] = FileState("file", Sha256("0" * 64), 0o644)
    assert glanced


def test_a_name_that_comes_or_goes_is_seen_at_once(tmp_path: Path) -> None:
    """Though no other file changes, and though the folder's modification time is put back."""
    root = make_tree(tmp_path / "root", {"a": b"a\n", "b": b"b\n"})
    sight = Sight()
    quiet = WorkspaceState(root, "ws", SnapshotInfo(SnapshotId("s"), 0, 0, (), 0, ()), {})
    with Root(root) as tree:
        for step in range(6):
            time.sleep(CLOCK_GRAIN_NS / 0.9e9)
            for _ in range(3):
                Look(tree, DEFAULT_LIMITS, sight).current(quiet)
            assert all(seen.glance for seen in sight.folders.values())
            info = root.stat()
            if step % 3 == 0:
                (root / f"new{step}").write_bytes(b"")
            elif step % 3 == 1:
                (root / f"new{step - 1}").rename(root / "moved")
            else:
                (root / "moved").unlink()
            os.utime(root, ns=(info.st_atime_ns, info.st_mtime_ns))
            assert sorted(Look(tree, DEFAULT_LIMITS, sight).current(quiet)) == sorted(os.listdir(root))
