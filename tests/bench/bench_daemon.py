"""The daemon at its edges: start, handshake, memory, long and many sessions.

Run all figures with `make bench`, one file with `PYTHONPATH=. python tests/bench/bench_daemon.py`. Each line names the
figure, its value, the bar it has to clear and their ratio (above 1: missed). What has a bare counterpart runs beside
it, in turn, so that load hits both. Nothing here asserts.
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.bench_kernel import one_turn
from tests.bench.processes import cpu_s, pss_mib, rss_mib, run_ms, switches
from tests.bench.report import heading, spread, tell
from tests.kit.daemon import Daemon, running_daemon, start_session, trust

from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.envelope import NewEvent
from gloveport.protocol.journal.events import EventBody, encode_body
from gloveport.protocol.wire.base import Empty, SessionParams
from gloveport.protocol.wire.session import SessionListParams
from gloveport.server.cli.demo_repo import SCRIPT, materialise
from gloveport.server.client.launch import probe
from gloveport.server.journal.records import Append, IndexUpdate, StreamAppend
from gloveport.server.journal.store import Journal

STARTS = 9
HANDSHAKES = 100
LONG_TURNS = 300
RESUMED_TURNS = 105
SESSIONS = 500
EVENTS_PER_APPEND = 1_000
SETTLE_S = 1.0
IDLE_S = 10.0
PIPER = "import gloveport.server.client.paths, gloveport.server.client.stdio"
DAEMON_IMPORTS = "import gc; gc.disable(); import gloveport.server.app.foreground, gloveport.server.app.daemon"


def measure_starts() -> None:
    """Cold starts beside an interpreter that does nothing; the first one fills the cache of compiled modules."""
    ours, busy, bare, imports, piper = [], [], [], [], []
    for turn in range(STARTS + 1):
        home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
        daemon = Daemon(home)
        daemon.use_script(SCRIPT)
        began = time.perf_counter()
        try:
            daemon.start()
            took = (time.perf_counter() - began) * 1000
            assert daemon.process is not None
            own = cpu_s(daemon.process.pid) * 1000
        finally:
            daemon.kill()
            shutil.rmtree(home)
        figures = (took, own, run_ms("pass"), run_ms(DAEMON_IMPORTS), run_ms(PIPER))
        if turn:
            for values, figure in zip((ours, busy, bare, imports, piper), figures, strict=True):
                values.append(figure)
    middle, late = spread(bare)
    beside = f"bare interpreter {middle:.0f} ms (p95 {late:.0f})"
    tell("cold start: spawn to initialize answered, p50", spread(ours)[0], "ms", 300, beside=beside)
    tell("cold start, quickest", min(ours), "ms", 300, beside=f"bare interpreter {min(bare):.0f} ms")
    tell("its processor time until then, least", min(busy), "ms", 300)
    tell("of which imports, quickest", min(imports), "ms")
    tell("gloveport lsp: imports over bare, quickest", min(piper) - min(bare), "ms", 100)


def measure_handshake(daemon: Daemon) -> None:
    """Connect and initialize on a running daemon."""
    took = []
    for _ in range(HANDSHAKES):
        began = time.perf_counter()
        assert probe(daemon.places.socket) is not None
        took.append((time.perf_counter() - began) * 1000)
    middle, late = spread(took)
    tell("initialize on a running daemon, p50", middle, "ms", 100)
    tell("initialize on a running daemon, p95", late, "ms", 100)


def measure_idle(daemon: Daemon, words: str) -> None:
    """Memory, and processor time while nothing happens."""
    assert daemon.process is not None
    pid = daemon.process.pid
    tell(f"RSS {words}", rss_mib(pid), "MiB", 60, beside=f"PSS {pss_mib(pid):.1f} MiB")


def measure_rest(daemon: Daemon) -> None:
    """Processor time and wake-ups while nothing happens; what was just begun is let end before."""
    assert daemon.process is not None
    pid = daemon.process.pid
    time.sleep(SETTLE_S)
    before, woken = cpu_s(pid), switches(pid)
    time.sleep(IDLE_S)
    beside = f"woken {switches(pid) - woken} times in {IDLE_S:.0f} s"
    tell("processor while idle", (cpu_s(pid) - before) / IDLE_S * 100, "%", 1, beside=beside)


async def begin(daemon: Daemon, root: Path) -> str:
    """One idle session on the demo's repository."""
    async with daemon.client() as client:
        await trust(client, root)
        return (await start_session(client, root)).session_id


def stored(body: EventBody) -> NewEvent:
    """A body as the engine stores it."""
    return NewEvent(type(body).__name__, body.version, encode_body(body))


async def fill(data_dir: Path, lengths: dict[str, int]) -> None:
    """Sessions of so many turns, and many short ones, written where the daemon will look."""
    journal, _report = await Journal.open(data_dir, clock=time.time_ns)
    for session_id, turns in lengths.items():
        stream = session_stream(SessionId(session_id))
        head = await journal.head(stream)
        assert head is not None
        bodies = [body for number in range(turns) for body in one_turn(number)]
        seq = head.next_seq
        for start in range(0, len(bodies), EVENTS_PER_APPEND):
            events = tuple(stored(body) for body in bodies[start : start + EVENTS_PER_APPEND])
            await journal.append(Append((StreamAppend(stream, seq, events),), 1))
            seq += len(events)
    for number in range(SESSIONS):
        row = IndexUpdate(f"session-{number:024x}", number + 1, title=f"Session {number}", state="idle", workspace="/w")
        await journal.append(Append((), 1, index=(row,)))
    await journal.close()


async def measure_rooms(daemon: Daemon) -> None:
    """A cold daemon until it answers what its rooms know: the first request waits for them, whatever it asks."""
    began = time.perf_counter()
    daemon.start()
    async with daemon.client() as client:
        await client.call("daemon/status", Empty())
    took = (time.perf_counter() - began) * 1000
    assert daemon.process is not None
    own = cpu_s(daemon.process.pid) * 1000
    tell("cold start: spawn until the rooms answer", took, "ms", beside=f"its processor time {own:.0f} ms")


async def measure_long(daemon: Daemon, lengths: dict[str, int]) -> None:
    """Open sessions that the daemon has not read, and follow each to a view that agrees; then list all."""
    assert daemon.process is not None
    pid = daemon.process.pid
    async with daemon.client() as client:
        for session_id, turns in lengths.items():
            busy = cpu_s(pid)
            began = time.perf_counter()
            await client.call("session/show", SessionParams(session_id=session_id))
            opened = time.perf_counter()
            busy = cpu_s(pid) - busy
            follow = client.follow(session_id)
            async for update in follow:
                if update.caught_up and update.in_sync:
                    break
            followed = time.perf_counter()
            read = f"read {(opened - began) * 1000:.0f} ms (processor {busy * 1000:.0f} ms)"
            beside = f"{read}, view {(followed - opened) * 1000:.0f} ms"
            bar = 60 if turns == RESUMED_TURNS else None
            tell(
                f"resume {turns} turns ({turns * len(one_turn(0)):,} events)",
                (followed - began) * 1000,
                "ms",
                bar,
                beside=beside,
            )
        took = []
        for _ in range(20):
            began = time.perf_counter()
            page = await client.call("session/list", SessionListParams(limit=SESSIONS))
            took.append((time.perf_counter() - began) * 1000)
        assert len(page.sessions) == SESSIONS
        tell(f"list {SESSIONS} sessions, p50", spread(took)[0], "ms", None)


def main() -> None:
    """Print the figures."""
    heading("daemon")
    subprocess.run([sys.executable, "-m", "compileall", "-q", "protocol", "sandbox", "server"], check=False)
    measure_starts()
    folder = Path(tempfile.mkdtemp(prefix="gp-bench-"))
    root = folder / "tinystat"
    materialise(root)
    try:
        with running_daemon(SCRIPT) as daemon:
            measure_handshake(daemon)
            measure_idle(daemon, "after start")
            session_id = asyncio.run(begin(daemon, root))
            measure_idle(daemon, "with one idle session")
            measure_rest(daemon)
            lengths = {session_id: LONG_TURNS, asyncio.run(begin(daemon, root)): RESUMED_TURNS}
            daemon.stop()
            asyncio.run(fill(daemon.places.data_dir, lengths))
            asyncio.run(measure_rooms(daemon))
            asyncio.run(measure_long(daemon, lengths))
            measure_idle(daemon, "with both open")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
