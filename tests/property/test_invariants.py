"""What a log must hold: no machine's history contradicts itself, and each planted contradiction is found."""

from collections.abc import Callable

import pytest
from tests.kit.simulation.driver import Simulation
from tests.kit.simulation.recordings import HISTORIES
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal import events as ev
from gloveport.server.session.fold import fold_event
from gloveport.server.session.invariants import contradiction, lost_results
from gloveport.server.session.pairing import orphans
from gloveport.server.session.state import AssistantEntry, CallEntry, ResultEntry, SessionState, UserEntry
from gloveport.server.session.views.context import provider_history
from gloveport.server.turn import inputs as inp

Edit = Callable[[list[ev.EventBody]], list[ev.EventBody]]


def faults(bodies: list[ev.EventBody]) -> list[str]:
    """Every contradiction of a log."""
    state, found = SessionState(), []
    for body in bodies:
        fault = contradiction(state, body)
        found += [fault] if fault else []
        state = fold_event(state, body)
    return found


def log_of(simulation: Simulation) -> list[ev.EventBody]:
    """All events of a simulated session."""
    return [entry.body for entry in simulation.ledger.read() if entry.body is not None]


@pytest.mark.parametrize("seed", range(4000, 4008))
def test_no_history_of_the_machine_contradicts_itself(seed: int) -> None:
    """Crashes, losses, stops and late inputs included."""
    simulation = Simulation(seed, crash_rate=0.1).run(200)
    assert faults(log_of(simulation)) == []
    assert orphans(simulation.state.history) == ()
    assert lost_results(simulation.state) == ()


@pytest.mark.parametrize("name", [name for name, _ in HISTORIES])
def test_no_recorded_history_contradicts_itself(name: str) -> None:
    """What releases wrote opens as it did."""
    assert faults(log_of(dict(HISTORIES)[name]())) == []


def whole() -> list[ev.EventBody]:
    """A log with a question, a call, its result, and an end; then a second turn that was stopped."""
    story = Story().user_says().model_answers(call()).policy_says("ask").user_answers("once")
    story.policy_says("allow", grant_id="g1", left=0).tool_ends().model_answers()
    story.user_says("and that").model_answers(call()).policy_says("allow").tool_ends("lost")
    story.when(inp.TellOutcome("t2.c1", "done", "user"))
    return log_of(story.user_says("more").user_stops().daemon_restarts())


def without(kind: type[ev.EventBody]) -> Edit:
    """The log with the first event of a type gone."""

    def edit(bodies: list[ev.EventBody]) -> list[ev.EventBody]:
        at = next(index for index, body in enumerate(bodies) if isinstance(body, kind))
        return [*bodies[:at], *bodies[at + 1 :]]

    return edit


def twice(kind: type[ev.EventBody]) -> Edit:
    """The log with the first event of a type doubled."""

    def edit(bodies: list[ev.EventBody]) -> list[ev.EventBody]:
        at = next(index for index, body in enumerate(bodies) if isinstance(body, kind))
        return [*bodies[: at + 1], *bodies[at:]]

    return edit


def other_digest(bodies: list[ev.EventBody]) -> list[ev.EventBody]:
    """The call begins with other arguments than were proposed."""
    return [
        body.model_copy(update={"arguments_digest": "0" * 64}) if isinstance(body, ev.ToolExecutionStarted) else body
        for body in bodies
    ]


def swapped(bodies: list[ev.EventBody]) -> list[ev.EventBody]:
    """The result stands before the intent."""
    start = next(index for index, body in enumerate(bodies) if isinstance(body, ev.ToolExecutionStarted))
    end = next(index for index, body in enumerate(bodies) if isinstance(body, ev.ToolExecutionFinished))
    return [*bodies[:start], bodies[end], *bodies[start:end], *bodies[end + 1 :]]


PLANTED: dict[str, Edit] = {
    "a turn without its begin": without(ev.TurnStarted),
    "a turn without its end": without(ev.TurnCompleted),
    "a turn that ended twice": twice(ev.TurnCompleted),
    "a turn that was stopped twice over": twice(ev.TurnCancelled),
    "a goal that does not grow": twice(ev.GoalRevised),
    "a request beside another": twice(ev.ModelRequestStarted),
    "an answer without its request": without(ev.ModelRequestStarted),
    "an answer that came twice": twice(ev.ModelResponseReceived),
    "an interruption that came twice": twice(ev.ModelStreamInterrupted),
    "a call that was proposed twice": twice(ev.ToolCallProposed),
    "a call without its proposal": without(ev.ToolCallProposed),
    "a call that began twice": twice(ev.ToolExecutionStarted),
    "a call without its end": without(ev.ToolExecutionFinished),
    "a call that ended twice": twice(ev.ToolExecutionFinished),
    "a call with other arguments": other_digest,
    "a card that was shown twice": twice(ev.ApprovalRequested),
    "an answer to no card": without(ev.ApprovalRequested),
    "a card that was answered twice": twice(ev.ApprovalResolved),
    "an outcome that was told twice": twice(ev.OutcomeTold),
    "a result before its call": swapped,
}


def test_the_whole_log_holds() -> None:
    """The control of what follows."""
    assert faults(whole()) == []


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_contradiction_is_found(name: str) -> None:
    """Truncated, doubled and reordered logs are told apart from whole ones."""
    assert faults(PLANTED[name](whole()))


def test_calls_of_every_answer_that_have_no_result_are_found() -> None:
    """In the order of their answers; a result after the next message is none."""
    first, second = (AssistantEntry("", (CallEntry(f"c{n}", f"p{n}", "t", "{}"),)) for n in (1, 2))
    late = ResultEntry("c1", "p1", "late", is_error=False)
    found = orphans((UserEntry("x"), first, UserEntry("y"), late, second, UserEntry("z")))
    assert [call.call_id for call in found] == ["c1", "c2"]


def test_f05_a_history_is_paired_whatever_its_log_lost() -> None:
    """A call without a result gets one right after its answer; a result without its call goes; the rest stays. F05"""
    log = whole()
    state = SessionState()
    for body in without(ev.ToolExecutionFinished)(log):
        state = fold_event(state, body)
    (orphan,) = orphans(state.history)
    assert lost_results(state) == (orphan.call_id,)
    mended = provider_history(state.history)
    at = next(index for index, entry in enumerate(mended) if isinstance(entry, AssistantEntry) and entry.calls)
    told = mended[at + 1]
    assert isinstance(told, ResultEntry)
    assert told.call_id == orphan.call_id
    assert told.is_error
    assert "unknown" in told.text
    stray = ResultEntry("gone", "p9", "done", is_error=False)
    assert provider_history((UserEntry("x"), stray)) == (UserEntry("x"),)
    assert provider_history(mended) == mended
