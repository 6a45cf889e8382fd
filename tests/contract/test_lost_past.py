"""A log whose damaged end is set aside while clients follow it: journal, engine, hub, socket, client library."""

import sqlite3
from collections.abc import Iterator

import anyio
import pytest
from tests.kit.memory_backend import run_daemon
from tests.kit.room import Home, Kit, new_home

from gloveport.protocol.ids import SessionId, session_stream
from gloveport.server.client.connect import Client, connect
from gloveport.server.client.follow import Follow

WAIT_S = 20.0
DONE = {"text": "Done, with some words to tell."}


@pytest.fixture
def home() -> Iterator[Home]:
    """A home whose model just talks."""
    with new_home() as made:
        made.play(DONE)
        yield made


async def turn(kit: Kit, session: str) -> None:
    """One answered message, once what broke off has gone on to its end."""
    await kit.sessions.open(session)
    await kit.idle(session)
    await kit.send(session)
    await kit.idle(session)


async def in_sync(follow: Follow, kit: Kit, session: str) -> bool:
    """Follow until the view is the daemon's at its last event; whether it began anew on the way."""
    anew = False
    with anyio.fail_after(WAIT_S):
        while True:
            update = await anext(follow)
            anew = anew or update.began_anew
            actor = await kit.sessions.open(session)
            if update.in_sync and follow.view.digest() == actor.view.digest():
                return anew


async def damage(kit: Kit, session: str, seq: int) -> None:
    """One event can no longer be read; the session is read again when it is asked for."""
    stream = session_stream(SessionId(session))

    def spoil(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE event SET payload='spoiled' WHERE stream=? AND seq=?", (stream, seq))

    await kit.journal._writing().run(spoil)  # the damage itself
    kit.actor(session).poison()


@pytest.mark.parametrize("more", [1, 4], ids=["ends before its old end", "ends beyond its old end"])
@pytest.mark.parametrize("cut", [2, 9], ids=["its last events", "most of a turn"])
async def test_d06_a_live_follower_of_a_log_that_is_cut_begins_anew(home: Home, more: int, cut: int) -> None:
    """What it holds is no longer in the log: it is told so, and ends with the daemon's digest."""
    async with home.room() as kit:
        assert kit.told.hub is not None
        session = await kit.begin()
        await turn(kit, session)
        await turn(kit, session)
        async with (
            run_daemon(hub=kit.told.hub) as daemon,
            connect(daemon.socket) as client,
            client.follow(session) as follow,
        ):
            await in_sync(follow, kit, session)
            head = await kit.journal.head(follow_stream(session))
            assert head is not None
            await damage(kit, session, head.seq - cut)
            for _ in range(more):
                await turn(kit, session)
            after = await kit.journal.head(follow_stream(session))
            assert after is not None
            assert after.epoch > head.epoch
            assert await in_sync(follow, kit, session)
            await late_one_agrees(client, kit, session)
            await turn(kit, session)
            assert not await in_sync(follow, kit, session)


def follow_stream(session: str) -> str:
    """The session's stream."""
    return session_stream(SessionId(session))


async def late_one_agrees(client: Client, kit: Kit, session: str) -> None:
    """Who comes now gets the same."""
    async with client.follow(session) as late:
        await in_sync(late, kit, session)


async def test_a_follower_that_was_not_sent_what_was_lost_goes_on(home: Home) -> None:
    """It stands before the cut: nothing is missing, nothing is sent twice, and it does not begin anew."""
    async with home.room() as kit:
        assert kit.told.hub is not None
        session = await kit.begin()
        await turn(kit, session)
        stream = follow_stream(session)
        head = await kit.journal.head(stream)
        assert head is not None
        async with (
            run_daemon(hub=kit.told.hub) as daemon,
            connect(daemon.socket) as client,
            client.follow(session) as follow,
        ):
            await in_sync(follow, kit, session)
            await kit.journal.set_aside(stream, head.seq + 1, "nothing follows")
            kit.actor(session).poison()
            await turn(kit, session)
            assert not await in_sync(follow, kit, session)
