"""What a user says of a call whose outcome nobody knows: told once, as the user's word, and nothing begins by it."""

import pytest
from tests.kit.simulation.story import Story, call

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.engine.prompt import model_request
from gloveport.server.models.contract import ToolResultPart, UserText
from gloveport.server.session.state import Phase
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import TurnError
from gloveport.server.turn.machine import step

DONE = inp.TellOutcome("t1.c1", "done", "user")


def lost() -> Story:
    """A call ended and nobody knows what it did; its turn is over."""
    return Story().user_says().model_answers(call("run_command")).policy_says("allow").tool_ends("lost", "gone")


def told(story: Story) -> list[str]:
    """The user's words as the model is told them."""
    messages = model_request(story.state, ()).messages
    return [one.text for one in messages if isinstance(one, UserText)]


def test_the_model_hears_it_as_the_users_word_and_nothing_begins() -> None:
    story = lost().when(DONE)
    assert (story.news, story.effects, story.state.phase) == (["OutcomeTold"], (), Phase.IDLE)
    assert story.item("tool/t1.c1")["said"] == "done"
    assert story.item("tool/t1.c1")["state"] == "lost", "nobody knows more than before"
    said = told(story)[-1]
    assert "The user says" in said
    assert "treated as done" in said
    results = [one for one in model_request(story.state, ()).messages if isinstance(one, ToolResultPart)]
    assert [one.text for one in results] == ["gone"], "what was told once stays"


def test_that_it_did_not_happen_leaves_it_to_the_model_to_ask_again() -> None:
    story = lost().when(inp.TellOutcome("t1.c1", "not_done", "user"))
    assert "did not take effect" in told(story)[-1]
    story.user_says("go on").model_answers(call("run_command", provider_id="p2"))
    assert [type(one).__name__ for one in story.effects] == ["JudgeCall"], "it is judged like any other"


def test_it_is_said_once_of_what_is_unknown_and_at_rest_alone() -> None:
    story = lost().when(DONE)
    with pytest.raises(TurnError) as again:
        step(story.state, inp.TellOutcome("t1.c1", "not_done", "user"))
    assert again.value.code is ErrorCode.TOOL_UNKNOWN
    known = Story().user_says().model_answers(call()).policy_says("allow").tool_ends().model_answers()
    with pytest.raises(TurnError) as refused:
        step(known.state, DONE)
    assert refused.value.code is ErrorCode.TOOL_UNKNOWN
    with pytest.raises(TurnError) as busy:
        step(lost().user_says("go on").state, DONE)
    assert busy.value.code is ErrorCode.TURN_BUSY


def test_words_of_the_call_are_not_put_into_the_users_mouth() -> None:
    """Its arguments are the model's, and may be those of a page that it read."""
    story = Story().user_says().model_answers(call("run_command", '{"argv":["rm","SECRETWORD"]}'))
    story.policy_says("allow").tool_ends("unknown", "SECRETWORD").when(DONE)
    assert "SECRETWORD" not in told(story)[-1]
    assert story.state.user_messages[:] == ("mend it",), "it is no goal and no permission"


def test_a_restart_knows_what_was_said_and_what_is_open() -> None:
    story = lost().when(DONE).daemon_restarts()
    assert story.state.unknowns == ()
    assert [one.call_id for one in lost().daemon_restarts().state.unknowns] == ["t1.c1"]
    (fact,) = story.facts(ev.OutcomeTold)
    assert (fact.call_id, fact.by) == ("t1.c1", "user")
