"""Where a session stands, in words from its state alone."""

from tests.kit.simulation import materials as mat
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.tool import PlanItem
from gloveport.server.turn.standing import standing_words


def test_each_place_has_its_words() -> None:
    """Idle, answering, looking at a call, waiting for the user, running, stopping."""
    story = Story()
    said = [standing_words(story.state)]
    said.append(standing_words(story.user_says().state))
    said.append(standing_words(story.model_answers(call("run_command")).state))
    said.append(standing_words(story.policy_says("ask").state))
    story.user_answers("once").policy_says("allow", grant_id="g1", left=0)
    running = story.running.started
    assert running is not None
    said.append(standing_words(story.state))
    said.append(standing_words(story.user_stops().state))
    assert said == [
        "Nothing runs.",
        "The model is answering.",
        "A call is being looked at before it runs.",
        "It waits for your answer to 1 question.",
        f"It runs: {running.title}.",
        "It is stopping.",
    ]


def test_the_plan_and_the_proposals_are_counted() -> None:
    """Steps that were dropped or superseded are none; proposals are counted by file."""
    states = ("done", "running", "pending", "dropped", "superseded")
    items = tuple(PlanItem.model_validate({"title": s, "state": s, "goal_revision": 1}) for s in states)
    plan = ev.PlanUpdated(turn_id="t1", goal_revision=1, items=items)
    story = Story().user_says().model_answers(call("update_plan")).policy_says("allow")
    story.tool_ends("ok", "", plan, mat.change("t1", 1, "t1.c1", 1))
    words = "The model is answering. 1 of 3 steps of the plan are done. Proposed: 1 file."
    assert standing_words(story.state) == words
