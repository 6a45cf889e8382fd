"""The checks are checked: a planted fault of each kind is caught, and by the rule that names it.

Three sorts of fault: in the log (an independent monitor reads it), in the machine (the harness drives it), in what is
projected or kept.
"""

from dataclasses import replace

import pytest
from tests.kit.simulation import materials as mat
from tests.kit.simulation.driver import Projector, Simulation, Stepper
from tests.kit.simulation.faults import Fault, Log, alter, both, double, drop, many, move, read
from tests.kit.simulation.rules import BrokenRuleError
from tests.kit.simulation.story import Story, call
from tests.kit.simulation.waiting import QUEUED_MAX

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events import EventBody
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import SessionState
from gloveport.server.session.views.ops import Op, project_ops
from gloveport.server.turn import effects as eff
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import Step, TurnError
from gloveport.server.turn.machine import step

SEEDS = range(40)


def history() -> Log:
    """A log with every kind of event that the rules speak of: two turns, a stop, a queue, a card, an apply."""
    story = Story().user_says().model_streams("a😀", "b").model_answers(call(), call("edit_file"))
    story.user_says("next", queue=True)
    story.policy_says("ask").user_answers("once").policy_says("allow", grant_id="g1", left=0)
    story.tool_prints("x😀").tool_prints("y").daemon_restarts("still_running").tool_ends()
    story.policy_says("allow").tool_ends().model_answers()
    story.when(inp.ApplyRequested("a1", "accept", {}, "user")).when(inp.ApplyDone("a1", (), {}, ()))
    story.model_answers(call(), call()).policy_says("allow").user_says("third", queue=True).user_stops()
    story.tool_ends("killed")
    story.user_says("fourth").model_streams("half").model_fails()
    return [entry.body for entry in story.ends().ledger.read()]


def without_call(call_id: str) -> Fault:
    """Every word about a call of the response is missing."""
    return lambda log: [body for body in log if getattr(body, "call_id", "") != call_id]


LOG_FAULTS: list[tuple[str, Fault]] = [
    ("revision grows by one", double(ev.GoalRevised)),
    ("own revision", alter(ev.TurnStarted, goal_revision=7)),
    ("own revision", alter(ev.ModelTextDelta, goal_revision=7)),
    ("own turn", alter(ev.ToolCallProposed, turn_id="t9")),
    ("message delivered once", double(ev.UserMessageAdded)),
    ("message queued once", double(ev.UserMessageQueued)),
    ("the queue is bounded", many(ev.UserMessageQueued, QUEUED_MAX, "message_id")),
    ("returned text is the queued text", alter(ev.UserMessageUnqueued, message_id="m9")),
    ("returned text is the queued text", alter(ev.UserMessageUnqueued, text="other")),
    ("queue only behind a turn", move(ev.UserMessageQueued, ev.GoalRevised)),
    ("turn started once", double(ev.TurnStarted)),
    ("turn has its message", drop(ev.UserMessageAdded)),
    ("one turn", drop(ev.TurnCompleted)),
    ("turn open", drop(ev.TurnStarted)),
    ("one stop", double(ev.TurnCancelRequested)),
    ("stopped turns end as stopped", both(drop(ev.TurnCancelRequested), drop(ev.ToolStopRequested))),
    ("no start after a stop", move(ev.TurnCancelRequested, ev.ToolExecutionStarted, before_nth=2)),
    ("no start after a stop", move(ev.TurnCancelRequested, ev.ModelRequestStarted, before_nth=2)),
    ("request started once", double(ev.ModelRequestStarted)),
    ("own request", drop(ev.ModelRequestStarted)),
    ("no request outlives its turn", drop(ev.ModelStreamInterrupted)),
    ("text offset", drop(ev.ModelTextDelta)),
    ("text offset", double(ev.ModelTextDelta)),
    ("response is the text that streamed", drop(ev.ModelTextDelta, 1)),
    ("text digest", alter(ev.ModelResponseReceived, text_digest=mat.sha("x"))),
    ("kept length", alter(ev.ModelStreamInterrupted, kept_utf16=2)),
    ("history is valid before a request", drop(ev.ToolExecutionFinished, 1)),
    ("history is valid before a request", without_call("t1.c2")),
    ("call proposed once", double(ev.ToolCallProposed)),
    ("call of the response", alter(ev.ToolCallProposed, call_id="t1.c9")),
    ("arguments digest", alter(ev.ToolCallProposed, arguments_json="{}")),
    ("arguments are an object", alter(ev.ToolCallProposed, arguments_json="[]")),
    ("each call has one end", drop(ev.ToolExecutionFinished, 2)),
    ("call finished once", double(ev.ToolExecutionFinished)),
    ("own tool", alter(ev.ToolExecutionFinished, tool="other")),
    ("what did not run has no result", alter(ev.ToolExecutionFinished, 2, outcome="ok")),
    ("call known", alter(ev.ToolExecutionProgress, call_id="t1.c9")),
    ("judged before it runs", alter(ev.PolicyDecided, 2, call_id="t1.c1")),
    ("runs only when allowed", drop(ev.PolicyDecided, 1)),
    ("runs only when allowed", alter(ev.PolicyDecided, 1, verdict="deny")),
    ("what was judged is what runs", alter(ev.ToolExecutionStarted, arguments_digest=mat.sha("x"))),
    ("call started once", double(ev.ToolExecutionStarted)),
    ("one call at a time", drop(ev.ToolExecutionFinished)),
    ("one call at a time", move(ev.ToolExecutionFinished, ev.ToolExecutionFinished, 0, 1)),
    ("output of what runs", move(ev.ToolExecutionProgress, ev.ToolExecutionStarted)),
    ("output offset", drop(ev.ToolExecutionProgress)),
    ("asked after an ask", alter(ev.PolicyDecided, verdict="allow")),
    ("card shown once", double(ev.ApprovalRequested)),
    ("card resolved once", double(ev.ApprovalResolved)),
    ("card waits", drop(ev.ApprovalRequested)),
    ("card digest", alter(ev.ApprovalResolved, card_digest=mat.sha("x"))),
    ("card's call", alter(ev.ApprovalResolved, call_id="t1.c2")),
    ("allowed with a grant", alter(ev.ApprovalResolved, grant_id=None)),
    ("one call at a time", drop(ev.ApprovalResolved)),
    ("grant issued once", double(ev.GrantIssued)),
    ("grant issued", drop(ev.GrantIssued)),
    ("no grant reused", double(ev.GrantUsed)),
    ("reconciled while unmatched", move(ev.ToolReconciled, ev.ToolExecutionStarted)),
    ("apply started once", double(ev.ChangeApplyStarted)),
    ("one apply", both(double(ev.ChangeApplyStarted), alter(ev.ChangeApplyStarted, 1, apply_id="a9"))),
    ("one request", both(double(ev.ModelRequestStarted), alter(ev.ModelRequestStarted, 1, request_id="t1.r9"))),
    ("no card outlives its call", move(ev.ToolExecutionFinished, ev.ApprovalResolved)),
    (
        "no start after its end",
        both(
            alter(ev.ToolExecutionFinished, outcome="denied"), move(ev.ToolExecutionFinished, ev.ToolExecutionStarted)
        ),
    ),
    ("apply intended", drop(ev.ChangeApplyStarted)),
    ("apply intended", double(ev.ChangeApplied)),
    ("apply's action", alter(ev.ChangeApplied, action="undo")),
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


def refold(state: SessionState, bodies: tuple[EventBody, ...]) -> SessionState:
    for body in bodies:
        state = fold_event(state, body)
    return state


def loses(kind: type[EventBody]) -> Stepper:
    """A machine that decides a fact and does not say so."""

    def faulty(state: SessionState, given: inp.Input) -> Step:
        right = step(state, given)
        return replace(right, events=tuple(body for body in right.events if not isinstance(body, kind)))

    return faulty


def forgets(kind: type[eff.Effect]) -> Stepper:
    """A machine that does not ask for an effect."""

    def faulty(state: SessionState, given: inp.Input) -> Step:
        right = step(state, given)
        return replace(right, effects=tuple(effect for effect in right.effects if not isinstance(effect, kind)))

    return faulty


def deaf_to_stop(state: SessionState, given: inp.Input) -> Step:
    """A machine that goes on after a stop."""
    if state.turn is None or state.turn.cancelled_by is None:
        return step(state, given)
    done = step(replace(state, turn=replace(state.turn, cancelled_by=None)), given)
    return replace(done, state=refold(state, done.events))


def ends_twice(state: SessionState, given: inp.Input) -> Step:
    """A machine that writes the end of a call twice."""
    right = step(state, given)
    bodies = tuple(copy for body in right.events for copy in [body] * (1 + isinstance(body, ev.ToolExecutionFinished)))
    return Step(bodies, right.effects, refold(state, bodies))


def acts_without_intent(state: SessionState, given: inp.Input) -> Step:
    """A machine that runs what policy has not judged."""
    right = step(state, given)
    effects = tuple(eff.RunTool(e.call_id) if isinstance(e, eff.JudgeCall) else e for e in right.effects)
    return replace(right, effects=effects)


def believes_late_words(state: SessionState, given: inp.Input) -> Step:
    """A machine that takes the text of a request that is over."""
    right = step(state, given)
    if not isinstance(given, inp.TextArrived) or right.events or state.turn is None:
        return right
    late = ev.ModelTextDelta(
        turn_id=state.turn.turn_id,
        goal_revision=state.turn.goal_revision,
        request_id=given.request_id,
        offset=0,
        text="late",
    )
    return Step((late,), (), refold(state, (late,)))


def has_a_memory() -> Stepper:
    """A machine whose answer depends on how often it was asked."""
    asked: list[int] = []

    def faulty(state: SessionState, given: inp.Input) -> Step:
        asked.append(1)
        right = step(state, given)
        return replace(right, effects=right.effects * 2) if len(asked) % 2 else right

    return faulty


def runs_again(state: SessionState, given: inp.Input) -> Step:
    """A machine that takes "it was running" for "run it again"."""
    right = step(state, given)
    if isinstance(given, inp.CallReconciled):
        return replace(right, effects=tuple(eff.RunTool(given.call_id) for _ in right.effects[:1]))
    return right


def talks_rubbish(state: SessionState, given: inp.Input) -> Step:
    """A machine that refuses with a code that says nothing."""
    try:
        return step(state, given)
    except TurnError as refused:
        raise TurnError(ErrorCode.INTERNAL, "something went wrong") from refused


def takes_any_answer(state: SessionState, given: inp.Input) -> Step:
    """A machine that says yes to the answer of a card that does not wait."""
    try:
        return step(state, given)
    except TurnError:
        if isinstance(given, inp.ApprovalAnswered):
            return Step((), (), state)
        raise


DEAF_RULES = {
    "no start after a stop",
    "no retry after a stop",
    "no effect without intent",
    "stopped turns end as stopped",
    "a stop reaches what runs",
}
MACHINE_FAULTS: dict[str, tuple[Stepper, set[str]]] = {
    "loses the end of a call": (
        loses(ev.ToolExecutionFinished),
        {"the carried state is the fold", "history is valid before a request", "each call has one end"},
    ),
    "loses a decision": (loses(ev.PolicyDecided), {"runs only when allowed", "asked after an ask"}),
    "loses a delta": (loses(ev.ModelTextDelta), {"the carried state is the fold"}),
    "forgets to judge": (forgets(eff.JudgeCall), {"pending effects are the unfinished ones"}),
    "forgets the model": (forgets(eff.CallModel), {"somebody works on it"}),
    "forgets to run": (forgets(eff.RunTool), {"somebody works on it"}),
    "forgets to stop": (forgets(eff.StopTool), {"a stop reaches what runs"}),
    "forgets to apply": (forgets(eff.ApplyChanges), {"somebody works on it"}),
    "forgets to attach": (forgets(eff.AttachTool), {"somebody works on it"}),
    "deaf to stop": (deaf_to_stop, DEAF_RULES),
    "ends twice": (ends_twice, {"call finished once"}),
    "acts without intent": (acts_without_intent, {"no effect without intent"}),
    "believes late words": (believes_late_words, {"late inputs change nothing"}),
    "talks rubbish": (talks_rubbish, {"typed refusal"}),
    "takes any answer": (takes_any_answer, {"cards are answered once"}),
    "has a memory": (has_a_memory(), {"pure", "performed at most once"}),
    "runs again": (runs_again, {"performed at most once", "no effect without intent"}),
}


@pytest.mark.parametrize("name", MACHINE_FAULTS)
def test_a_fault_in_the_machine_is_caught(name: str) -> None:
    """The harness finds it within a few seeds and names a rule that fits."""
    stepper, rules = MACHINE_FAULTS[name]
    found = next(filter(None, (broken_rule(seed, stepper) for seed in SEEDS)), None)
    assert found is not None, f"not caught under {len(SEEDS)} seeds"
    assert found.rule in rules, found


def broken_rule(seed: int, stepper: Stepper) -> BrokenRuleError | None:
    """What the harness says of a machine under a seed; the seed is named."""
    try:
        Simulation(seed, stepper=stepper, crash_rate=0.1).run(80)
    except BrokenRuleError as broken:
        return broken if f"seed={seed}" in str(broken) else None
    return None


# --- faults of what is kept and of what is projected


def test_a_lost_record_is_caught() -> None:
    """An acknowledged event that a crash takes away is noticed at the reload."""
    run = Simulation(1)
    run.feed(inp.SendMessage("m1", "t1", "hello", queue=False))
    run.ledger.stored.pop()
    with pytest.raises(BrokenRuleError) as caught:
        run.crash("between steps")
    assert caught.value.rule == "a reload gives the same state"


def test_a_changed_record_is_caught() -> None:
    """A payload that was changed after it was stored breaks the chain."""
    run = Simulation(1)
    run.feed(inp.SendMessage("m1", "t1", "hello", queue=False))
    stored = run.ledger.stored[2]
    run.ledger.stored[2] = stored._replace(payload=stored.payload.replace(b"hello", b"jello"))
    with pytest.raises(AssertionError):
        run.checkpoint()


def counts(body: EventBody | None, type_name: str, seq: int) -> tuple[Op, ...]:
    """A projector that appends where it should set: applying twice doubles."""
    ops = project_ops(body, type_name, seq)
    return tuple({**op, "item": f"{op['item']}/{seq}"} if op["op"] == "append" else op for op in ops)


def floats(body: EventBody | None, type_name: str, seq: int) -> tuple[Op, ...]:
    """A projector with a number that clients spell differently."""
    ops = project_ops(body, type_name, seq)
    return tuple({**op, "fields": {**op["fields"], "share": 0.1}} if op["op"] == "upsert" else op for op in ops)


def remembers() -> Projector:
    """A projector that is not a function of the event."""
    calls: list[int] = []

    def faulty(body: EventBody | None, type_name: str, seq: int) -> tuple[Op, ...]:
        calls.append(1)
        ops = project_ops(body, type_name, seq)
        return tuple({**op, "fields": {**op["fields"], "n": len(calls)}} if op["op"] == "upsert" else op for op in ops)

    return faulty


@pytest.mark.parametrize(("projector", "rule"), [(floats, "integers only"), (remembers(), "views converge")])
def test_a_fault_in_the_projection_is_caught(projector: Projector, rule: str) -> None:
    """Views that would differ between two clients are noticed."""
    with pytest.raises(BrokenRuleError) as caught:
        Simulation(3, projector=projector).run(60)
    assert caught.value.rule == rule


def test_text_appended_to_nothing_is_caught() -> None:
    """An append to an item that no event made is refused by the reducer."""
    with pytest.raises(ValueError, match="not a text that is there"):
        Simulation(3, projector=counts).run(60)
