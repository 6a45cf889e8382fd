"""Tricks against the way out: each is refused and named, and the same request without the trick goes through.

Purpose: what a hostile program inside can say to the proxy socket, byte by byte.
"""

import logging
import socket
import struct
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.kit.egress import Names, Server, answering, client_hello, echo, serving, talker, way_out
from tests.kit.require import require

from gloveport.sandbox.egress import proxy
from gloveport.sandbox.egress.head import RequestHead
from gloveport.sandbox.egress.hosts import Authority
from gloveport.sandbox.egress.limits import EgressLimits
from gloveport.sandbox.profile import WayOut

NAMES = {"ok.test": ("127.0.0.1",), "other.test": ("127.0.0.1",)}
LISTED = "ok.test:{port} loopback"
CLOSES_S = 15.0


def get(server: Server, *lines: str, url: str = "http://ok.test:{port}/", host: str = "ok.test:{port}") -> bytes:
    """A request as a proxy gets it."""
    head = [f"GET {url} HTTP/1.1", *([f"Host: {host}"] if host else []), *lines, "", ""]
    return "\r\n".join(head).format(port=server.port).encode("latin-1")


async def ask(
    folder: Path, request: bytes, server: Server, marker: bytes = b""
) -> tuple[bytes, list[tuple[str, bool]]]:
    """One request to a fresh way out for the server; the answer and the verdicts."""
    async with way_out(folder, LISTED.format(port=server.port), names=NAMES) as (way, seen), talker(way) as client:
        return await client.ask(request, marker), seen.verdicts()


async def test_a_plain_request_goes_through(tmp_path: Path) -> None:
    async with serving(answering(b"hello")) as server:
        answer, verdicts = await ask(tmp_path, get(server), server, b"hello")
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert verdicts == [(f"ok.test:{server.port}", True)]
        assert bytes(server.received[0]).startswith(f"GET / HTTP/1.1\r\nhost: ok.test:{server.port}\r\n".encode())


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://ok.test:{port}/", "other.test:{port}"),
        ("http://ok.test:{port}/", "ok.test:1"),
        ("http://ok.test:{port}/", "ok.test"),
        ("http://ok.test:{port}/", ""),
        ("http://other.test:{port}/", "ok.test:{port}"),
        ("http://ok.test:{port}@other.test/", "ok.test:{port}"),
        ("http://other.test@ok.test:{port}/", "ok.test:{port}"),
        ("http://ok.test.:{port}/", "ok.test.:{port}"),
        ("http://0x7f.1:{port}/", "0x7f.1:{port}"),
        ("http://2130706433:{port}/", "2130706433:{port}"),
        ("http://127.0.0.1:{port}/", "127.0.0.1:{port}"),
        ("http://0177.0.0.1:{port}/", "0177.0.0.1:{port}"),
        ("http://[::ffff:127.0.0.1]:{port}/", "[::ffff:127.0.0.1]:{port}"),
        ("http://[::1%25lo]:{port}/", "[::1%25lo]:{port}"),
        ("http://ok.test%2eother.test:{port}/", "ok.test%2eother.test:{port}"),
        ("http://sub.ok.test:{port}/", "sub.ok.test:{port}"),
        ("http://ok.test:0{port}/", "ok.test:0{port}"),
        ("/", "ok.test:{port}"),
        ("https://ok.test:{port}/", "ok.test:{port}"),
    ],
)
async def test_url_and_host_that_differ_or_are_spelled_otherwise(tmp_path: Path, url: str, host: str) -> None:
    async with serving(answering(b"hello")) as server:
        answer, verdicts = await ask(tmp_path, get(server, url=url, host=host), server)
        assert answer.split(b" ")[1] in (b"400", b"403")
        assert b"Blocked by sandbox: " in answer
        assert [allowed for _, allowed in verdicts] == [False]
        assert server.received == []


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 4", "Transfer-Encoding: chunked"),
        ("Content-Length: 4", "Content-Length: 5"),
        ("Content-Length: 4", "Content-Length: 4"),
        ("Content-Length: +4",),
        ("Content-Length: 4, 4",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding : chunked",),
        ("X: 1\r\n folded",),
        ("X: 1\n\nGET http://other.test/ HTTP/1.1",),
        ("X: 1\rY: 2",),
        ("X: 1\0",),
        ("Host: other.test",),
        ("Connection: host",),
        ("Connection: close, content-length", "Content-Length: 0"),
        ("X y: 1",),
        (": 1",),
    ],
)
async def test_a_request_that_two_readers_read_in_two_ways(tmp_path: Path, lines: tuple[str, ...]) -> None:
    async with serving(answering(b"hello")) as server:
        answer, verdicts = await ask(tmp_path, get(server, *lines) + b"0\r\n\r\n", server)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert [allowed for _, allowed in verdicts] == [False]
        assert server.received == []


async def test_each_request_of_a_kept_connection_is_decided(tmp_path: Path) -> None:
    async with serving(answering(b"hello")) as server:
        other = get(server, url="http://other.test:{port}/", host="other.test:{port}")
        egress = LISTED.format(port=server.port)
        async with way_out(tmp_path, egress, names=NAMES) as (way, seen), talker(way) as client:
            assert (await client.ask(get(server), b"hello")).startswith(b"HTTP/1.1 200 ")
            assert (await client.ask(get(server), b"hello")).startswith(b"HTTP/1.1 200 ")
            refused = await client.ask(other)
        assert f"Blocked by sandbox: other.test:{server.port}".encode() in refused
        assert [allowed for _, allowed in seen.verdicts()] == [True, True, False]
        assert len({one.trace_id for one in seen.contacts}) == 3
        assert [bytes(one).count(b"GET / ") for one in server.received] == [2]


async def test_requests_in_one_piece_are_decided_one_by_one(tmp_path: Path) -> None:
    async with serving(answering(b"hello")) as server:
        other = get(server, url="http://other.test:{port}/", host="other.test:{port}")
        with_body = get(server, "Content-Length: 3") + b"abc"
        answer, verdicts = await ask(tmp_path, with_body + get(server) + other, server)
        assert answer.count(b"HTTP/1.1 200 ") == 2
        assert answer.count(b"HTTP/1.1 403 ") == 1
        assert [allowed for _, allowed in verdicts] == [True, True, False]


async def test_bodies_are_framed_anew(tmp_path: Path) -> None:
    async with serving(answering(b"hello")) as server:
        body = b"3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
        answer, _ = await ask(tmp_path, get(server, "Transfer-Encoding: chunked") + body, server, b"hello")
        assert answer.startswith(b"HTTP/1.1 200 ")
        sent = bytes(server.received[0])
        assert b"ext=1" not in sent
        assert b"Trailer" not in sent


async def test_upgrades_and_redirects_are_not_followed(tmp_path: Path) -> None:
    moved = answering(b"gone", status="302 Found", headers="Location: http://other.test/\r\n")
    async with serving(moved) as server:
        asked = get(server, "Connection: Upgrade, keep-alive", "Upgrade: websocket")
        answer, verdicts = await ask(tmp_path, asked, server, b"gone")
        assert b"302" in answer
        assert [allowed for _, allowed in verdicts] == [True]
        assert b"websocket" not in bytes(server.received[0]).lower()


# ---- tunnels ----


def connect(server: Server, host: str = "ok.test") -> bytes:
    return f"CONNECT {host}:{server.port} HTTP/1.1\r\nHost: {host}:{server.port}\r\n\r\n".encode()


def with_extension(hello: bytes, kind: int) -> bytes:
    """The same hello with one extension more."""
    body = bytearray(hello[5:])
    at = 4 + 2 + 32
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at : at + 2], "big")
    at += 1 + body[at]
    total = int.from_bytes(body[at : at + 2], "big") + 4
    body[at : at + 2] = struct.pack("!H", total)
    body += struct.pack("!HH", kind, 0)
    body[1:4] = (len(body) - 4).to_bytes(3, "big")
    return hello[:3] + struct.pack("!H", len(body)) + bytes(body)


async def test_tls_to_the_same_name_goes_through_however_it_is_cut(tmp_path: Path) -> None:
    hello = client_hello("ok.test")
    async with serving(echo) as server:
        egress = LISTED.format(port=server.port)
        async with way_out(tmp_path, egress, names=NAMES) as (way, seen), talker(way) as client:
            assert b" 200 " in await client.ask(connect(server), b"\r\n\r\n")
            for at in range(0, len(hello), 100):
                await client.say(hello[at : at + 100])
                await anyio.lowlevel.checkpoint()
            heard = await client.hear(hello[-8:])
        assert heard == hello
        assert seen.verdicts() == [(f"ok.test:{server.port}", True)]
        assert seen.ends[0].sent_bytes == seen.ends[0].received_bytes == len(hello)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (client_hello("other.test"), "names other.test, not ok.test"),
        (client_hello(None), "names no server"),
        (client_hello("127.0.0.1"), "names no server"),
        (with_extension(client_hello("ok.test"), 0xFE0D), "hides a name"),
        (with_extension(client_hello("ok.test"), 0), "says something twice"),
        (b"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n", "no TLS hello"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no TLS hello"),
        (b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00", "no ClientHello"),
        (b"\x16\x03\x01\x00\x04\x01\xff\xff\xff", "limit hello_bytes_max"),
        (client_hello("ok.test")[:5] + b"\x01\x00\x00\x02\x03\x03" + b"\0" * 600, "hello"),
    ],
)
async def test_a_tunnel_that_begins_with_anything_else(tmp_path: Path, first: bytes, words: str) -> None:
    async with serving(echo) as server:
        egress = LISTED.format(port=server.port)
        async with way_out(tmp_path, egress, names=NAMES) as (way, seen), talker(way) as client:
            assert b" 200 " in await client.ask(connect(server), b"\r\n\r\n")
            await client.say(first)
            assert await client.hear() == b""
        assert [one.allowed for one in seen.contacts] == [True, False]
        assert words in seen.contacts[1].reason
        assert b"".join(map(bytes, server.received)) == b""


async def test_a_tunnel_whose_host_header_names_another_place(tmp_path: Path) -> None:
    async with serving(echo) as server:
        crooked = connect(server).replace(b"Host: ok.test", b"Host: other.test")
        answer, verdicts = await ask(tmp_path, crooked, server)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert [allowed for _, allowed in verdicts] == [False]


async def test_a_tunnel_to_another_host_is_refused(tmp_path: Path) -> None:
    async with serving(echo) as server:
        answer, verdicts = await ask(tmp_path, connect(server, "other.test"), server)
        assert f"Blocked by sandbox: other.test:{server.port}".encode() in answer
        assert verdicts == [(f"other.test:{server.port}", False)]


# ---- names and addresses ----


@pytest.mark.parametrize(
    "answers",
    [
        ("127.0.0.1",),
        ("169.254.169.254",),
        ("::ffff:127.0.0.1",),
        ("::1",),
        ("10.0.0.1",),
        ("100.64.0.1",),
        ("64:ff9b::7f00:1",),
        ("2002:7f00:1::1",),
        ("fe80::1%lo",),
        ("fd00::1",),
        ("0.0.0.0",),
        ("224.0.0.1",),
        ("93.184.216.34", "127.0.0.1"),
        ("not an address",),
        (),
    ],
)
async def test_a_name_that_leads_to_no_public_place(tmp_path: Path, answers: tuple[str, ...]) -> None:
    async with serving(answering(b"hello")) as server:
        egress = f"ok.test:{server.port}"
        async with way_out(tmp_path, egress, names={"ok.test": answers}) as (way, seen), talker(way) as client:
            assert b"HTTP/1.1 403 " in await client.ask(get(server))
        assert [one.allowed for one in seen.contacts] == [False]
        assert "its name" in seen.contacts[0].reason
        assert server.received == []


async def test_a_name_is_looked_up_once_and_only_if_it_is_listed(tmp_path: Path) -> None:
    """Rebinding: what a name leads to later is not asked."""
    names = Names({"ok.test": [("127.0.0.1",), ("10.0.0.1",)], "other.test": [("127.0.0.1",)]})
    async with serving(answering(b"hello")) as server:
        egress = LISTED.format(port=server.port)
        async with way_out(tmp_path, egress, resolver=names) as (way, _seen), talker(way) as client:
            assert b" 200 " in await client.ask(get(server), b"hello")
            assert b" 200 " in await client.ask(get(server), b"hello")
            await client.ask(get(server, url="http://other.test:{port}/", host="other.test:{port}"))
    assert names.asked == ["ok.test"]


async def test_this_machines_own_address_is_no_public_one(tmp_path: Path) -> None:
    """A name that leads to where this machine is on its network is as private as loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        own = str(probe.getsockname()[0])
    require(own != "0.0.0.0", "this machine has no network")
    async with serving(answering(b"hello")) as server:
        for options in ("", " private"):
            egress = f"ok.test:{server.port}{options}"
            async with way_out(tmp_path, egress, names={"ok.test": (own,)}) as (way, seen), talker(way) as client:
                assert b" 403 " in await client.ask(get(server))
            assert seen.contacts[0].reason == f"its name leads to the loopback address {own}"


async def test_an_address_is_reached_only_where_the_list_writes_it_so(tmp_path: Path) -> None:
    async with serving(answering(b"hello")) as server:
        request = get(server, url="http://127.0.0.1:{port}/", host="127.0.0.1:{port}")
        for options, expected in ((" loopback", b" 200 "), ("", b" 403 "), (" private", b" 403 ")):
            async with way_out(tmp_path, f"127.0.0.1:{server.port}{options}") as (way, _), talker(way) as client:
                assert expected in await client.ask(request, b"hello" if "loop" in options else b"")


# ---- bounds ----


async def test_limits_cut_with_their_name(tmp_path: Path) -> None:
    async with serving(answering(b"x" * 5000)) as server:
        egress = LISTED.format(port=server.port)
        limits = EgressLimits(total_bytes_max=12_000, head_bytes_max=1000, connections_max=2, requests_max=6)
        async with way_out(tmp_path, egress, names=NAMES, limits=limits) as (way, seen):
            async with talker(way) as client:
                assert await client.ask(get(server, "X: " + "y" * 2000)) == b""
            async with talker(way), talker(way) as second, talker(way) as third:
                assert b"limit connections_max of 2" in await third.hear()
                assert b" 200 " in await second.ask(get(server), b"x" * 5000)
                assert b" 200 " in await second.ask(get(server), b"x" * 5000)
                await second.ask(get(server))
            assert seen.ends[-1].cut
            async with talker(way) as client:
                await client.ask(b"CONNECT ok.test:1 HTTP/1.1\r\n\r\n")
            async with talker(way) as client:
                await client.ask(b"CONNECT ok.test:1 HTTP/1.1\r\n\r\n")
            async with talker(way) as client:
                assert b"403" in await client.ask(b"CONNECT ok.test:1 HTTP/1.1\r\n\r\n")
            async with talker(way) as client:
                assert await client.ask(b"CONNECT ok.test:1 HTTP/1.1\r\n\r\n") == b"", "requests_max"


async def test_a_flood_of_connections_waits_and_ends(tmp_path: Path) -> None:
    async with serving(echo) as server:
        limits = EgressLimits(connections_max=2, accepts_max=12, head_s=0.5)
        async with way_out(tmp_path, f"ok.test:{server.port} loopback raw", names=NAMES, limits=limits) as (way, seen):
            async with AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(talker(way)) for _ in range(12)]
                with anyio.move_on_after(1):
                    await clients[-1].hear()
                working = await clients[0].ask(connect(server), b"\r\n\r\n")
                assert b" 200 " in working
            assert not await _connects(way)
        assert seen.verdicts() == [(f"ok.test:{server.port}", True)]


async def _connects(way: WayOut) -> bool:
    """Whether the way out still takes connections, however often it is tried; it closes when it comes to that."""
    with anyio.move_on_after(CLOSES_S):
        while True:
            try:
                async with talker(way) as late:
                    await late.say(b"x")
            except OSError:
                return False
            await anyio.sleep(0.02)
    return True


async def test_a_decision_that_cannot_be_noted_is_not_carried_out(tmp_path: Path) -> None:
    async with serving(answering(b"hello")) as server:
        egress = LISTED.format(port=server.port)
        async with way_out(tmp_path, egress, names=NAMES) as (way, seen), talker(way) as client:

            async def decided(contact: object) -> None:
                raise OSError("the disk is full")

            seen.decided = decided  # type: ignore[method-assign]  # - a watcher that cannot write
            assert await client.ask(get(server)) == b""
        assert server.received == []


async def test_silence_is_bounded(tmp_path: Path) -> None:
    async with serving(echo) as server:
        egress = f"ok.test:{server.port} loopback raw"
        limits = EgressLimits(head_s=0.2)
        async with way_out(tmp_path / "head", egress, names=NAMES, limits=limits) as (way, _), talker(way) as client:
            assert await client.ask(b"GET http://ok.te") == b""
        limits = EgressLimits(idle_s=2.0)  # far more than a busy machine may let pass between two words
        async with way_out(tmp_path / "idle", egress, names=NAMES, limits=limits) as (way, seen), talker(way) as client:
            await client.ask(connect(server), b"\r\n\r\n")
            for _ in range(5):
                await client.ask(b"more", b"more")
                await anyio.sleep(0.5)
            assert await client.hear() == b""
        assert seen.ends[0].cut == "limit idle_s of 2 s"


async def test_a_decision_is_noted_before_anything_is_connected_to(tmp_path: Path) -> None:
    async with serving(answering(b"hello")) as server:
        egress = LISTED.format(port=server.port)
        async with way_out(tmp_path, egress, names=NAMES) as (way, seen), talker(way) as client:
            noted: list[int] = []
            note = seen.decided

            async def decided(contact: object) -> None:
                await anyio.sleep(0.05)
                noted.append(len(server.received))
                await note(contact)  # type: ignore[arg-type]  # - it is what the proxy gives

            seen.decided = decided  # type: ignore[method-assign]  # - a slower watcher
            await client.ask(get(server), b"hello")
        assert noted == [0]


async def test_closing_cuts_what_is_open_after_its_time(tmp_path: Path) -> None:
    async with serving(echo) as server:
        egress = f"ok.test:{server.port} loopback raw"
        limits = EgressLimits(drain_s=0.2)
        with anyio.fail_after(60):
            async with way_out(tmp_path, egress, names=NAMES, limits=limits) as (way, _):
                stream = await anyio.connect_unix(Path(way.folder) / "proxy.sock")
                await stream.send(connect(server))
                await stream.receive()
                await stream.send(b"still here")
                assert await stream.receive() == b"still here"
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()
        await stream.aclose()
        assert not Path(way.folder).exists()


async def test_a_fault_of_the_proxys_own_ends_one_connection_and_is_told_without_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A reader that stumbles over one request: the others are served, before and after."""
    usual = proxy.read_absolute

    def stumble(head: RequestHead) -> tuple[Authority, bytes]:
        if head.get(b"x-trap") is not None:
            raise ZeroDivisionError
        return usual(head)

    monkeypatch.setattr(proxy, "read_absolute", stumble)
    async with serving(answering(b"hello")) as server:
        egress = LISTED.format(port=server.port)
        async with way_out(tmp_path, egress, names=NAMES) as (way, _seen), talker(way) as waiting:
            async with talker(way) as victim:
                assert await victim.ask(get(server, "X-Trap: secret-bytes"), b"hello") == b""
            assert (await waiting.ask(get(server), b"hello")).startswith(b"HTTP/1.1 200 ")
            async with talker(way) as later:
                assert (await later.ask(get(server), b"hello")).startswith(b"HTTP/1.1 200 ")
    (told,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "ended unexpectedly" in told.getMessage()
    assert "secret-bytes" not in caplog.text
