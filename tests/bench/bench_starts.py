"""Many starts on each rung in one run: success, times, memory of one that is idle, leftovers, fairness.

Purpose: the figures of a rung beside each other. Each round starts one of each in turn, so that load hits all alike.
GLOVEPORT_STARTS sets how many starts each rung makes (100), GLOVEPORT_STARTS_RUNGS which ones take part, by their names
with commas between (all but the remote ones, and `others`); a rung that does not work here is named and left out. The
table is printed after each tenth of the starts, so that a run that is stopped has shown something; memory is measured
at the end alone, and is `nan` before.
Beside them stand bare bubblewrap and `docker run`, and, where GLOVEPORT_OTHERS names a folder to install them in, the
codex sandbox and ASRT.
"""

import asyncio
import contextlib
import math
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.bench.others import Other, find_others, of_container
from tests.bench.processes import pss_mib
from tests.bench.report import heading, tell
from tests.kit.engines import TestEngine, shared_engine
from tests.kit.remotes import remote_machine

from gloveport.sandbox.backends.docker import DockerSandbox
from gloveport.sandbox.backends.names import REMOTE_NAMES
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Command, ResultKind, Sandbox, SandboxError
from gloveport.sandbox.profile import Access, Limits, Mount, Profile
from gloveport.sandbox.runner import rundir, tree
from gloveport.sandbox.runner.engine_api import EngineSocket

STARTS: Final = int(os.environ.get("GLOVEPORT_STARTS", "100"))
LANES: Final = ("process", "bubblewrap", "docker", "docker warm", "gvisor", *REMOTE_NAMES)
OTHERS: Final = "others"
ALL: Final = (*(name for name in LANES if name not in REMOTE_NAMES), OTHERS)
WANTED: Final = tuple(filter(None, map(str.strip, os.environ.get("GLOVEPORT_STARTS_RUNGS", "").split(",")))) or ALL
PARTS: Final = 10
OTHERS_EVERY: Final = 5
"""The others start once in so many rounds: one of them takes as long as all of ours together."""
SESSIONS: Final = 8
FAIR_STARTS: Final = 6
LIMITS: Final = Limits(wall_s=60.0, memory_bytes_max=256 * 1024 * 1024, processes_max=64)
PUBLISHED: Final = "published elsewhere: Docker 320 ms / 45 MB, Firecracker 110 / 22, gVisor 180 / 38, chroot 45 / 8"
LAST_REMOVALS_S: Final = 2.0
"""A supervisor removes its container after the end is told."""


@dataclass
class Lane:
    """One rung and what was seen of it."""

    name: str
    backend: Sandbox
    profile: Profile
    engine: TestEngine
    times_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    async def start(self, run_id: str) -> float:
        """Milliseconds from an untouched lease to the known end of `true`; what it left is removed apart."""
        if isinstance(self.backend, DockerSandbox) and self.name.endswith("warm"):
            await self.backend.prewarm(self.profile)
        began = time.perf_counter()
        try:
            lease = await self.backend.prepare(self.profile, run_id)
            result = await (await lease.start(Command(("true",), run_id))).result()
        except SandboxError as error:
            self.failures.append(error.message)
            return (time.perf_counter() - began) * 1000
        took = (time.perf_counter() - began) * 1000
        if result.kind is not ResultKind.OK:
            self.failures.append(f"{result.kind}: {result.evidence}")
        await lease.release()
        return took


def percentile(values: list[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def open_lane(name: str, folder: Path) -> Lane:
    """One rung on an engine of its own kind."""
    rung, _, variant = name.partition(" ")
    project, runs = folder / name.replace(" ", "-"), folder / "runs" / name.replace(" ", "-")
    project.mkdir()
    if name in REMOTE_NAMES:
        machine = remote_machine()
        engine, remotes = machine.engine, {name: machine.choose(name.removeprefix("remote-"))}
        backend = open_backend(rung, runs, remotes=remotes)
    else:
        engine = shared_engine()
        backend = open_backend(rung, runs, engine=replace(engine.choice, warm=4 if variant else 0))
    mount = Mount(str(project), "/home/user/project", Access.READ_WRITE)
    return Lane(name, backend, Profile("bench", "build", (mount,), "/home/user/project", LIMITS), engine)


@contextlib.asynccontextmanager
async def open_lanes(folder: Path) -> AsyncIterator[list[Lane]]:
    """Every rung that is wanted and works here."""
    lanes = []
    try:
        for name in WANTED:
            if name == OTHERS:
                continue
            lane = open_lane(name, folder)
            found = await lane.backend.probe()
            if found.ok:
                lanes.append(lane)
            else:
                print(f"{name} is left out: {found.reason}")
                await lane.backend.close()
        yield lanes
    finally:
        for lane in lanes:
            await lane.backend.close()


async def measure_idle(lane: Lane) -> float:
    """MiB (proportional) of all processes that one idle run keeps: supervisor, wrapper or shim, the program."""
    lease = await lane.backend.prepare(lane.profile, "idle")
    execution = await lease.start(Command(("sh", "-c", "echo up; exec sleep 60"), "idle"))
    async for _chunk in execution.output():
        break
    folder = next(Path(lane.profile.mounts[0].source).parent.glob(f"runs/{lane.name.replace(' ', '-')}/*/idle"))
    status = rundir.read_status(folder)
    processes = [] if status is None else tree.find_descendants(status.supervisor_pid)
    pids = {process.pid for process in processes} | ({status.supervisor_pid} if status is not None else set())
    plan = rundir.read_request(folder).engine
    if plan is not None:
        container = EngineSocket(str(lane.engine.socket)).call("GET", f"/containers/{plan.name}/json")["Id"]
        pids |= of_container(str(container))
    total = sum(pss_mib(pid) for pid in pids)
    await execution.stop()
    await lease.release()
    return total


async def share(lane: Lane, folder: Path) -> None:
    """Sessions that start at the same moment, again and again: the slowest's middle over the fastest's."""

    async def one(number: int) -> float:
        project = folder / f"{lane.name.replace(' ', '-')}-{number}"
        project.mkdir()
        mounts = (Mount(str(project), "/home/user/project", Access.READ_WRITE),)
        own = Lane(lane.name.removesuffix(" warm"), lane.backend, replace(lane.profile, mounts=mounts), lane.engine)
        times = [await own.start(f"fair-{number}-{turn}") for turn in range(FAIR_STARTS)]
        return percentile(times, 0.5)

    middles = sorted(await asyncio.gather(*(one(number) for number in range(SESSIONS))))
    tell(f"{lane.name}: {SESSIONS} at once, slowest over fastest", middles[-1] / middles[0], "x", 2.0)


def count_left(lane: Lane, folder: Path) -> int:
    """Run folders and containers that are still there."""
    runs = folder / "runs" / lane.name.replace(" ", "-")
    files = [path for path in runs.rglob("*") if path.is_file()] if runs.exists() else []
    return len(files) + len(EngineSocket(str(lane.engine.socket)).call("GET", "/containers/json?all=1"))


def row(name: str, times_ms: list[float], failures: list[str], idle_mib: float) -> str:
    """One line of the table."""
    p50, p95, p99 = (percentile(times_ms, one) for one in (0.5, 0.95, 0.99))
    good = 100 * (1 - len(failures) / len(times_ms))
    words = f"  {name:18s} {p50:8.0f} {p95:8.0f} {p99:8.0f} {idle_mib:10.1f} {good:9.2f} {len(times_ms):7d}"
    return "\n".join([words, *(f"    {one}" for one in failures[:3])])


def show(rows: Iterable[str]) -> None:
    """The table of these rows."""
    print(f"  {'':18s} {'p50 ms':>8s} {'p95':>8s} {'p99':>8s} {'idle MiB':>10s} {'good %':>9s} {'starts':>7s}")
    for one in rows:
        print(one, flush=True)


async def begin_all(lanes: list[Lane], others: list[Other]) -> None:
    """All starts in turn, with the table so far after each part."""
    for number in range(STARTS):
        for lane in lanes:
            lane.times_ms.append(await lane.start(f"start-{number}"))
        if number % OTHERS_EVERY == 0:
            for other in others:
                other.start()
        done = number + 1
        if done < STARTS and done % max(1, STARTS // PARTS) == 0:
            print(f"\nafter {done} of {STARTS} starts:")
            show(row(one.name, one.times_ms, one.failures, math.nan) for one in (*lanes, *others))


async def main() -> None:
    """Print the figures."""
    if unknown := set(WANTED) - {*LANES, OTHERS}:
        sys.exit(f"GLOVEPORT_STARTS_RUNGS: {', '.join(sorted(unknown))}: choose among {', '.join((*LANES, OTHERS))}")
    with tempfile.TemporaryDirectory(prefix="gp-bench-") as name:
        folder = Path(name)
        async with open_lanes(folder) as lanes:
            others = find_others(shared_engine(), folder) if OTHERS in WANTED else []
            await begin_all(lanes, others)
            heading(f"{STARTS} starts of `true` on each rung, in turn with the others; {PUBLISHED}")
            rows = [row(lane.name, lane.times_ms, lane.failures, await measure_idle(lane)) for lane in lanes]
            show([*rows, *(row(o.name, o.times_ms, o.failures, o.measure_idle(shared_engine())) for o in others)])
            for lane in lanes:
                await share(lane, folder)
        await asyncio.sleep(LAST_REMOVALS_S)
        for lane in lanes:
            tell(f"{lane.name}: left when closed", count_left(lane, folder), "")


if __name__ == "__main__":
    asyncio.run(main())
