"""The daemon dies and starts again: in mid-stream, in mid-tool, while a card waits, while changes are written."""

from typing import Literal

import pytest
from tests.kit.simulation.story import Story, call

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.session.fold import fold_event
from gloveport.server.session.pairing import orphans
from gloveport.server.session.state import AssistantEntry, Phase, ResultEntry, SessionState, Turn
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.effects import AttachTool, CallModel, JudgeCall, RunTool, StopTool
from gloveport.server.turn.machine import pending_effects, step
from gloveport.server.turn.restart import RESTARTS_PER_ANSWER_MAX


def running() -> Story:
    """A story in which a tool runs and a second call waits behind it."""
    return Story().user_says().model_answers(call("run_tests"), call()).policy_says("allow")


def test_in_mid_stream() -> None:
    """The half text is kept and marked, the possible second cost is recorded, and the question is asked again. D08"""
    story = Story().user_says().model_streams("half 😀").daemon_restarts()
    assert story.news == ["ModelRequestReconciled", "ModelStreamInterrupted", "ModelRequestStarted"]
    assert story.effects == (CallModel("t1.r2"),)
    (asked,) = story.facts(ev.ModelRequestReconciled)
    assert asked.may_be_billed == (asked.fate != "never_accepted")
    assert story.item("answer/t1.r1")["text"] == "half 😀"
    assert story.item("answer/t1.r1")["state"] == "interrupted"
    assert story.state.history[-1] == AssistantEntry("half 😀", interrupted=True)
    story.model_answers()
    story.ends()


def test_an_answer_that_breaks_off_again_and_again() -> None:
    """What may itself be what ends the daemon is not asked for ever; an answer in between counts anew. F07"""
    story = Story().user_says()
    for _ in range(RESTARTS_PER_ANSWER_MAX):
        story.daemon_restarts()
    story.model_answers(call()).policy_says("allow").tool_ends()
    for _ in range(RESTARTS_PER_ANSWER_MAX):
        story.daemon_restarts()
        assert story.state.turn is not None
    story.daemon_restarts()
    assert story.news == ["ModelRequestReconciled", "ModelStreamInterrupted", "UsageEstimated", "TurnFailed"]
    assert story.state.last_failure == ErrorCode.MODEL_BROKEN
    story.user_says("go on").model_answers()
    story.ends()


def test_in_mid_stream_after_a_stop() -> None:
    """What was being stopped ends as stopped. D08"""
    story = Story().user_says().user_stops().daemon_restarts()
    assert story.news == ["ModelRequestReconciled", "ModelStreamInterrupted", "TurnCancelled"]
    story.ends()


@pytest.mark.parametrize(("finding", "outcome"), [("succeeded", "ok"), ("failed", "failed")])
def test_in_mid_tool_that_ended_meanwhile(
    finding: Literal["succeeded", "failed"], outcome: Literal["ok", "failed"]
) -> None:
    """The outcome is fetched, not made again; then the turn goes on."""
    story = running().daemon_restarts(finding)
    assert story.news == ["ToolReconciled"]
    assert story.effects == (AttachTool("t1.c1"),)
    assert story.item("tool/t1.c1")["finding"] == finding
    story.tool_ends(outcome)
    assert story.effects == (JudgeCall("t1.c2"),)
    assert story.world.performed["t1.c1"] == 1


def test_in_mid_tool_that_still_runs() -> None:
    """The daemon attaches; output goes on where it was."""
    story = running().tool_prints("one 😀").daemon_restarts("still_running")
    assert story.effects == (AttachTool("t1.c1"),)
    story.tool_prints(" two").tool_ends()
    assert [body.offset for body in story.facts(ev.ToolExecutionProgress)] == [0, 6]
    assert story.item("tool/t1.c1")["output"] == "one 😀 two"


def test_in_mid_tool_that_never_started() -> None:
    """Intent without effect: it may run now, for the first time."""
    story = running().daemon_restarts("not_started")
    assert story.effects == (RunTool("t1.c1"),)
    assert story.world.performed["t1.c1"] == 1


def test_in_mid_tool_with_nothing_known() -> None:
    """Unknown is said, nothing is run again, history stays valid, the user decides. F05"""
    story = running().daemon_restarts("unknown")
    assert story.effects == ()
    assert story.outcomes() == ["unknown", "cancelled"]
    results = [entry for entry in story.state.history if isinstance(entry, ResultEntry)]
    assert [entry.call_id for entry in results] == ["t1.c1", "t1.c2"]
    assert "unknown" in results[0].text
    assert "Stopped by the user" not in results[1].text
    assert story.state.last_failure == ErrorCode.SANDBOX_LOST
    story.ends()


@pytest.mark.parametrize("finding", ["succeeded", "failed"])
def test_while_a_tool_is_being_stopped_and_it_ended(finding: Literal["succeeded", "failed"]) -> None:
    """Its outcome is fetched; there is nothing left to stop."""
    story = running().user_stops().daemon_restarts(finding)
    assert story.effects == (AttachTool("t1.c1"),)
    story.tool_ends()
    story.ends()


def test_c03_while_a_tool_is_being_stopped_and_it_runs_on() -> None:
    """The stop outlives the daemon: it is attached to and stopped. C03"""
    story = running().user_stops().daemon_restarts("still_running")
    assert story.effects == (AttachTool("t1.c1"), StopTool("t1.c1"))
    story.tool_ends("killed")
    assert story.news[-1] == "TurnCancelled"
    story.ends()


def test_while_a_tool_is_being_stopped_that_never_started() -> None:
    """It does not start after the stop."""
    story = running().user_stops().daemon_restarts("not_started")
    assert story.effects == ()
    assert story.news == ["ToolReconciled", "ToolExecutionFinished", "TurnCancelled"]
    assert story.outcomes() == ["cancelled", "cancelled"]
    story.ends()


def test_while_a_tool_is_being_stopped_of_which_nothing_is_known() -> None:
    """It ends as stopped, with an outcome that says unknown."""
    story = running().user_stops().daemon_restarts("unknown")
    assert story.outcomes() == ["cancelled", "unknown"]
    assert story.news[-1] == "TurnCancelled"
    assert story.state.last_failure is None
    story.ends()


def test_while_a_card_waits() -> None:
    """The card waits on under the same id and can be answered. D08"""
    story = Story().user_says().model_answers(call()).policy_says("ask").daemon_restarts()
    assert (story.news, story.state.phase) == ([], Phase.WAITING)
    story.user_answers("once")
    assert story.effects == (JudgeCall("t1.c1"),)


def test_between_an_answer_and_its_judgement() -> None:
    """A call that nobody judges any more is judged again; a second restart asks for the same."""
    story = Story().user_says().model_answers(call()).policy_says("ask").user_answers("session")
    for _ in range(2):
        story.daemon_restarts()
        assert pending_effects(story.state) == (JudgeCall("t1.c1"),)
        assert story.world.judging == {"t1.c1"}
    story.policy_says("allow", grant_id="g1").tool_ends()
    assert story.effects == (CallModel("t1.r2"),)


def test_while_changes_are_written() -> None:
    """The intent is on disk, so its outcome is found out and written."""
    story = Story().when(inp.ApplyRequested("a1", "accept", {"steps": []}, "user")).daemon_restarts()
    assert story.news in (["ChangeApplied"], ["ChangeRefused"])
    assert story.state.applying == {}
    story.ends()


def test_restarting_twice_equals_once() -> None:
    """A restart during the recovery finds the same again and does nothing twice."""
    story = running().daemon_restarts("still_running").daemon_restarts("still_running")
    assert story.effects == (AttachTool("t1.c1"),)
    story.tool_ends().policy_says("allow").tool_ends().model_answers()
    assert story.world.performed == {"t1.c1": 1, "t1.c2": 1}
    story.ends()


def test_a_card_that_holds_no_more() -> None:
    """It is taken back before it can be answered, and its call is judged anew: a new card, a new id."""
    story = Story().user_says().model_answers(call()).policy_says("ask").daemon_restarts(cards_hold=False)
    assert story.news == ["ApprovalResolved"]
    assert story.item("approval/t1.c1.a1")["state"] == "superseded"
    assert story.effects == (JudgeCall("t1.c1"),)
    story.policy_says("ask")
    assert list(story.state.approvals) == ["t1.c1.a2"]


def two_running() -> SessionState:
    """A state in which two calls run: an engine that runs several at once died."""
    story = Story().user_says().model_answers(call(), call()).policy_says("allow")
    first, second = (story.state.turn or Turn("", 1)).calls
    started = (first.started or story.facts(ev.ToolExecutionStarted)[0]).model_copy(
        update={"call_id": second.call_id, "tool": second.tool}
    )
    return fold_event(story.state, started)


def test_every_unmatched_execution_ends_by_its_own_finding() -> None:
    """One unknown lets nothing new begin, and what runs beside it is still brought to its own end."""
    decided = step(two_running(), inp.CallReconciled("t1.c1", "unknown", "nobody knows"))
    assert [type(body).__name__ for body in decided.events] == ["ToolReconciled", "ToolExecutionFinished"]
    decided = step(decided.state, inp.CallReconciled("t1.c2", "still_running", "it runs"))
    assert decided.effects == (AttachTool("t1.c2"),)
    ended = Story().tool_end("t1.c2")
    decided = step(decided.state, ended)
    assert [type(body).__name__ for body in decided.events] == ["ToolExecutionFinished", "TurnFailed"]
    assert decided.state.last_failure == ErrorCode.SANDBOX_LOST


@pytest.mark.parametrize("where", ["stream", "card", "tool"])
def test_a_turn_of_which_recorded_events_are_lost_is_ended(where: str) -> None:
    """Its log is behind the world: nothing of it is run again, everything under way ends as unknown."""
    story = Story().user_says()
    if where != "stream":
        story.model_answers(call("run_tests"), call())
        story.policy_says("ask" if where == "card" else "allow")
    story.daemon_restarts(lost="the log was damaged")
    assert story.effects == ()
    assert set(story.outcomes()) <= {"unknown"}
    assert len(story.outcomes()) == (0 if where == "stream" else 2)
    assert story.state.last_failure == ErrorCode.CORRUPT
    story.user_says("go on").model_answers()
    story.ends()


@pytest.mark.parametrize("where", ["stream", "tool"])
def test_where_the_record_is_lost_no_interruption_begins_its_turn(where: str) -> None:
    """What the stopped turn did is unknown, so the message goes back to the user, who looks first."""
    story = Story().user_says()
    if where == "tool":
        story.model_answers(call()).policy_says("allow")
    story.user_interrupts("that instead").daemon_restarts(lost="the log was damaged")
    assert story.effects == ()
    assert [body.text for body in story.facts(ev.UserMessageUnqueued)] == ["that instead"]
    assert "look" in story.facts(ev.UserMessageUnqueued)[0].reason
    assert (story.state.turn, len(story.facts(ev.TurnStarted))) == (None, 1)
    story.ends()


def test_an_answered_call_is_not_proposed_again_when_a_later_request_left_nothing() -> None:
    """The log ends after an interrupted request: its calls were those of the answer before, and all have ended."""
    story = Story().user_says().model_answers(call()).policy_says("allow").tool_ends().model_breaks("auth")
    state = SessionState()
    for entry in story.ledger.read():
        state = fold_event(state, entry.body)
        if entry.type == "ModelStreamInterrupted":
            break
    decided = step(state, inp.TakenUp())
    assert [type(body).__name__ for body in decided.events] == ["ModelRequestStarted"]


def test_a_log_that_ends_right_after_a_stop_ends_the_turn() -> None:
    """What had not begun is withdrawn in the stop's own words."""
    story = Story().user_says().model_answers(call(), call()).user_stops()
    state = SessionState()
    for entry in story.ledger.read():
        state = fold_event(state, entry.body)
        if entry.type == "TurnCancelRequested":
            break
    decided = step(state, inp.TakenUp())
    assert decided.events == tuple(entry.body for entry in story.ledger.read())[-3:]
    assert (decided.effects, decided.state.turn) == ((), None)


CUTS = {
    "after the answer, before its calls": ("ModelResponseReceived", ["ToolCallProposed", "ToolExecutionFinished"]),
    "after the last result": ("ToolExecutionFinished", []),
    "after the turn began": ("TurnStarted", []),
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_log_that_ends_where_no_step_ends_is_not_stuck(cut: str) -> None:
    """A turn that would wait for nothing goes on: what was not recorded is not run, and history stays valid. F05 D08"""
    last, mended = CUTS[cut]
    story = Story().user_says().model_answers(call()).policy_says("allow").tool_ends()
    state = SessionState()
    for entry in story.ledger.read():
        state = fold_event(state, entry.body)
        if entry.type == last:
            break
    decided = step(state, inp.TakenUp())
    assert [type(body).__name__ for body in decided.events] == [*mended, "ModelRequestStarted"]
    assert [type(effect) for effect in decided.effects] == [CallModel]
    assert orphans(decided.state.history) == ()
