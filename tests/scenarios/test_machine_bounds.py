"""Limits of tokens and the mode: what they end, what they refuse, and that they outlive a daemon."""

from dataclasses import replace

import pytest
from tests.kit.simulation import materials as mat
from tests.kit.simulation.story import Story, call

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.bounds import Mode
from gloveport.protocol.journal.events.tool import EffectRecord
from gloveport.server.policy.effects import EffectKind
from gloveport.server.session.spending import PROMPT_TOKENS
from gloveport.server.session.state import Phase
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.bounds import LOOKING, PLAN_RULE
from gloveport.server.turn.draft import TurnError
from gloveport.server.turn.machine import step

USED = 15
"""What an answer of a story is counted to have used: 10 in, 5 out."""


def bound(turn: int | None = None, session: int | None = None) -> ev.BudgetSet:
    """Limits of tokens alone."""
    return ev.BudgetSet(
        turn_tokens=turn, session_tokens=session, turn_nano_usd=None, session_nano_usd=None, rates=(), by="user"
    )


def limited(turn: int | None, session: int | None) -> Story:
    """A session with limits."""
    return Story().fact_is_written(bound(turn, session))


def work(story: Story) -> Story:
    """A request, a call of its answer and the end of that: the next request is due."""
    return story.model_answers(call()).policy_says("allow").tool_ends()


@pytest.mark.parametrize(("turn", "session"), [(2 * USED, None), (None, 2 * USED)], ids=["turn", "session"])
def test_a_turn_ends_where_the_next_request_would_pass_a_limit(turn: int | None, session: int | None) -> None:
    """The second request fits, a third would not: it is not made, and the words have the numbers."""
    story = work(limited(turn, session).user_says())
    assert story.state.phase is Phase.MODEL
    work(story)
    assert story.state.phase is Phase.IDLE
    (failed,) = story.facts(ev.TurnFailed)
    assert failed.code == ErrorCode.BUDGET
    assert "30 of 30 tokens" in failed.message
    assert "higher limit" in failed.hint
    assert story.effects == ()


def test_one_token_more_is_room_for_one_more_request() -> None:
    """The bound itself: spent and what is next stay within the limit."""
    assert work(limited(USED + 10, None).user_says()).state.phase is Phase.MODEL
    story = work(limited(USED + 9, None).user_says())
    assert story.state.phase is Phase.IDLE
    assert "needs about 10" in story.facts(ev.TurnFailed)[0].message


def test_a_message_is_refused_while_the_session_has_nothing_left_and_taken_when_it_has() -> None:
    """The words stay with the user; what waited goes back to him; a higher limit lets him go on."""
    story = work(limited(None, USED).user_says().user_says("later", queue=True))
    assert story.state.phase is Phase.IDLE
    assert story.state.queue == ()
    assert "UserMessageUnqueued" in story.news
    message = inp.SendMessage("m8", "t8", "go on", queue=False)
    with pytest.raises(TurnError) as caught:
        step(story.state, message)
    assert caught.value.code is ErrorCode.BUDGET
    story.fact_is_written(bound(None, 100))
    assert step(story.state, message).effects


def test_the_limit_of_a_turn_begins_anew_with_the_next_one() -> None:
    """What an earlier turn used does not count for a later one."""
    story = limited(USED + 10, None).user_says().model_answers().user_says()
    assert work(story).state.phase is Phase.MODEL


def test_a_queued_message_begins_no_turn_that_the_limit_has_no_room_for() -> None:
    """It ends at once, and no request is made for it."""
    story = limited(None, USED).user_says().user_says("later", queue=True).model_answers()
    assert story.state.phase is Phase.IDLE
    assert story.facts(ev.TurnFailed)[-1].code == ErrorCode.BUDGET
    assert story.effects == ()


def test_the_limit_and_what_was_used_outlive_the_daemon() -> None:
    """Killed in the last request that fits: it is made again, and no further one."""
    story = work(limited(2 * USED, None).user_says()).daemon_restarts()
    assert story.state.turn_tokens_max == 2 * USED
    assert story.state.phase is Phase.MODEL
    assert work(story).facts(ev.TurnFailed)[-1].code == ErrorCode.BUDGET


def test_a_provider_that_does_not_count_can_keep_no_limit() -> None:
    """Without a limit it goes on; with one the turn ends after the first answer, and says why."""
    uncounted = ("tool_calls", None, None, None)
    for limit, phase in ((None, Phase.MODEL), (1_000_000, Phase.IDLE)):
        story = limited(limit, None).user_says()
        story.when(inp.ResponseEnded(story.request_id, (call(),), *uncounted)).policy_says("allow").tool_ends()
        assert story.state.phase is phase
    assert "counts no tokens" in story.facts(ev.TurnFailed)[0].message
    story.fact_is_written(ev.ModelSelected(provider="p", model="other", model_label="Other"))
    assert step(story.state, inp.SendMessage("m8", "t8", "go on", queue=False)).effects


def broken(story: Story, *counts: int | None, sent: int = 400, arrived: int = 0, accepted: bool = True) -> Story:
    """The request that is under way breaks off after so many bytes, with these counts or none."""
    if accepted:
        story.when(inp.RequestAccepted(story.request_id, "req_1"))
    given, made = counts or (None, None)
    words = ("model.unreachable", "it broke", "Try again.")
    return story.when(
        inp.RequestFailed(story.request_id, *words, None, given, made, sent_bytes=sent, received_bytes=arrived)
    )


def used(story: Story) -> tuple[int, int, int]:
    """What the session used: in, out, and how much of both nobody counted."""
    return story.state.input_tokens, story.state.output_tokens, story.state.uncounted_tokens


def restarted(story: Story, found: inp.RequestInterrupted) -> Story:
    """The daemon is killed, and this is what it finds out of the request."""
    story._reload()
    story.recovering = [found, inp.TakenUp()]
    while story.recovering:
        story._recover()
    return story


def test_a_request_that_ended_without_a_count_is_counted_by_its_bytes() -> None:
    """Broken off, in part counted or not; a count is believed for what came to its end, and no bytes beside it."""
    assert used(broken(Story().user_says(), arrived=200)) == (100, 50, 150)
    assert used(broken(Story().user_says(), 90, 1, arrived=200)) == (90, 50, 49)
    assert used(broken(Story().user_says(), 90, 60, arrived=200)) == (90, 60, 0)
    assert used(broken(Story().user_says(), 90, None, arrived=200)) == (90, 50, 50)
    assert used(broken(Story().user_says().model_streams("abcd" * 70), sent=1)) == (1, 70, 71)
    story = Story().user_says()
    assert used(story.when(inp.ResponseEnded(story.request_id, (), "end", None, None, None, 400, 201))) == (
        100,
        51,
        151,
    )
    story = Story().user_says()
    assert used(story.when(inp.ResponseEnded(story.request_id, (), "end", 7, 3, None, 400, 200))) == (7, 3, 0)


def test_a_request_that_no_provider_took_costs_nothing() -> None:
    """No headers came; nor after a restart that found it out."""
    assert used(broken(Story().user_says(), accepted=False, arrived=9)) == (0, 0, 0)
    story = Story().user_says()
    assert used(restarted(story, inp.RequestInterrupted(story.request_id, "never_accepted", "asked"))) == (0, 0, 0)


def test_what_broke_off_with_the_daemon_is_counted_by_what_is_known_of_it() -> None:
    """The newest count and what was said since; without one the most that the standing words may be."""
    story = Story().user_says()
    restarted(story, inp.RequestInterrupted(story.request_id, "unknown", "asked"))
    assert story.state.uncounted_tokens > PROMPT_TOKENS
    story = Story().user_says().model_answers().user_says("x" * 4_000).model_streams("y" * 400)
    restarted(story, inp.RequestInterrupted(story.request_id, "finished", "asked"))
    assert 1_100 + 10 <= story.state.uncounted_tokens < 1_500


@pytest.mark.parametrize(("turn", "session"), [(149, None), (None, 149)], ids=["turn", "session"])
def test_a_stream_that_is_cut_ends_at_a_limit_and_says_that_it_is_about(turn: int | None, session: int | None) -> None:
    """Cut by the server: it is tried again while there is room, and the words tell the estimate as one."""
    story = limited(turn, session).user_says()
    story.when(inp.RequestAccepted(story.request_id, "req_1"))
    trouble = inp.Trouble("server", 1_000_000)
    words = ("model.broken_stream", "it broke", "Try again.")
    story.when(inp.RequestFailed(story.request_id, *words, trouble, sent_bytes=240, received_bytes=160))
    assert story.state.phase is Phase.RETRYING
    story.pause_ends()
    assert story.facts(ev.TurnFailed)[0].message.startswith(
        f"this {'session' if session else 'turn'} has used about 100 of 149 tokens; the next request needs about 60"
    )
    assert (story.state.ended_turn.tokens, story.state.ended_turn.uncounted) == (100, 100)


def test_a_turn_that_its_user_stops_in_mid_stream_counts() -> None:
    """So often as it likes: the limit of the session is reached."""
    story = limited(None, 1_000)
    for _ in range(5):
        story.user_says()
        story.when(inp.RequestAccepted(story.request_id, "req_1")).when(inp.CancelTurn(story.turn_id, "user"))
        story.when(inp.RequestFailed(story.request_id, "cancelled", "stopped", "", sent_bytes=400, received_bytes=400))
    message = inp.SendMessage("m8", "t8", "go on", queue=False)
    with pytest.raises(TurnError, match="about 1,000 of 1,000"):
        step(story.state, message)


@pytest.mark.parametrize("verdict", ["allow", "ask"])
@pytest.mark.parametrize("kind", [kind.value for kind in EffectKind])
@pytest.mark.parametrize("mode", ["agent", "plan"])
def test_in_plan_mode_nothing_but_a_look_begins_or_is_asked_about(mode: Mode, kind: str, verdict: str) -> None:
    """Whatever policy says; in the other mode policy's word holds."""
    story = Story().fact_is_written(ev.ModeChosen(mode=mode, by="user")).user_says().model_answers(call())
    looks = mat.some_plan(story.rng).effects
    plan = replace(mat.some_plan(story.rng), effects=(*looks, EffectRecord(kind=kind, target="x")))
    shown = mat.card("c", None) if verdict == "ask" else None
    story.when(inp.CallJudged("t1.c1", plan, mat.judgement(verdict), shown))
    (decided,) = story.facts(ev.PolicyDecided)
    if mode == "agent" or kind in LOOKING:
        assert decided.verdict == verdict
        return
    assert (decided.verdict, decided.rule_ids) == ("deny", (PLAN_RULE,))
    assert story.outcomes() == ["denied"]
    assert story.state.approvals == {}
    assert story.state.phase is Phase.MODEL


def test_a_card_that_was_answered_after_the_mode_changed_begins_nothing() -> None:
    """The call is judged again, by the mode of then."""
    story = Story().user_says().model_answers(call("write_file"))
    plan = replace(mat.some_plan(story.rng), effects=(EffectRecord(kind="write", target="x"),))
    story.when(inp.CallJudged("t1.c1", plan, mat.judgement("ask"), mat.card("c", None)))
    story.fact_is_written(ev.ModeChosen(mode="plan", by="user")).user_answers("once")
    story.when(inp.CallJudged("t1.c1", plan, mat.judgement("allow", "g1", 0), None))
    assert story.outcomes() == ["denied"]
