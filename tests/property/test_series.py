"""A series is to its readers what a tuple of the same values is, however it came to be."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bench.bench_kernel import one_turn

from gloveport.server.session.fold import fold_event
from gloveport.server.session.series import PART_ITEMS, Series
from gloveport.server.session.state import Entry, SessionState, UserEntry

EDGES = (0, 1, PART_ITEMS - 1, PART_ITEMS, PART_ITEMS + 1, 2 * PART_ITEMS, 5 * PART_ITEMS + 3)
INDEXES = st.none() | st.integers(-400, 400)
SLICES = st.builds(slice, INDEXES, INDEXES, st.none() | st.sampled_from([1, 2, -1, -3]))
LENGTHS = st.sampled_from(EDGES) | st.integers(0, 300)


def grown(values: Sequence[int], made: int) -> Series[int]:
    """The first `made` values at once, the others one by one."""
    series = Series(values[:made])
    for value in values[made:]:
        series = series.plus(value)
    return series


@pytest.mark.parametrize("length", EDGES)
@pytest.mark.parametrize("made", EDGES)
def test_made_at_once_or_grown_is_the_same(length: int, made: int) -> None:
    """At the edges of parts, where the form could differ."""
    values = tuple(range(length))
    series = grown(values, min(made, length))
    assert series == Series(values)
    assert series == values
    assert values == series
    assert hash(series) == hash(Series(values)) == hash(values)
    assert (tuple(series), len(series), tuple(reversed(series))) == (values, length, values[::-1])
    assert [series[index] for index in range(-length, length)] == [values[index] for index in range(-length, length)]


@settings(deadline=None)
@given(length=LENGTHS, made=LENGTHS, wanted=SLICES)
def test_any_slice_is_that_of_the_tuple(length: int, made: int, wanted: slice) -> None:
    """Whatever its bounds and its step."""
    values = tuple(range(length))
    cut = grown(values, min(made, length))[wanted]
    assert cut == values[wanted]
    assert type(cut) is tuple


@settings(deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=200), length=LENGTHS)
def test_what_was_made_never_changes(steps: list[tuple[bool, int]], length: int) -> None:
    """Every version, also those from which two others were grown."""
    kept = [(Series(range(length)), tuple(range(length)))]
    for last, value in steps:
        series, values = kept[-1] if value % 3 else kept[len(kept) // 2]
        if last and values:
            kept.append((series.with_last(value), (*values[:-1], value)))
        else:
            kept.append((series.plus(value), (*values, value)))
    for series, values in kept:
        assert tuple(series) == values
        assert series == Series(values)


def test_what_is_outside_is_refused() -> None:
    """As a tuple does it."""
    series = grown(range(PART_ITEMS + 2), PART_ITEMS)
    for index in (len(series), -len(series) - 1):
        with pytest.raises(IndexError):
            series[index]
    with pytest.raises(IndexError):
        Series[int]().with_last(1)
    with pytest.raises(AttributeError):
        series._rest = ()
    assert series != Series(range(3))
    assert series != list(series)


def test_growing_shares_what_was_there() -> None:
    """The values before are not copied: a long history would cost its square."""
    series = Series(range(10 * PART_ITEMS))
    longer = grown(tuple(range(11 * PART_ITEMS)), len(series))
    further = series.plus(-1)
    assert all(mine is theirs for mine, theirs in zip(series._full, further._full, strict=True))
    assert longer._full[:10] == series._full
    assert sum(map(len, (further._rest,))) == 1


def test_an_event_does_not_copy_the_history_before_it() -> None:
    """Neither of a message, an answer nor a result; nor what the user wanted before."""
    entries, wanted = Series[Entry](map(UserEntry, map(str, range(1_000)))), Series(map(str, range(1_000)))
    state = SessionState(history=entries, user_messages=wanted)
    for body in one_turn(1):
        state = fold_event(state, body)
    assert len(state.history) > len(entries)
    assert len(state.user_messages) > len(wanted)
    assert state.history._full[0] is entries._full[0]
    assert state.user_messages._full[0] is wanted._full[0]
