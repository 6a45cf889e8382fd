"""What a look may not take from an earlier one: young times, places where links lead, writes that no time tells."""

import mmap
import os
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from tests.kit.images import mounted_image
from tests.kit.workspaces import make_tree

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import SnapshotId
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.glance import CLOCK_GRAIN_NS, DATED_KINDS, Glance, is_settled
from gloveport.server.workspace.limits import DEFAULT_LIMITS
from gloveport.server.workspace.look import Look
from gloveport.server.workspace.plan import Selected
from gloveport.server.workspace.sight import Listing, Sight
from gloveport.server.workspace.state import SnapshotInfo, WorkspaceState

SECOND_NS = 1_000_000_000
IMAGE_BYTES = 32 << 20
PAGE_BYTES = 4096


def state_of(root: Path) -> WorkspaceState:
    """Of a session without a base."""
    return WorkspaceState(root, "ws", SnapshotInfo(SnapshotId("s"), 0, 0, (), 0, ()), {})


def look_thrice(tree: Root, state: WorkspaceState, sight: Sight) -> None:
    """Until all that may be taken whole is."""
    time.sleep(CLOCK_GRAIN_NS / 0.9e9)
    for _ in range(3):
        Look(tree, DEFAULT_LIMITS, sight).current(state)


def test_a_time_of_whole_seconds_is_young_for_two_of_them() -> None:
    """A finer one for as long as the clock's grain; one young name among old ones keeps the folder from being taken."""
    whole, fine = 1_000 * SECOND_NS, 1_000 * SECOND_NS + 1
    assert not is_settled(whole, whole + 2 * SECOND_NS)
    assert is_settled(whole, whole + 2 * SECOND_NS + 2 * CLOCK_GRAIN_NS)
    assert not is_settled(fine, fine + CLOCK_GRAIN_NS)
    assert is_settled(fine, fine + 2 * CLOCK_GRAIN_NS)
    for times, after_ns, settled in (((whole, fine), SECOND_NS, False), ((fine,), SECOND_NS, True), ((), 0, True)):
        stamps = array("q", [number for each in times for number in (0, each, each, 1, 0o100644)])
        listing = Listing(["name"] * len(times), [], stamps, fine + after_ns)
        assert listing.is_settled is settled


def new_name(root: Path) -> None:
    """A name that comes."""
    (root / "new").write_bytes(b"new\n")


def other_name(root: Path) -> None:
    """A name that goes, another that comes."""
    (root / "second").rename(root / "moved")


def same_size(root: Path) -> None:
    """Other bytes, as many of them."""
    (root / "first").write_bytes(b"six\n")


@pytest.mark.parametrize("kinds", [DATED_KINDS, frozenset[int]()], ids=["by the folder's times", "by listing"])
def test_what_changes_in_the_second_of_a_look_is_seen(kinds: frozenset[int]) -> None:
    """Where a file system keeps whole seconds, as ext with small inodes does."""
    with mounted_image("ext4", IMAGE_BYTES, "-I", "128") as mounted:
        root = make_tree(mounted / "root", {"first": b"one\n", "second": b"two\n"})
        assert root.stat().st_ctime_ns % SECOND_NS == 0
        for change in (new_name, other_name, same_size):
            assert changed_within_a_second(root, kinds, change), change.__name__


def changed_within_a_second(root: Path, kinds: frozenset[int], change: Callable[[Path], None]) -> bool:
    """True when a look with a memory sees what came after others in the same second."""
    sight, state = Sight(glance=Glance(kinds)), state_of(root)
    with Root(root) as tree:
        time.sleep(1.05 - time.time() % 1)
        (root / "first").write_bytes(b"ten\n")
        (root / "second").write_bytes(b"two\n")
        (root / "third").touch()
        look_thrice(tree, state, sight)
        change(root)
        time.sleep(2.2)
        found = dict(Look(tree, DEFAULT_LIMITS, sight).current(state))
        return found == dict(Look(tree, DEFAULT_LIMITS).current(state))


@pytest.mark.parametrize("kinds", [DATED_KINDS, frozenset[int]()], ids=["by the folder's times", "by listing"])
def test_where_a_link_leads_is_asked_at_each_look(tmp_path: Path, kinds: frozenset[int]) -> None:
    """A link whose way comes to lead out of the root, by a file or a folder elsewhere, is content no more; and back."""
    files = {"deep/x": b"x\n", "deep/sub/y": b"y\n", "low/keep": b""}
    root = make_tree(tmp_path / "root", files)
    (root / "by_file").symlink_to("deep/x")
    (root / "low" / "by_folder").symlink_to("../deep/sub/y")
    sight, state = Sight(glance=Glance(kinds)), state_of(root)
    with Root(root) as tree:

        def told() -> tuple[list[str], list[tuple[str, str]]]:
            looks = [Look(tree, DEFAULT_LIMITS, sight), Look(tree, DEFAULT_LIMITS)]
            one, other = (
                (sorted(look.current(state)), sorted((n.path, n.reason) for n in look.not_covered)) for look in looks
            )
            assert one == other
            return one

        look_thrice(tree, state, sight)
        assert told() == (["by_file", "deep/sub/y", "deep/x", "low/by_folder", "low/keep"], [])
        (root / "deep/x").unlink()
        (root / "deep/x").symlink_to("/etc/passwd")
        (root / "deep/sub").rename(tmp_path / "sub")
        (root / "deep/sub").symlink_to(tmp_path / "sub")
        names = ("by_file", "deep/sub", "deep/x", "low/by_folder")
        assert told() == (["low/keep"], [(name, "link_leaves_root") for name in names])
        look_thrice(tree, state, sight)
        for path in ("deep/x", "deep/sub"):
            (root / path).unlink()
        assert told() == (["by_file", "low/by_folder", "low/keep"], [])


def test_a_python_environment_is_known_at_once(tmp_path: Path) -> None:
    """Though the folder's modification time is put back when its mark comes."""
    root = make_tree(tmp_path / "root", {"myenv/a.py": b"a\n"})
    sight, state = Sight(), state_of(root)
    with Root(root) as tree:
        look_thrice(tree, state, sight)
        info = (root / "myenv").stat()
        (root / "myenv/pyvenv.cfg").touch()
        os.utime(root / "myenv", ns=(info.st_atime_ns, info.st_mtime_ns))
        look = Look(tree, DEFAULT_LIMITS, sight)
        assert (dict(look.current(state)), look.dependencies) == ({}, ("myenv",))


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """A file's bytes in memory, the first page written already: a later write to it moves no time."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), PAGE_BYTES) as memory:
        memory[:5] = b"first"
        yield memory


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder whose pages nobody writes back: one that is dirty stays so."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="gp-") as folder:
        yield Path(folder)


async def shown_of(workspace: SessionWorkspace) -> dict[str, Selected]:
    """The proposals by path, when all that may be taken whole is."""
    await anyio.sleep(CLOCK_GRAIN_NS / 0.9e9)
    for _ in range(3):
        await workspace.refresh()
        found = await workspace.proposals()
    return {each.path: Selected(each.change_id, each.digest) for each in found}


async def test_a_write_that_no_time_tells_harms_nothing(in_memory: Path) -> None:
    """Through a mapping, unseen by looks: what is accepted is what was shown, and nothing unseen is written over."""
    root = make_tree(in_memory / "root", {"a": b"0" * PAGE_BYTES, "b": b"0" * PAGE_BYTES, "c": b"0" * PAGE_BYTES})
    workspace = await SessionWorkspace.create(root, in_memory / "session")
    first, later = (word + b"0" * (PAGE_BYTES - 5) for word in (b"first", b"later"))
    await workspace.write("c", b"the agent's\n")
    with (
        mapped(workspace.worktree / "a") as one,
        mapped(workspace.worktree / "b") as two,
        mapped(root / "c") as users,
    ):
        shown = await shown_of(workspace)
        one[:5] = two[:5] = users[:5] = b"later"
        assert await shown_of(workspace) == shown
        await workspace.apply(await workspace.plan_accept([shown["a"]]))
        assert (root / "a").read_bytes() == first
        with pytest.raises(WorkspaceError) as refused:
            await workspace.plan_reject([shown["b"]])
        assert refused.value.code is ErrorCode.CHANGE_SUPERSEDED
        assert (workspace.worktree / "b").read_bytes() == later
        with pytest.raises(WorkspaceError) as refused:
            await workspace.plan_accept([shown["c"]])
        assert refused.value.code is ErrorCode.CHANGE_CONFLICT
        assert (root / "c").read_bytes() == later
    workspace.close()
