"""A connection outwards that is used again: for one client, one place and plain looks alone, each decided by itself."""

from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream
from tests.kit.egress import Server, Talk, answering, serving, serving_tls, talker, talker_tls, trusting, way_out
from tests.security.test_egress_credentials import get as get_within
from tests.security.test_egress_credentials import lent, parroting
from tests.security.test_egress_tricks import LISTED, NAMES, get

from gloveport.sandbox.egress.authority import LeaseAuthority

OK = b"HTTP/1.1 200 "


def asked(server: Server) -> list[int]:
    """How many requests each connection to the server bore."""
    return [bytes(one).count(b" HTTP/1.1\r\n") for one in server.received]


async def test_a_client_that_keeps_its_connection_has_one_outside_and_no_other_client_has_it(tmp_path: Path) -> None:
    async with serving(answering(b"hello")) as server:
        listed = LISTED.format(port=server.port)
        async with way_out(tmp_path, listed, names=NAMES) as (way, seen), talker(way) as one, talker(way) as two:
            for client in (one, two, one, two, one):
                assert (await client.ask(get(server), b"hello")).startswith(OK)
        assert sorted(asked(server)) == [2, 3]
        assert [end.status for end in seen.ends] == [200] * 5
        assert len({(end.sent_bytes, end.received_bytes) for end in seen.ends}) == 1, "each attempt has its own bytes"


async def test_tls_that_is_opened_shakes_hands_once(tmp_path: Path) -> None:
    outside = LeaseAuthority()
    async with serving_tls(answering(b"hello"), "ok.test", outside) as server:
        listed = f"ok.test:{server.port} loopback methods=GET"
        more = {"trust": trusting(outside.root_pem)}
        async with way_out(tmp_path, listed, names=NAMES, **more) as (way, _), talker_tls(way, server) as client:
            for _ in range(3):
                assert (await client.ask(get(server, url="/"), b"hello")).startswith(OK)
        assert asked(server) == [3]


@pytest.mark.parametrize("lines", [("Content-Length: 1",), ("Transfer-Encoding: chunked",)])
async def test_what_bears_a_body_has_a_connection_of_its_own(tmp_path: Path, lines: tuple[str, ...]) -> None:
    """It cannot be asked again where the kept one turns out to be gone."""
    body = b"x" if "Length" in lines[0] else b"0\r\n\r\n"
    async with serving(answering(b"hello")) as server:
        listed = LISTED.format(port=server.port)
        async with way_out(tmp_path, listed, names=NAMES) as (way, _seen), talker(way) as client:
            await client.ask(get(server), b"hello")
            await client.ask(get(server, *lines) + body, b"hello")
        assert len(server.received) == 2


async def test_another_place_has_another_connection(tmp_path: Path) -> None:
    async with serving(answering(b"hello")) as first, serving(answering(b"hello")) as second:
        listed = tuple(LISTED.format(port=server.port) for server in (first, second))
        async with way_out(tmp_path, *listed, names=NAMES) as (way, _seen), talker(way) as client:
            for server in (first, second, second, first):
                assert (await client.ask(get(server), b"hello")).startswith(OK)
        assert asked(second) == [2]
        assert asked(first) == [1, 1]


async def test_where_a_credential_is_lent_nothing_is_kept(tmp_path: Path) -> None:
    async with lent(tmp_path, parroting()) as (server, client, _seen):
        for _ in range(2):
            await client.ask(get_within(server), b"\r\n0\r\n\r\n")
        assert len(server.received) == 2


def ending(after: int) -> Talk:
    """A server that ends each connection without a word after so many answers."""

    async def talk(stream: SocketStream, received: bytearray) -> None:
        for _ in range(after):
            while not received.endswith(b"\r\n\r\n"):
                received.extend(await stream.receive())
            received.extend(b"|")
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

    return talk


async def test_one_that_was_ended_meanwhile_is_replaced(tmp_path: Path) -> None:
    async with serving(ending(1)) as server:
        listed = LISTED.format(port=server.port)
        async with way_out(tmp_path, listed, names=NAMES) as (way, seen), talker(way) as client:
            for _ in range(3):
                assert (await client.ask(get(server), b"hello")).startswith(OK)
                await anyio.sleep(0.02)
        assert len(server.received) == 3
        assert [end.status for end in seen.ends if end.status is not None] == [200] * 3


async def dies_when_asked_again(stream: SocketStream, received: bytearray) -> None:
    """It takes a second request and ends without an answer, as a server does whose time is just up."""
    while not received.endswith(b"\r\n\r\n"):
        received.extend(await stream.receive())
    await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    received.extend(await stream.receive())


async def test_one_that_ends_as_it_is_used_is_asked_anew_and_both_are_told(tmp_path: Path) -> None:
    async with serving(dies_when_asked_again) as server:
        listed = LISTED.format(port=server.port)
        async with way_out(tmp_path, listed, names=NAMES) as (way, seen), talker(way) as client:
            for _ in range(2):
                assert (await client.ask(get(server), b"hello")).startswith(OK)
        assert asked(server) == [2, 1]
        assert [(end.status, end.cut) for end in seen.ends] == [
            (200, ""), (None, "it had ended, and is asked again"), (200, ""),
        ]  # fmt: skip


async def test_what_nobody_asked_for_ends_its_connection(tmp_path: Path) -> None:
    """A second answer that came with the first is no answer to the next request."""
    twice = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" + b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"

    async def talk(stream: SocketStream, received: bytearray) -> None:
        while True:
            received.extend(await stream.receive())
            await stream.send(twice)

    async with serving(talk) as server:
        listed = LISTED.format(port=server.port)
        async with way_out(tmp_path, listed, names=NAMES) as (way, _seen), talker(way) as client:
            for _ in range(2):
                assert b"forged" not in await client.ask(get(server), b"hello")
        assert asked(server) == [1, 1]
