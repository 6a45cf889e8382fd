"""Many starts on each rung in one run: success, times, memory of one that is idle, leftovers, fairness.

Purpose: the figures of a rung beside each other. Each round starts one of each in turn, so that load hits all alike.
GLOVEPORT_STARTS sets how many starts each rung makes (100); a rung that does not work here is named and left out.
"""

import asyncio
import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.bench.report import heading, tell
from tests.kit.engines import TestEngine, shared_engine

from gloveport.sandbox.backends.docker import DockerSandbox
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Command, ResultKind, Sandbox
from gloveport.sandbox.profile import Access, Limits, Mount, Profile
from gloveport.sandbox.runner import rundir, tree
from gloveport.sandbox.runner.engine_api import EngineSocket

STARTS: Final = int(os.environ.get("GLOVEPORT_STARTS", "100"))
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
    times_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    async def start(self, run_id: str) -> float:
        """Milliseconds from an untouched lease to the known end of `true`; what it left is removed apart."""
        if isinstance(self.backend, DockerSandbox) and self.name.endswith("warm"):
            await self.backend.prewarm(self.profile)
        began = time.perf_counter()
        lease = await self.backend.prepare(self.profile, run_id)
        result = await (await lease.start(Command(("true",), run_id))).result()
        took = (time.perf_counter() - began) * 1000
        if result.kind is not ResultKind.OK:
            self.failures.append(f"{result.kind}: {result.evidence}")
        await lease.release()
        return took


def percentile(values: list[float], share: float) -> float:
    """The value that this share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@contextlib.asynccontextmanager
async def open_lanes(folder: Path, engine: TestEngine) -> AsyncIterator[list[Lane]]:
    """Every rung that works here."""
    lanes = []
    for name in ("process", "bubblewrap", "docker", "docker warm", "gvisor"):
        rung, _, variant = name.partition(" ")
        project = folder / name.replace(" ", "-")
        project.mkdir()
        choice = replace(engine.choice, warm=4 if variant else 0)
        backend = open_backend(rung, folder / "runs" / name.replace(" ", "-"), engine=choice)
        found = await backend.probe()
        if not found.ok:
            print(f"{name} is left out: {found.reason}")
            continue
        mount = Mount(str(project), "/home/user/project", Access.READ_WRITE)
        lanes.append(Lane(name, backend, Profile("bench", "build", (mount,), "/home/user/project", LIMITS)))
    try:
        yield lanes
    finally:
        for lane in lanes:
            await lane.backend.close()


def run_plainly(engine: TestEngine) -> float:
    """The engine's own command line, without any hardening."""
    image = EngineSocket(str(engine.socket)).call("GET", "/images/json")[0]["RepoTags"][0]
    argv = ["docker", "-H", engine.choice.host, "run", "--rm", "--network", "none", "-v", "/usr:/usr:ro", image, "true"]
    began = time.perf_counter()
    subprocess.run(argv, check=True, capture_output=True, env={"PATH": "/usr/bin:/bin", "HOME": str(engine.folder)})
    return (time.perf_counter() - began) * 1000


async def measure_idle(lane: Lane, engine: TestEngine) -> float:
    """MiB (proportional) of all processes that one idle run keeps: supervisor, wrapper or shim, the program."""
    lease = await lane.backend.prepare(lane.profile, "idle")
    execution = await lease.start(Command(("sleep", "60"), "idle"))
    folder = next(Path(lane.profile.mounts[0].source).parent.glob(f"runs/{lane.name.replace(' ', '-')}/*/idle"))
    status = rundir.read_status(folder)
    processes = [] if status is None else tree.find_descendants(status.supervisor_pid)
    pids = {process.pid for process in processes} | ({status.supervisor_pid} if status is not None else set())
    plan = rundir.read_request(folder).engine
    if plan is not None:
        container = EngineSocket(str(engine.socket)).call("GET", f"/containers/{plan.name}/json")["Id"]
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and container.encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                    pids |= {int(entry), *(process.pid for process in tree.find_descendants(int(entry)))}
    total = sum(_proportional_kib(pid) for pid in pids) / 1024
    await execution.stop()
    await lease.release()
    return total


def _proportional_kib(pid: int) -> int:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("Pss:")))
    return 0


async def share(lane: Lane, folder: Path) -> None:
    """Sessions that start at the same moment, again and again: the slowest's middle over the fastest's."""

    async def one(number: int) -> float:
        project = folder / f"{lane.name.replace(' ', '-')}-{number}"
        project.mkdir()
        mounts = (Mount(str(project), "/home/user/project", Access.READ_WRITE),)
        own = Lane(lane.name.removesuffix(" warm"), lane.backend, replace(lane.profile, mounts=mounts))
        times = [await own.start(f"fair-{number}-{turn}") for turn in range(FAIR_STARTS)]
        return percentile(times, 0.5)

    middles = sorted(await asyncio.gather(*(one(number) for number in range(SESSIONS))))
    tell(f"{lane.name}: {SESSIONS} at once, slowest over fastest", middles[-1] / middles[0], "x", 2.0)


def count_left(lane: Lane, folder: Path, engine: TestEngine) -> int:
    """Run folders and containers that are still there."""
    runs = folder / "runs" / lane.name.replace(" ", "-")
    files = [path for path in runs.rglob("*") if path.is_file()] if runs.exists() else []
    return len(files) + len(EngineSocket(str(engine.socket)).call("GET", "/containers/json?all=1"))


async def main() -> None:
    """Print the figures."""
    engine = shared_engine()
    with tempfile.TemporaryDirectory(prefix="gp-bench-") as name:
        folder = Path(name)
        async with open_lanes(folder, engine) as lanes:
            plain = []
            for number in range(STARTS):
                for lane in lanes:
                    lane.times_ms.append(await lane.start(f"start-{number}"))
                if number % 10 == 0:
                    plain.append(run_plainly(engine))
            heading(f"{STARTS} starts of `true` on each rung, in turn; {PUBLISHED}")
            tell("docker run, its own command line, p50", percentile(plain, 0.5), "ms")
            for lane in lanes:
                good = 100 * (1 - len(lane.failures) / STARTS)
                p50, p95, p99 = (percentile(lane.times_ms, one) for one in (0.5, 0.95, 0.99))
                tell(f"{lane.name}: p50", p50, "ms", beside=f"p95 {p95:.0f}  p99 {p99:.0f}  success {good:.2f} %")
                tell(f"{lane.name}: memory of an idle one", await measure_idle(lane, engine), "MiB")
                for words in lane.failures[:3]:
                    print(f"    {words}")
            for lane in lanes:
                await share(lane, folder)
        await asyncio.sleep(LAST_REMOVALS_S)
        for lane in lanes:
            tell(f"{lane.name}: left when closed", count_left(lane, folder, engine), "")


if __name__ == "__main__":
    asyncio.run(main())
