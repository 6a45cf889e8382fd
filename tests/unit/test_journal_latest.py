"""The newest time: whatever the clock says, it does not go back, and it goes on."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gloveport.server.journal.latest import STEP_US, Latest

SECOND = 1_000_000


def times(told: Sequence[int]) -> list[int]:
    """What is said of a clock that says these one after another."""
    latest = Latest()
    return [latest.at(clock) for clock in told]


@given(st.lists(st.integers(0, 10**6 * SECOND), min_size=1, max_size=50))
def test_it_never_goes_back_and_is_never_behind_the_clock(told: list[int]) -> None:
    """Steps of whatever size, in whatever order."""
    said = times(told)
    assert said == sorted(said)
    assert all(one >= clock for one, clock in zip(said, told, strict=True))


@given(st.lists(st.integers(-STEP_US // 2, STEP_US // 2), min_size=1, max_size=50))
def test_times_of_one_clock_that_come_out_of_order_do_not_hurry_it(jitter: list[int]) -> None:
    """Who asks late brings no step back with it."""
    told = [100 * SECOND + at for at in jitter]
    assert times(told)[-1] == max(told)


def test_it_goes_on_with_the_clock_after_a_step_back_and_takes_a_later_one_as_it_is() -> None:
    """An hour back, a minute on; two hours on again."""
    hour, minute = 3600 * SECOND, 60 * SECOND
    start = 10 * hour
    assert times([start, start - hour, start - hour + minute]) == [start, start, start + minute]
    assert times([start, start - hour, start + hour])[-1] >= start + hour
