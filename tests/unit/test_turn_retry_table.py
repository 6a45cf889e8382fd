"""The table of retries: every failure has a row, every pause its floor, every ending its words."""

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.protocol.journal.events.tool import Outcome
from gloveport.server.models.contract import ErrorClass
from gloveport.server.turn.retry import (
    ATTEMPTS_MAX,
    JITTER_PARTS,
    PAUSE_ASKED_US_MAX,
    PAUSE_BASE_US,
    TABLE,
    WAITED_US_MAX,
    Again,
    GiveUp,
    Treatment,
    Tried,
    length_words,
    moment_words,
    overflow_words,
    plan_retry,
    treatment_of,
)

PASSING = sorted(TABLE[0].failures)
NOON_US = 12 * 3600 * 1_000_000


def planned(failure: str = "server", attempt: int = 1, waited: int = 0, pause: int | None = None) -> Again | GiveUp:
    """What the table says of a failure at noon."""
    return plan_retry(failure, "it broke.", "Look.", Tried(attempt, waited), pause, "t1.r1", NOON_US)


def test_every_failure_and_every_outcome_but_the_good_ones_has_one_row() -> None:
    """Nothing is overlooked, nothing is treated in two ways."""
    named = [failure for row in TABLE for failure in row.failures]
    assert len(named) == len(set(named))
    outcomes = set(get_args(Outcome)) - {"ok", "cancelled"}
    assert set(named) == {one.value for one in ErrorClass} | outcomes
    assert len(TABLE) == 7


def test_what_nobody_knows_is_not_tried_again() -> None:
    """A class of a later version, or a mistake, ends the turn."""
    assert treatment_of("a_later_class") is Treatment.STOP


@pytest.mark.parametrize(
    ("failure", "treatment"),
    [
        ("rate", Treatment.BACK_OFF),
        ("idle", Treatment.BACK_OFF),
        ("context_overflow", Treatment.SHRINK),
        ("invalid", Treatment.TELL_FIELDS),
        ("denied", Treatment.OBSERVE),
        ("failed", Treatment.AGENT),
        ("unknown", Treatment.ASK_USER),
        ("auth", Treatment.STOP),
        ("quota", Treatment.STOP),
    ],
)
def test_f01_each_row(failure: str, treatment: Treatment) -> None:
    """One of each row."""
    assert treatment_of(failure) is treatment


@given(
    st.sampled_from(PASSING),
    st.integers(1, ATTEMPTS_MAX),
    st.integers(0, WAITED_US_MAX),
    st.none() | st.integers(0, 2 * PAUSE_ASKED_US_MAX),
    st.text(st.characters(exclude_categories=()), max_size=8),
)
def test_f01_a_pause_is_never_shorter_than_its_floor(
    failure: str, attempt: int, waited: int, pause: int | None, request_id: str
) -> None:
    """Never before the provider's moment, never at once, never for longer than may be waited."""
    found = plan_retry(failure, "x", "y", Tried(attempt, waited), pause, request_id, NOON_US)
    if isinstance(found, GiveUp):
        assert attempt == ATTEMPTS_MAX or waited > 0 or (pause or 0) > PAUSE_ASKED_US_MAX
        return
    assert found.backoff_us >= max(pause or 0, PAUSE_BASE_US)
    assert found.backoff_us <= PAUSE_ASKED_US_MAX * (JITTER_PARTS + 1) // JITTER_PARTS
    assert waited + found.backoff_us <= WAITED_US_MAX
    assert found.attempt == attempt + (failure != "paused") <= ATTEMPTS_MAX
    assert found.floor == ("none" if not pause else "breaker" if failure == "paused" else "retry_after")


def test_pauses_grow_and_differ_between_requests() -> None:
    """Exponential, with jitter that follows from the request's id."""
    grown = [planned(attempt=attempt) for attempt in range(1, ATTEMPTS_MAX)]
    sizes = [one.backoff_us for one in grown if isinstance(one, Again)]
    assert len(sizes) == ATTEMPTS_MAX - 1
    assert all(later > 1.5 * earlier for earlier, later in pairwise(sizes))
    many = {plan_retry("server", "x", "y", Tried(1, 0), None, f"t{n}.r1", 0) for n in range(100)}
    assert len(many) > 90


def test_f01_a_pause_that_is_too_long_is_told_with_its_end() -> None:
    """An hour is not waited for: the turn says until when, with the zone."""
    found = planned("rate", pause=3_600_000_000)
    assert isinstance(found, GiveUp)
    assert found.message == "it broke; it is to be left alone until 13:00 UTC (60 min)"
    assert "13:00 UTC" in found.hint


def test_a_pause_of_days_is_told_in_days() -> None:
    """A time of the day would be taken for today's, and the provider asked a month too early."""
    found = planned("rate", pause=30 * 24 * 3600 * 1_000_000)
    assert isinstance(found, GiveUp)
    assert found.message == "it broke; it is to be left alone for 30 days"
    assert "UTC" not in found.hint
    assert "30 days" in found.hint


def test_limits_hold_to_the_microsecond() -> None:
    """What is exactly at a limit is still waited for; what is one beyond is not."""
    assert isinstance(planned("rate", pause=PAUSE_ASKED_US_MAX), Again)
    assert isinstance(planned("rate", pause=PAUSE_ASKED_US_MAX + 1), GiveUp)
    once = planned("paused", pause=1)
    assert isinstance(once, Again)
    backoff = once.backoff_us
    later = planned("paused", waited=WAITED_US_MAX - PAUSE_ASKED_US_MAX * 2, pause=PAUSE_ASKED_US_MAX)
    assert isinstance(later, Again)
    assert later.backoff_us == planned("rate", pause=PAUSE_ASKED_US_MAX).backoff_us  # type: ignore[union-attr] # seen above
    assert backoff >= PAUSE_BASE_US


def test_attempts_and_waiting_end_with_words() -> None:
    """How often it was tried, how long it was waited for; the hint is the failure's own."""
    assert planned(attempt=ATTEMPTS_MAX) == GiveUp("it broke; it was tried 5 times", "Look.")
    assert planned("paused", waited=WAITED_US_MAX, pause=1) == GiveUp("it broke; it was waited for 15 min", "Look.")


def test_words_of_times_and_of_overflows() -> None:
    """Units that fit; a moment has its zone; nothing happened once or more than once without saying so."""
    assert [length_words(n * 1_000_000) for n in (1, 119, 120, 7_140, 7_200, 100 * 3_600)] == [
        "1 s",
        "119 s",
        "2 min",
        "119 min",
        "2 h",
        "5 days",
    ]
    assert moment_words(NOON_US + 1) == "12:01 UTC"
    assert moment_words(24 * 3600 * 1_000_000 - 1) == "00:00 UTC"
    once = "the conversation does not fit the model's window: why; what was changed is kept"
    assert overflow_words(1, "why.") == once
    assert overflow_words(2, "why") == once.replace("window", "window (2 times in a row)")
