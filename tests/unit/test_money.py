"""Money in words and as people type it; the dearest of changing prices."""

import pytest

from gloveport.protocol.money import NANO, NANO_USD_MAX, parse_usd, usd_words
from gloveport.server.session.views.price import MILLION, PriceRule, Rates, dearest_rates

HOUR = 3_600 * MILLION


@pytest.mark.parametrize(
    ("typed", "nano_usd"),
    [
        ("2", 2 * NANO),
        ("$0.50", NANO // 2),
        (" $ 1.5 ", 3 * NANO // 2),
        ("0.000000001", 1),
        ("1000000", NANO_USD_MAX),
        ("1000000.01", None),
        ("0", None),
        ("0.0000000001", None),
        ("", None),
        ("-1", None),
        ("1e3", None),
        ("1,5", None),
        ("٣", None),
    ],
)
def test_what_is_typed_is_what_is_kept(typed: str, nano_usd: int | None) -> None:
    """To the last digit; nothing, too much and what is no number are none."""
    assert parse_usd(typed) == nano_usd


@pytest.mark.parametrize(
    ("nano_usd", "words"),
    [
        (0, "$0.00"),
        (1, "<$0.0001"),
        (420_000_000, "$0.42"),
        (42_300_000, "$0.0423"),
        (2 * NANO, "$2.00"),
        (2 * NANO + 4_560_000, "$2.00"),
        (1234 * NANO + 560_000_000, "$1,234.56"),
        (NANO - 1, "$1.00"),
    ],
)
def test_an_amount_is_never_told_as_nothing(nano_usd: int, words: str) -> None:
    """Cents, or four digits where cents do not tell it."""
    assert usd_words(nano_usd) == words


def test_a_limit_is_counted_by_the_dearest_of_what_may_hold() -> None:
    """By night cheaper, from tomorrow on dearer, last year dearer still; steps begin where any of them does."""
    day = Rates(((-1, 2), (100, 3)), ((-1, 8),), ((-1, 1),), 5)
    night = Rates(((-1, 1), (50, 4)), ((-1, 9),), None)
    rules = (PriceRule(day), PriceRule(night, day_us=(22 * HOUR, 6 * HOUR)))
    dearest = dearest_rates(rules, 12 * HOUR)
    assert dearest == Rates(((-1, 2), (50, 4), (100, 4)), ((-1, 9),), ((-1, 1), (50, 4)), 5)
    old, now, later = (Rates(((-1, price),), ((-1, price),)) for price in (90, 10, 20))
    dated = (PriceRule(old), PriceRule(now, since_us=100), PriceRule(later, since_us=200))
    assert [dearest_rates(dated, at).input[0][1] for at in (50, 150, 250)] == [90, 20, 20]  # type: ignore[union-attr]  # - there are rules
    assert dearest_rates((), 0) is None
