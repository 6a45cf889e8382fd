"""What the way out costs: a request and a stream from inside a jail, beside the same program with the server at hand.

Purpose: the share that is ours, as ratios. Both sides run one program: its loopback server is in the host's network in
the direct round, and behind bridge and proxy in the other.
"""

import asyncio
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.bench.report import heading, tell
from tests.kit.egress import Names, Seen

from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Command
from gloveport.sandbox.egress.way import equip, open_way_out
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.profile import Limits, Profile

REQUESTS = 300
STREAM_BYTES = 256 * 1024 * 1024
REQUEST_BAR_MS = 5.0
STREAM_BAR = 12.0

CLIENT = f"""
import socket, sys, time
host, port, proxy, raw = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
place = b"%s:%d" % (host.encode(), port)
ask = b"GET " + (b"http://" + place if proxy else b"") + b"/ HTTP/1.1\\r\\nHost: " + place + b"\\r\\n\\r\\n"
times = []
link = socket.create_connection(("127.0.0.1", proxy or port))
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for _ in range({REQUESTS}):
    began = time.perf_counter()
    link.sendall(ask)
    heard = b""
    while not heard.endswith(b"hello"):
        heard += link.recv(65536)
    times.append(time.perf_counter() - began)
link.close()
link = socket.create_connection(("127.0.0.1", raw))
began, taken = time.perf_counter(), 0
link.sendall(b"stream")
while taken < {STREAM_BYTES}:
    taken += len(link.recv(1 << 20))
print(sorted(times)[len(times) // 2] * 1e3, taken / (time.perf_counter() - began) / 1e6)
"""


def serve(listener: socket.socket) -> None:
    """Answer each connection in a thread: a stream where one is asked for, else HTTP kept alive."""

    def talk(link: socket.socket) -> None:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with link:
            while heard := link.recv(65536):
                if heard == b"stream":
                    piece = bytes(1 << 20)
                    for _ in range(STREAM_BYTES // len(piece)):
                        link.sendall(piece)
                    return
                link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

    while True:
        try:
            link, _address = listener.accept()
        except OSError:
            return
        threading.Thread(target=talk, args=(link,), daemon=True).start()


async def inside(folder: Path, ports: tuple[int, int]) -> tuple[float, float]:
    """Milliseconds of a request and MB/s of a stream, from inside a jail."""
    http, raw = ports
    egress = (f"server.test:{http} loopback", f"server.test:{raw} loopback raw")
    names = Names({"server.test": [("127.0.0.1",)]})
    backend = open_backend("bubblewrap", folder / "runs")
    found = await backend.probe()
    if not found.ok:
        sys.exit(f"bubblewrap does not work here: {found.reason}")
    async with open_way_out(folder / "ways", "bench", egress, Seen(), resolver=names) as way:
        interpreter = find_interpreter()
        limits = Limits(wall_s=120.0)
        profile = Profile("bench", "build", interpreter.mounts, "/", limits, egress=egress)
        lease = await backend.prepare(equip(profile, way), "bench")
        argv = (interpreter.path, "-I", "-S", "-c", CLIENT, "server.test", str(http), "3128", str(raw))
        result = await (await lease.start(Command(argv, "bench"))).result()
        await lease.release()
    await backend.close()
    ms, rate = result.output.decode().split()
    return float(ms), float(rate)


def direct(ports: tuple[int, int]) -> tuple[float, float]:
    """The same program with the server at hand."""
    http, raw = ports
    argv = [sys.executable, "-I", "-S", "-c", CLIENT, "127.0.0.1", str(http), "0", str(raw)]
    ms, rate = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
    return float(ms), float(rate)


def main() -> None:
    """Three rounds of each, in turn."""
    heading("The way out of a jail")
    folder = Path(tempfile.mkdtemp(prefix="gp-", dir="/tmp"))
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    for listener in listeners:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
    ports = (listeners[0].getsockname()[1], listeners[1].getsockname()[1])
    try:
        rounds = [(direct(ports), asyncio.run(inside(folder, ports))) for _ in range(3)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    near = [statistics.median(one[0][index] for one in rounds) for index in (0, 1)]
    far = [statistics.median(one[1][index] for one in rounds) for index in (0, 1)]
    tell(
        "a request, added by bridge and proxy",
        far[0] - near[0],
        "ms",
        REQUEST_BAR_MS,
        beside=f"direct {near[0]:.2f} ms",
    )
    beside = f"{far[1]:.0f} MB/s, direct {near[1]:.0f} MB/s"
    tell("a stream through a fixed port, beside direct", near[1] / far[1], "times", STREAM_BAR, beside=beside)


if __name__ == "__main__":
    main()
