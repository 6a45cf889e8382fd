"""Turns with tool calls: allowed, asked, refused, broken, repeated, late."""

from typing import Any

import pytest
from tests.kit.simulation import materials as mat
from tests.kit.simulation.story import Story, call

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import AssistantEntry, Phase, ResultEntry
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.calls import ASKS_PER_CALL_MAX, CALLS_PER_RESPONSE_MAX
from gloveport.server.turn.draft import TurnError
from gloveport.server.turn.effects import CallModel, JudgeCall, RunTool
from gloveport.server.turn.flow import TURN_REQUESTS_MAX
from gloveport.server.turn.machine import step


def asked() -> Story:
    """A story in which a card waits."""
    return Story().user_says().model_answers(call("run_command")).policy_says("ask")


def test_text_only() -> None:
    """A message is answered with text: the turn completes and the view shows it whole."""
    story = Story().user_says("why?")
    assert story.news == ["GoalRevised", "UserMessageAdded", "TurnStarted", "ModelRequestStarted"]
    assert story.effects == (CallModel("t1.r1"),)
    story.when(inp.RequestAccepted("t1.r1", "req_9")).model_streams("because ", "😀").model_answers()
    assert story.news == ["ModelResponseReceived", "UsageRecorded", "TurnCompleted"]
    assert story.effects == ()
    assert story.item("answer/t1.r1")["text"] == "because 😀"
    assert story.item("turn/t1")["state"] == "completed"
    assert story.state.history[-1] == AssistantEntry("because 😀")
    assert (story.state.input_tokens, story.state.output_tokens) == (10, 5)
    story.ends()


def test_empty_answer_leaves_no_entry() -> None:
    """An answer without text and calls is not put before the model again."""
    story = Story().user_says().model_answers()
    assert len(story.state.history) == 1
    story.ends()


def test_allowed_call_runs_and_the_model_is_asked_again() -> None:
    """Intent before effect, the outcome goes to the model, the turn goes on."""
    story = Story().user_says().model_answers(call())
    assert story.news[:3] == ["ModelResponseReceived", "UsageRecorded", "ToolCallProposed"]
    assert story.effects == (JudgeCall("t1.c1"),)
    story.policy_says("allow")
    assert story.news == ["PolicyDecided", "ToolExecutionStarted"]
    assert story.effects == (RunTool("t1.c1"),)
    story.tool_prints("one 😀").tool_prints("two")
    assert [body.offset for body in story.facts(ev.ToolExecutionProgress)] == [0, 6]
    story.tool_ends("ok", "contents")
    assert story.news == ["ToolExecutionFinished", "ModelRequestStarted"]
    assert story.effects == (CallModel("t1.r2"),)
    assert story.state.history[-1] == ResultEntry("t1.c1", "p1", "contents", is_error=False)
    assert story.state.label.integrity == 1
    story.model_answers()
    story.ends()


def test_failed_call_is_an_error_for_the_model() -> None:
    """A failed tool does not end the turn; the model sees that it failed."""
    story = Story().user_says().model_answers(call()).policy_says("allow").tool_ends("failed", "no such file")
    assert story.state.history[-1] == ResultEntry("t1.c1", "p1", "no such file", is_error=True)
    assert story.effects == (CallModel("t1.r2"),)


def test_facts_of_a_tool_are_written_with_its_end() -> None:
    """What a tool changed stands in the same transaction, after the outcome."""
    story = Story().user_says().model_answers(call("edit_file")).policy_says("allow")
    story.tool_ends("ok", "edited", mat.change("t1", 1, "t1.c1", 1))
    assert story.news == ["ToolExecutionFinished", "ChangeProposed", "ModelRequestStarted"]
    assert list(story.state.changes) == ["ch1"]


@pytest.mark.parametrize("scope", ["once", "turn", "session"])
def test_asked_then_allowed_is_judged_again(scope: str) -> None:
    """An answer never starts a call by itself: policy judges again, with the grant."""
    story = asked()
    assert story.news == ["PolicyDecided", "ApprovalRequested"]
    assert (story.effects, story.state.phase) == ((), Phase.WAITING)
    assert story.item("tool/t1.c1")["state"] == "waiting"
    story.user_answers(scope)
    once = scope == "once"  # what leaves is released for one use alone
    assert story.news == ["GrantIssued", "ApprovalResolved", *["ReleaseIssued"] * once]
    assert story.effects == (JudgeCall("t1.c1"),)
    assert story.item("tool/t1.c1")["state"] == "proposed"
    story.policy_says("allow", grant_id="g1", left=0 if once else None)
    assert story.news == ["PolicyDecided", "GrantUsed", *["ReleaseUsed"] * once, "ToolExecutionStarted"]
    assert story.effects == (RunTool("t1.c1"),)
    assert story.facts(ev.ToolExecutionStarted)[0].grant_id == "g1"
    assert ("g1" in story.state.grants) == (not once)
    story.tool_ends().model_answers()
    story.ends()


def test_a_used_up_grant_starts_nothing() -> None:
    """A judgement made before the right was used up is asked for again."""
    story = asked().user_answers("once").policy_says("allow", grant_id="g1", left=0).tool_ends()
    story.model_answers(call("run_command")).policy_says("allow", grant_id="g1", left=0)
    assert story.news == []
    assert story.effects == (JudgeCall("t1.c2"),)
    story.policy_says("deny").model_answers()
    story.ends()


def test_a_right_for_the_turn_is_used_again() -> None:
    """It was used before and is still in force: the judgement on it starts the call."""
    story = asked().user_answers("turn").policy_says("allow", grant_id="g1").tool_ends()
    story.model_answers(call("run_command")).policy_says("allow", grant_id="g1")
    assert story.news == ["PolicyDecided", "GrantUsed", "ToolExecutionStarted"]
    assert story.effects == (RunTool("t1.c2"),)
    assert story.state.grant_uses["g1"] == 2


@pytest.mark.parametrize(("decision", "words"), [("denied", "said no"), ("expired", "Nobody answered")])
def test_asked_then_refused(decision: str, words: str) -> None:
    """The model is told that nothing ran, and goes on."""
    story = asked().user_answers(decision)
    assert story.news == ["ApprovalResolved", "ToolExecutionFinished", "ModelRequestStarted"]
    assert story.outcomes() == ["denied"]
    assert words in story.item("tool/t1.c1")["result"]
    assert story.facts(ev.ToolExecutionStarted) == []


def test_the_second_call_waits_for_the_first() -> None:
    """Calls of one response are judged one after the other; a denied one does not hold up the next."""
    story = Story().user_says().model_answers(call(), call("edit_file", provider_id="p2"))
    assert story.effects == (JudgeCall("t1.c1"),)
    story.policy_says("deny")
    assert story.effects == (JudgeCall("t1.c2"),)
    story.policy_says("allow").tool_ends()
    assert story.outcomes() == ["denied", "ok"]
    assert [entry.provider_call_id for entry in story.state.history if isinstance(entry, ResultEntry)] == ["p1", "p2"]


def test_a_judgement_out_of_turn_starts_nothing() -> None:
    """A judgement of the second call is not taken while the first is judged, asked about or running."""
    story = Story().user_says().model_answers(call(), call())
    early = inp.CallJudged("t1.c2", mat.some_plan(story.rng), mat.judgement("allow"), None)
    rejected = inp.CallRejected("t1.c2", "no")
    for given in (early, rejected):
        assert story.when(given).news == []
    story.policy_says("ask")
    for given in (early, rejected):
        assert story.when(given).news == []
    story.user_answers("once").policy_says("allow", grant_id="g1", left=0)
    for given in (early, rejected):
        assert story.when(given).news == []
    assert story.facts(ev.ToolExecutionStarted)[-1].call_id == "t1.c1"


def test_asking_has_an_end() -> None:
    """A call that is asked about again and again is refused at last."""
    story = Story().user_says().model_answers(call())
    for number in range(ASKS_PER_CALL_MAX):
        story.policy_says("ask").user_answers("once", grant_id=f"g{number}")
    story.policy_says("ask")
    assert story.news == ["PolicyDecided", "ToolExecutionFinished", "ModelRequestStarted"]
    assert story.outcomes() == ["denied"]


def test_ask_without_a_card_is_a_refusal() -> None:
    """Nothing can be asked without a card, so nothing runs."""
    story = Story().user_says().model_answers(call())
    story.when(inp.CallJudged("t1.c1", mat.some_plan(story.rng), mat.judgement("ask"), None))
    assert story.outcomes() == ["denied"]


@pytest.mark.parametrize("arguments", mat.BROKEN_ARGUMENTS)
def test_broken_arguments_never_run(arguments: str) -> None:
    """The call ends at once as invalid, the history holds {} for it, and the model is told what was wrong."""
    story = Story().user_says().model_answers(call(arguments=arguments))
    assert story.outcomes() == ["invalid"]
    assert story.facts(ev.ToolCallProposed)[0].arguments_json == "{}"
    assert story.facts(ev.ModelResponseReceived)[0].calls[0].arguments_error
    assert "nothing ran" in story.item("tool/t1.c1")["result"]
    assert story.effects == (CallModel("t1.r2"),)


def test_broken_arguments_do_not_hold_up_the_others() -> None:
    """Only the broken call ends; the one after it is judged."""
    story = Story().user_says().model_answers(call(arguments="{"), call())
    assert story.effects == (JudgeCall("t1.c2"),)


def test_unknown_tool() -> None:
    """The shell says that there is no such tool; the model is told and goes on."""
    story = Story().user_says().model_answers(call("no_such_tool")).tool_is_refused("There is no tool no_such_tool.")
    assert story.outcomes() == ["invalid"]
    assert story.effects == (CallModel("t1.r2"),)


def test_equal_calls_are_two_calls() -> None:
    """A model that repeats a call, id and all, gets two results under two ids of ours."""
    story = Story().user_says().model_answers(call(), call())
    story.policy_says("allow").tool_ends().policy_says("allow").tool_ends().model_answers(call())
    assert [body.call_id for body in story.facts(ev.ToolCallProposed)] == ["t1.c1", "t1.c2", "t1.c3"]


def test_more_calls_than_taken() -> None:
    """Calls over the limit are not part of the history, so that it stays valid."""
    story = Story().user_says().model_answers(*[call()] * (CALLS_PER_RESPONSE_MAX + 6))
    assert len(story.facts(ev.ToolCallProposed)) == CALLS_PER_RESPONSE_MAX
    assert len(story.facts(ev.ModelResponseReceived)[0].calls) == CALLS_PER_RESPONSE_MAX


def test_late_results_are_not_taken() -> None:
    """What speaks of an ended call, request, card or turn changes nothing."""
    story = asked()
    (card,) = story.state.approvals.values()
    story.user_answers("denied").model_answers()
    answer = inp.ApprovalAnswered(card.approval_id, card.card_digest, "denied", None, "other")
    assert story.when(answer).refused
    late: list[inp.Input] = [
        story.tool_end("t1.c1"),
        inp.ToolProgressed("t1.c1", "late"),
        inp.CallReconciled("t1.c1", "succeeded", "late"),
        inp.CallJudged("t1.c1", mat.some_plan(story.rng), mat.judgement("allow"), None),
        inp.CallRejected("t1.c1", "late"),
        inp.TextArrived("t1.r1", "late"),
        inp.RequestAccepted("t1.r1", "late"),
        inp.ResponseEnded("t1.r1", (), "end", 1, 1, 1),
        inp.RequestFailed("t1.r1", "model.unreachable", "late", "late"),
    ]
    for _turn in ("idle", "running"):
        for given in late:
            result = step(story.state, given)
            assert (result.events, result.effects, result.state) == ((), (), story.state)
        story.user_says()
    story.model_answers()
    story.ends()


def test_a_card_is_answered_by_its_digest() -> None:
    """An answer to a card that looked different is refused, and the card waits on."""
    story = asked()
    (card,) = story.state.approvals.values()
    with pytest.raises(TurnError) as refused:
        step(story.state, inp.ApprovalAnswered(card.approval_id, mat.sha("other"), "denied", None, "user"))
    assert refused.value.code is ErrorCode.SUPERSEDED
    with pytest.raises(TurnError) as unknown:
        step(story.state, inp.ApprovalAnswered("nobody", card.card_digest, "denied", None, "user"))
    assert unknown.value.code is ErrorCode.APPROVAL_UNKNOWN


@pytest.mark.parametrize(("decision", "grant"), [("allowed", None), ("denied", mat.grant("g1", "once", "t1.c1"))])
def test_an_answer_carries_a_grant_exactly_when_it_allows(decision: Any, grant: ev.GrantIssued | None) -> None:
    """Half an answer is refused: nothing is allowed without a right, no right comes with a denial."""
    story = asked()
    (card,) = story.state.approvals.values()
    with pytest.raises(TurnError) as refused:
        step(story.state, inp.ApprovalAnswered(card.approval_id, card.card_digest, decision, grant, "user"))
    assert refused.value.code is ErrorCode.INVALID_PARAMS


def test_a_turn_has_a_most_of_requests() -> None:
    """A model that goes round in circles is stopped with a named limit."""
    story = Story().user_says()
    for _ in range(TURN_REQUESTS_MAX):
        story.model_answers(call()).policy_says("deny")
    assert story.news[-1] == "TurnFailed"
    assert story.item("turn/t1")["code"] == ErrorCode.LIMIT
    assert len(story.facts(ev.ModelRequestStarted)) == TURN_REQUESTS_MAX
    story.ends()


def test_surrogates_of_a_model_are_replaced() -> None:
    """Half a character that a model sends can be stored, counted and shown."""
    story = Story().user_says().model_streams("a\ud83d", "😀", "\ude00b")
    assert [body.offset for body in story.facts(ev.ModelTextDelta)] == [0, 2, 4]
    story.model_answers(call("to\udc80ol", provider_id="\ud800"))
    assert story.item("answer/t1.r1")["text"] == "a\ufffd😀\ufffdb"
    assert story.item("tool/t1.c1")["tool"] == "to\ufffdol"
    story.policy_says("allow").tool_ends("ok", "\udfff").model_answers()
    story.ends()


def test_an_answer_given_beforehand_is_nobodys() -> None:
    """A card that was shown to nobody names no client as the one that refused; the row of the call says the same."""
    story = asked()
    (card,) = story.state.approvals.values()
    story.when(inp.ApprovalAnswered(card.approval_id, card.card_digest, "denied", None, "gloveport-cli", unasked=True))
    assert [one.by for one in story.facts(ev.ApprovalResolved)] == ["an answer given beforehand"]
    assert story.item(f"tool/{card.call_id}")["answeredBy"] == "an answer given beforehand"
    assert story.item(f"tool/{card.call_id}")["answer"] == "denied"
