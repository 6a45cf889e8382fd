"""Accept, reject and undo: intent before the first byte, outcome after the last one."""

from typing import Literal

import pytest
from tests.kit.simulation import materials as mat
from tests.kit.simulation.story import Story, call

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.session.fold import APPLIED_KEPT_MAX
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import TurnError
from gloveport.server.turn.effects import ApplyChanges
from gloveport.server.turn.machine import step

Action = Literal["accept", "reject", "undo"]


def proposed(*, running: bool) -> Story:
    """A story with a pending change, its turn over or still running."""
    story = Story().user_says().model_answers(call("edit_file")).policy_says("allow")
    story.tool_ends("ok", "edited", mat.change("t1", 1, "t1.c1", 1))
    return story if running else story.model_answers()


def ask(action: Action, apply_id: str = "a1") -> inp.ApplyRequested:
    """A planned decision."""
    return inp.ApplyRequested(apply_id, action, {"steps": [{"path": "dir/a1.py"}]}, "user")


@pytest.mark.parametrize("running", [False, True], ids=["idle", "running"])
@pytest.mark.parametrize("action", ["accept", "reject", "undo"])
def test_decided(action: Action, running: bool) -> None:
    """The decision is intended, performed, then written with what it settled; a running turn goes on undisturbed."""
    story = proposed(running=running)
    turn = story.state.turn
    story.when(ask(action))
    assert story.news == ["ChangeApplyStarted"]
    assert story.effects == (ApplyChanges("a1"),)
    assert story.item("apply/a1")["state"] == "writing"
    settled = (
        ev.HunkDecided(
            change_id="ch1", path="dir/a1.py", hunk_ids=("h1",), digests=(mat.sha("h"),), decision="accepted", by="user"
        ),
        ev.ChangeWithdrawn(change_id="ch1", path="dir/a1.py", reason="accepted"),
    )
    story.when(inp.ApplyDone("a1", ("dir/a1.py",), {"files": []}, settled))
    assert story.news == ["ChangeApplied", "HunkDecided", "ChangeWithdrawn"]
    assert story.effects == ()
    assert (story.state.changes, story.state.applying, story.state.turn) == ({}, {}, turn)
    assert story.state.applied[-1].action == action
    assert story.state.applied[-1].by == "user"
    assert story.item("apply/a1")["state"] == "done"
    assert story.item("change/ch1")["state"] == "accepted"


def test_refused() -> None:
    """Nothing was written: the proposal is pending as before, or as the disk shows it now."""
    story = proposed(running=False).when(ask("accept"))
    now = mat.change("t1", 1, "t1.c1", 4)
    story.when(inp.ApplyRefused("a1", ErrorCode.CHANGE_CONFLICT, "the file changed", ("dir/a1.py",), (now,)))
    assert story.news == ["ChangeRefused", "ChangeProposed"]
    assert (story.state.applying, story.state.applied) == ({}, ())
    assert story.state.changes["ch1"] == now
    assert story.item("apply/a1")["code"] == "change.conflict"
    story.ends()


def test_one_at_a_time() -> None:
    """A second decision waits its turn; the first can still be finished."""
    story = proposed(running=False).when(ask("accept"))
    with pytest.raises(TurnError) as refused:
        step(story.state, ask("reject", "a2"))
    assert refused.value.code is ErrorCode.TURN_BUSY
    story.when(inp.ApplyDone("a1", ("dir/a1.py",), {}, ()))
    assert story.when(ask("undo", "a2")).effects == (ApplyChanges("a2"),)


def test_late_outcomes_change_nothing() -> None:
    """An outcome of a decision that is over, or that nobody intended, is not written."""
    story = proposed(running=False)
    for given in (inp.ApplyDone("a1", (), {}, ()), inp.ApplyRefused("a1", "x", "x", ())):
        assert story.when(given).news == []


def test_a_stop_does_not_touch_a_decision() -> None:
    """What the user decided about changes is finished although the turn is stopped."""
    story = proposed(running=True).when(ask("accept")).user_stops().model_fails()
    assert list(story.state.applying) == ["a1"]
    story.when(inp.ApplyDone("a1", (), {}, ()))
    story.ends()


def test_the_record_of_decisions_is_bounded() -> None:
    """The state keeps the last decisions; the log keeps all."""
    story = Story()
    for number in range(APPLIED_KEPT_MAX + 3):
        story.when(ask("accept", f"a{number}")).when(inp.ApplyDone(f"a{number}", (), {}, ()))
    assert len(story.state.applied) == APPLIED_KEPT_MAX
    assert story.state.applied[0].apply_id == "a3"
    assert len(story.facts(ev.ChangeApplied)) == APPLIED_KEPT_MAX + 3
