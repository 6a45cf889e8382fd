"""The words that may answer for a look at an address: those of a goal's only message, once, on the record."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.kit.simulation import materials as mat
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal.events.tool import EffectRecord
from gloveport.server.turn import inputs as inp

SAYS = "Read https://docs.example.org/guide"


def begun() -> Story:
    """A turn in which a call is to be judged."""
    return Story().user_says(SAYS).model_answers(call("http_request"), call("http_request"))


def allowed(story: Story, kind: str) -> Story:
    """The next call is allowed, and begins with an effect of this kind."""
    plan = replace(mat.some_plan(story.rng), effects=(EffectRecord(kind=kind, target="docs.example.org:443"),))
    return story.when(inp.CallJudged(story.next_call.call_id, plan, mat.judgement("allow"), None))


def test_a_goals_only_message_may_answer() -> None:
    assert begun().state.unanswered_look == SAYS


@pytest.mark.parametrize("kind", ["network", "publish", "message"])
def test_the_intent_of_a_call_that_reaches_outside_uses_them_up(kind: str) -> None:
    """With the intent, which is on disk before the effect: neither its end nor a crash gives them back."""
    story = allowed(begun(), kind)
    assert story.state.unanswered_look == ""
    assert story.news[-1] == "ToolExecutionStarted"
    story.daemon_restarts("not_started")
    assert story.state.unanswered_look == ""


def test_a_call_that_stays_inside_does_not() -> None:
    assert allowed(begun(), "read").state.unanswered_look == SAYS


@pytest.mark.parametrize(
    "then",
    [
        lambda story: story.user_steers("actually, leave that page alone"),
        lambda story: story.user_steers("leave it", "supplement"),
        lambda story: story.user_steers("how far are you?", "ask"),
        lambda story: story.user_steers(f"no, {SAYS}", "correct"),
        lambda story: story.user_steers(SAYS, "replace"),
        lambda story: story.user_says("leave that page alone", queue=True),
    ],
    ids=["as it is read", "supplement", "ask", "correct", "replace", "queued"],
)
def test_another_message_ends_them(then: Callable[[Story], Story]) -> None:
    """Whatever it is taken for, and before it is delivered."""
    assert then(begun()).state.unanswered_look == ""


def test_a_delivered_supplement_is_no_goal_of_its_own() -> None:
    story = Story().user_says("mend it").model_answers(call())
    story.user_steers(SAYS, "supplement").policy_says("allow").tool_ends()
    assert "UserMessageAdded" in story.news
    assert story.state.unanswered_look == ""
