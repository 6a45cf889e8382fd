"""The checks of messages and goals are checked: a planted fault of each kind is caught by the rule that names it."""

from dataclasses import replace

import pytest
from tests.kit.simulation.driver import Simulation, Stepper
from tests.kit.simulation.faults import Fault, Log, alter, both, double, drop, many, move, read
from tests.kit.simulation.rules import BrokenRuleError
from tests.kit.simulation.story import Story, call
from tests.kit.simulation.waiting import STEERED_MAX

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.tool import PlanItem
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import SessionState
from gloveport.server.turn import effects as eff
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import Step
from gloveport.server.turn.machine import step

SEEDS = range(300)  # the first that catches it ends the search; now one in 45 does


def plan(turn_id: str, revision: int) -> ev.PlanUpdated:
    """A plan with an open step."""
    item = PlanItem(title="look", state="running", goal_revision=revision)
    return ev.PlanUpdated(turn_id=turn_id, goal_revision=revision, items=(item,))


def history() -> Log:
    """A plan, a supplement and a correction while an opaque call runs, a late plan, an edit, an interruption."""
    story = Story().user_says().model_streams("a").model_answers(call("update_plan"), call("run_command"), call())
    story.policy_says("allow").tool_ends("ok", "ok", plan("t1", 1)).policy_says("allow", stop_class="opaque")
    story.user_steers("also this", "supplement").when(inp.EditMessage("m2", "also that"))
    story.user_steers("no", "correct").tool_ends("ok", "ok", plan("t1", 1))
    story.model_streams("on").user_interrupts("new").model_fails().model_answers()
    story.user_says("again").user_says("queued", queue=True).user_steers("", message_id="m6").user_stops()
    return [entry.body for entry in story.model_fails().ends().ledger.read()]


def edit_the_correction(log: Log) -> Log:
    """The correction is edited while it waits."""
    index = next(at for at, body in enumerate(log) if isinstance(body, ev.ResultSuperseded))
    return [*log[:index], ev.UserMessageEdited(message_id="m3", text="yes"), *log[index:]]


LOG_FAULTS: list[tuple[str, Fault]] = [
    ("message steered once", double(ev.SteeringDecided)),
    ("what waits for a turn is bounded", many(ev.SteeringDecided, STEERED_MAX, "message_id")),
    ("the record says where it was", alter(ev.SteeringDecided, queue="left")),
    ("steered text is the queued text", alter(ev.SteeringDecided, 3, text="other")),
    ("verb and turn agree", alter(ev.SteeringDecided, verb="interrupt")),
    ("a fate for each open call", alter(ev.SteeringDecided, calls=())),
    ("the record says what streams", alter(ev.SteeringDecided, stream="kept")),
    ("no start after a stop", move(ev.SteeringDecided, ev.TurnCancelled, 3, 1)),
    ("one turn", drop(ev.SteeringDecided, 1)),
    ("one turn", alter(ev.SteeringDecided, 1, kind="supplement")),
    ("a goal is revised for its message", alter(ev.GoalRevised, 1, message_id="m9")),
    ("only what waits is edited", alter(ev.UserMessageEdited, message_id="m1")),
    ("what is acted on is not edited", edit_the_correction),
    ("delivered text is the text that waited", drop(ev.UserMessageEdited)),
    ("what was said is in the next request", drop(ev.UserMessageAdded, 1)),
    ("returned text is the queued text", alter(ev.UserMessageUnqueued, text="other")),
    ("delivered at a boundary", move(ev.UserMessageAdded, ev.ToolExecutionFinished, 1, 2)),
    ("message delivered once", double(ev.UserMessageAdded)),
    ("stopped as its class allows", alter(ev.ToolStopRequested, manner="stopped")),
    ("stopped once", double(ev.ToolStopRequested)),
    ("only what runs is stopped", move(ev.ToolStopRequested, ev.ToolExecutionFinished, 0, 0)),
    ("only what is not wanted is stopped", move(ev.ToolStopRequested, ev.SteeringDecided, 0, 1)),
    ("late is what ended", move(ev.ResultSuperseded, ev.ToolExecutionFinished, 0, 2)),
    (
        "only a late result is left out",
        both(alter(ev.ResultSuperseded, call_id="t1.c1"), move(ev.ResultSuperseded, ev.PlanUpdated)),
    ),
    ("own revision", move(ev.PlanUpdated, ev.ModelRequestStarted, 0, 1)),
    ("nothing starts for an old goal", move(ev.ToolExecutionStarted, ev.ToolStopRequested, 1, 0)),
    ("a late result changes no plan", alter(ev.PlanUpdated, 1, items=plan("t1", 2).items)),
]


def test_the_sound_log_passes() -> None:
    """Without a fault the monitor is silent."""
    read(history())


@pytest.mark.parametrize(("rule", "plant"), LOG_FAULTS, ids=[f"{n}-{r}" for n, (r, _) in enumerate(LOG_FAULTS)])
def test_a_fault_in_the_log_is_caught(rule: str, plant: Fault) -> None:
    """Each rule bites."""
    with pytest.raises(BrokenRuleError) as caught:
        read(plant(history()))
    assert caught.value.rule == rule


# --- faults of the machine


def refold(state: SessionState, bodies: tuple[ev.EventBody, ...]) -> SessionState:
    """The state after these facts."""
    for body in bodies:
        state = fold_event(state, body)
    return state


def takes_late_plans(state: SessionState, given: inp.Input) -> Step:
    """A machine that lets the result of an old goal change the plan."""
    right = step(state, given)
    if not any(isinstance(body, ev.ResultSuperseded) for body in right.events) or not isinstance(given, inp.ToolEnded):
        return right
    at = next(n for n, body in enumerate(right.events) if isinstance(body, ev.ResultSuperseded)) + 1
    plans = tuple(fact for fact in given.facts if isinstance(fact, ev.PlanUpdated))
    bodies = (*right.events[:at], *plans, *right.events[at:])
    return Step(bodies, right.effects, refold(state, bodies))


def keeps_old_cards(state: SessionState, given: inp.Input) -> Step:
    """A machine that revises the goal and leaves what was asked for the old one."""
    right = step(state, given)
    if not isinstance(given, inp.SteerMessage) or not state.approvals:
        return right
    gone = (ev.ApprovalResolved, ev.ToolExecutionFinished, ev.UserMessageAdded, ev.ModelRequestStarted)
    bodies = tuple(body for body in right.events if not isinstance(body, gone))
    return Step(bodies, (), refold(state, bodies))


def forgets_what_waits(state: SessionState, given: inp.Input) -> Step:
    """A machine that ends a turn and drops what was said to it."""
    right = step(state, given)
    if not state.steering:
        return right
    bodies = tuple(body for body in right.events if not isinstance(body, ev.UserMessageUnqueued))
    return Step(bodies, right.effects, refold(state, bodies))


def deaf_streams(state: SessionState, given: inp.Input) -> Step:
    """A machine that does not close the connection of an answer nobody wants."""
    right = step(state, given)
    return replace(right, effects=tuple(one for one in right.effects if not isinstance(one, eff.StopModel)))


MACHINE_FAULTS: dict[str, tuple[Stepper, set[str]]] = {
    "takes late plans": (takes_late_plans, {"own revision", "a late result changes no plan"}),
    "keeps old cards": (
        keeps_old_cards,
        {"nothing starts for an old goal", "no effect without intent", "pending effects are the unfinished ones",
         "only what waits is edited", "somebody works on it"},
    ),
    "forgets what waits": (forgets_what_waits, {"what was said is in the next request", "no message is left behind"}),
    "deaf streams": (deaf_streams, {"a stop reaches what runs"}),
}  # fmt: skip


def broken_rule(seed: int, stepper: Stepper) -> BrokenRuleError | None:
    """What the harness says of a machine under a seed."""
    try:
        Simulation(seed, stepper=stepper, crash_rate=0.1).run(120)
    except BrokenRuleError as broken:
        return broken
    return None


@pytest.mark.parametrize("name", MACHINE_FAULTS)
def test_a_fault_in_the_machine_is_caught(name: str) -> None:
    """The harness finds it within a few seeds and names a rule that fits."""
    stepper, rules = MACHINE_FAULTS[name]
    found = next(filter(None, (broken_rule(seed, stepper) for seed in SEEDS)), None)
    assert found is not None, f"not caught under {len(SEEDS)} seeds"
    assert found.rule in rules, found
