"""What the user says while a turn runs: three verbs, four kinds, five cases of consistency."""

import pytest
from tests.kit.simulation import materials as mat
from tests.kit.simulation.story import Story, call

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.steering import SteeringKind
from gloveport.protocol.journal.events.tool import PlanItem
from gloveport.server.session.state import AssistantEntry, Phase, ResultEntry, UserEntry
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import TurnError
from gloveport.server.turn.effects import AttachTool, CallModel, JudgeCall, StopModel, StopTool
from gloveport.server.turn.machine import step
from gloveport.server.turn.messages import REVISED_TEXT, STEERED_MESSAGES_MAX

REVISING: tuple[SteeringKind, ...] = ("correct", "replace")


def plan(revision: int = 1, turn_id: str = "t1") -> ev.PlanUpdated:
    """Three steps, one of them done."""
    steps = (("read", "done"), ("change", "running"), ("test", "pending"))
    items = tuple(PlanItem.model_validate({"title": t, "state": s, "goal_revision": revision}) for t, s in steps)
    return ev.PlanUpdated(turn_id=turn_id, goal_revision=revision, items=items)


def decision(story: Story) -> ev.SteeringDecided:
    """The last decision about a message."""
    decided: ev.SteeringDecided = story.facts(ev.SteeringDecided)[-1]
    return decided


def running(stop_class: str, tool: str = "run_command", *more: inp.ModelCall) -> Story:
    """A turn in which a call of this class runs."""
    story = Story().user_says("use the database").model_answers(call(tool), *more)
    return story.policy_says("allow", stop_class=stop_class)


# --- the five cases of consistency


@pytest.mark.parametrize("kind", REVISING)
def test_s1_case_1_no_action_yet(kind: SteeringKind) -> None:
    """Nothing was done yet: the answer is cancelled at once, its text kept and marked, the context built anew."""
    story = (
        Story().user_says("use the database").model_streams("I will change the ta").user_steers("only the API", kind)
    )
    assert story.news == ["SteeringDecided", "GoalRevised"]
    assert story.effects == (StopModel("t1.r1"),)
    assert (decision(story).stream, decision(story).calls) == ("cancelled", ())
    story.model_fails("rpc.cancelled")
    assert story.news == ["ModelStreamInterrupted", "UserMessageAdded", "ModelRequestStarted"]
    assert story.effects == (CallModel("t1.r2"),)
    assert story.state.history == (
        UserEntry("use the database"),
        AssistantEntry("I will change the ta", interrupted=True),
        UserEntry("only the API", kind),
    )
    assert (story.state.goal_revision, story.facts(ev.ModelRequestStarted)[-1].goal_revision) == (2, 2)
    assert story.facts(ev.ModelStreamInterrupted)[0].goal_revision == 1
    story.model_answers().ends()


@pytest.mark.parametrize("kind", REVISING)
def test_s1_case_2_read_only_search(kind: SteeringKind) -> None:
    """A search that is under way is cancelled; what it found is marked as of the old goal and nothing follows it."""
    story = running("killable", "search").user_steers("only the API", kind)
    assert story.effects == (StopTool("t1.c1"),)
    assert [fate.fate for fate in decision(story).calls] == ["stopped"]
    story.tool_ends("ok", "300 hits")
    assert story.news == ["ToolExecutionFinished", "ResultSuperseded", "UserMessageAdded", "ModelRequestStarted"]
    assert story.facts(ev.ToolExecutionFinished)[0].goal_revision == 1
    assert story.state.history[-2] == ResultEntry("t1.c1", "p1", "300 hits", is_error=False, is_late=True)
    assert story.item("tool/t1.c1")["late"] is True
    story.model_answers().ends()


@pytest.mark.parametrize("kind", REVISING)
def test_s1_case_3_atomic_file_write(kind: SteeringKind) -> None:
    """A write that is under way finishes; its proposal stays, named by hashes, for the user to keep or to reject."""
    story = running("atomic", "edit_file").user_steers("only the API", kind)
    asked = story.facts(ev.ToolStopRequested)[0]
    assert (asked.manner, asked.goal_revision) == ("finishes", 1)
    assert "you decide on it" in asked.words
    proposal = mat.change("t1", 1, "t1.c1", 1)
    story.tool_ends("ok", "written", proposal)
    assert story.state.changes == {"ch1": proposal}
    assert story.item("change/ch1")["resultHash"] == proposal.result_hash
    story.when(inp.ApplyRequested("a1", "reject", {}, "user")).when(
        inp.ApplyDone("a1", (proposal.path,), {}, mat.decided_facts(story.rng, ["ch1"])[:1])
    )
    story.model_answers().ends()


@pytest.mark.parametrize("finding", ["succeeded", "not_started", "unknown"])
def test_s1_case_3_atomic_file_write_judged_by_hash_after_a_restart(finding: str) -> None:
    """Killed in the middle: by its hashes it was written, was not begun (and is not begun now), or nobody knows."""
    story = running("atomic", "edit_file").user_steers("no", "correct").daemon_restarts(finding)  # type: ignore[arg-type] # one of the findings
    if finding == "succeeded":
        assert story.last is not None
        assert story.last.effects == (AttachTool("t1.c1"),)
        story.tool_ends("ok", "found after a restart")
        assert story.outcomes() == ["ok"]
    if finding == "unknown":
        assert story.state.last_failure == ErrorCode.SANDBOX_LOST
        assert story.item("message/m2")["state"] == "returned"
        story.ends()
        return
    assert "RunTool" not in str(story.effects)
    assert story.item("message/m2")["state"] == "delivered"
    assert story.outcomes() == (["ok"] if finding == "succeeded" else ["cancelled"])
    story.model_answers().ends()


@pytest.mark.parametrize("kind", REVISING)
def test_s1_case_4_migration_or_publish_is_awaited(kind: SteeringKind) -> None:
    """What can't be stopped halfway is waited for: nothing else starts, the message waits visibly, the end counts."""
    story = running("opaque", "run_command", call()).user_steers("only the API", kind)
    asked = story.facts(ev.ToolStopRequested)[0]
    assert asked.manner == "awaited"
    assert "can't be stopped halfway" in asked.words
    assert asked.words in decision(story).words
    assert {fate.call_id: fate.fate for fate in decision(story).calls} == {"t1.c1": "awaited", "t1.c2": "withdrawn"}
    assert story.item("tool/t1.c1")["stopping"] == "awaited"
    story.tool_prints("step 3 of 5")
    assert story.item("message/m2")["state"] == "steered"
    assert CallModel("t1.r2") not in story.effects
    story.tool_ends("ok", "migrated")
    assert story.outcomes() == ["cancelled", "ok"]
    assert story.effects == (CallModel("t1.r2"),)
    story.model_answers().ends()


def test_s1_case_4_an_unknown_end_is_looked_at_before_the_new_goal() -> None:
    """An awaited effect that is lost: the turn ends, the message goes back, the user looks first."""
    story = running("opaque").user_steers("only the API", "correct").tool_ends("lost")
    assert story.state.last_failure == ErrorCode.SANDBOX_LOST
    assert story.item("message/m2") == {
        "text": "only the API", "state": "returned", "steeringKind": "correct", "reason": "the turn failed",
    }  # fmt: skip
    story.ends()


@pytest.mark.parametrize("kind", REVISING)
def test_s1_case_5_sub_agent_on_the_old_goal(kind: SteeringKind) -> None:
    """An agent that works for the old goal is told to stop; what it brings late is kept and refused: its plan is not
    taken, nothing follows from it."""
    story = running("killable", "update_plan", call("spawn_agent")).tool_ends("ok", "", plan()).policy_says("allow")
    before = story.state.plan
    story.user_steers("only the API", kind)
    assert StopTool("t1.c2") in story.effects
    story.tool_ends("ok", "I have migrated the tables", plan(), mat.change("t1", 1, "t1.c2", 2))
    superseded = story.facts(ev.ResultSuperseded)[0]
    assert (superseded.call_id, superseded.goal_revision, superseded.left_out) == ("t1.c2", 1, ("PlanUpdated",))
    assert story.item("tool/t1.c2")["leftOut"] == ["PlanUpdated"]
    expected = before if kind == "correct" else story.facts(ev.PlanUpdated)[-1].items
    assert story.state.plan == expected
    assert story.effects == (CallModel("t1.r2"),)
    story.model_answers().ends()


# --- the four kinds


@pytest.mark.parametrize("kind", ["supplement", "ask"])
def test_what_adds_or_asks_stops_nothing(kind: SteeringKind) -> None:
    """A whole batch goes on, cards stay, results are kept; the message arrives before the next request. E04"""
    story = running("killable", "run_command", call("edit_file"), call()).user_steers("and a changelog", kind)
    assert story.news == ["SteeringDecided"]
    assert story.effects == ()
    assert {fate.fate for fate in decision(story).calls} == {"goes on"}
    story.tool_ends("ok", "first").policy_says("ask")
    (card,) = story.state.approvals.values()
    story.user_steers("and the docs", kind)
    assert tuple(story.state.approvals.values()) == (card,)
    story.user_answers("once").policy_says("allow", grant_id="g1", left=0).tool_ends().policy_says("allow").tool_ends()
    assert story.news[-3:] == ["UserMessageAdded", "UserMessageAdded", "ModelRequestStarted"]
    assert story.outcomes() == ["ok", "ok", "ok"]
    assert [entry.is_late for entry in story.state.history if isinstance(entry, ResultEntry)] == [False] * 3
    assert story.state.history[-2:] == (UserEntry("and a changelog", kind), UserEntry("and the docs", kind))
    assert story.state.goal_revision == 1
    wanted = "use the database\nand a changelog\nand the docs" if kind == "supplement" else "use the database"
    assert story.state.user_messages == (wanted,)
    story.model_answers().ends()


def test_a_supplement_keeps_a_turn_alive_that_was_about_to_end() -> None:
    """The model ends its answer while a message waits: the turn goes on with it."""
    story = Story().user_says().model_streams("done").user_steers("and a test").model_answers()
    assert "TurnCompleted" not in story.news
    assert story.effects == (CallModel("t1.r2"),)
    story.model_answers()
    assert story.news[-1] == "TurnCompleted"
    story.ends()


def test_a_question_is_answered_at_once_from_the_state() -> None:
    """Where the turn stands is said without the model; the question does not change what the user is taken to want."""
    story = running("killable", "update_plan", call("run_command")).tool_ends("ok", "", plan()).policy_says("allow")
    title = story.running.started.title if story.running.started is not None else ""
    story.user_steers("how far are you?")
    said = decision(story)
    assert (said.kind, said.chosen_by) == ("ask", "rule")
    assert said.words.startswith(f"It runs: {title}. 1 of 3 steps of the plan are done.")
    assert story.item("steering/m2")["words"] == said.words
    story.tool_ends()
    assert story.state.user_messages == ("use the database",)
    story.model_answers().ends()


@pytest.mark.parametrize(("kind", "states"), [("correct", ["done", "running", "pending"]),
                                              ("replace", ["done", "superseded", "superseded"])])  # fmt: skip
def test_a_replaced_task_supersedes_its_plan(kind: SteeringKind, states: list[str]) -> None:
    """Correcting keeps the plan for the model to change; replacing marks what was open of it."""
    story = running("killable", "update_plan").tool_ends("ok", "", plan()).user_steers("x", kind)
    assert decision(story).plan == ("kept" if kind == "correct" else "superseded")
    assert [item.state for item in story.state.plan] == states
    assert {item.goal_revision for item in story.state.plan} == {1}
    assert [item["state"] for item in story.item("plan")["items"]] == states
    story.model_fails().model_answers().ends()


def test_a_card_of_the_old_goal_cannot_be_answered() -> None:
    """It ends as superseded; its call never begins; the new request follows in the same step."""
    story = Story().user_says().model_answers(call("run_command"), call()).policy_says("ask")
    (card,) = story.state.approvals.values()
    story.user_steers("no, do not run that")
    assert decision(story).kind == "correct"
    assert story.news == [
        "SteeringDecided", "GoalRevised", "ApprovalResolved", "ToolExecutionFinished", "ToolExecutionFinished",
        "UserMessageAdded", "ModelRequestStarted",
    ]  # fmt: skip
    resolved = story.facts(ev.ApprovalResolved)[0]
    assert (resolved.decision, resolved.by, resolved.goal_revision) == ("superseded", "steering", 1)
    assert story.item(f"approval/{card.approval_id}")["state"] == "superseded"
    assert [body.text for body in story.facts(ev.ToolExecutionFinished)] == [REVISED_TEXT] * 2
    assert not any(entry.is_late for entry in story.state.history if isinstance(entry, ResultEntry))
    grant = mat.grant("g1", "once", card.call_id)
    assert story.when(inp.ApprovalAnswered(card.approval_id, card.card_digest, "allowed", grant, "user")).refused
    story.model_answers().ends()


def test_a_judgement_for_the_old_goal_starts_nothing() -> None:
    """Policy's answer comes after the correction: it changes nothing."""
    story = Story().user_says().model_answers(call()).user_steers("stop that")
    story.when(inp.CallJudged("t1.c1", mat.some_plan(story.rng), mat.judgement("allow"), None))
    assert (story.news, story.effects) == ([], ())
    story.model_answers().ends()


def test_an_answer_that_wins_the_race_is_kept_and_its_calls_withdrawn() -> None:
    """The response of the old goal arrives whole: text and calls are in the record, none of them begins."""
    story = Story().user_says().model_streams("so").user_steers("wrong file", "correct")
    story.model_answers(call(), call(arguments="{"))
    assert story.outcomes() == ["invalid", "cancelled"]
    assert {body.goal_revision for body in story.facts(ev.ToolCallProposed)} == {1}
    assert story.effects == (CallModel("t1.r2"),)
    assert JudgeCall("t1.c1") not in story.effects
    assert story.facts(ev.UsageRecorded)[0].goal_revision == 1
    story.model_answers().ends()


def test_two_corrections_are_two_revisions_and_one_request() -> None:
    """Both arrive in the order in which they were typed; a call is asked to stop once."""
    story = running("opaque").user_steers("no", "correct").user_steers("only the API", "correct")
    assert story.state.goal_revision == 3
    assert len(story.facts(ev.ToolStopRequested)) == 1
    story.tool_ends()
    assert story.state.history[-2:] == (UserEntry("no", "correct"), UserEntry("only the API", "correct"))
    assert len(story.facts(ev.ModelRequestStarted)) == 2
    story.model_answers().ends()


def test_the_kind_a_user_names_is_not_read_from_the_words() -> None:
    """The user's choice stands, and is told apart from a proposal."""
    story = Story().user_says().user_steers("no", "supplement")
    assert (decision(story).kind, decision(story).chosen_by, decision(story).rule) == ("supplement", "user", "")
    story.user_steers("no")
    assert (decision(story).kind, decision(story).chosen_by) == ("correct", "rule")
    assert decision(story).rule
    story.model_fails().model_answers().ends()


# --- the three verbs


def test_e04_three_verbs_are_three_things() -> None:
    """Queue waits for the end, steer reaches the turn with its results kept, interrupt ends it; order and text kept."""
    story = running("killable").user_says("queued", queue=True).user_steers("steered")
    assert story.effects == ()
    story.tool_ends("ok", "kept")
    assert story.news[-2:] == ["UserMessageAdded", "ModelRequestStarted"]
    story.user_interrupts("interrupting")
    assert story.news == ["SteeringDecided", "TurnCancelRequested"]
    assert decision(story).delivery == "next turn"
    story.model_fails("rpc.cancelled")
    assert story.news == [
        "ModelStreamInterrupted", "TurnCancelled", "GoalRevised", "UserMessageAdded", "TurnStarted",
        "ModelRequestStarted",
    ]  # fmt: skip
    assert [queued.text for queued in story.state.queue] == ["queued"]
    story.model_answers().model_answers()
    delivered = [body.text for body in story.facts(ev.UserMessageAdded)]
    assert delivered == ["use the database", "steered", "interrupting", "queued"]
    assert [entry.text for entry in story.state.history if isinstance(entry, ResultEntry)] == ["kept"]
    story.ends()


@pytest.mark.parametrize("kind", ["supplement", "correct"])
def test_e04_send_now_steers_the_queued_message(kind: SteeringKind) -> None:
    """A queued message is sent now: it leaves the queue for the turn in one step, under its id, once."""
    story = running("killable").user_says("queued", queue=True).user_steers("", kind, message_id="m2")
    assert (decision(story).text, decision(story).queue, story.state.queue) == ("queued", "left", ())
    assert story.user_steers("", kind, message_id="m2").refused
    story.tool_ends()
    assert [body.message_id for body in story.facts(ev.UserMessageAdded)] == ["m1", "m2"]
    assert story.facts(ev.TurnStarted)[-1].turn_id == "t1"
    story.model_answers().ends()


def test_an_interruption_while_nothing_runs_on_begins_the_next_turn_at_once() -> None:
    """A card waits: it is withdrawn, the turn ends and the next one begins, in one step."""
    story = Story().user_says().model_answers(call()).policy_says("ask").user_interrupts()
    assert story.news[-4:] == ["GoalRevised", "UserMessageAdded", "TurnStarted", "ModelRequestStarted"]
    assert story.facts(ev.ApprovalResolved)[0].decision == "withdrawn"
    story.model_answers().ends()


def test_stop_after_an_interruption_stops_for_good() -> None:
    """Whoever presses stop wants rest: the interrupting message goes back."""
    story = running("opaque").user_interrupts("new").user_stops()
    assert story.news == ["UserMessageUnqueued"]
    assert story.item("message/m2")["state"] == "returned"
    story.tool_ends()
    assert story.state.phase is Phase.IDLE
    story.ends()


def test_an_interruption_waits_for_somebody_to_look_when_an_outcome_is_unknown() -> None:
    """What was stopped is lost: the next turn does not begin on top of it."""
    story = running("killable").user_interrupts("new").tool_ends("lost")
    assert story.news == ["ToolExecutionFinished", "ResultSuperseded", "UserMessageUnqueued", "TurnCancelled"]
    assert "unknown" in story.item("message/m2")["reason"]
    story.ends()


def test_a_late_plan_does_not_outlive_an_interruption() -> None:
    """The stopped call brings its plan after all: what was superseded stays so."""
    story = running("killable", "update_plan", call()).tool_ends("ok", "", plan()).policy_says("allow")
    story.user_interrupts("new").tool_ends("ok", "", plan())
    assert [item.state for item in story.state.plan] == ["done", "superseded", "superseded"]
    story.model_answers().ends()


def test_what_was_said_to_a_turn_that_ends_goes_back() -> None:
    """Stopped, failed or interrupted before it arrived: the user has the text again, with the reason."""
    for end in ("stop", "failure", "interrupt"):
        story = Story().user_says().user_steers("and this", "supplement").user_says("queued", queue=True)
        if end == "failure":
            story.model_fails()
        else:
            (story.user_stops() if end == "stop" else story.user_interrupts()).model_fails()
        assert story.item("message/m2")["state"] == "returned"
        assert story.item("message/m2")["reason"] == ("the turn failed" if end == "failure" else "the turn was stopped")
        assert story.item("message/m3")["state"] == ("queued" if end == "interrupt" else "returned")


@pytest.mark.parametrize("verb", ["steer", "interrupt"])
def test_a_message_names_the_turn_it_is_meant_for(verb: str) -> None:
    """Another turn, none, or one that is being stopped: refused, nothing changes."""

    def send(story: Story, turn_id: str) -> Story:
        if verb == "steer":
            return story.when(inp.SteerMessage("m9", turn_id, "x", None, "user"))
        return story.when(inp.InterruptMessage("m9", "t9", turn_id, "x", "user"))

    story = Story()
    assert send(story, "t1").refused
    story.user_says()
    assert send(story, "t2").refused
    story.user_stops()
    assert send(story, "t1").refused


def test_what_waits_for_a_turn_is_bounded() -> None:
    """The twenty-first message to one turn is refused and says so."""
    story = Story().user_says()
    for number in range(STEERED_MESSAGES_MAX):
        story.user_steers(f"also {number}", "supplement")
    with pytest.raises(TurnError) as refused:
        step(story.state, inp.SteerMessage("m99", "t1", "too many", None, "user"))
    assert refused.value.code is ErrorCode.TURN_BUSY
    story.model_answers()
    assert len(story.facts(ev.UserMessageAdded)) == STEERED_MESSAGES_MAX + 1


# --- stop


def test_e02_a_write_that_had_begun_is_told_as_done_before_the_stop() -> None:
    """It finishes, says so while it does, and its outcome is what the disk has; the turn still ends as stopped."""
    story = running("atomic", "edit_file", call()).user_stops()
    assert story.item("tool/t1.c1")["stopping"] == "finishes"
    story.tool_ends("ok", "written", mat.change("t1", 1, "t1.c1", 1))
    assert story.outcomes() == ["cancelled", "ok"]
    assert story.news == ["ToolExecutionFinished", "ChangeProposed", "TurnCancelled"]
    assert story.item("tool/t1.c1")["state"] == "ok"
    story.ends()


def test_e01_four_calls_of_one_answer_run_one_at_a_time_and_end_with_one_stop() -> None:
    """One is running, the others never begin; there is one effect to stop."""
    story = running("killable", "run_command", call(), call(), call()).user_stops()
    assert story.effects == (StopTool("t1.c1"),)
    assert story.outcomes() == ["cancelled"] * 3
    story.tool_ends("killed")
    assert story.news == ["ToolExecutionFinished", "TurnCancelled"]
    story.ends()


# --- edits


def test_a_waiting_message_is_edited_in_its_place() -> None:
    """In the queue and before its boundary; the edited text is what is delivered, or goes back."""
    story = Story().user_says().user_says("one", queue=True).user_says("two", queue=True)
    story.user_steers("also", "supplement").when(inp.EditMessage("m2", "first 😀")).when(inp.EditMessage("m4", "more"))
    assert [queued.text for queued in story.state.queue] == ["first 😀", "two"]
    assert story.item("message/m2") == {"text": "first 😀", "state": "queued"}
    assert story.when(inp.EditMessage("m4", "more")).news == []
    story.model_answers().model_answers()
    assert [body.text for body in story.facts(ev.UserMessageAdded)] == ["mend it", "more", "first 😀"]


def test_a_delivered_message_is_not_edited_and_no_file_comes_back() -> None:
    """An edit of the past is refused with words: nothing is taken back silently."""
    story = running("atomic", "edit_file").tool_ends("ok", "written", mat.change("t1", 1, "t1.c1", 1))
    before = story.state
    for given in (inp.EditMessage("m1", "do something else"), inp.UnqueueMessage("m1")):
        with pytest.raises(TurnError) as refused:
            step(story.state, given)
        assert "no file is changed by an edit" in refused.value.hint
    assert story.state == before
    story.user_steers("no", "correct")
    assert story.when(inp.EditMessage("m2", "yes")).refused
    story.model_fails().model_answers().ends()


def test_an_interrupting_message_can_be_taken_back_while_it_waits() -> None:
    """Then the turn is stopped and nothing follows."""
    story = running("opaque").user_interrupts("new").when(inp.UnqueueMessage("m2")).tool_ends()
    assert story.state.phase is Phase.IDLE
    story.ends()
