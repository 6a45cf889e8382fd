"""The fold and the projection are total, and labels only rise."""

from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.simulation.driver import Simulation
from tests.kit.simulation.recordings import known_bodies

from gloveport.protocol.journal.events import (
    REGISTRY,
    EventBody,
    GrantIssued,
    OpenCall,
    PlanUpdated,
    TextErased,
    decode_body,
)
from gloveport.protocol.journal.events.base import LabelRecord, storable_body
from gloveport.protocol.journal.events.tool import PlanItem
from gloveport.server.engine.erasing import ERASABLE
from gloveport.server.session.fold import fold_event
from gloveport.server.session.fold_labels import join_labels
from gloveport.server.session.fold_steering import goals_with
from gloveport.server.session.leaving_out import ACTING, OF_A_MESSAGE, choose
from gloveport.server.session.series import Series
from gloveport.server.session.state import USER_LABEL, ResultEntry, SessionState
from gloveport.server.session.views.context import INTERRUPTED_TEXT, context_faults, provider_history
from gloveport.server.session.views.ops import project_ops

# They change no decision of the machine, so the state does not hold them.
NOT_FOLDED = {
    "PolicyDecided", "TestRunFinished", "SnapshotTaken", "ToolReconciled", "RecoverySummarised",
    "DaemonStarted", "WorkspaceTrusted", "EditsTaken", "ResultSuperseded", "DriftDetected", "BreakerOpened",
    "BreakerClosed", "SessionDeleted", "EgressRecorded", "ContentLabelled", "InjectionSuspected",
}  # fmt: skip
# They belong to other streams, carry an id that no client shows, or are followed by what is shown.
NOT_SHOWN = {
    "ModelRequestAccepted", "DaemonStarted", "WorkspaceTrusted", "ContextOverflowed", "BreakerOpened", "BreakerClosed",
    "SessionDeleted", "ContentLabelled", "SpendReserved", "UsageEstimated",
}  # fmt: skip
NAMES = st.sampled_from(["a", "b", "c"])
LABELS = st.builds(
    LabelRecord,
    integrity=st.integers(0, 2),
    readers=st.none() | st.sets(NAMES).map(lambda names: tuple(sorted(names))),
    provenance=st.sets(NAMES).map(lambda names: tuple(sorted(names))),
)


RECORDED = known_bodies()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.none() | st.sampled_from(RECORDED), max_size=40))
def test_no_log_is_refused(bodies: list[EventBody | None]) -> None:
    """What is written has happened: any order, any repetition, any gap folds, and folds alike again."""
    first, again = SessionState(), SessionState()
    for seq, body in enumerate(bodies, 1):
        first = fold_event(first, body)
        project_ops(body, "Unknown", seq)
    for body in bodies:
        again = fold_event(again, body)
    assert first == again
    assert first.unknown_events == bodies.count(None)
    assert first.read_only == (None in bodies)


def test_every_event_is_folded_and_shown_or_said_not_to_be() -> None:
    """A new event type has to be placed: nothing is overlooked by the fold or the views."""
    changed, shown = set(), set()
    for seed in range(31, 47):
        before = SessionState()
        for entry in Simulation(seed, crash_rate=0.05).run(200).ledger.read():
            after = fold_event(before, entry.body)
            if after is not before:
                changed.add(entry.type)
            if project_ops(entry.body, entry.type, entry.seq):
                shown.add(entry.type)
            before = after
    assert set(REGISTRY) - changed == NOT_FOLDED
    assert set(REGISTRY) - shown == NOT_SHOWN


def test_an_operation_names_its_item_and_nothing_else_than_it_must() -> None:
    """The shape that every reducer relies on."""
    shapes: dict[str, dict[str, type]] = {
        "upsert": {"op": str, "item": str, "kind": str, "fields": dict},
        "append": {"op": str, "item": str, "field": str, "offset": int, "text": str},
    }
    for seq, body in enumerate(RECORDED, 1):
        for op in project_ops(body, type(body).__name__, seq):
            shape = shapes[op["op"]]
            assert {name: type(value) for name, value in op.items()} == shape


@settings(deadline=None)
@given(LABELS, LABELS, LABELS)
def test_labels_only_rise(one: LabelRecord, two: LabelRecord, three: LabelRecord) -> None:
    """A join is at least as strict as either side, whatever the order and however often."""
    both = join_labels(one, two)
    assert both == join_labels(two, one)
    assert join_labels(both, three) == join_labels(one, join_labels(two, three))
    assert join_labels(one, one) == one
    for side in (one, two):
        assert both.integrity >= side.integrity
        assert set(both.provenance) >= set(side.provenance)
        assert side.readers is None or (both.readers is not None and set(both.readers) <= set(side.readers))
    assert (both.readers is None) == (one.readers is None and two.readers is None)


def test_a_session_takes_the_label_of_what_it_read() -> None:
    """Messages and results raise the session's label; nothing lowers it."""
    run = Simulation(32, crash_rate=0.0).run(300)
    state, last = SessionState(), USER_LABEL
    for entry in run.ledger.read():
        state = fold_event(state, entry.body)
        assert join_labels(last, state.label) == state.label
        last = state.label
    assert last.integrity == 2
    assert last.readers is not None


@settings(deadline=None)
@given(st.recursive(st.text(st.characters(), max_size=3) | st.integers(-3, 3), lambda v: st.lists(v, max_size=2)))
def test_what_is_stored_can_be_stored(value: Any) -> None:
    """Lone surrogates anywhere in a body are replaced; a clean body is the very same object."""
    body = REGISTRY["GrantIssued"].model_construct(grant_id="g\ud800", scope="once", sentence="s", grant={"v": value})
    kept = storable_body(body)
    again = decode_body(type(kept), kept.model_dump_json().encode())
    assert again == kept
    assert storable_body(kept) is kept


@pytest.mark.parametrize("name", sorted(NOT_FOLDED))
def test_what_is_not_folded_leaves_the_state_alone(name: str) -> None:
    """The very same state comes back."""
    state = SessionState()
    for body in (body for body in RECORDED if type(body).__name__ == name):
        assert fold_event(state, body) is state


def test_a_supplement_belongs_to_the_last_goal_alone() -> None:
    """Goals before it stay; a question is none; without a goal it is one."""
    one = Series(("a",))
    assert goals_with(Series(("a", "b", "c")), "d", "supplement") == ("a", "b", "c\nd")
    assert goals_with(one, "how?", "ask") == ("a",)
    assert goals_with(Series(), "d", "supplement") == ("d",)
    assert goals_with(one, "d", "replace") == goals_with(one, "d", None) == ("a", "d")


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 3), st.sampled_from((0.02, 0.1, 0.5, 1.0)), st.randoms(use_true_random=False))
def test_what_acts_is_the_same_without_what_was_erased(seed: int, share: float, rng: Random) -> None:
    """Whatever is erased of a session at rest: nothing comes back, is let through, or is forgotten that limits it."""
    bodies = _history(seed)
    wanted = {seq for seq, body in bodies.items() if type(body).__name__ in ERASABLE and rng.random() < share}
    choice = choose(bodies, wanted)
    assert wanted <= {*choice.seqs, *choice.kept}
    whole, left = SessionState(), SessionState()
    for seq, body in bodies.items():
        whole = fold_event(whole, body)
        left = left if seq in choice.seqs else fold_event(left, body)
    gone = {body.message_id for seq in choice.seqs if isinstance(body := bodies[seq], OF_A_MESSAGE)}
    ended = {body.grant_id for seq in choice.seqs if isinstance(body := bodies[seq], GrantIssued)}
    state = whole
    fact = TextErased(
        erase_id="e", events=1, outputs=0, label=state.label, by="user", calls=choice.calls,
        unknowns=tuple(OpenCall(call_id=one.call_id, tool=one.tool) for one in state.unknowns),
        overflows=state.overflows,
    )  # fmt: skip
    whole, left = fold_event(whole, fact), fold_event(left, fact)
    assert left.queue == tuple(one for one in whole.queue if one.message_id not in gone)
    assert left.steering == tuple(one for one in whole.steering if one.message_id not in gone)
    assert dict(left.grants) == {name: one for name, one in whole.grants.items() if name not in ended}
    kept = {"label", "unknowns", "overflows", "unanswered_look"}
    for name in set(ACTING).union(kept) - {"queue", "steering", "grants", "grant_uses"}:
        assert getattr(left, name) == getattr(whole, name), name
    assert not gone & {body.message_id for seq, body in bodies.items() if seq not in choice.seqs
                       and isinstance(body, OF_A_MESSAGE)}  # fmt: skip
    assert left.plan in (whole.plan, ()), "no older plan is shown as today's"
    assert context_faults(provider_history(left.history)) == ()
    assert _told_as_unknown(left) <= _told_as_unknown(whole)


def test_with_the_newest_plan_the_older_ones_go() -> None:
    """Else one that was given up would be shown as today's; an older one alone leaves the newest where it is."""
    plans = {
        seq: PlanUpdated(
            turn_id="t1", goal_revision=1, items=(PlanItem(title=f"{seq}", state="pending", goal_revision=1),)
        )
        for seq in (3, 7, 9)
    }
    assert choose(plans, {9}).seqs == (3, 7, 9)
    assert choose(plans, {3, 9}).seqs == (3, 7, 9)
    assert choose(plans, {7}).seqs == (7,)


def _told_as_unknown(state: SessionState) -> set[str]:
    told = provider_history(state.history)
    return {one.call_id for one in told if isinstance(one, ResultEntry) and one.text == INTERRUPTED_TEXT}


@cache
def _history(seed: int) -> dict[int, EventBody]:
    """A history of the simulation, brought to rest."""
    ledger = Simulation(seed, crash_rate=0.03).run(150).ledger
    return {entry.seq: entry.body for entry in ledger.read()}
