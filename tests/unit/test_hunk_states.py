"""The one machine of hunks, row by row, and the fold that goes by it."""

import itertools

import pytest

from gloveport.protocol.journal.events import ChangeProposed, ChangeWithdrawn, HunkDecided, HunkRecord
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.server.edit.hunk_states import TABLE, HunkFact, HunkState, next_state, shown_state
from gloveport.server.session.fold import fold_event
from gloveport.server.session.fold_hunks import ENDED_KEPT_MAX
from gloveport.server.session.state import SessionState

ROWS = {
    "pending": {"met": "conflicted", "accepted": "accepted", "rejected": "rejected", "replaced": "superseded"},
    "conflicted": {
        "proposed": "pending",
        "parted": "pending",
        "accepted": "accepted",
        "rejected": "rejected",
        "replaced": "superseded",
    },
    "accepted": {"proposed": "pending", "undone": "undone"},
    "rejected": {"proposed": "pending", "undone": "undone"},
    "superseded": {"proposed": "pending"},
    "undone": {"proposed": "pending", "accepted": "accepted", "rejected": "rejected"},
}


@pytest.mark.parametrize(("state", "fact"), list(itertools.product(HunkState, HunkFact)))
def test_every_state_and_every_fact(state: HunkState, fact: HunkFact) -> None:
    """Written down a second time: what is not named leaves the hunk where it is."""
    assert next_state(state, fact).value == ROWS[state.value].get(fact.value, state.value)


def test_the_table_says_nothing_twice_and_every_state_is_reached() -> None:
    """No row but those that matter, and from `pending` every state can come."""
    reached, frontier = {HunkState.pending}, [HunkState.pending]
    while frontier:
        here = frontier.pop()
        for fact in HunkFact:
            if (there := next_state(here, fact)) not in reached:
                reached.add(there)
                frontier.append(there)
    assert reached == set(HunkState)
    assert {state for (_, _), state in TABLE.items()} == set(HunkState)
    assert (shown_state(meets=True), shown_state(meets=False)) == (HunkState.conflicted, HunkState.pending)


def hunk(number: int) -> HunkRecord:
    """A hunk of a name of its own."""
    return HunkRecord(
        hunk_id=f"hunk-{number}", digest=f"{number:064x}", old_start=number, old_count=1, new_start=number, new_count=1
    )


def proposed(*numbers: int, name: str = "change-1") -> ChangeProposed:
    """A proposal with these hunks."""
    return ChangeProposed(
        turn_id="t", goal_revision=1, call_id="c", change_id=name, path="a.txt", renamed_from=None, kind="modify",
        base_hash="0" * 64, result_hash="1" * 64, base_mode=0o644, result_mode=0o644, hunks=tuple(map(hunk, numbers)),
        digest="2" * 64, runs_by_itself=None, label=LabelRecord(integrity=0, readers=None, provenance=("user",)),
    )  # fmt: skip


def decided(decision: str, *numbers: int) -> HunkDecided:
    """A decision on these hunks."""
    ids, digests = zip(*((hunk(number).hunk_id, hunk(number).digest) for number in numbers), strict=True)
    return HunkDecided.model_validate(
        {"change_id": "change-1", "path": "a.txt", "hunk_ids": ids, "digests": digests, "decision": decision, "by": "u"}
    )


def withdrawn(reason: str) -> ChangeWithdrawn:
    """The end of the proposal."""
    return ChangeWithdrawn.model_validate({"change_id": "change-1", "path": "a.txt", "reason": reason})


def ended(*bodies: ChangeProposed | HunkDecided | ChangeWithdrawn) -> dict[int, str]:
    """Where each hunk ended that is pending no more."""
    state = SessionState()
    for body in bodies:
        state = fold_event(state, body)
        pending = {one.digest for change in state.changes.values() for one in change.hunks}
        if not isinstance(body, HunkDecided):  # what it left is told in the same append
            assert not pending & state.ended_hunks.keys()
    return {int(digest, 16): one.state.value for digest, one in state.ended_hunks.items()}


def test_a_later_edit_supersedes_what_waited_and_nothing_else() -> None:
    """What was accepted stays accepted; what was taken back by the agent is superseded too."""
    assert ended(proposed(1, 2, 3), decided("accepted", 1), proposed(2, 4)) == {1: "accepted", 3: "superseded"}
    assert ended(proposed(1), withdrawn("reverted")) == {1: "superseded"}
    assert ended(proposed(1), withdrawn("superseded")) == {1: "superseded"}
    assert ended(proposed(1), proposed(2), proposed(1)) == {2: "superseded"}


def test_decisions_and_what_takes_them_back() -> None:
    """Accept, undo, redo; a hunk that is proposed again waits again; other ends stay."""
    begun = (proposed(1, 2), decided("accepted", 1), proposed(2))
    assert ended(*begun) == {1: "accepted"}
    assert ended(*begun, decided("undone", 1)) == {1: "undone"}
    assert ended(*begun, decided("undone", 1), proposed(1, 2)) == {}
    assert ended(*begun, decided("undone", 1), decided("accepted", 1)) == {1: "accepted"}
    assert ended(proposed(1, 2), withdrawn("rejected")) == {1: "rejected", 2: "rejected"}
    assert ended(proposed(1, 2), decided("accepted", 1), withdrawn("rejected")) == {1: "accepted", 2: "rejected"}


def test_the_first_ended_go_first() -> None:
    """However many ended, so many are known, the last ones."""
    more = range(1, ENDED_KEPT_MAX + 4)
    assert list(ended(proposed(*more), withdrawn("accepted"))) == list(more)[3:]
