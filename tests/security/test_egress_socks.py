"""Tunnels by SOCKS: what is listed goes through, by name and as a request; everything else is refused.

Purpose: what a hostile program inside can say to the proxy socket as a client of SOCKS5, byte by byte.
"""

import struct
from pathlib import Path

import pytest
from tests.kit.egress import answering, echo, serving, talker, way_out

from gloveport.sandbox.egress import proxy

NAMES = {"ok.test": ("127.0.0.1",), "other.test": ("127.0.0.1",)}
LISTED = "ok.test:{port} loopback"


def socks(host: bytes, port: int, kind: int = 3, command: int = 1) -> bytes:
    address = bytes((len(host),)) + host if kind == 3 else host
    return b"\x05\x01\x00" + bytes((5, command, 0, kind)) + address + struct.pack("!H", port)


async def test_socks_carries_tls_and_requests_to_listed_names(tmp_path: Path) -> None:
    async with serving(answering(b"hello")) as server:
        egress = LISTED.format(port=server.port)
        async with way_out(tmp_path, egress, names=NAMES) as (way, seen), talker(way) as client:
            assert (await client.ask(socks(b"ok.test", server.port), b"\x05\x00\x00\x01"))[:4] == b"\x05\x00\x05\x00"
            good = f"GET /x HTTP/1.1\r\nHost: ok.test:{server.port}\r\n\r\n".encode()
            assert b" 200 " in await client.ask(good, b"hello")
            assert b"Blocked by sandbox" in await client.ask(good.replace(b"ok.test", b"other.test"))
        assert [one.allowed for one in seen.contacts] == [True, True, False]


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_tunnel_inside_a_tunnel_is_refused_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    """An answer of 2xx to CONNECT is the end of HTTP; were it asked for all the same, the exchange ends with it."""
    if not is_read:
        monkeypatch.setattr(proxy, "read_origin", lambda head, *_: head.target)
    async with serving(answering(b"hello")) as server:
        async with (
            way_out(tmp_path, LISTED.format(port=server.port), names=NAMES) as (way, seen),
            talker(way) as client,
        ):
            assert await client.ask(socks(b"ok.test", server.port), b"\x05\x00\x00\x01")
            answer = await client.ask(f"CONNECT /x HTTP/1.1\r\nHost: ok.test:{server.port}\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 400 " if is_read else b"HTTP/1.1 200 ")
        assert [one.allowed for one in seen.contacts][1:] == [not is_read]


@pytest.mark.parametrize(
    "request_",
    [
        socks(b"other.test", 80),
        socks(b"ok.test", 80),
        socks(b"\x7f\x00\x00\x01", 80, kind=1),
        socks(b"\0" * 15 + b"\x01", 80, kind=4),
        socks(b"127.0.0.1", 80),
        socks(b"OK.TEST\0", 80),
        socks(b"ok.test", 80, command=2),
        b"\x05\x01\x02",
    ],
)
async def test_socks_refuses_what_is_not_listed(tmp_path: Path, request_: bytes) -> None:
    async with serving(echo) as server:
        egress = LISTED.format(port=server.port)
        async with way_out(tmp_path, egress, names=NAMES) as (way, seen), talker(way) as client:
            answer = await client.ask(request_)
        assert answer[-10:-8] != b"\x05\x00"
        assert answer[:2] in (b"\x05\x00", b"\x05\xff")
        assert [one.allowed for one in seen.contacts] == [False]
        assert server.received == []
