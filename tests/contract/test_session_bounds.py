"""What a client sets a session's limits and mode to: kept, shown, and held by the real machine over restarts."""

from collections.abc import Iterator

import pytest
from tests.kit.room import Home, Kit, call, new_home

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.session import SessionBudgetParams, SessionDetail, SessionModeParams
from gloveport.protocol.wire.turn import TurnStartParams
from gloveport.server.engine.prompt import LOOKING_TOOLS, PLANNING, model_request
from gloveport.server.models.contract import SystemText

READ = call("read_file", path="a.txt")
WRITE = call("write_file", path="b.txt", content="new\n")


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with one file."""
    with new_home() as made:
        made.write(a__txt="one\n")
        yield made


async def show(kit: Kit, session_id: str) -> SessionDetail:
    """What a client is shown."""
    detail: SessionDetail = await kit.call("session/show", SessionParams(session_id=session_id))
    return detail


async def limit(kit: Kit, session_id: str, name: str, *, turn: int | None = None, session: int | None = None) -> None:
    """Set both limits."""
    params = SessionBudgetParams(
        client_request_id=name, session_id=session_id, turn_tokens=turn, session_tokens=session
    )
    await kit.call("session/budget", params)


async def test_a_limit_outlives_the_daemon_ends_the_turn_and_can_be_raised(home: Home) -> None:
    """Set, killed, held: the turn ends before its second request; a message is refused, then taken."""
    home.play({"when": {"user_contains": "look", "turn": 0}, "calls": [READ]}, {"text": "Done."})
    async with home.room() as kit:
        session_id = await kit.begin()
        await limit(kit, session_id, "one", session=1)
    async with home.room() as kit:
        detail = await show(kit, session_id)
        assert (detail.turn_tokens_max, detail.session_tokens_max) == (None, 1)
        await kit.send(session_id, "look")
        kinds = await kit.idle(session_id)
        assert kinds.count("ModelRequestStarted") == 1
        (failed,) = await kit.bodies(session_id, "TurnFailed")
        assert failed["code"] == ErrorCode.BUDGET
        again = TurnStartParams(client_request_id="again", session_id=session_id, text="go on")
        assert (await kit.refused("turn/start", again)).code is ErrorCode.BUDGET
        await limit(kit, session_id, "none")
        await kit.send(session_id, "go on")
        assert "TurnCompleted" in await kit.idle(session_id)


async def test_in_plan_mode_nothing_is_written_and_no_such_tool_is_offered(home: Home) -> None:
    """A model that tries all the same is told no; back in the other mode it writes."""
    home.play(
        {"when": {"user_contains": "plan it", "turn": 0}, "calls": [READ, WRITE]},
        {"when": {"user_contains": "now do it", "turn": 0}, "calls": [WRITE]},
        {"text": "Done."},
    )
    async with home.room() as kit:
        session_id = await kit.begin()
        params = SessionModeParams(client_request_id="plan", session_id=session_id, mode="plan")
        await kit.call("session/mode", params)
    async with home.room() as kit:
        assert (await show(kit, session_id)).mode == "plan"
        specs = kit.sessions.room.toolbox.specs()
        asked = model_request(kit.actor(session_id).state, specs)
        assert {tool.name for tool in asked.tools} == LOOKING_TOOLS
        assert isinstance(asked.messages[0], SystemText)
        assert PLANNING in asked.messages[0].text
        await kit.send(session_id, "plan it")
        await kit.idle(session_id)
        assert await kit.ends(session_id) == ["ok", "denied"]
        assert not (home.worktree(session_id) / "b.txt").exists()
        back = SessionModeParams(client_request_id="work", session_id=session_id, mode="agent")
        await kit.call("session/mode", back)
        assert model_request(kit.actor(session_id).state, specs).tools == specs
        await kit.send(session_id, "now do it")
        await kit.idle(session_id)
        assert (home.worktree(session_id) / "b.txt").read_text() == "new\n"
