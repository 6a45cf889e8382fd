"""One recorded life of a daemon, with all that the proof needs to know of it.

Purpose: record the workload once, check the recording against the real folder, and keep what must hold after any loss.
Invariant: a recording whose full replay is not the real folder, byte for byte, is refused.
Must never: be changed by a trial.
"""

import asyncio
import random
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.kit.power import workload
from tests.kit.power.disk import Disk, Inode
from tests.kit.power.promises import (
    Answered,
    Effect,
    Recorded,
    Told,
    find_effects,
    read_events,
    read_promises,
)
from tests.kit.power.record import TracedDaemon, World, replayed
from tests.kit.power.replay import Step
from tests.kit.power.states import ORDERS, POLICIES, Loss, State
from tests.kit.power.strace import TraceError

Tree = dict[str, bytes]
UNRECORDED = frozenset({"home/test.log"})
"""What is written by the test itself."""
AROUND_STEPS = 120
"""So many steps before and after an erasure are looked at more often than others."""
DECISIONS = ("change/accept", "change/undo")


@dataclass(frozen=True, slots=True)
class Recording:
    """`settled` are the user's files after each decision that wrote them, and when it was answered."""

    world: World
    disk: Disk
    steps: list[Step]
    told: list[Told]
    answered: list[Answered]
    events: list[Recorded]
    effects: list[Effect]
    settled: list[tuple[int, Tree]]
    boot_id: str

    @property
    def proposals(self) -> set[tuple[str, str | None]]:
        """Every path and content that was ever proposed."""
        return {
            (event.payload["path"], event.payload["result_hash"])
            for event in self.events
            if event.type == "ChangeProposed"
        }

    def kind(self, step: Step) -> str:
        """What kind of file a step touched, in a word."""
        return kind_of(step.path.removeprefix(f"{self.world.folder}/"))


def kind_of(path: str) -> str:
    """The kind of a file, by its place below the world."""
    top, _, rest = path.partition("/")
    if top == "project":
        return "user's files"
    first = rest.split("/")[0]
    if first == "sessions":
        inner = rest.split("/")[2:3]
        return {"worktree": "worktree", "objects.pack": "content store", "objects.index": "content store"}.get(
            inner[0] if inner else "", "workspace record"
        )
    named = {
        "contents": "content store",
        "runs": "run folders",
        "blobs": "blobs",
        "journal.db-wal": "journal log",
        "journal.db": "journal database",
    }
    if first in named:
        return named[first]
    if first.startswith("journal.db-"):
        return "journal aside"
    if first.startswith("audit.jsonl"):
        return "audit log"
    return "notes and lease"


def record(faults: tuple[str, ...] = (), *, only_first: bool = False) -> Recording:
    """Run the workload under the recorder, or its first life; `faults` are named to the launcher.

    The world is the caller's to remove.

    strace now and then cannot name a descriptor of a process that ends: such a record is not whole, and is made again.
    """
    try:
        return _record(faults, only_first=only_first)
    except TraceError:
        return _record(faults, only_first=only_first)


def _record(faults: tuple[str, ...], *, only_first: bool) -> Recording:
    world = World()
    traces = Path(tempfile.mkdtemp(prefix="gpt-", dir="/tmp"))
    try:
        workload.write_project(world.project)
        daemon = TracedDaemon(world.home, traces / "trace", faults)
        daemon.use_script(workload.write_script(world.model))
        disk = Disk(str(world.folder))
        disk.load(world.folder)
        before = read_tree(world.project)
        try:
            asyncio.run(workload.whole(daemon, world.project, only_first=only_first))
        finally:
            daemon.kill()
        return _made(world, disk, daemon.traces, before)
    except BaseException:
        world.remove()
        raise
    finally:
        shutil.rmtree(traces, ignore_errors=True)


def _made(world: World, disk: Disk, traces: list[Path], before: Tree) -> Recording:
    replayer, spoken = replayed(world, disk, traces, world.home)
    strange = [
        *disk.strange,
        *_differences(world, disk),
        *(path for path in replayer.mapped if not path.endswith("-shm")),
    ]
    if strange:
        raise AssertionError(f"the recording is not the real folder: {strange[:10]}")
    told, answered = read_promises(spoken)
    events = read_events(world.home)
    settled = [(-1, before)]
    for one in answered:
        if one.method in DECISIONS:
            settled.append((one.at, tree_at(disk, one.at)))
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    effects = find_effects(replayer.steps, events, str(world.home), str(world.project))
    return Recording(world, disk, replayer.steps, told, answered, events, effects, settled, boot)


def _differences(world: World, disk: Disk) -> list[str]:
    """Where the full replay and the real folder differ."""
    real = {path.relative_to(world.folder).as_posix(): path for path in world.folder.rglob("*")}
    model = dict(disk.paths())
    found = sorted((real.keys() ^ model.keys()) - UNRECORDED)
    whole = State(disk, Loss(10**9, 0, "keep", "ordered"))
    for name, inode in model.items():
        path = real.get(name)
        if path is None or name.endswith("-shm"):
            continue
        if inode.kind == "file" and whole.bytes_of(inode) != path.read_bytes():
            found.append(f"{name}: other bytes")
        if inode.kind != "link" and path.lstat().st_mode & 0o777 != inode.mode & 0o777:
            found.append(f"{name}: another mode")
    return found


def tree_at(disk: Disk, at: int) -> Tree:
    """The user's files as they were at a moment."""
    state = State(disk, Loss(at, 0, "keep", "ordered"))
    found: Tree = {}

    def walk(folder: Inode, prefix: str) -> None:
        for name, child in state.names_in(folder).items():
            if child.kind == "folder":
                walk(child, f"{prefix}{name}/")
            elif child.kind == "file":
                found[prefix + name] = state.bytes_of(child)

    walk(state.names_in(disk.root)["project"], "")
    return found


def read_tree(folder: Path) -> Tree:
    """Every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def choose(recording: Recording, seed: int) -> Loss:
    """A loss by its seed alone: a kind of step first, so that rare kinds are met as often as the journal's."""
    chance = random.Random(seed)
    kinds: dict[tuple[str, str], list[int]] = {}
    for step in recording.steps:
        kinds.setdefault((recording.kind(step), step.verb), []).append(step.at)
    for one in recording.answered:
        kinds.setdefault(("answers", "said"), []).append(one.at)
        if one.method == "session/erase":
            first = max(0, sum(step.at < one.at for step in recording.steps) - AROUND_STEPS)
            for step in recording.steps[first : first + 2 * AROUND_STEPS]:
                kinds.setdefault(("erasure", step.verb), []).append(step.at)
    cut = chance.choice(kinds[chance.choice(sorted(kinds))])
    # Just before, at, or a little after: what follows a step is as telling as the step.
    later = [step.at for step in recording.steps if step.at >= cut][: chance.choice((1, 1, 2, 6))]
    return Loss(
        chance.choice((cut - 1, later[-1] if later else cut)), seed, chance.choice(POLICIES), chance.choice(ORDERS)
    )


def place_of(recording: Recording, loss: Loss) -> str:
    """The step before a cut, in words."""
    before = [step for step in recording.steps if step.at <= loss.cut]
    return f"{recording.kind(before[-1])}: {before[-1].verb}" if before else "before the first step"
