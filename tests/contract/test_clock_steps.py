"""The clock steps back, forward and over a restart: order is by sequence alone (D10)."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.room import Home, Kit, new_home

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import SessionEraseParams, SessionListParams
from gloveport.protocol.wire.turn import ToolSettleParams
from gloveport.server.app.replay import replay_session

HOUR_US = 3600 * 1_000_000
MINUTE_US = 60 * 1_000_000
DONE = {"text": "Done."}
RUN = {"when": {"turn": 0}, "calls": [{"name": "run_command", "arguments": {"argv": ["echo", "a"]}}]}
WORD = "tok-93Q7xyzzy"


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


async def test_d10_what_is_erased_and_settled_at_an_earlier_clock(home: Home) -> None:
    """A text is taken out, and a word said of a call that nobody knows, before the times of what they speak of."""
    home.play(DONE)
    async with home.room() as kit:
        session_id = await kit.begin()
        await kit.send(session_id, f"use {WORD}")
        await kit.idle(session_id)
        await kit.actor(session_id).record(lost_call())
        step_clock(kit, -25 * HOUR_US)
        asked = SessionEraseParams(client_request_id="e", session_id=session_id, text=WORD, typed=session_id[-6:])
        assert (await kit.call("session/erase", asked)).events
        said = ToolSettleParams(client_request_id="s", session_id=session_id, call_id="t9.c1", said="done")
        await kit.call("tool/settle", said)
        again = said.model_copy(update={"client_request_id": "t"})
        assert (await kit.refused("tool/settle", again)).code is ErrorCode.TOOL_UNKNOWN
        report = await kit.journal.verify(session_stream(SessionId(session_id)))
        assert (report.ok, bool(report.erased)) == (True, True)
        assert WORD not in str(await kit.events(session_id))
        digest = kit.actor(session_id).view.digest()
    assert replay_session(home.data, session_id).view_digest == digest


async def runs_unasked(kit: Kit, session_id: str) -> bool:
    """Whether its command needs no answer any more; where it waits for one, it is denied."""
    await kit.send(session_id)
    state = await kit.until_state(session_id, lambda state: state.approvals or state.turn is None)
    if state.approvals:
        await kit.answer(session_id, await kit.waiting(session_id), "deny")
    await kit.idle(session_id)
    return not state.approvals


async def test_a_right_that_has_ended_stays_ended_when_the_clock_goes_back(home: Home) -> None:
    """In the same daemon and in the next one; a right that is given by the earlier clock has its own time."""
    home.play(RUN, DONE)
    start = home.now_us()
    clock = [start]
    home.now_us = lambda: clock[0]
    async with home.room() as kit:
        session_id = await kit.begin()
        await give(kit, session_id, start + MINUTE_US)
        assert await runs_unasked(kit, session_id)
        clock[0] += 10 * MINUTE_US
        assert not await runs_unasked(kit, session_id)
        clock[0] = start
        assert not await runs_unasked(kit, session_id)
    async with home.room() as kit:
        assert not await runs_unasked(kit, session_id)
        await give(kit, session_id, start + MINUTE_US)
        (right,) = (await kit.call("grant/list", SessionParams(session_id=session_id))).grants
        assert right.expires_at == start + MINUTE_US
        assert await runs_unasked(kit, session_id)
        clock[0] += 2 * MINUTE_US
        assert not await runs_unasked(kit, session_id)


async def give(kit: Kit, session_id: str, ends_at: int) -> None:
    """Let the command run for the session until then."""
    await kit.send(session_id)
    await kit.answer(session_id, await kit.waiting(session_id), scope="session", expires_at=ends_at)
    await kit.idle(session_id)


def lost_call() -> tuple[ev.EventBody, ...]:
    """A turn whose one call nobody knows."""
    label = LabelRecord(integrity=1, readers=None, provenance=("workspace",))
    born: dict[str, Any] = {"turn_id": "t9", "goal_revision": 9}
    return (
        ev.TurnStarted(**born, message_id="m9"),
        ev.ToolCallProposed(
            **born, call_id="t9.c1", provider_call_id="p9", tool="run_command", arguments_json="{}",
            arguments_digest="0" * 64, label=label,
        ),
        ev.ToolExecutionFinished(
            **born, call_id="t9.c1", tool="run_command", outcome="lost", text="", evidence="", exit_code=None,
            output_blob=None, output_bytes=0, duration_us=None, label=label,
        ),
        ev.TurnCompleted(**born, reason="end"),
    )  # fmt: skip
