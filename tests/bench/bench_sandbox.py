"""A sandboxed `true` beside bare bubblewrap with the very same options, and what prepare and collect cost.

Purpose: the share that is ours. Each round runs one of each in turn, so that load hits both alike.
"""

import asyncio
import fcntl
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.report import heading, spread, tell

from gloveport.protocol.jail.requests import BLOB_FD_FIRST, STATUS_FD, RunRequest
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Command, Lease, Sandbox
from gloveport.sandbox.profile import Access, Limits, Mount, Profile
from gloveport.sandbox.runner import rundir

ROUNDS = 60
FILES = 200
MIB = 1024 * 1024
BARS = {"without control groups": 15.0, "with limits of memory and processes": 25.0}
LIMITS = {
    "without control groups": Limits(wall_s=10.0),
    "with limits of memory and processes": Limits(wall_s=10.0, memory_bytes_max=256 * MIB, processes_max=64),
}


def run_bare(request: RunRequest) -> None:
    """The same argument vector and option blobs, started directly."""
    places: list[tuple[int, int, int]] = []
    null = os.open(os.devnull, os.O_WRONLY)
    opened = [high(null)]
    places += [(os.POSIX_SPAWN_DUP2, opened[0], number) for number in (1, STATUS_FD)]
    for index, blob in enumerate(request.blobs):
        fd = os.memfd_create("bench")
        os.write(fd, blob)
        os.lseek(fd, 0, os.SEEK_SET)
        opened.append(high(fd))
        places.append((os.POSIX_SPAWN_DUP2, opened[-1], BLOB_FD_FIRST + index))
    pid = os.posix_spawn(request.argv[0], request.argv, dict(request.environment), file_actions=places)
    _pid, status = os.waitpid(pid, 0)
    for fd in opened:
        os.close(fd)
    if status:
        raise RuntimeError(f"bare bubblewrap ended with {status}")


def high(fd: int) -> int:
    """The same file under a high number, out of the way of the places."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(fd)
    return moved


def timed(action: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


async def run_true(lease: Lease, run_id: str) -> float:
    """Milliseconds from the start to the known end."""
    began = time.perf_counter()
    execution = await lease.start(Command(("true",), run_id))
    await execution.result()
    return (time.perf_counter() - began) * 1000


async def bench_limits(backend: Sandbox, runs: Path, project: Path, words: str, limits: Limits) -> None:
    """One pairing."""
    mounts = (Mount(str(project), "/home/user/project", Access.READ_WRITE),)
    profile = Profile("bench", "build", mounts, "/home/user/project", limits)
    prepared = []
    for round_ in range(10):
        began = time.perf_counter()
        lease = await backend.prepare(profile, f"warm-{round_}")
        prepared.append((time.perf_counter() - began) * 1000)
    label = words.replace(" ", "-")
    await run_true(lease, f"first-{label}")
    request = rundir.read_request(runs / backend.name / f"first-{label}")
    ours, bare = [], []
    for round_ in range(ROUNDS):
        ours.append(await run_true(lease, f"{label}-{round_}"))
        bare.append(timed(lambda: run_bare(request)))
    began = time.perf_counter()
    found = await lease.collect(("*.txt",))
    collected = (time.perf_counter() - began) * 1000
    began = time.perf_counter()
    await lease.release()
    released = (time.perf_counter() - began) * 1000
    heading(f"{backend.name}, {words}")
    middle, bare_middle = spread(ours)[0], spread(bare)[0]
    paired = spread([mine - other for mine, other in zip(ours, bare, strict=True)])[0]
    tell("sandboxed true, p50", middle, "ms", BARS[words], beside=f"bare bwrap, same options: {bare_middle:.2f} ms")
    tell("sandboxed true, p95", spread(ours)[1], "ms", beside=f"bare {spread(bare)[1]:.2f} ms")
    tell("ours over bare, paired difference", paired, "ms", beside=f"{middle / bare_middle:.1f} times bare")
    tell("prepare, p50", spread(prepared)[0], "ms")
    tell(f"collect {len(found)} files", collected, "ms")
    tell(f"release {ROUNDS + 1} runs", released, "ms")


async def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory(prefix="gp-bench-") as folder:
        runs, project = Path(folder, "runs"), Path(folder, "project")
        project.mkdir()
        for number in range(FILES):
            (project / f"{number}.txt").write_text("x" * 1000)
        backend = open_backend("bubblewrap", runs)
        availability = await backend.probe()
        if not availability.ok:
            print(f"skipped: {availability.reason}")
            return
        for words, limits in LIMITS.items():
            await bench_limits(backend, runs, project, words, limits)
        await backend.close()


if __name__ == "__main__":
    asyncio.run(main())
