"""Where a file system can, a worktree's larger files take no place of their own, and are nobody else's all the same."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.images import mounted_image
from tests.kit.workspaces import make_tree, read_tree

from gloveport.server.workspace.contents import Contents
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.store import SHARED_BYTES_MIN

IMAGE_BYTES = 512 << 20
LARGE = 8 << 20


@pytest.fixture(params=["xfs", "btrfs"])
def disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of its own that shares blocks."""
    with mounted_image(request.param, IMAGE_BYTES) as mounted:
        yield mounted


def used_bytes(disk: Path) -> int:
    """What is in use on the disk, when all is written."""
    os.sync()
    info = os.statvfs(disk)
    return (info.f_blocks - info.f_bfree) * info.f_frsize


def sizes() -> dict[str, bytes]:
    """Contents around the sizes at which something changes."""
    chance = random.Random(3)
    edges = (0, 1, SHARED_BYTES_MIN - 1, SHARED_BYTES_MIN, SHARED_BYTES_MIN + 1, SHARED_BYTES_MIN + 4096, 100_001)
    return {f"size-{size}": chance.randbytes(size) for size in edges} | {
        "large": chance.randbytes(LARGE),
        "small": b"x",
    }


async def begun(disk: Path, contents: Contents, name: str) -> SessionWorkspace:
    """A session whose data lies on the disk."""
    return await SessionWorkspace.create(disk / "root", disk / "sessions" / name, contents=contents)


async def test_sessions_share_the_place_and_nothing_else(disk: Path) -> None:
    """The second and third worktree cost next to nothing; what is written in one is in no other, nor in the store."""
    files = sizes()
    root = make_tree(disk / "root", files)
    (disk / "sessions").mkdir()
    with Contents(disk / "contents", disk / "sessions") as contents:
        first = await begun(disk, contents, "a")
        with_first = used_bytes(disk)
        others = [await begun(disk, contents, name) for name in ("b", "c")]
        assert used_bytes(disk) - with_first < 0.5 * LARGE
        for each in (first, *others):
            assert {path: data for path, (_, data) in read_tree(each.worktree).items()} == files
        with (first.worktree / "large").open("r+b") as file:
            file.write(b"written in place")
        assert (others[0].worktree / "large").read_bytes() == files["large"]
        assert (root / "large").read_bytes() == files["large"]
        assert {one.path for one in await first.proposals()} == {"large"}
        for each in (first, *others):
            each.close()
        again = await begun(disk, contents, "d")
        assert (again.worktree / "large").read_bytes() == files["large"]
        again.close()


async def test_elsewhere_every_byte_is_written(tmp_path: Path) -> None:
    """The same contents on the machine's own file system, whatever it can."""
    files = sizes()
    make_tree(tmp_path / "root", files)
    (tmp_path / "sessions").mkdir()
    with Contents(tmp_path / "contents", tmp_path / "sessions") as contents:
        for name in ("a", "b"):
            workspace = await begun(tmp_path, contents, name)
            assert {path: data for path, (_, data) in read_tree(workspace.worktree).items()} == files
            assert await workspace.proposals() == ()
            workspace.close()
