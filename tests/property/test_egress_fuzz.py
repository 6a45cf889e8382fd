"""Mutated bytes on the proxy socket: nothing but whole requests for the listed place ever comes out.

Purpose: the whole proxy under hostile input, on real sockets.
"""

import logging
import random
from pathlib import Path

import anyio
import pytest
from tests.kit.egress import Server, Talker, answering, client_hello, serving, talker, way_out

from gloveport.sandbox.egress.head import END, read_head
from gloveport.sandbox.egress.limits import EgressLimits
from gloveport.sandbox.profile import WayOut

ROUNDS = 400
LIMITS = EgressLimits(head_s=0.05, idle_s=0.05, connect_s=2.0)
PIECES = (
    b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"\xff", b"@", b"#", b"%00", b"Host: other.test\r\n", b";a=b",
    b"0\r\n\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Length: 7\r\n", b"HTTP/1.1", b"http://other.test/",
    b"[::1]", b"ffffffffffffffff\r\n", b"-1\r\n", b"Connection: close\r\n", b"GET http://other.test/ HTTP/1.1\r\n",
)  # fmt: skip


def seeds(server: Server) -> tuple[bytes, ...]:
    """What a well-meant client says, in each of the ways."""
    place = f"ok.test:{server.port}".encode()
    get = b"GET http://%s/a HTTP/1.1\r\nHost: %s\r\n\r\n" % (place, place)
    post = b"POST http://%s/ HTTP/1.1\r\nHost: %s\r\nContent-Length: 5\r\n\r\nhello" % (place, place)
    chunked = b"POST http://%s/ HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" % (
        place,
        place,
    )
    tunnel = b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n%s" % (place, place, client_hello("ok.test"))
    socks = (
        b"\x05\x01\x00\x05\x01\x00\x03\x07ok.test"
        + server.port.to_bytes(2, "big")
        + b"GET / HTTP/1.1\r\nHost: ok.test\r\n\r\n"
    )
    return get, get + get, post + get, chunked + post, tunnel, socks


def mutated(source: random.Random, data: bytes) -> bytes:
    """The same with some pieces put in, taken out, turned or said twice."""
    for _ in range(source.randint(1, 4)):
        at, size = source.randrange(len(data) + 1), source.randint(0, 12)
        match source.randrange(5):
            case 0:
                data = data[:at] + source.choice(PIECES) + data[at:]
            case 1:
                data = data[:at] + data[at + size :]
            case 2:
                data = data[:at] + bytes([source.randrange(256)]) + data[at + 1 :]
            case 3:
                data = data[:at] + data[max(0, at - size) :]
            case _:
                data = data[:at] + data[at:].replace(b"ok.test", b"other.test", 1)
    return data


async def _say(client: Talker, source: random.Random, data: bytes) -> None:
    with anyio.move_on_after(0.2):
        at = 0
        while at < len(data):
            size = source.randint(1, len(data))
            await client.say(data[at : at + size])
            at += size
        await client.hear()


@pytest.mark.parametrize("seed", [1, 2])
async def test_any_bytes_on_the_socket(tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture) -> None:
    source = random.Random(seed)
    async with serving(answering(b"hello")) as server:
        egress = f"ok.test:{server.port} loopback"
        names = {"ok.test": ("127.0.0.1",), "other.test": ("127.0.0.1",)}
        async with way_out(tmp_path, egress, names=names, limits=LIMITS) as (way, seen):
            given = seeds(server)
            for _ in range(ROUNDS // 8):
                async with anyio.create_task_group() as tasks:
                    for _ in range(8):
                        tasks.start_soon(_one, way, source, mutated(source, source.choice(given)))
        assert any(contact.allowed for contact in seen.contacts)
        assert any(not contact.allowed for contact in seen.contacts)
        assert {str(one.place) for one in seen.contacts if one.allowed} == {f"ok.test:{server.port}"}
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    reached = [bytes(one) for one in server.received if one]
    assert reached
    for one in reached:
        if one[0] == 0x16:
            assert b"ok.test" in one
            continue
        head = read_head(one[: one.index(END) + len(END)])
        assert head.get(b"host") == f"ok.test:{server.port}".encode()
        assert b"other.test" not in one.partition(END)[2].split(END)[0] or head.has_body


async def _one(way: WayOut, source: random.Random, data: bytes) -> None:
    async with talker(way) as client:
        try:
            await _say(client, source, data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
