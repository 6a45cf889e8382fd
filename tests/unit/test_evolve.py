"""A changed copy of a frozen state equals the one that the standard library makes."""

import dataclasses
from typing import Any

import pytest
from tests.kit.simulation.story import Story, call

from gloveport.server.session.evolve import evolve
from gloveport.server.session.state import USER_LABEL, Call, Request, SessionState, Turn


def samples() -> list[Any]:
    """One of each class, taken from a session at work."""
    story = Story().user_says().model_answers(call()).policy_says("allow").tool_prints("x")
    return [story.state, story.state.turn, story.running, Request("r1", "p", "text", 4), SessionState(), Turn("t", 1)]


@pytest.mark.parametrize("value", samples(), ids=lambda value: type(value).__name__)
def test_every_field_is_kept_or_changed(value: Any) -> None:
    """Field by field; the original stays as it was."""
    before = dataclasses.replace(value)
    assert evolve(value) == value
    assert evolve(value) is not value
    for spec in dataclasses.fields(value):
        changed = evolve(value, **{spec.name: "other"})
        assert changed == dataclasses.replace(value, **{spec.name: "other"})
        assert value == before


def test_a_name_that_is_no_field_is_refused() -> None:
    """A slip of the pen in the fold shows at once."""
    with pytest.raises(KeyError):
        evolve(Turn("t1", 1), canceled_by="user")


def test_the_copy_is_frozen_as_well() -> None:
    """Nobody changes a state in place."""
    copy = evolve(Call("c1", "p1", "read_file", "{}", "d", 1, USER_LABEL), asks=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        copy.asks = 3  # type: ignore[misc] # the refusal is what is tested
    assert isinstance(copy, Call)
