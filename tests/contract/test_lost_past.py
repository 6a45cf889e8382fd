"""A log whose damaged end is set aside while clients follow it: journal, engine, hub, socket, client library."""

import asyncio
import sqlite3
from collections.abc import Iterator

import anyio
import pytest
from tests.kit.memory_backend import run_daemon
from tests.kit.room import Home, Kit, new_home, run

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.server.cli.turns import Manner, TurnFollower
from gloveport.server.client.connect import Client, connect
from gloveport.server.client.follow import Follow

WAIT_S = 60.0
DONE = {"text": "Done, with some words to tell."}


@pytest.fixture
def home() -> Iterator[Home]:
    """A home whose model just talks."""
    with new_home() as made:
        made.play(DONE)
        yield made


def stream_of(session: str) -> str:
    """The session's stream."""
    return session_stream(SessionId(session))


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
    stream = stream_of(session)

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
            head = await kit.journal.head(stream_of(session))
            assert head is not None
            await damage(kit, session, head.seq - cut)
            for _ in range(more):
                await turn(kit, session)
            after = await kit.journal.head(stream_of(session))
            assert after is not None
            assert after.epoch > head.epoch
            assert await in_sync(follow, kit, session)
            await late_one_agrees(client, kit, session)
            await turn(kit, session)
            assert not await in_sync(follow, kit, session)


async def late_one_agrees(client: Client, kit: Kit, session: str) -> None:
    """Who comes now gets the same."""
    async with client.follow(session) as late:
        await in_sync(late, kit, session)


async def test_a_command_whose_turn_is_lost_says_so(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """It does not wait for the end of a turn that is no longer there."""
    home.play({"when": {"user_contains": "hold", "turn": 0}, "calls": [run("hold")]}, DONE)
    async with home.room() as kit:
        assert kit.told.hub is not None
        session = await kit.begin()
        sent = await kit.send(session, "hold")
        await kit.answer(session, await kit.waiting(session))
        await home.ladder.began.wait()
        (begun,) = [one for one in await kit.journal.read(stream_of(session), 0) if one.type == "TurnStarted"]
        async with run_daemon(hub=kit.told.hub) as daemon, connect(daemon.socket) as client:
            follower = TurnFollower(client, session, Manner(as_json=True))
            following = asyncio.ensure_future(follower.run(sent.turn_id))
            printed = ""
            with anyio.fail_after(WAIT_S):
                while "ToolExecutionStarted" not in printed:
                    await anyio.sleep(0.01)
                    printed += capsys.readouterr().out
                await damage(kit, session, begun.seq)
                await turn(kit, session)
                with pytest.raises(GloveportError) as told:
                    await following
        assert told.value.code is ErrorCode.TURN_MISMATCH
        assert '"exitCode": 1' in capsys.readouterr().out.splitlines()[-1]


async def test_a_follower_that_was_not_sent_what_was_lost_goes_on(home: Home) -> None:
    """It stands before the cut: nothing is missing, nothing is sent twice, and it does not begin anew."""
    async with home.room() as kit:
        assert kit.told.hub is not None
        session = await kit.begin()
        await turn(kit, session)
        stream = stream_of(session)
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
