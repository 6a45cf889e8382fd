"""The clock steps back, forward and over a restart: order is by sequence alone (D10)."""

from collections.abc import Iterator

import pytest
from tests.kit.room import Home, Kit, new_home

from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.wire.session import SessionListParams
from gloveport.server.app.replay import replay_session

HOUR_US = 3600 * 1_000_000
DONE = {"text": "Done."}


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home."""
    with new_home() as made:
        yield made


def step_clock(kit: Kit, by_us: int) -> None:
    """Let the room's clock step."""
    room = kit.sessions.room
    before = room.now_us
    object.__setattr__(room, "now_us", lambda: before() + by_us)


async def listed(kit: Kit) -> list[str]:
    """The sessions in the order a client is shown."""
    return [one.session_id for one in (await kit.call("session/list", SessionListParams())).sessions]


@pytest.mark.parametrize("by_us", [-HOUR_US, 25 * HOUR_US])
async def test_d10_the_clock_steps_in_mid_session(home: Home, by_us: int) -> None:
    """Two turns on either side of the step: items, folds, digests and the list are as if it had not happened."""
    home.play(DONE)
    async with home.room() as kit:
        first, second = await kit.begin(), await kit.begin()
        await kit.send(first, "before")
        await kit.idle(first)
        assert await listed(kit) == [first, second]
        step_clock(kit, by_us)
        await kit.send(second, "after the step")
        await kit.idle(second)
        assert await listed(kit) == [second, first]
        step_clock(kit, -2 * by_us)
        await kit.send(first, "after another one")
        kinds = await kit.idle(first)
        assert await listed(kit) == [first, second]
        assert kinds.count("TurnCompleted") == 2
        events = await kit.events(first)
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        times = [event["at"] for event in events]
        assert (times == sorted(times)) is (by_us < 0)
        assert (await kit.journal.verify(session_stream(SessionId(first)))).ok
        digest = kit.actor(first).view.digest()
        texts = [entry.text for entry in kit.actor(first).state.history]
    assert replay_session(home.data, first).view_digest == digest
    async with home.room() as kit:
        step_clock(kit, -3 * HOUR_US)
        assert await listed(kit) == [first, second]
        await kit.sessions.open(first)
        assert [entry.text for entry in kit.actor(first).state.history] == texts
        # A list that is made again from the logs has the order of the logs, not of the times in them.
        await kit.journal._writing().run(lambda c: c.execute("DELETE FROM session_index").fetchall())
        assert await kit.sessions.relist() == 2
        assert await listed(kit) == [first, second]
