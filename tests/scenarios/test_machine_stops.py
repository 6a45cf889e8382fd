"""Stop, failure and the queue."""

from typing import Literal

import pytest
from tests.kit.simulation import materials as mat
from tests.kit.simulation.opening import opened
from tests.kit.simulation.story import Story, call

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import AssistantEntry, Phase, UserEntry
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import Draft, TurnError
from gloveport.server.turn.effects import CallModel, StopModel, StopTool
from gloveport.server.turn.machine import pending_effects, step
from gloveport.server.turn.messages import QUEUE_MESSAGES_MAX


def test_stop_while_the_model_streams() -> None:
    """The connection is closed; the turn ends when it is; the half text stays, marked."""
    story = Story().user_says().model_streams("half 😀").user_stops()
    assert story.news == ["TurnCancelRequested"]
    assert (story.effects, story.state.phase) == ((StopModel("t1.r1"),), Phase.STOPPING)
    assert story.item("turn/t1")["state"] == "stopping"
    story.model_fails("model.cancelled")
    assert story.news == ["ModelStreamInterrupted", "TurnCancelled"]
    assert story.facts(ev.ModelStreamInterrupted)[0].kept_utf16 == 7
    assert story.state.history[-1] == AssistantEntry("half 😀", interrupted=True)
    assert story.item("answer/t1.r1")["text"] == "half 😀"
    assert story.item("answer/t1.r1")["state"] == "interrupted"
    assert story.item("turn/t1")["state"] == "cancelled"
    story.ends()


def test_stop_loses_to_a_response_that_is_there() -> None:
    """A response that arrives after the stop is kept; its calls end without having begun."""
    story = Story().user_says().user_stops().model_answers(call(), call(arguments="{"))
    assert story.outcomes() == ["invalid", "cancelled"]
    assert story.facts(ev.ToolExecutionFinished)[1].text == "Stopped by the user before it began."
    assert story.news[-1] == "TurnCancelled"
    assert story.effects == ()
    story.ends()


def test_stop_while_a_tool_runs() -> None:
    """The running tool is stopped as its class allows, the waiting call never begins, the outcome is kept."""
    story = Story().user_says().model_answers(call(), call()).policy_says("allow").user_stops()
    assert story.effects == (StopTool("t1.c1"),)
    assert story.outcomes() == ["cancelled"]
    assert story.state.phase is Phase.STOPPING
    story.tool_prints("still").tool_ends("killed", "stopped")
    assert story.outcomes() == ["cancelled", "killed"]
    assert story.news == ["ToolExecutionFinished", "TurnCancelled"]
    story.ends()


def test_stop_of_a_tool_whose_outcome_is_lost() -> None:
    """A stopped turn ends as stopped even when nobody knows what its tool did."""
    story = Story().user_says().model_answers(call()).policy_says("allow").user_stops().tool_ends("lost")
    assert story.news == ["ToolExecutionFinished", "TurnCancelled"]
    assert story.state.last_failure is None
    story.ends()


def test_stop_while_policy_judges() -> None:
    """A judgement that comes after the stop starts nothing."""
    story = Story().user_says().model_answers(call()).user_stops()
    assert story.news == ["TurnCancelRequested", "ToolExecutionFinished", "TurnCancelled"]
    story.when(inp.CallJudged("t1.c1", mat.some_plan(story.rng), mat.judgement("allow"), None))
    assert story.news == []
    story.ends()


def test_stop_while_a_card_waits() -> None:
    """The card is withdrawn, the call ends, the turn ends at once, and the card cannot be answered any more."""
    story = Story().user_says().model_answers(call()).policy_says("ask")
    (card,) = story.state.approvals.values()
    story.user_stops()
    assert story.news == ["TurnCancelRequested", "ApprovalResolved", "ToolExecutionFinished", "TurnCancelled"]
    assert story.item(f"approval/{card.approval_id}")["state"] == "withdrawn"
    answer = inp.ApprovalAnswered(
        card.approval_id, card.card_digest, "allowed", mat.grant("g1", "once", "t1.c1"), "user"
    )
    assert story.when(answer).refused
    story.ends()


def test_stop_twice_is_stop_once() -> None:
    """Pressing stop again changes nothing; stopping what does not run is refused."""
    story = Story().user_says().user_stops().user_stops()
    assert (story.news, story.effects) == ([], ())
    assert story.when(inp.CancelTurn("t9", "user")).refused
    story.model_fails()
    assert story.user_stops().refused
    story.user_says()
    assert story.when(inp.CancelTurn("t1", "user")).refused
    assert story.when(inp.CancelTurn("t2", "user")).effects == (StopModel("t2.r1"),)


def test_model_failure_keeps_the_half_text() -> None:
    """The turn fails with the provider's code and a hint; what arrived is kept and marked; the next turn works."""
    story = Story().user_says().model_streams("half").model_fails("model.rate_limited")
    assert story.news == ["ModelStreamInterrupted", "TurnFailed"]
    assert story.state.last_failure == "model.rate_limited"
    assert story.item("turn/t1") == {
        "state": "failed", "goalRevision": 1, "code": "model.rate_limited",
        "message": "the line broke", "hint": "Try again.",
    }  # fmt: skip
    assert story.state.history[-1] == AssistantEntry("half", interrupted=True)
    story.user_says("again")
    assert (story.effects, story.state.last_failure) == ((CallModel("t2.r1"),), None)
    story.model_answers()
    story.ends()


def test_failure_before_the_first_text_leaves_no_entry() -> None:
    """A request that never began leaves no empty answer in the history."""
    story = Story().user_says().model_fails()
    assert story.state.history == (UserEntry("mend it"),)


@pytest.mark.parametrize("outcome", ["lost", "unknown"])
def test_unknown_outcome_stops_the_turn(outcome: Literal["lost", "unknown"]) -> None:
    """Nothing follows an effect of which nobody knows whether it happened: the user looks first."""
    story = Story().user_says().model_answers(call("run_command"), call()).policy_says("allow")
    story.user_says("next", queue=True).tool_ends(outcome)
    assert story.outcomes() == [outcome, "cancelled"]
    assert "Stopped by the user" not in story.facts(ev.ToolExecutionFinished)[1].text
    assert story.state.last_failure == ErrorCode.SANDBOX_LOST
    assert "run_command" in story.item("turn/t1")["message"]
    assert story.item("message/m2")["state"] == "returned"
    story.ends()


# --- the queue


def test_a_second_message_is_refused_or_waits() -> None:
    """One turn at a time: without `queue` a message is refused, with it up to twenty wait and follow one by one."""
    story = Story().user_says("first").user_says("now")
    assert story.refused
    for number in range(QUEUE_MESSAGES_MAX):
        assert story.user_says(f"next {number}", queue=True).news == ["UserMessageQueued"]
        assert story.effects == ()
    with pytest.raises(TurnError) as refused:
        step(story.state, inp.SendMessage("m99", "t99", "too many", queue=True))
    assert refused.value.code is ErrorCode.TURN_BUSY
    assert "20 messages" in refused.value.message
    assert story.item("message/m3")["state"] == "queued"
    story.model_answers()
    assert story.news[2:] == ["TurnCompleted", "GoalRevised", "UserMessageAdded", "TurnStarted", "ModelRequestStarted"]
    assert story.effects == (CallModel("t3.r1"),)
    assert (len(story.state.queue), story.state.goal_revision) == (QUEUE_MESSAGES_MAX - 1, 2)
    assert story.item("message/m3")["state"] == "delivered"


@pytest.mark.parametrize("ending", ["stop", "failure"])
def test_a_waiting_message_goes_back(ending: str) -> None:
    """After a stop or a failure the user decides anew what to send; the text is not lost."""
    story = Story().user_says().user_says("next 😀", queue=True)
    story = story.user_stops().model_fails() if ending == "stop" else story.model_fails()
    assert story.news[-1] == "UserMessageUnqueued"
    assert story.item("message/m2")["state"] == "returned"
    assert story.item("message/m2")["text"] == "next 😀"
    assert story.item("message/m2")["reason"] == ("the turn was stopped" if ending == "stop" else "the turn failed")
    assert story.state.queue == ()
    story.ends()


def test_a_waiting_message_can_be_taken_back() -> None:
    """It leaves the queue once; then it does not wait there any more."""
    story = Story().user_says().user_says("next", queue=True).when(inp.UnqueueMessage("m2"))
    assert story.news == ["UserMessageUnqueued"]
    assert story.item("message/m2")["reason"] == "taken back"
    assert story.when(inp.UnqueueMessage("m2")).refused
    story.model_answers()
    assert story.news[-1] == "TurnCompleted"
    story.ends()


# --- what the machine itself refuses


def test_a_session_of_a_newer_version_is_read_only() -> None:
    """Nothing is written on top of events that this version does not understand."""
    state = fold_event(fold_event(opened(), None), None)
    with pytest.raises(TurnError) as refused:
        step(state, inp.SendMessage("m1", "t1", "hello", queue=False))
    assert refused.value.code is ErrorCode.SESSION_READ_ONLY
    assert "2 events" in refused.value.message


def test_a_draft_without_a_turn_refuses() -> None:
    """A transition that needs a turn says so when there is none."""
    with pytest.raises(TurnError) as refused:
        _ = Draft(opened()).turn
    assert refused.value.code is ErrorCode.TURN_MISMATCH


def test_nothing_is_pending_at_rest_or_while_somebody_works() -> None:
    """Only a call that waits for its judgement has to be taken up again."""
    story = Story()
    assert pending_effects(story.state) == ()
    story.user_says()
    assert pending_effects(story.state) == ()
    story.model_answers(call(), call()).policy_says("allow")
    assert pending_effects(story.state) == ()
    story.user_stops()
    assert pending_effects(story.state) == ()


def test_nothing_is_taken_up_after_a_stop() -> None:
    """Even in a log that ends with the stop itself, no call is judged again."""
    state = Story().user_says().model_answers(call()).state
    stop = ev.TurnCancelRequested(turn_id="t1", goal_revision=1, by="user")
    assert pending_effects(fold_event(state, stop)) == ()
