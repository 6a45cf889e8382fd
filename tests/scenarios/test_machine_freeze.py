"""A frozen session: nothing begins in it, what waited goes back, and a thaw begins nothing."""

import pytest
from tests.kit.simulation.story import Story, call

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import Phase
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import TurnError
from gloveport.server.turn.machine import step

FREEZE = ev.SessionFrozen(freeze_id="t1.c1", call_id="t1.c1", evidence="mount, ptrace", words="It tried to get out.")


def frozen() -> Story:
    """A call froze the session, another had not begun, a message waited."""
    story = Story().user_says().model_answers(call("run_command"), call("read_file", provider_id="p2"))
    return story.policy_says("allow").user_says("later", queue=True).tool_ends("policy", "refused", FREEZE)


def test_what_had_not_begun_never_does_and_the_turn_ends() -> None:
    story = frozen()
    assert story.state.phase is Phase.IDLE
    assert story.outcomes() == ["policy", "cancelled"]
    assert story.effects == ()
    assert story.news[:3] == ["ToolExecutionFinished", "SessionFrozen", "TurnCancelRequested"]
    assert story.news[-2:] == ["TurnCancelled", "UserMessageUnqueued"]
    assert story.item("turn/t1")["stoppedBy"] == "the freeze"
    assert story.item("freeze/t1.c1")["words"] == "It tried to get out."
    assert story.item("session")["frozen"] is True


@pytest.mark.parametrize(
    "given",
    [
        inp.SendMessage("m8", "t8", "go on", queue=False),
        inp.SendMessage("m8", "t8", "go on", queue=True),
        inp.ApplyRequested("a8", "accept", {"steps": []}, "user"),
    ],
    ids=["send", "queue", "accept"],
)
def test_a_frozen_session_refuses_work_until_it_is_thawed(given: inp.Input) -> None:
    story = frozen()
    with pytest.raises(TurnError) as caught:
        step(story.state, given)
    assert caught.value.code is ErrorCode.SESSION_FROZEN
    assert "It tried to get out." in caught.value.message
    story.when(inp.ThawSession("the CLI"))
    assert (story.news, story.effects) == (["SessionThawed"], ()), "a thaw begins nothing"
    assert story.item("freeze/t1.c1")["state"] == "thawed"
    assert step(story.state, given).events


def test_an_interruption_does_not_begin_its_turn_in_a_frozen_session() -> None:
    story = Story().user_says().model_answers(call("run_command")).policy_says("allow", stop_class="opaque")
    story.user_interrupts("do this instead").tool_ends("policy", "refused", FREEZE)
    assert story.state.phase is Phase.IDLE
    assert "TurnStarted" not in story.news
    assert "UserMessageUnqueued" in story.news


def test_only_a_frozen_session_is_thawed() -> None:
    with pytest.raises(TurnError):
        step(Story().state, inp.ThawSession("the CLI"))


def test_what_no_call_asked_for_freezes_at_any_moment_and_once() -> None:
    given = inp.FreezeSession("audit-7", "line 7 was edited", "Look at the record.")
    idle = Story()
    idle.when(given)
    assert (idle.news, idle.item("session")["frozen"]) == (["SessionFrozen"], True)
    busy = Story().user_says().model_answers(call("run_command")).policy_says("allow")
    busy.when(given)
    assert busy.news[:2] == ["SessionFrozen", "TurnCancelRequested"]
    assert [type(one).__name__ for one in busy.effects] == ["StopTool"]
    busy.when(inp.FreezeSession("audit-9", "another", "Again."))
    assert busy.news == []
    busy.tool_ends("killed", "stopped")
    assert busy.state.phase is Phase.IDLE
    assert busy.state.frozen == "audit-7"
