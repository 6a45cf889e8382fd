"""Credentials that a jail uses without holding them: they go to their own place alone and never come back.

Purpose: the broker's half of the way out, each refusal beside the use that is right.
"""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from anyio.abc import SocketStream
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.egress import (
    Seen,
    Server,
    Talk,
    Talker,
    answering,
    serving,
    serving_tls,
    talker,
    talker_tls,
    trusting,
    way_out,
)

from gloveport.sandbox.egress.authority import LeaseAuthority
from gloveport.sandbox.egress.credentials import Loan, Scrub
from gloveport.sandbox.egress.hosts import Authority

NAMES = {"ok.test": ("127.0.0.1",), "other.test": ("127.0.0.1",)}
VALUE = "real-Token/value+1"
STAND_IN = "gloveport-forge-0123456789abcdef"


def loan(port: int, **changes: object) -> Loan:
    """What is lent for the server."""
    return Loan("forge", STAND_IN, VALUE, Authority("ok.test", port), **changes)  # type: ignore[arg-type]  # - by name


def parroting(*, times: int = 1, coding: str = "") -> Talk:
    """A server that gives back what it was asked, headers and all, in small pieces."""

    async def talk(stream: SocketStream, received: bytearray) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive()
        received.extend(data)
        body = data * times
        more = f"Content-Encoding: {coding}\r\n" if coding else ""
        echoed = next((line for line in data.split(b"\r\n") if line.lower().startswith(b"authorization")), b"")
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nX-Echo: ".encode() + echoed
        await stream.send(head + f"\r\n{more}\r\n".encode())
        for at in range(0, len(body), 7):
            await stream.send(body[at : at + 7])

    return talk


@asynccontextmanager
async def lent(
    folder: Path, talk: Talk, options: str = "credential=broker", **changes: object
) -> AsyncIterator[tuple[Server, Talker, Seen]]:
    """A server behind TLS, and a client inside that may use the credential there."""
    outside = LeaseAuthority()
    async with serving_tls(talk, "ok.test", outside) as server:
        egress = f"ok.test:{server.port} loopback {options}"
        more = {"loans": (loan(server.port, **changes),), "trust": trusting(outside.root_pem)}
        async with way_out(folder, egress, names=NAMES, **more) as (way, seen), talker_tls(way, server) as client:
            yield server, client, seen


def get(server: Server, *lines: str, path: str = "/v1/x", method: str = "GET") -> bytes:
    head = [f"{method} {path} HTTP/1.1", f"Host: ok.test:{server.port}", "Accept-Encoding: gzip", *lines, "", ""]
    return "\r\n".join(head).encode()


async def test_the_value_reaches_its_place_and_does_not_come_back(tmp_path: Path) -> None:
    async with lent(tmp_path, parroting(times=3)) as (server, client, seen):
        answer = await client.ask(get(server, f"Authorization: Bearer {STAND_IN}"), b"\r\n0\r\n\r\n")
        sent = bytes(server.received[0])
        assert f"authorization: Bearer {VALUE}".encode() in sent
        assert b"gzip" not in sent
        assert VALUE.encode() not in answer
        assert answer.count(STAND_IN.encode()) == 4
        assert [(one.way, one.allowed) for one in seen.contacts] == [("connect", True), ("https", True)]


async def test_within_basic_too(tmp_path: Path) -> None:
    async with lent(tmp_path, parroting()) as (server, client, _seen):
        basic = base64.b64encode(f"user:{STAND_IN}".encode()).decode()
        answer = await client.ask(get(server, f"Authorization: Basic {basic}"), b"\r\n0\r\n\r\n")
        real = base64.b64encode(f"user:{VALUE}".encode())
        assert b"Basic " + real in bytes(server.received[0])
        assert real not in answer


@pytest.mark.parametrize(
    ("line", "path", "method", "words"),
    [
        ("Authorization: Bearer of-the-attacker", "/v1/x", "GET", "not lent"),
        ("Cookie: session=of-the-attacker", "/v1/x", "GET", "not lent"),
        ("X-Api-Key: of-the-attacker", "/v1/x", "GET", "not lent"),
        (f"Authorization: Bearer {STAND_IN}", "/v1/x", "DELETE", "is not for DELETE"),
        (f"Authorization: Bearer {STAND_IN}", "/admin", "GET", "at this path"),
        (f"Authorization: Bearer {STAND_IN}", "/v1/../admin", "GET", "at this path"),
        (f"Authorization: Bearer {STAND_IN}", "/v1/%2e%2e/admin", "GET", "at this path"),
        (f"X: {STAND_IN}", f"/v1/{STAND_IN}", "GET", "in the URL"),
    ],
)
async def test_used_wrongly_it_is_refused(tmp_path: Path, line: str, path: str, method: str, words: str) -> None:
    limits = {"methods": ("GET",), "path_prefix": "/v1/"}
    async with lent(tmp_path, parroting(), **limits) as (server, client, seen):
        answer = await client.ask(get(server, line, path=path, method=method), b"trace")
        assert b"Blocked by sandbox" in answer
        assert [one.allowed for one in seen.contacts] == [True, True, False]
        assert words in seen.contacts[-1].reason
        assert server.received == []


async def test_a_foreign_credential_passes_where_the_list_does_not_forbid_it(tmp_path: Path) -> None:
    async with lent(tmp_path, parroting(), "terminate") as (server, client, _seen):
        answer = await client.ask(get(server, "Authorization: Bearer of-the-user"), b"\r\n0\r\n\r\n")
        assert b" 200 " in answer
        assert b"of-the-user" in bytes(server.received[0])


async def test_an_answer_that_cannot_be_read_is_not_passed_on(tmp_path: Path) -> None:
    async with lent(tmp_path, parroting(coding="gzip")) as (server, client, _seen):
        answer = await client.ask(get(server, f"Authorization: Bearer {STAND_IN}"), b"trace")
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"coded" in answer


async def test_without_tls_it_goes_nowhere_but_to_listed_loopback(tmp_path: Path) -> None:
    async with serving(parroting()) as server:
        request = f"GET http://ok.test:{server.port}/ HTTP/1.1\r\nHost: ok.test:{server.port}\r\n"
        request += f"Authorization: Bearer {STAND_IN}\r\n\r\n"
        loans = (loan(server.port),)
        async with (
            way_out(tmp_path, f"ok.test:{server.port} loopback", names=NAMES, loans=loans) as (way, _seen),
            talker(way) as client,
        ):
            assert STAND_IN.encode() in await client.ask(request.encode(), b"\r\n0\r\n\r\n")
        assert VALUE.encode() in bytes(server.received[0])
        public = {"ok.test": ("192.88.98.1",)}
        async with (
            way_out(tmp_path, f"ok.test:{server.port}", names=public, loans=loans) as (way, seen),
            talker(way) as client,
        ):
            assert b"Blocked by sandbox" in await client.ask(request.encode())
        assert "without TLS" in seen.contacts[-1].reason


async def test_another_place_gets_neither_value_nor_stand_in(tmp_path: Path) -> None:
    async with serving(parroting()) as server:
        request = f"GET http://other.test:{server.port}/ HTTP/1.1\r\nHost: other.test:{server.port}\r\n"
        request += f"Authorization: Bearer {STAND_IN}\r\n\r\n"
        egress = (f"other.test:{server.port} loopback", f"ok.test:{server.port} loopback")
        async with (
            way_out(tmp_path, *egress, names=NAMES, loans=(loan(server.port),)) as (way, seen),
            talker(way) as client,
        ):
            assert b"is not for GET" in await client.ask(request.encode())
        assert server.received == []
        assert not seen.contacts[-1].allowed


async def test_methods_are_held_inside_tls(tmp_path: Path) -> None:
    """A package index is read and not written to."""
    async with lent(tmp_path, answering(b"hello"), "methods=GET,HEAD") as (server, client, seen):
        assert b" 200 " in await client.ask(get(server), b"hello")
        assert b"lets only GET, HEAD through, not PUT" in await client.ask(get(server, method="PUT"), b"trace")
        assert [one.allowed for one in seen.contacts] == [True, True, False]


async def test_a_server_without_a_good_certificate_is_not_spoken_to(tmp_path: Path) -> None:
    stranger = LeaseAuthority()
    async with serving_tls(answering(b"hello"), "ok.test", stranger) as server:
        egress = f"ok.test:{server.port} loopback terminate"
        async with (
            way_out(tmp_path, egress, names=NAMES, trust=trusting(LeaseAuthority().root_pem)) as (way, seen),
            talker_tls(way, server) as client,
        ):
            answer = await client.ask(get(server), b"trace")
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"no TLS that can be trusted" in answer
        assert server.received == [bytearray()]
        assert seen.ends


async def test_the_host_in_opened_tls_is_the_tunnels(tmp_path: Path) -> None:
    async with lent(tmp_path, answering(b"hello"), "terminate") as (server, client, seen):
        other = get(server).replace(b"ok.test", b"other.test")
        assert b"names another place" in await client.ask(other, b"trace")
        assert server.received == []
        assert [one.allowed for one in seen.contacts] == [True, False]


@given(st.lists(st.binary(max_size=30), max_size=12), st.lists(st.integers(1, 40), max_size=20))
def test_a_value_never_survives_however_an_answer_is_cut(pieces: list[bytes], cuts: list[int]) -> None:
    data = VALUE.encode().join(pieces)
    scrub = Scrub((loan(1),))
    given_out, at = b"", 0
    for size in [*cuts, len(data)]:
        given_out += scrub.feed(data[at : at + size])
        at += size
    given_out += scrub.finish()
    assert VALUE.encode() not in given_out
    if VALUE.encode() not in b"".join(pieces) and not any(form in data for form in (STAND_IN.encode(),)):
        assert given_out.count(STAND_IN.encode()) == max(0, len(pieces) - 1)
