"""How fast the journal is, beside a bare sqlite3 loop over the same rows in the same run.

Figures: 5,000 text deltas in appends of several sizes (rate, CPU seconds), commit latency FULL and RELAXED, catch-up
rate, and what the room's imports weigh. Ratios are against the bare loop (same columns, no chain, no checks).
"""

import asyncio
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

from gloveport.protocol.journal.envelope import Durability, NewEvent
from gloveport.server.journal.records import Append, IndexUpdate, StreamAppend
from gloveport.server.journal.store import Journal

DELTAS = 5_000
PAYLOAD = b'{"item_id":"it_0123456789","offset":1234,"text":"some words of a model"}'
ROUNDS = 3
LATENCIES = 1_000
TABLE = (
    "CREATE TABLE event (stream TEXT, epoch INTEGER, seq INTEGER, type TEXT, version INTEGER, at INTEGER,"
    " payload BLOB, digest BLOB, payload_hash BLOB, PRIMARY KEY (stream, seq)) WITHOUT ROWID"
)
HEADS = "CREATE TABLE stream (name TEXT PRIMARY KEY, next_seq INTEGER) WITHOUT ROWID"


def bare(folder: Path, per_append: int) -> tuple[float, float]:
    """Wall and CPU seconds of a bare loop: WAL, NORMAL, one transaction per append."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute(TABLE)
    wall, cpu = time.perf_counter(), time.process_time()
    for start in range(0, DELTAS, per_append):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO event VALUES (?,?,?,?,?,?,?,?,NULL)",
            [("session/a", 1, start + n, "ModelTextDelta", 1, 1, PAYLOAD, bytes(32)) for n in range(per_append)],
        )
        connection.execute("COMMIT")
    result = time.perf_counter() - wall, time.process_time() - cpu
    connection.close()
    return result


async def journalled(folder: Path, per_append: int) -> tuple[float, float]:
    """Wall and CPU seconds of the journal, relaxed appends of `per_append` deltas, one after the other."""
    journal, _report = await Journal.open(folder / "data", clock=lambda: 1)
    wall, cpu = time.perf_counter(), time.process_time()
    seq = 1
    while seq <= DELTAS:
        events = tuple(NewEvent("ModelTextDelta", 1, PAYLOAD) for _ in range(per_append))
        done = await journal.append(Append((StreamAppend("session/a", seq, events),), 1, Durability.RELAXED))
        seq = done.heads["session/a"].next_seq
    await journal.sync()
    result = time.perf_counter() - wall, time.process_time() - cpu
    await journal.close()
    return result


async def latency(folder: Path, durability: Durability, count: int = LATENCIES) -> list[float]:
    """Milliseconds of single appends."""
    journal, _report = await Journal.open(folder / durability.value, clock=lambda: 1)
    times: list[float] = []
    for seq in range(1, count + 1):
        part = StreamAppend("s", seq, (NewEvent("TurnStarted", 1, PAYLOAD),))
        start = time.perf_counter()
        await journal.append(Append((part,), 1, durability))
        times.append((time.perf_counter() - start) * 1000)
    await journal.close()
    return times


def bare_latency(folder: Path, durability: Durability, count: int = LATENCIES) -> list[float]:
    """Milliseconds of the same commits by SQLite alone: one row, one transaction, the same level."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={'FULL' if durability is Durability.FULL else 'NORMAL'}")
    connection.execute(TABLE)
    connection.execute(HEADS)
    times: list[float] = []
    for seq in range(1, count + 1):
        start = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "INSERT INTO event VALUES (?,?,?,?,?,?,?,?,NULL)", ("s", 1, seq, "TurnStarted", 1, 1, PAYLOAD, bytes(32))
        )
        connection.execute("INSERT OR REPLACE INTO stream VALUES ('s', ?)", (seq,))
        connection.execute("COMMIT")
        times.append((time.perf_counter() - start) * 1000)
    connection.close()
    return times


async def listing(folder: Path, sessions: int = 500, events: int = 200) -> float:
    """Milliseconds of a list of 500 sessions that have logs of some length."""
    journal, _report = await Journal.open(folder / "many", clock=lambda: 1)
    made = tuple(NewEvent("ModelTextDelta", 1, PAYLOAD) for _ in range(events))
    for number in range(sessions):
        row = IndexUpdate(f"s{number}", number, title=f"title {number}", state="idle", workspace="/w")
        part = StreamAppend(f"session/s{number}", 1, made)
        await journal.append(Append((part,), 1, Durability.RELAXED, index=(row,)))
    times: list[float] = []
    for _ in range(20):
        start = time.perf_counter()
        assert len(await journal.sessions(sessions)) == sessions
        times.append((time.perf_counter() - start) * 1000)
    await journal.close()
    return statistics.median(times)


def bare_catch_up(folder: Path, events: int = 50_000) -> float:
    """Events per second of reading the same rows by SQLite alone, in batches of 1,000, into tuples."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute(TABLE)
    rows = (("s", 1, seq, "ModelTextDelta", 1, 1, PAYLOAD, bytes(32)) for seq in range(1, events + 1))
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO event VALUES (?,?,?,?,?,?,?,?,NULL)", rows)
    connection.execute("COMMIT")
    start, after = time.perf_counter(), 0
    sql = "SELECT * FROM event WHERE stream='s' AND seq>? ORDER BY seq LIMIT 1000"
    while batch := connection.execute(sql, (after,)).fetchall():
        after = batch[-1][2]
    rate = events / (time.perf_counter() - start)
    connection.close()
    return rate


def bare_fsync(folder: Path, count: int = 200) -> list[float]:
    """Milliseconds of a 4 KiB write and fsync at a file's end: what the disk itself takes."""
    times: list[float] = []
    with (folder / "plain").open("wb", buffering=0) as file:
        for _ in range(count):
            start = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            times.append((time.perf_counter() - start) * 1000)
    return times


async def catch_up(folder: Path, events: int = 50_000) -> float:
    """Events per second of reading a long stream in batches of 1,000."""
    journal, _report = await Journal.open(folder / "long", clock=lambda: 1)
    made = tuple(NewEvent("ModelTextDelta", 1, PAYLOAD) for _ in range(5_000))
    for seq in range(1, events, 5_000):
        await journal.append(Append((StreamAppend("s", seq, made),), 1, Durability.RELAXED))
    start, after = time.perf_counter(), 0
    while batch := await journal.read("s", after, 1_000):
        after = batch[-1].seq
    rate = events / (time.perf_counter() - start)
    await journal.close()
    return rate


def in_folder(work: Callable[[Path], tuple[float, float]]) -> tuple[float, float]:
    """The best of some rounds, each in a fresh folder."""
    results: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            results.append(work(Path(folder)))
    return min(results, key=lambda found: found[1])


def run(work: Callable[[Path], Awaitable[object]]) -> object:
    """One coroutine in a fresh folder."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(work(Path(folder)))  # type: ignore[arg-type]  # all are coroutines


def import_weight() -> str:
    """RSS that importing the store adds to a bare interpreter."""
    code = "import os{};print([l.split()[1] for l in open('/proc/self/status') if l[:6] == 'VmRSS:'][0])"
    sizes = [
        int(subprocess.run([sys.executable, "-c", code.format(more)], capture_output=True, check=True).stdout)
        for more in ("", ", asyncio, sqlite3", ", gloveport.server.journal.store")
    ]
    return " · ".join(f"{size / 1024:.1f} MiB" for size in sizes)


def _p99(times: list[float]) -> float:
    return times[int(len(times) * 0.99)]


def _latencies(times: list[float]) -> str:
    rate = len(times) / sum(times) * 1000
    return (
        f"{rate:,.0f}/s, median {statistics.median(times):.2f} ms, p99 {_p99(times):.2f} ms, worst {times[-1]:.1f} ms"
    )


def main() -> None:
    """Print the figures."""
    print(f"{DELTAS} deltas of {len(PAYLOAD)} bytes, relaxed, best of {ROUNDS}:")
    for per_append in (1, 10, 50):
        bare_wall, bare_cpu = in_folder(lambda folder, n=per_append: bare(folder, n))  # type: ignore[misc]  # bound n
        wall, cpu = in_folder(lambda folder, n=per_append: asyncio.run(journalled(folder, n)))  # type: ignore[misc]  # bound n
        print(
            f"  {per_append:3} per append: {DELTAS / wall:8.0f}/s, CPU {cpu:.3f} s; bare {DELTAS / bare_wall:8.0f}/s,"
            f" CPU {bare_cpu:.3f} s; ratio wall {wall / bare_wall:.1f}, CPU {cpu / bare_cpu:.1f}"
        )
    with tempfile.TemporaryDirectory() as folder:
        plain = statistics.median(bare_fsync(Path(folder)))
    for durability in Durability:
        times = sorted(run(lambda folder, d=durability: latency(folder, d)))  # type: ignore[call-overload,misc]  # floats
        with tempfile.TemporaryDirectory() as folder:
            bare_times = sorted(bare_latency(Path(folder), durability))
        print(f"  append {durability.value:8}: {_latencies(times)}; bare SQLite {_latencies(bare_times)};", end=" ")
        ratios = [one(times) / one(bare_times) for one in (statistics.median, _p99, sum)]
        print(f"ratio median {ratios[0]:.1f}, p99 {ratios[1]:.1f}, total {ratios[2]:.1f}")
    print(f"  a bare write and fsync of 4 KiB: median {plain:.2f} ms")
    with tempfile.TemporaryDirectory() as folder:
        bare_rate = bare_catch_up(Path(folder))
    rate = cast(float, run(catch_up))
    print(f"  catch-up: {rate:,.0f} events/s; bare SQLite {bare_rate:,.0f}; ratio {bare_rate / rate:.1f}")
    print(f"  a list of 500 sessions with 100,000 events: {run(listing):.1f} ms")
    print(f"  RSS of python · with asyncio, sqlite3 · with the journal: {import_weight()}")
    print(f"  peak RSS of this run: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
