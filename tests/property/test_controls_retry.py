"""The checks of retries are checked: a planted fault of each kind is caught by the rule that names it."""

from dataclasses import replace

import pytest
from tests.kit.simulation.driver import Simulation, Stepper
from tests.kit.simulation.faults import Fault, Log, alter, both, double, drop, move, read
from tests.kit.simulation.rules import BrokenRuleError
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal import events as ev
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import SessionState
from gloveport.server.turn import effects as eff
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import Step
from gloveport.server.turn.machine import step

SEEDS = range(140)


def history() -> Log:
    """A retry, a pause of the breaker, a compaction, another that gives nothing; a stop in a pause."""
    story = Story().user_says().model_streams("half").model_breaks("rate", pause_us=1).pause_ends()
    story.model_breaks("paused", pause_us=1).pause_ends()
    story.model_answers(call()).policy_says("allow").tool_ends("ok", "x" * 500)
    story.model_breaks("context_overflow").context_shrinks("t1.c1").model_breaks("context_overflow").shrinking_fails()
    story.user_says().model_breaks("server").user_stops()
    return [entry.body for entry in story.ends().ledger.read()]


LOG_FAULTS: list[tuple[str, Fault]] = [
    ("no retry after a stop", move(ev.TurnCancelRequested, ev.RetryScheduled, 0, 2)),
    ("one pause", double(ev.RetryScheduled)),
    ("one pause", both(double(ev.CompactionStarted), alter(ev.CompactionStarted, 1, compaction_id="t1.k9"))),
    ("a retry follows a failure", alter(ev.RetryScheduled, request_id="t1.r9")),
    ("a retry follows a failure", alter(ev.ContextOverflowed, request_id="t1.r9")),
    ("some failures are never tried again", alter(ev.RetryScheduled, error_class="auth")),
    ("attempts are counted", alter(ev.RetryScheduled, attempt=3)),
    ("attempts are counted", alter(ev.RetryScheduled, 1, attempt=3)),
    ("attempts are counted", alter(ev.RetryStarted, attempt=1)),
    ("attempts are counted", alter(ev.RetryScheduled, 1, error_class="rate")),
    ("a retry follows its pause", drop(ev.RetryScheduled, 0)),
    ("a retry follows its pause", double(ev.RetryStarted)),
    ("a retry follows its pause", alter(ev.RetryStarted, retry_of="t1.r9")),
    ("no request in a pause", drop(ev.RetryStarted)),
    ("no request in a compaction", drop(ev.ContextCompacted)),
    ("a retry is a request", alter(ev.RetryStarted, request_id="t1.r9")),
    ("overflows are counted over turns", alter(ev.ContextOverflowed, 1, count=1)),
    ("overflows are counted over turns", drop(ev.ContextOverflowed)),
    ("compaction once", alter(ev.CompactionStarted, 1, compaction_id="t1.k1")),
    ("a compaction makes it smaller", alter(ev.ContextCompacted, chars_after=100)),
    ("only results are shortened", alter(ev.ContextCompacted, results=())),
    (
        "only results are shortened",
        alter(ev.ContextCompacted, results=(ev.ShortenedResult(call_id="t1.c9", kept_chars=1),)),
    ),
    ("a compaction ends once", double(ev.ContextCompacted)),
    ("a compaction ends once", alter(ev.CompactionDiscarded, compaction_id="t1.k1")),
    ("own turn", alter(ev.RetryScheduled, turn_id="t9")),
    ("own revision", both(alter(ev.RetryScheduled, goal_revision=7), alter(ev.RetryStarted, goal_revision=7))),
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


def never_waits(state: SessionState, given: inp.Input) -> Step:
    """A machine that forgets its timer."""
    right = step(state, given)
    return replace(right, effects=tuple(one for one in right.effects if not isinstance(one, eff.WaitRetry)))


def never_drops(state: SessionState, given: inp.Input) -> Step:
    """A machine that leaves the timer of a stopped turn running."""
    right = step(state, given)
    return replace(right, effects=tuple(one for one in right.effects if not isinstance(one, eff.DropWait)))


def never_shortens(state: SessionState, given: inp.Input) -> Step:
    """A machine that begins a compaction and asks nobody for it."""
    right = step(state, given)
    return replace(right, effects=tuple(one for one in right.effects if not isinstance(one, eff.ShrinkContext)))


def tries_everything_again(state: SessionState, given: inp.Input) -> Step:
    """A machine that takes every failure for one that passes."""
    right = step(state, given)
    if not isinstance(given, inp.RequestFailed) or given.trouble is None or given.trouble.error_class != "auth":
        return right
    again = step(state, replace(given, trouble=replace(given.trouble, error_class="server")))
    bodies = tuple(
        body.model_copy(update={"error_class": "auth"}) if isinstance(body, ev.RetryScheduled) else body
        for body in again.events
    )
    return Step(bodies, again.effects, refold(state, bodies))


def forgets_the_count(state: SessionState, given: inp.Input) -> Step:
    """A machine whose count of overflows begins anew with each turn's request."""
    right = step(state, given)
    bodies = tuple(
        body.model_copy(update={"count": 1}) if isinstance(body, ev.ContextOverflowed) else body
        for body in right.events
    )
    return Step(bodies, right.effects, refold(state, bodies))


MACHINE_FAULTS: dict[str, tuple[Stepper, set[str]]] = {
    "never waits": (never_waits, {"somebody works on it"}),
    "never drops": (never_drops, {"somebody works on it", "late inputs change nothing"}),
    "never shortens": (never_shortens, {"somebody works on it"}),
    "tries everything again": (tries_everything_again, {"some failures are never tried again"}),
    "forgets the count": (forgets_the_count, {"overflows are counted over turns"}),
}


def broken_rule(seed: int, stepper: Stepper) -> BrokenRuleError | None:
    """What the harness says of a machine under a seed."""
    try:
        Simulation(seed, stepper=stepper, crash_rate=0.1).run(160)
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
