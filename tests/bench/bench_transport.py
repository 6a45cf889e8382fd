"""Figures of the transport: handshake, deltas to one and two followers, memory, the piper's start and end.

Run: python tests/bench/bench_transport.py
The daemon is a process of its own, with its journal in a list: what is measured is the way from there to the client.
"""

import asyncio
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import anyio
import orjson
from tests.kit.memory_backend import TEST_METHODS, Held, MemoryBackend
from tests.kit.raw_client import RawClient

from gloveport.protocol.journal.envelope import GENESIS_DIGEST, cursor_at, encode_cursor
from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.framing import FrameReader, encode_frame
from gloveport.protocol.wire.methods import Method
from gloveport.server.transports.lsp.endpoint import Endpoint
from gloveport.server.transports.lsp.handlers.lifecycle import About
from gloveport.server.transports.lsp.loop import Service
from gloveport.server.transports.lsp.socketfile import bind_socket

DELTAS = 5_000
ROUNDS = 5
PIPER = "import sys; from gloveport.server.client import paths, stdio; sys.exit(stdio.attach(paths.find_places()))"
RSS = (
    "import {what}\n"
    "print(next(int(row.split()[1]) for row in open('/proc/self/status') if row.startswith('VmRSS')) / 1024)"
)


class Flooding(MemoryBackend):
    """A backend that appends many deltas on request, as a model's stream would."""

    async def on_test_flood(self, _params: object) -> dict[str, float]:
        """CPU and wall seconds of appending all and serving them to everybody."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.busy.add("session/s")
        for number in range(DELTAS):
            self.tell_text("s", "some text ")
            if number % 20 == 19:
                await asyncio.sleep(0)
        self.busy.clear()
        self.tell_text("s", "end")
        for _ in range(100_000):
            if not any(tail.head_seq > seq for tail in self.hub._tails.values() for seq in self.places(tail.wakers)):
                break
            await asyncio.sleep(0.001)
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}

    @staticmethod
    def places(wakers: set[Callable[[], None]]) -> list[int]:
        """Where the followers stand."""
        return [waker.__self__.place.seq for waker in wakers]  # type: ignore[attr-defined] # - bound methods of subscriptions


async def serve(path: Path) -> None:
    """The daemon's side."""
    backend = Flooding()
    backend.open_session("s")
    methods = {**TEST_METHODS, "test/flood": Method(Empty, Empty)}
    service = Service(methods=methods, port=backend, hub=backend.hub, buffers=backend, about=About("0", 1, "t"))
    file = bind_socket(path, Held())
    print("ready", flush=True)
    try:
        await Endpoint(service, file.listener).serve(anyio.Event())
    finally:
        file.close()


async def follow(client: RawClient, ready: asyncio.Event) -> tuple[int, float]:
    """Take everything; how many events, and when the last came."""
    genesis = encode_cursor(cursor_at(1, 0, GENESIS_DIGEST))
    await client.ask("session/subscribe", {"sessionId": "s", "after": genesis})
    ready.set()
    frames, seen, digest = FrameReader(), 0, False
    while not (digest and seen >= DELTAS):
        chunk = await client.reader.read(1 << 18)
        for item in frames.feed(chunk):
            batch = orjson.loads(item.data)["params"]
            seen += len(batch["events"])
            digest = "viewDigest" in batch
            if batch["events"]:
                ack = {"subscriptionId": batch["subscriptionId"], "seq": batch["events"][-1]["seq"]}
                await client.send({"jsonrpc": "2.0", "method": "session/ack", "params": ack})
    return seen, time.perf_counter()


async def measure_deltas(path: Path, followers: int) -> tuple[float, float]:
    """Deltas per second until the last follower had them all, and the daemon's CPU seconds."""
    clients = [await RawClient.open(path) for _ in range(followers + 1)]
    for client in clients:
        await client.initialize()
    readies = [asyncio.Event() for _ in range(followers)]
    follows = [asyncio.create_task(follow(*pair)) for pair in zip(clients[1:], readies, strict=True)]
    for ready in readies:
        await ready.wait()
    began = time.perf_counter()
    answer = (await clients[0].ask("test/flood"))["result"]
    ended = max([(await task)[1] for task in follows], default=began)
    for client in clients:
        await client.close()
    return DELTAS / (ended - began) if followers else DELTAS / answer["wall"], answer["cpu"]


async def measure_initialize(path: Path) -> tuple[float, float]:
    """Median milliseconds from connect to the handshake's answer, and of a small request after it."""
    opened, asked = [], []
    for _ in range(50):
        began = time.perf_counter()
        client = await RawClient.open(path)
        await client.initialize()
        opened.append(time.perf_counter() - began)
        began = time.perf_counter()
        await client.ask("session/list")
        asked.append(time.perf_counter() - began)
        await client.close()
    return statistics.median(opened) * 1e3, statistics.median(asked) * 1e3


async def measure_echo() -> float:
    """Median milliseconds of connect and one round trip over a bare asyncio server: what nobody can beat here."""
    folder = tempfile.mkdtemp(prefix="gp-", dir="/tmp")

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(1 << 16))
        writer.close()

    server = await asyncio.start_unix_server(echo, f"{folder}/s")
    took = []
    for _ in range(50):
        began = time.perf_counter()
        reader, writer = await asyncio.open_unix_connection(f"{folder}/s")
        writer.write(b"x" * 100)
        await reader.read(1 << 16)
        took.append(time.perf_counter() - began)
        writer.close()
        await writer.wait_closed()
    server.close()
    await server.wait_closed()
    rmtree(folder)
    return statistics.median(took) * 1e3


def wall_ms(code: str) -> float:
    """Median milliseconds of a Python process that runs `code`."""
    took = []
    for _ in range(11):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e3


def rss_mib(what: str) -> float:
    """Resident MiB of a process that imported modules and nothing else."""
    done = subprocess.run([sys.executable, "-c", RSS.format(what=what)], capture_output=True, check=True)
    return float(done.stdout)


def measure_piper(home: Path) -> tuple[float, float, float]:
    """Milliseconds from spawn to the initialize answer, from SIGTERM and from the editor's death to its end."""
    hello = encode_frame(orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}))
    environ = {**os.environ, "GLOVEPORT_HOME": str(home)}
    starts, ends, deaths = [], [], []
    launcher = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {PIPER!r}]); time.sleep(60)"
    for program, took in ((PIPER, ends), (launcher, deaths)):
        for _ in range(ROUNDS):
            source, keep = os.pipe()
            began = time.perf_counter()
            piper = subprocess.Popen([sys.executable, "-c", program], stdin=source, stdout=subprocess.PIPE, env=environ)
            os.close(source)
            os.write(keep, hello)
            assert piper.stdout is not None
            piper.stdout.readline()
            if program is PIPER:
                starts.append(time.perf_counter() - began)
            began = time.perf_counter()
            piper.send_signal(signal.SIGTERM if program is PIPER else signal.SIGKILL)
            piper.stdout.read()
            took.append(time.perf_counter() - began)
            piper.wait()
            os.close(keep)
    return (statistics.median(starts) * 1e3, statistics.median(ends) * 1e3, max(deaths) * 1e3)


def start_daemon(path: Path) -> subprocess.Popen[bytes]:
    """The daemon's side in a process of its own, once it listens."""
    child = subprocess.Popen([sys.executable, __file__, "--serve", str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    return child


async def main() -> None:
    """All figures."""
    home = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    path = home / "daemon.sock"
    print(f"bare connect and echo: {await measure_echo():.2f} ms")
    for followers in (0, 1, 2):
        rates, cpus = [], []
        for _ in range(ROUNDS):
            child = start_daemon(path)
            rate, cpu = await measure_deltas(path, followers)
            rates.append(rate)
            cpus.append(cpu)
            child.kill()
            child.communicate()
        rate, cpu = statistics.median(rates), statistics.median(cpus)
        print(f"{DELTAS} deltas to {followers}: {rate / 1e3:.1f}k/s ({rate / 40e3:.1f} of 40k/s), {cpu:.2f} CPU s")
    child = start_daemon(path)
    opened, asked = await measure_initialize(path)
    print(f"connect and initialize: {opened:.2f} ms; one small request: {asked:.2f} ms")
    started, ended, died = measure_piper(home)
    print(
        f"piper: spawn to initialize {started:.0f} ms ({started / 100:.2f} of 100 ms), SIGTERM to end {ended:.0f} ms,"
    )
    print(f"       editor killed to end {died:.0f} ms at worst")
    child.kill()
    child.communicate()
    bare, piper = wall_ms("pass"), wall_ms("import gloveport.server.client.stdio")
    print(f"piper's imports: {piper - bare:.0f} ms over a bare interpreter of {bare:.0f} ms")
    endpoint = rss_mib("gloveport.server.transports.lsp.endpoint, gloveport.protocol.wire.methods")
    print(f"RSS with the endpoint loaded: {endpoint:.1f} MiB ({endpoint / 60:.2f} of 60 MiB)")
    print(f"RSS of the piper's imports: {rss_mib('gloveport.server.client.stdio'):.1f} MiB")
    print(f"(this client used {resource.getrusage(resource.RUSAGE_SELF).ru_utime:.1f} CPU s)")
    rmtree(home)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(Path(sys.argv[2])))
    else:
        asyncio.run(main())
