"""Words on their way: from the prompt to the first of them at a client, and five thousand of them to one and to two.

Run: `make bench`, or `PYTHONPATH=. python tests/bench/bench_stream.py`. The model is scripted and waits for nothing, so
that all that is measured is ours. Every piece goes through the daemon's journal; the bare counterpart is a relay that
sends as many small messages over a socket of its own process, journals nothing and knows nothing.
"""

import asyncio
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.processes import cpu_s
from tests.bench.report import heading, spread, tell
from tests.kit.daemon import Daemon, running_daemon, send, start_session, trust

from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import SessionExportParams
from gloveport.server.client.connect import Client
from gloveport.server.client.follow import Follow

DELTAS = 5_000
PIECE = "ten words "
PROMPTS = 40
ROUNDS = 5
RELAY = f"""
import asyncio, json, sys
async def serve(reader, writer):
    await reader.readline()
    for number in range({DELTAS}):
        writer.write(json.dumps({{"seq": number, "text": {PIECE!r}}}).encode() + b"\\n")
        if number % 20 == 19:
            await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_unix_server(serve, sys.argv[1])
    print("ready", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def write_script(folder: Path) -> Path:
    """Five thousand pieces for `flood`, a few for anything else."""
    flood = {"when": {"user_contains": "flood"}, "text": PIECE * DELTAS, "chunk_chars": len(PIECE)}
    script = folder / "script.json"
    script.write_text(json.dumps({"name": "bench", "steps": [flood, {"text": "A short answer."}]}))
    return script


async def until_done(follow: Follow, turn_id: str) -> None:
    """Take updates until the turn has ended and the view agrees with the daemon's."""
    async for update in follow:
        turn = next((item for item in follow.view.items() if item["id"] == f"turn/{turn_id}"), None)
        if turn is not None and turn["fields"]["state"] == "completed" and update.in_sync:
            return


async def catch_up(client: Client, session_id: str) -> Follow:
    """A follower that has everything so far."""
    follow = client.follow(session_id)
    async for update in follow:
        if update.caught_up:
            break
    return follow


async def measure_first(daemon: Daemon, root: Path) -> None:
    """From the prompt to the first words at the client."""
    took = []
    async with daemon.client() as client:
        session_id = (await start_session(client, root)).session_id
        follow = await catch_up(client, session_id)
        for _ in range(PROMPTS):
            began = time.perf_counter()
            sent = asyncio.create_task(send(client, session_id, "hello"))
            async for update in follow:
                if any(event.type == "ModelTextDelta" for event in update.events):
                    break
            took.append((time.perf_counter() - began) * 1000)
            turn_id = await sent
            assert turn_id is not None
            while (await client.call("session/show", SessionParams(session_id=session_id))).turn_id is not None:
                await asyncio.sleep(0.002)
    middle, late = spread(took)
    tell("prompt to first delta at the client, p50", middle, "ms", 15)
    tell("prompt to first delta at the client, p95", late, "ms")


async def flood(daemon: Daemon, root: Path, followers: int) -> tuple[float, float, int]:
    """Wall seconds until every follower agrees with the daemon, the daemon's processor seconds, events written."""
    assert daemon.process is not None
    pid = daemon.process.pid
    async with daemon.client() as client, daemon.client("second", deciding=False) as second:
        session_id = (await start_session(client, root)).session_id
        follows = [await catch_up(one, session_id) for one in (client, second)[:followers]]
        busy, began = cpu_s(pid), time.perf_counter()
        turn_id = await send(client, session_id, "flood")
        assert turn_id is not None
        await asyncio.gather(*(until_done(follow, turn_id) for follow in follows))
        wall, busy = time.perf_counter() - began, cpu_s(pid) - busy
        for follow in follows:
            (answer,) = [item for item in follow.view.items() if item["kind"] == "message.assistant"]
            assert answer["fields"]["text"] == PIECE * DELTAS
        page = await client.call("session/export", SessionExportParams(session_id=session_id, after_seq=0))
        return wall, busy, sum(event["type"] == "ModelTextDelta" for event in page.events)


async def relay(folder: Path) -> tuple[float, float]:
    """Wall and processor seconds of the bare relay."""
    path = str(folder / "s")
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RELAY, path, stdout=asyncio.subprocess.PIPE
    )  # fmt: skip
    assert child.stdout is not None
    await child.stdout.readline()
    try:
        reader, writer = await asyncio.open_unix_connection(path)
        busy, began = cpu_s(child.pid), time.perf_counter()
        writer.write(b"go\n")
        seen = 0
        while line := await reader.readline():
            seen += bool(json.loads(line)["text"])
        assert seen == DELTAS
        writer.close()
        return time.perf_counter() - began, cpu_s(child.pid) - busy
    finally:
        child.kill()
        await child.wait()


async def measure_floods(daemon: Daemon, root: Path, folder: Path) -> None:
    """One and two followers, and the bare relay, in turn."""
    rows: dict[int, list[tuple[float, float, int]]] = {1: [], 2: []}
    bare = []
    for _ in range(ROUNDS):
        bare.append(await relay(Path(tempfile.mkdtemp(dir=folder))))
        for followers, found in rows.items():
            found.append(await flood(daemon, root, followers))
    relayed, relay_cpu = DELTAS / spread([wall for wall, _ in bare])[0], spread([cpu for _, cpu in bare])[0]
    beside = f"bare relay {relayed / 1000:.0f}k/s, {relay_cpu:.2f} CPU s"
    for followers, found in rows.items():
        words = f"{DELTAS:,} deltas, all journalled, {followers} follower{'s' * (followers > 1)}"
        wall, events = spread([row[0] for row in found])[0], found[0][2]
        tell(words, DELTAS / wall / 1000, "k/s", 40, "more", beside)
        tell(
            "  the daemon's processor time", spread([row[1] for row in found])[0], "s", 0.15, beside=f"{events} appends"
        )


async def main() -> None:
    """Print the figures."""
    heading("stream")
    folder = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    root = folder / "project"
    root.mkdir()
    (root / "a.txt").write_text("a\n")
    try:
        with running_daemon(write_script(folder)) as daemon:
            async with daemon.client() as client:
                await trust(client, root)
            await measure_first(daemon, root)
            await measure_floods(daemon, root, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    asyncio.run(main())
