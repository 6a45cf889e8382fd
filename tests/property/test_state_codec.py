"""A state that was kept as bytes comes back exactly, whatever is in it."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NewType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json, to_json
from tests.kit.simulation.driver import Simulation

from gloveport.server.session.codec import Codec, codec_of
from gloveport.server.session.fold import fold_event
from gloveport.server.session.series import Series
from gloveport.server.session.state import AssistantEntry, CallStage, Queued, ResultEntry, SessionState, UserEntry


def through(codec: Codec, value: Any) -> Any:
    """The value after a journey through bytes."""
    return codec.decode(from_json(to_json(codec.encode(value))))


def kinds(value: Any) -> Any:
    """The types of a value and of all that it holds: equal values of other types are not the same."""
    if dataclasses.is_dataclass(value):
        return type(value), [kinds(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return type(value), [(kinds(key), kinds(part)) for key, part in value.items()]
    if isinstance(value, tuple | Series):
        return type(value), [kinds(part) for part in value]
    return type(value)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(1, 10_000))
def test_every_state_of_a_simulated_history_comes_back(seed: int) -> None:
    """At every seq of histories with crashes, stops, approvals, changes."""
    state, codec = SessionState(), codec_of(SessionState)
    for entry in Simulation(seed, crash_rate=0.05).run(40).ledger.read():
        state = fold_event(state, entry.body)
        back = through(codec, state)
        assert back == state
        assert kinds(back) == kinds(state)


Name = NewType("Name", str)


@dataclasses.dataclass(frozen=True, slots=True)
class Odd:
    """Every form that a field may take."""

    pair: tuple[int, str]
    rows: tuple[tuple[str, ...], ...]
    stage: CallStage | None
    names: frozenset[str]
    table: Mapping[str, tuple[Queued, ...]]
    entries: tuple[UserEntry | AssistantEntry | ResultEntry, ...]
    number: float | int | str | None
    name: Name
    counts: dict[str, tuple[int, ...]]
    inner: "SessionState | Queued | None" = None


@pytest.mark.parametrize("inner", [None, SessionState(title="t"), Queued("m", "t", "x")])
def test_every_form_of_field_comes_back(inner: SessionState | Queued | None) -> None:
    """Also those that the state does not use yet."""
    odd = Odd(
        pair=(1, "a"),
        rows=(("a", "😀\n"), ()),
        stage=CallStage.RUNNING,
        names=frozenset({"x", "y"}),
        table=MappingProxyType({"b": (Queued("m", "t", ""),), "a": ()}),
        entries=(UserEntry("u"), AssistantEntry("a", interrupted=True), ResultEntry("c", "p", "", True)),
        number=0.1,
        name=Name("n"),
        counts={"b": (1, 2), "a": ()},
        inner=inner,
    )
    back = through(codec_of(Odd), odd)
    assert back == odd
    assert kinds(back) == kinds(odd)
    assert list(back.table) == ["b", "a"]


@dataclasses.dataclass(frozen=True)
class Vague:
    """What could be anything cannot come back exactly."""

    thing: Any


def test_what_cannot_be_kept_exactly_is_refused_at_once() -> None:
    """When the codec is made, not when a session is opened."""
    with pytest.raises(TypeError, match="cannot be kept"):
        codec_of(Vague)


@pytest.mark.parametrize("plain", [[], [1], None, "x", {}, [None] * 400])
def test_another_shape_is_refused(plain: Any) -> None:
    """A snapshot of other fields gives an error, not a state."""
    with pytest.raises((ValueError, TypeError, KeyError, IndexError)):
        codec_of(SessionState).decode(plain)
