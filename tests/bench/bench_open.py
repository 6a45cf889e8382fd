"""Sessions of any size: opening, catching up, memory over a long run, rest.

Run: `make bench`, or `PYTHONPATH=. python tests/bench/bench_open.py [EVENTS [SOAK_EVENTS]]` (some minutes; a soak of a
million events takes many). Sessions are written into a data folder of their own with the real journal, then read by a
real daemon in its own process. A view is usable when a client has the newest items and the daemon's digest agrees.
"""

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bench.bench_kernel import one_turn
from tests.bench.bench_stream import until_done, write_script
from tests.bench.processes import cpu_s, rss_mib
from tests.bench.report import heading, spread, tell
from tests.kit.daemon import Daemon, running_daemon, send, start_session, trust

from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.envelope import NewEvent
from gloveport.protocol.journal.events import EventBody, encode_body
from gloveport.protocol.wire.base import Empty, SessionParams
from gloveport.server.cli.demo_repo import SCRIPT, materialise
from gloveport.server.client.connect import Client
from gloveport.server.client.follow import BEGINNING, Follow
from gloveport.server.journal.records import Append, IndexUpdate, StreamAppend
from gloveport.server.journal.store import Journal

EVENTS = 1_000_000
RESUMED_TURNS = 105
UNDER_WAY = 50
EVENTS_PER_APPEND = 5_000
SOAK_EVENTS = 60_000
SOAK_SESSIONS = 8
SOAK_TURNS = 100
IDLE_S = 20.0
SENTINEL = 987_654_321
ROUNDS = 5


def stored(body: EventBody) -> NewEvent:
    """A body as the engine stores it."""
    return NewEvent(type(body).__name__, body.version, encode_body(body))


def many_turns(turns: int, first: int = 0) -> Iterator[NewEvent]:
    """The events of so many turns, each with ids and a goal of its own; the session has had `first` turns."""
    pattern = [stored(body) for body in one_turn(SENTINEL)]
    sentinel = str(SENTINEL).encode()
    for number in range(first, first + turns):
        name, goal = str(number).encode(), b'"goal_revision":%d' % (number + 1)
        for one in pattern:
            payload = one.payload.replace(sentinel, name).replace(b'"goal_revision":1', goal)
            yield NewEvent(one.type, one.version, payload)


async def append_turns(journal: Journal, session_id: str, turns: int, *, under_way: bool = False) -> int:
    """Write turns into a session; how many events it has then. `under_way`: the last one is cut in its first answer."""
    stream = session_stream(SessionId(session_id))
    head = await journal.head(stream)
    assert head is not None
    events = list(many_turns(turns, head.seq // len(one_turn(0))))
    if under_way:
        del events[-len(one_turn(0)) + 6 :]
    seq = head.next_seq
    for start in range(0, len(events), EVENTS_PER_APPEND):
        part = tuple(events[start : start + EVENTS_PER_APPEND])
        await journal.append(Append((StreamAppend(stream, seq, part),), 1))
        seq += len(part)
    if under_way:
        row = IndexUpdate(session_id, 1, title="under way", state="model", workspace="/w")
        await journal.append(Append((), 1, index=(row,)))
    return seq - 1


@asynccontextmanager
async def opened_journal(daemon: Daemon) -> AsyncIterator[Journal]:
    """The journal of a daemon that does not run."""
    journal, _report = await Journal.open(daemon.places.data_dir, clock=time.time_ns)
    try:
        yield journal
    finally:
        await journal.close()


async def begin(daemon: Daemon, root: Path, count: int = 1) -> list[str]:
    """So many sessions on a small repository."""
    async with daemon.client() as client:
        await trust(client, root)
        return [(await start_session(client, root)).session_id for _ in range(count)]


async def until_agreed(follow: Follow) -> None:
    """Take updates until nothing is missing and the digests agree."""
    async for update in follow:
        if update.in_sync:
            return


async def look(daemon: Daemon, session_id: str) -> tuple[float, int]:
    """Milliseconds until a client has a usable view; items in it."""
    async with daemon.client() as client:
        began = time.perf_counter()
        follow = client.follow(session_id, newest_only=True)
        await until_agreed(follow)
        return (time.perf_counter() - began) * 1000, len(follow.view)


async def catch_up(client: Client, session_id: str, events: int) -> float:
    """Events per second of a client that replays from the beginning, raw: the daemon's side and the socket."""
    link = client._link
    inboxes = []
    begun = await link.ask(
        "session/subscribe",
        {"sessionId": session_id, "after": BEGINNING, "windowBytes": 1 << 24},
        lambda result: inboxes.append(link.open_inbox(result["subscriptionId"])),
    )
    began, seen = time.perf_counter(), 0
    while seen < events:
        batch = await inboxes[0].take()
        if batch["events"]:
            seen = batch["events"][-1]["seq"]
            await link.tell("session/ack", {"subscriptionId": begun["subscriptionId"], "seq": seen})
    return seen / (time.perf_counter() - began)


async def restart(daemon: Daemon) -> float:
    """Stop and start a daemon; milliseconds from spawn until its rooms are open and it answers what it is asked."""
    daemon.stop()
    began = time.perf_counter()
    daemon.start()
    async with daemon.client() as client:
        await client.call("daemon/status", Empty())
    return (time.perf_counter() - began) * 1000


def pid_of(daemon: Daemon) -> int:
    """The daemon's process."""
    assert daemon.process is not None
    return daemon.process.pid


async def measure_long(daemon: Daemon, session_id: str, events: int) -> None:
    """The first reading without a snapshot, then with one: by a cold daemon, and by one that knows it."""
    began = time.perf_counter()
    async with daemon.client() as client:
        await client.call("session/show", SessionParams(session_id=session_id), timeout_s=900)
    words = f"{events:,} events"
    tell(f"read {words} without a snapshot, once", time.perf_counter() - began, "s")
    tell("  the daemon's memory after that", rss_mib(pid_of(daemon)), "MiB")
    begun, cold, warm, views = [], [], [], []
    for _ in range(ROUNDS):
        begun.append(await restart(daemon))
        before = rss_mib(pid_of(daemon))
        took, items = await look(daemon, session_id)
        cold.append(took)
        views.append(rss_mib(pid_of(daemon)) - before)
        warm.append((await look(daemon, session_id))[0])
    tell(f"cold daemon: {words} to a usable view, p50", spread(cold)[0], "ms", 300, beside=f"{items} items")
    tell(f"cold daemon: {words} to a usable view, worst", max(cold), "ms", 300)
    tell("  with the daemon's own start, from its spawn", spread(begun)[0] + spread(cold)[0], "ms")
    tell("the same again", spread(warm)[0], "ms", 300)
    tell("  memory that the view costs the daemon", spread(views)[0], "MiB")
    await restart(daemon)
    began = time.perf_counter()
    async with daemon.client() as client:
        await client.call("session/show", SessionParams(session_id=session_id))
        tell("cold daemon: the whole session, to work in it", (time.perf_counter() - began) * 1000, "ms")
        tell("  the daemon's memory with it", rss_mib(pid_of(daemon)), "MiB")
        busy = cpu_s(pid_of(daemon))
        rate = await catch_up(client, session_id, events)
        busy = cpu_s(pid_of(daemon)) - busy
        beside = f"the daemon's own {events / busy / 1000:,.0f}k/s of processor time"
        tell("catch-up of all of them, raw", rate / 1000, "k/s", 200, "more", beside)


async def measure_resume(daemon: Daemon, session_id: str) -> None:
    """105 turns, by a cold daemon, all items."""
    took = []
    for _ in range(ROUNDS):
        await restart(daemon)
        async with daemon.client() as client:
            began = time.perf_counter()
            await client.call("session/show", SessionParams(session_id=session_id))
            await until_agreed(client.follow(session_id))
            took.append((time.perf_counter() - began) * 1000)
    tell(f"cold daemon: resume {RESUMED_TURNS} turns, all items, p50", spread(took)[0], "ms", 60)


async def run_turns(client: Client, root: Path) -> int:
    """A session of turns, followed; its events."""
    session_id = (await start_session(client, root)).session_id
    follow = client.follow(session_id, newest_only=True)
    await until_agreed(follow)
    for _ in range(SOAK_TURNS):
        turn_id = await send(client, session_id, "hello")
        assert turn_id is not None
        await until_done(follow, turn_id)
    await follow.aclose()
    return follow.view.watermark


async def measure_soak(daemon: Daemon, root: Path, events: int) -> None:
    """Turns of many sessions, one after another, until so many events went through; memory on the way."""
    pid, seen, began = pid_of(daemon), 0, time.perf_counter()
    marks = []
    async with daemon.client() as client:
        while seen < events:
            seen += sum(await asyncio.gather(*(run_turns(client, root) for _ in range(SOAK_SESSIONS))))
            marks.append((seen, rss_mib(pid)))
    for words, index in (("first", 0), ("middle", len(marks) // 2), ("end", -1)):
        tell(f"memory in a soak, {words}", marks[index][1], "MiB", beside=f"{marks[index][0]:,} events")
    tell("  live events per second in it", seen / (time.perf_counter() - began), "/s")


async def measure_recovery(daemon: Daemon, sessions: list[str]) -> None:
    """Killed with turns under way in many sessions: from the start to all of them being looked after."""
    began = time.perf_counter()
    daemon.start()
    async with daemon.client() as client:
        for session_id in sessions:
            await client.call("session/show", SessionParams(session_id=session_id))  # answered when it is taken up
    tell(f"recovery of {len(sessions)} sessions under way", (time.perf_counter() - began) * 1000, "ms")


def measure_rest(daemon: Daemon) -> None:
    """Processor time while nothing happens, with sessions open."""
    before = cpu_s(pid_of(daemon))
    time.sleep(IDLE_S)
    tell(f"processor while idle, over {IDLE_S:.0f} s", (cpu_s(pid_of(daemon)) - before) / IDLE_S * 100, "%", 1)


async def write_long(daemon: Daemon, sessions: list[str], events: int) -> int:
    """A session of so many events, and one of 105 turns; how many events the long one has."""
    async with opened_journal(daemon) as journal:
        began = time.perf_counter()
        written = await append_turns(journal, sessions[0], events // len(one_turn(0)) + 1)
        tell("(writing them, bulk appends)", written / (time.perf_counter() - began) / 1000, "k/s")
        await append_turns(journal, sessions[1], RESUMED_TURNS)
        await journal.settle(0)  # a daemon would have written the lines of the audit log on the way
    return written


async def write_under_way(daemon: Daemon, sessions: list[str]) -> None:
    """Sessions whose last turn was cut."""
    async with opened_journal(daemon) as journal:
        for session_id in sessions:
            await append_turns(journal, session_id, 10, under_way=True)
        await journal.settle(0)


def main() -> None:
    """Print the figures."""
    heading("open")
    events = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    soak = int(sys.argv[2]) if len(sys.argv) > 2 else SOAK_EVENTS
    folder = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    root = folder / "tinystat"
    materialise(root)
    try:
        with running_daemon(SCRIPT) as daemon:
            sessions = asyncio.run(begin(daemon, root, 2))
            daemon.stop()
            written = asyncio.run(write_long(daemon, sessions, events))
            daemon.start()
            asyncio.run(measure_long(daemon, sessions[0], written))
            asyncio.run(measure_resume(daemon, sessions[1]))
            measure_rest(daemon)
            many = asyncio.run(begin(daemon, root, UNDER_WAY))
            daemon.stop()
            asyncio.run(write_under_way(daemon, many))
            asyncio.run(measure_recovery(daemon, many))
            daemon.stop()
            daemon.use_script(write_script(folder))
            daemon.start()
            asyncio.run(measure_soak(daemon, root, soak))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
