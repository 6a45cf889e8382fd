"""Several calls of one answer that are asked about at once: each has its card, its answer and its end."""

from dataclasses import replace

import pytest
from tests.kit.simulation import materials as mat
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import CallStage, Phase
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.calls import neighbours
from gloveport.server.turn.effects import CallModel, JudgeCall, RunTool


def asked(count: int = 3) -> Story:
    """A story in which so many cards wait together."""
    calls = [call("run_command", provider_id=f"p{number}") for number in range(count)]
    return Story().user_says().model_answers(*calls).policy_asks_together(count)


def test_each_call_has_a_card_and_nothing_is_judged_before_all_are_answered() -> None:
    story = asked()
    assert story.news == ["PolicyDecided", "ApprovalRequested"] * 3
    assert [one.call_id for one in story.facts(ev.ApprovalRequested)] == ["t1.c1", "t1.c2", "t1.c3"]
    assert (story.effects, story.state.phase) == ((), Phase.WAITING)
    story.user_answers("once", grant_id="g3", call_id="t1.c3").user_answers("denied", call_id="t1.c1")
    assert (story.effects, story.state.phase) == ((), Phase.WAITING)
    story.user_answers("once", grant_id="g2", call_id="t1.c2")
    assert story.effects == (JudgeCall("t1.c2"),)


def test_they_run_in_their_order_and_the_refused_one_never() -> None:
    story = asked().user_answers("once", grant_id="g3", call_id="t1.c3").user_answers("denied", call_id="t1.c1")
    story.user_answers("once", grant_id="g2", call_id="t1.c2").policy_says("allow", grant_id="g2", left=0)
    assert story.effects == (RunTool("t1.c2"),)
    story.tool_ends()
    assert story.effects == (JudgeCall("t1.c3"),)
    story.policy_says("allow", grant_id="g3", left=0).tool_ends()
    assert story.effects == (CallModel("t1.r2"),)
    assert story.outcomes() == ["denied", "ok", "ok"]
    assert [one.decision for one in story.facts(ev.ApprovalResolved)] == ["allowed", "denied", "allowed"]
    story.model_answers()
    story.ends()


def test_a_card_that_holds_no_more_is_taken_back_alone_and_asked_again_when_the_others_are_answered() -> None:
    story = asked(2)
    first, second = story.state.approvals
    story.when(inp.ApprovalRechecked(first, holds=False, by="user"))
    assert (story.news, story.effects) == (["ApprovalResolved"], ())
    story.user_answers("once", call_id="t1.c2")
    assert story.effects == (JudgeCall("t1.c1"),)
    assert second not in story.state.approvals


def test_a_stop_takes_all_of_them_back() -> None:
    story = asked().user_stops()
    assert story.news.count("ApprovalResolved") == 3
    assert story.outcomes() == ["cancelled"] * 3
    story.ends()


@pytest.mark.parametrize("fault", ["another call", "allowed", "no card"])
def test_what_does_not_fit_beside_is_judged_later(fault: str) -> None:
    calls = [call("run_command", provider_id=f"p{number}") for number in range(3)]
    story = Story().user_says().model_answers(*calls)
    shown = mat.card("t1.c2.0", None)
    beside = inp.CallJudged("t1.c2", mat.some_plan(story.rng), mat.judgement("ask"), shown)
    wrong = {
        "another call": replace(beside, call_id="t1.c3"),
        "allowed": replace(beside, judgement=mat.judgement("allow")),
        "no card": replace(beside, card=None),
    }[fault]
    first = inp.CallJudged("t1.c1", mat.some_plan(story.rng), mat.judgement("ask"), mat.card("t1.c1.0", None), (wrong,))
    story.when(first)
    assert [one.call_id for one in story.facts(ev.ApprovalRequested)] == ["t1.c1"]
    story.user_answers("denied")
    assert story.effects == (JudgeCall("t1.c2"),)


def test_neighbours_are_those_right_behind_of_the_same_goal_that_may_still_be_asked_about() -> None:
    story = Story().user_says().model_answers(*(call(provider_id=f"p{number}") for number in range(4)))
    turn = story.state.turn
    assert turn is not None
    names = lambda turn: [one.call_id for one in neighbours(turn, "t1.c1")]  # noqa: E731 - said thrice below
    assert names(turn) == ["t1.c2", "t1.c3", "t1.c4"]
    for changed in ({"goal_revision": 9}, {"stage": CallStage.FINISHED}, {"asks": 3}):
        other = replace(
            turn, calls=tuple(replace(one, **changed) if one.call_id == "t1.c3" else one for one in turn.calls)
        )
        assert names(other) == ["t1.c2"]
    assert neighbours(turn, "t1.c9") == ()
