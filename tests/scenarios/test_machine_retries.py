"""A request fails: it is waited for and made again, shortened and made again, or the turn ends with words."""

import pytest
from tests.kit.simulation.story import Story, call

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import AssistantEntry, Phase, ResultEntry
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.effects import CallModel, DropWait, RunTool, ShrinkContext, WaitRetry
from gloveport.server.turn.flow import TURN_REQUESTS_MAX
from gloveport.server.turn.machine import pending_effects
from gloveport.server.turn.retry import ATTEMPTS_MAX, OVERFLOW_TRIES_MAX

SECOND = 1_000_000


def long_result(story: Story, size: int = 50_000) -> Story:
    """A tool gives a long result, and the model is asked with it."""
    return story.model_answers(call()).policy_says("allow").tool_ends("ok", "x" * size)


def test_f01_retry_after_is_the_floor_and_the_journal_says_all_of_it() -> None:
    """Twice throttled with a pause of three seconds, then answered."""
    story = Story().user_says()
    for attempt in (2, 3):
        failed = story.request_id
        story.model_breaks("rate", pause_us=3 * SECOND, now_us=10 * SECOND)
        assert story.news == ["ModelStreamInterrupted", "RetryScheduled"]
        pause = story.pause
        assert story.effects == (WaitRetry(failed),)
        assert (pause.attempt, pause.attempts_max, pause.error_class) == (attempt, ATTEMPTS_MAX, "rate")
        assert (pause.floor, pause.provider_request_id, pause.reason) == ("retry_after", "req_7", "the line broke")
        assert pause.backoff_us >= 3 * SECOND
        assert pause.due_at == 10 * SECOND + pause.backoff_us
        assert story.state.phase is Phase.RETRYING
        shown = story.item("turn/t1")
        assert (shown["state"], shown["retry"]["attempt"], shown["retry"]["dueAt"]) == (
            "retrying",
            attempt,
            pause.due_at,
        )
        story.pause_ends()
        assert story.news == ["RetryStarted", "ModelRequestStarted"]
        assert story.effects == (CallModel(story.request_id),)
        assert (story.item("turn/t1")["state"], story.item("turn/t1")["retry"]) == ("running", None)
    story.model_answers()
    story.ends()


@pytest.mark.parametrize("error_class", ["auth", "quota", "refused", "config", "malformed", "a_later_class"])
def test_f01_what_does_not_pass_is_asked_once(error_class: str) -> None:
    """No second request; the end says why and what to do."""
    story = Story().user_says().model_breaks(error_class, words="no.")
    assert story.news == ["ModelStreamInterrupted", "TurnFailed"]
    assert story.effects == ()
    (end,) = story.facts(ev.TurnFailed)
    assert end.hint
    if error_class in ("auth", "quota"):
        assert "not asked again by itself" in end.message
    story.ends()


def test_f01_a_pause_of_an_hour_ends_the_turn_and_says_until_when() -> None:
    """It is not slept through in silence; the message of the user can be sent again."""
    story = Story().user_says().model_breaks("rate", pause_us=3_600 * SECOND)
    (end,) = story.facts(ev.TurnFailed)
    assert "UTC (60 min)" in end.message
    story.user_says("again").model_answers()
    story.ends()


def test_attempts_are_counted_for_one_answer() -> None:
    """The fifth failure in a row ends the turn; an answer between begins anew."""
    story = Story().user_says()
    for _ in range(ATTEMPTS_MAX - 1):
        story.model_breaks("server").pause_ends()
    long_result(story, 10)
    for _ in range(ATTEMPTS_MAX - 1):
        story.model_breaks("server").pause_ends()
    story.model_breaks("server")
    assert story.news == ["ModelStreamInterrupted", "TurnFailed"]
    assert "tried 5 times" in story.facts(ev.TurnFailed)[0].message
    story.ends()


def test_f07_a_broken_stream_keeps_its_text_and_runs_no_finished_tool_again() -> None:
    """Half an answer after a tool: kept, marked, shown; the retry asks with the tool's result in the history."""
    story = long_result(Story().user_says(), 10).model_streams("half 😀").model_breaks("truncated").pause_ends()
    assert story.item("answer/t1.r2")["state"] == "interrupted"
    assert story.item("answer/t1.r2")["text"] == "half 😀"
    assert story.state.history[-1] == AssistantEntry("half 😀", interrupted=True)
    assert [type(entry).__name__ for entry in story.state.history].count("ResultEntry") == 1
    story.model_streams("whole").model_answers()
    assert story.world.performed == {"t1.c1": 1}
    story.ends()


def test_f07_silence_again_and_again_ends() -> None:
    """Idle limits count as attempts, also when text came before each: no loop for ever."""
    story = Story().user_says()
    for _ in range(ATTEMPTS_MAX - 1):
        story.model_streams("thinking").model_breaks("idle").pause_ends()
    story.model_streams("thinking").model_breaks("idle")
    assert story.state.phase is Phase.IDLE
    story.ends()


def test_a_timer_of_an_earlier_pause_ends_no_later_one() -> None:
    """Each pause has its own timer."""
    story = Story().user_says().model_breaks("server")
    first = story.pause.request_id
    story.pause_ends().model_breaks("server")
    assert story.when(inp.RetryDue(first)).news == []
    assert story.state.phase is Phase.RETRYING
    story.pause_ends().model_answers()
    story.ends()


def test_stop_in_a_pause_is_at_once() -> None:
    """The turn is over in the same step; the timer is dropped, and one that rings late changes nothing."""
    story = Story().user_says().model_breaks("server")
    failed = story.pause.request_id
    story.user_stops()
    assert story.news == ["TurnCancelRequested", "TurnCancelled"]
    assert story.effects == (DropWait(failed),)
    assert story.when(inp.RetryDue(failed)).news == []
    story.user_says("something else").model_answers()
    story.ends()


def test_a_message_in_a_pause_waits_its_turn() -> None:
    """The queue works as ever; a stop gives the message back."""
    story = Story().user_says().model_breaks("server").user_says("and then", queue=True)
    assert story.news == ["UserMessageQueued"]
    story.user_stops()
    assert story.news == ["TurnCancelRequested", "TurnCancelled", "UserMessageUnqueued"]
    story.ends()


def test_a_restart_in_a_pause_goes_on_waiting_for_the_same_moment() -> None:
    """Nothing is written by the restart; what is due is the same wait."""
    story = Story().user_says().model_breaks("server")
    pause = story.pause
    story.daemon_restarts()
    assert story.news == []
    assert story.pause == pause
    assert pending_effects(story.state) == (WaitRetry(pause.request_id),)
    story.pause_ends().model_answers()
    story.ends()


def test_a_pause_of_the_breaker_is_no_attempt_but_is_bounded() -> None:
    """Refused without being sent: the attempts stay, the waiting adds up and ends."""
    story = Story().user_says().model_breaks("server").pause_ends()
    for _ in range(100):
        story.model_breaks("paused", pause_us=2 * SECOND)
        if story.state.phase is Phase.IDLE:
            break
        assert (story.pause.attempt, story.pause.floor) == (2, "breaker")
        story.pause_ends()
    (end,) = story.facts(ev.TurnFailed)
    assert "waited for" in end.message
    assert len(story.facts(ev.ModelRequestStarted)) < 60
    story.ends()


def test_f03_a_long_result_is_shortened_and_the_turn_goes_on() -> None:
    """The pair of events; the log keeps the whole; a call and its result stay together."""
    story = long_result(Story().user_says()).model_breaks("context_overflow")
    assert story.news == ["ModelStreamInterrupted", "ContextOverflowed", "CompactionStarted"]
    assert story.effects == (ShrinkContext("t1.k1"),)
    assert story.state.phase is Phase.COMPACTING
    shown = story.item("turn/t1")
    assert (shown["state"], shown["reason"]) == ("compacting", "the conversation is larger than the model's window")
    another = inp.ContextShrunk("t1.k9", (ev.ShortenedResult(call_id="t1.c1", kept_chars=1),), 100, 1)
    assert story.when(another).news == story.when(inp.ShrinkFailed("t1.k9", "late")).news == []
    story.context_shrinks("t1.c1", kept=4_000)
    assert (story.item("turn/t1")["state"], story.item("turn/t1")["reason"]) == ("running", "")
    assert story.news == ["ContextCompacted", "ModelRequestStarted"]
    (entry,) = [one for one in story.state.history if isinstance(one, ResultEntry)]
    assert (entry.kept_chars, len(entry.text)) == (4_000, 50_000)
    assert story.item("compaction/t1.k1")["results"] == 1
    story.model_answers()
    assert story.state.overflows == 0
    assert story.world.performed == {"t1.c1": 1}
    story.ends()


def test_f03_a_fixed_prompt_that_is_too_large_ends_with_a_named_error_in_every_turn() -> None:
    """Nothing can be shortened: one request a turn, ways out named; the count lives over turns, the session too."""
    story = Story()
    for turn in range(1, OVERFLOW_TRIES_MAX + 3):
        begun = len(story.facts(ev.ModelRequestStarted))
        story.user_says().model_breaks("context_overflow", words="9000 tokens are more than 8000")
        if turn <= OVERFLOW_TRIES_MAX:
            story.shrinking_fails()
            assert story.news == ["CompactionDiscarded", "TurnFailed"]
        else:
            assert story.news == ["ModelStreamInterrupted", "ContextOverflowed", "TurnFailed"]
        assert len(story.facts(ev.ModelRequestStarted)) == begun + 1
        end = story.facts(ev.TurnFailed)[-1]
        assert end.code == ErrorCode.MODEL_CONTEXT
        assert (f"({turn} times in a row)" in end.message) == (turn > 1)
        assert "larger window" in end.hint
    story.when(inp.SendMessage("m99", "t99", "once more", queue=False)).model_answers()
    assert story.state.overflows == 0
    story.ends()


def test_f03_shortening_that_does_not_help_is_tried_so_often_and_no_more() -> None:
    """Each try made it smaller and it still does not fit: the named error, also over turns."""
    story = long_result(Story().user_says())
    for after in (90, 80, 70):
        story.model_breaks("context_overflow").context_shrinks("t1.c1", after=after)
    story.model_breaks("context_overflow")
    assert story.news == ["ModelStreamInterrupted", "ContextOverflowed", "TurnFailed"]
    assert "4 times in a row" in story.facts(ev.TurnFailed)[0].message
    assert [body.compaction_id for body in story.facts(ev.CompactionStarted)] == ["t1.k1", "t1.k2", "t1.k3"]
    story.ends()


def test_f03_a_compaction_that_makes_nothing_smaller_is_discarded() -> None:
    """It is not believed: the turn ends, what the model is shown stays as it was."""
    story = long_result(Story().user_says()).model_breaks("context_overflow").context_shrinks("t1.c1", after=100)
    assert story.news == ["CompactionDiscarded", "TurnFailed"]
    assert story.facts(ev.CompactionDiscarded)[0].reason == "nothing of it can be shortened any more"
    assert all(one.kept_chars is None for one in story.state.history if isinstance(one, ResultEntry))
    story.ends()


def test_f03_another_model_begins_the_count_anew() -> None:
    """The way out that the error names works."""
    story = Story().user_says().model_breaks("context_overflow").shrinking_fails()
    story.fact_is_written(ev.ModelSelected(provider="scripted", model="bigger", model_label="Bigger"))
    assert story.state.overflows == 0


def test_a_restart_in_a_compaction_begins_it_again_from_the_whole() -> None:
    """A half one has left nothing."""
    story = long_result(Story().user_says()).model_breaks("context_overflow")
    before = story.state
    story.daemon_restarts()
    assert story.state == before
    assert pending_effects(story.state) == (ShrinkContext("t1.k1"),)
    story.context_shrinks("t1.c1").model_answers()
    story.ends()


def test_stop_in_a_compaction_is_at_once() -> None:
    """What comes late changes nothing."""
    story = long_result(Story().user_says()).model_breaks("context_overflow").user_stops()
    assert story.news == ["TurnCancelRequested", "TurnCancelled"]
    late = inp.ContextShrunk("t1.k1", (ev.ShortenedResult(call_id="t1.c1", kept_chars=1),), 100, 1)
    assert story.when(late).news == []
    story.ends()


def test_a_failure_that_is_none_of_the_provider_is_not_tried_again() -> None:
    """The user's folder could not be looked at, or a fault of ours: the turn ends."""
    story = Story().user_says().model_fails("workspace.unreadable")
    assert story.news == ["ModelStreamInterrupted", "TurnFailed"]
    assert story.effects == ()


def test_retries_of_a_model_do_not_touch_calls() -> None:
    """After a retry the calls of the answer run as ever, once."""
    story = Story().user_says().model_breaks("server").pause_ends().model_answers(call()).policy_says("allow")
    assert story.effects == (RunTool("t1.c1"),)
    story.tool_ends().model_answers()
    story.ends()


def test_what_is_said_in_a_pause_is_in_the_retry() -> None:
    """A supplement waits for the next request as ever; the pause is as long as it was."""
    story = Story().user_says().model_breaks("rate", pause_us=3 * SECOND).user_steers("also that", "supplement")
    assert story.news == ["SteeringDecided"]
    story.pause_ends()
    assert story.news == ["UserMessageAdded", "RetryStarted", "ModelRequestStarted"]
    story.model_answers()
    story.ends()


def test_a_correction_does_not_shorten_the_pause() -> None:
    """The goal changes at once; the provider is left alone until it said it may be asked; the user is told."""
    story = Story().user_says().model_breaks("rate", pause_us=3 * SECOND).user_steers("no, the other one", "correct")
    assert story.news == ["SteeringDecided", "GoalRevised"]
    assert story.effects == ()
    assert "when its pause is over" in story.facts(ev.SteeringDecided)[0].words
    story.pause_ends()
    (begun,) = story.facts(ev.RetryStarted)
    assert (begun.goal_revision, story.facts(ev.ModelRequestStarted)[-1].goal_revision) == (2, 2)
    story.model_answers()
    story.ends()


def test_a_correction_in_a_compaction_waits_for_its_end() -> None:
    """The next request is the corrected one, shortened."""
    story = long_result(Story().user_says()).model_breaks("context_overflow").user_steers("no", "correct")
    assert story.effects == ()
    story.context_shrinks("t1.c1")
    assert story.news == ["ContextCompacted", "UserMessageAdded", "ModelRequestStarted"]
    story.model_answers()
    story.ends()


def test_an_interruption_in_a_pause_begins_the_next_turn_at_once() -> None:
    """The timer is dropped; whether the provider may be asked now is the breaker's to say."""
    story = Story().user_says().model_breaks("server")
    failed = story.pause.request_id
    story.user_interrupts("that instead")
    assert DropWait(failed) in story.effects
    assert story.state.turn is not None
    assert (story.state.turn.retry, story.state.turn.attempt) == (None, 1)
    story.model_answers()
    story.ends()


def test_how_far_are_you_is_answered_in_a_pause() -> None:
    """Words from the state: what it waits for, and which attempt comes."""
    story = Story().user_says().model_breaks("server").user_steers("how far are you?", "ask")
    assert "attempt 2 of 5" in story.facts(ev.SteeringDecided)[0].words


def test_retries_count_among_the_requests_of_a_turn() -> None:
    """The most requests that a turn may make is a limit for all of them: a retry beyond it ends the turn."""
    story = Story().user_says()
    for _ in range(TURN_REQUESTS_MAX - 1):
        long_result(story, 10)
    story.user_steers("and this", "supplement").model_breaks("server").pause_ends()
    assert story.news == ["TurnFailed", "UserMessageUnqueued"]
    assert story.facts(ev.TurnFailed)[0].code == ErrorCode.LIMIT
    assert len(story.facts(ev.ModelRequestStarted)) == TURN_REQUESTS_MAX
    story.ends()


def test_a_request_that_was_held_back_is_none_of_those_a_turn_may_make() -> None:
    """It was never sent; it keeps its id, and those that are sent are all there are."""
    story = Story().user_says().model_breaks("paused", pause_us=SECOND).pause_ends()
    for _ in range(TURN_REQUESTS_MAX):
        assert story.state.turn is not None
        long_result(story, 10)
    started = story.facts(ev.ModelRequestStarted)
    assert len({one.request_id for one in started}) == len(started) == TURN_REQUESTS_MAX + 1
    assert story.facts(ev.TurnFailed)[0].code == ErrorCode.LIMIT
    story.ends()
