"""A world outside for a jail: servers on loopback, a resolver of its own, and who is told.

Purpose: tests of the way out meet real sockets, and names that lead where the test says.
Invariant: every server is closed with its block; a resolver answers from its table and keeps what it was asked.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream
from anyio.streams.tls import TLSStream
from tests.kit.sandboxes import Rig

from gloveport.sandbox.contract import Command, Execution, Lease, Result
from gloveport.sandbox.egress.authority import LeaseAuthority
from gloveport.sandbox.egress.limits import EgressLimits
from gloveport.sandbox.egress.watch import Contact, ContactEnd
from gloveport.sandbox.egress.way import SOCKET_FILE, equip, open_way_out
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.profile import WayOut

LOOPBACK = "127.0.0.1"


@dataclass
class Seen:
    """What the way out told."""

    contacts: list[Contact] = field(default_factory=list)
    ends: list[ContactEnd] = field(default_factory=list)

    async def decided(self, contact: Contact) -> None:
        self.contacts.append(contact)

    async def ended(self, end: ContactEnd) -> None:
        self.ends.append(end)

    def verdicts(self) -> list[tuple[str, bool]]:
        """Place and verdict of each decision, in order."""
        return [(str(one.place), one.allowed) for one in self.contacts]


@dataclass
class Names:
    """A resolver with a table; each name's answers are given in turn, the last one again and again."""

    table: dict[str, list[tuple[str, ...]]]
    asked: list[str] = field(default_factory=list)

    async def resolve(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        answers = self.table.get(host)
        if not answers:
            raise OSError("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]


@dataclass
class Server:
    """A server on loopback and the bytes of each connection to it."""

    port: int
    received: list[bytearray] = field(default_factory=list)


Talk = Callable[[SocketStream, bytearray], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(talk: Talk) -> AsyncIterator[Server]:
    """A server that speaks as `talk` does; what it reads it notes in its second argument."""
    listener = await anyio.create_tcp_listener(local_host=LOOPBACK)
    server = Server(int(listener.extra(anyio.abc.SocketAttribute.local_port)))

    async def handle(stream: SocketStream) -> None:
        received = bytearray()
        server.received.append(received)
        async with stream:
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await talk(stream, received)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        try:
            yield server
        finally:
            tasks.cancel_scope.cancel()


def answering(body: bytes, *, status: str = "200 OK", headers: str = "") -> Talk:
    """HTTP/1.1, one answer to a request, kept alive."""

    async def talk(stream: SocketStream, received: bytearray) -> None:
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                piece = await stream.receive()
                received.extend(piece)
                data += piece
            _head, _end, data = data.partition(b"\r\n\r\n")
            await stream.send(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body)

    return talk


async def echo(stream: SocketStream, received: bytearray) -> None:
    """Everything back as it came."""
    async for piece in stream:
        received.extend(piece)
        await stream.send(piece)


@contextlib.asynccontextmanager
async def way_out(
    folder: Path, *egress: str, names: dict[str, Any] | None = None, limits: EgressLimits | None = None, **more: Any
) -> AsyncIterator[tuple[WayOut, Seen]]:
    """A way out for a list; `names` maps a name to its addresses (one tuple, or a list of them in turn)."""
    table = {name: one if isinstance(one, list) else [one] for name, one in (names or {}).items()}
    seen = Seen()
    more.setdefault("resolver", Names(table))
    async with open_way_out(folder / "ways", "run-1", egress, seen, limits=limits, **more) as way:
        yield way, seen


async def start_inside(
    rig: Rig,
    way: WayOut,
    egress: tuple[str, ...],
    source: str,
    *words: str,
    argv: tuple[str, ...] = (),
    packages: bool = False,
) -> tuple[Lease, Execution]:
    """Start a Python program (with this environment's packages), or the program that is given, with a way out."""
    interpreter = find_interpreter(packages=packages)
    profile = equip(replace(rig.profile(mounts=interpreter.mounts), egress=egress), way)
    lease = await rig.backend.prepare(profile, "lease-out")
    argv = argv or (interpreter.path, *(() if packages else ("-I", "-S")), "-B", "-c", source, *words)
    return lease, await lease.start(Command(argv, "run-out"))


async def run_inside(rig: Rig, way: WayOut, egress: tuple[str, ...], source: str, *words: str, **how: Any) -> Result:
    """Run one to its end; `how` as for `start_inside`."""
    lease, execution = await start_inside(rig, way, egress, source, *words, **how)
    try:
        return await execution.result()
    finally:
        await lease.release()


@dataclass
class Talker:
    """A client of the way out, as a hostile program inside would be: raw bytes on the proxy socket."""

    stream: SocketStream

    async def say(self, data: bytes) -> None:
        await self.stream.send(data)

    async def hear(self, marker: bytes = b"") -> bytes:
        """What comes until the marker, or until the end without one."""
        heard = b""
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while not marker or marker not in heard:
                heard += await self.stream.receive()
        return heard

    async def ask(self, data: bytes, marker: bytes = b"") -> bytes:
        await self.say(data)
        return await self.hear(marker)


@contextlib.asynccontextmanager
async def talker(way: WayOut) -> AsyncIterator[Talker]:
    """A connection to the proxy socket."""
    async with await anyio.connect_unix(Path(way.folder) / SOCKET_FILE) as stream:
        with anyio.fail_after(50):
            yield Talker(stream)


def client_hello(name: str | None) -> bytes:
    """The first bytes that a real TLS client says."""
    context = ssl.create_default_context()
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    machine = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        machine.do_handshake()
    return outgoing.read()


@contextlib.asynccontextmanager
async def serving_tls(talk: Talk, name: str, authority: LeaseAuthority) -> AsyncIterator[Server]:
    """A server that speaks TLS as `name`, by a root of the test's own."""

    async def wrapped(stream: SocketStream, received: bytearray) -> None:
        inner = await TLSStream.wrap(
            stream, server_side=True, ssl_context=authority.context_for(name), standard_compatible=False
        )
        await talk(inner, received)  # type: ignore[arg-type]  # - a byte stream like the other

    async with serving(wrapped) as server:
        yield server


def trusting(*roots: bytes) -> ssl.SSLContext:
    """A client's context that trusts these roots alone."""
    return ssl.create_default_context(cadata=b"\n".join(roots).decode())


@contextlib.asynccontextmanager
async def talker_tls(way: WayOut, server: Server, name: str = "ok.test") -> AsyncIterator[Talker]:
    """A connection through a tunnel, with TLS inside it, as a program in the jail makes it."""
    async with talker(way) as client:
        place = f"{name}:{server.port}"
        answer = await client.ask(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode(), b"\r\n\r\n")
        assert b" 200 " in answer, answer
        context = trusting((Path(way.folder) / "ca.pem").read_bytes())
        inner = await TLSStream.wrap(client.stream, hostname=name, ssl_context=context, standard_compatible=False)
        yield Talker(inner)  # type: ignore[arg-type]  # - a byte stream like the other
