"""What a request costs, from a list of prices that is handed in.

Purpose: prices as plain data, and the arithmetic of one request.
Invariant: money is whole billionths of a US dollar (nano-USD), rounded once for each request and summed as integers.
Must never: use a float, look a price up, or take a price that is not known for nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MILLION: Final = 1_000_000
DAY_US: Final = 86_400 * MILLION

Steps = tuple[tuple[int, int], ...]
"""`(more than so many input tokens, nano-USD for a million tokens)`, rising; the first begins at -1. The step that the
whole input reaches holds for all tokens of the request."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices of one request: nano-USD for a million tokens, and for the request itself.

    `input` is for what was read anew, `cached` for what came from the provider's cache; null = as `input`.
    """

    input: Steps
    output: Steps
    cached: Steps | None = None
    request_nano_usd: int = 0


@dataclass(frozen=True, slots=True)
class PriceRule:
    """Rates from a moment on (UTC microseconds), in part of the day only where `day_us` names its begin and end."""

    rates: Rates
    since_us: int = 0
    day_us: tuple[int, int] | None = None


PriceBook = Mapping[tuple[str, str], tuple[PriceRule, ...]]
"""Rules by provider and model; the last one that holds at a request's time counts, else the first."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of a request as the provider counted them; null = it did not say. `input` includes `cached`."""

    input: int | None
    output: int | None
    cached: int | None


def rates_at(rules: tuple[PriceRule, ...], at: int) -> Rates | None:
    """The rates that hold at a time; None where there is no rule."""
    for rule in reversed(rules):
        if at >= rule.since_us and _in_day(rule.day_us, at % DAY_US):
            return rule.rates
    return rules[0].rates if rules else None


def dearest_rates(rules: tuple[PriceRule, ...], at: int) -> Rates | None:
    """Rates that none of the rules passes which hold at a time or later; None where there is no rule."""
    begun = [rule.since_us for rule in rules if rule.day_us is None and rule.since_us <= at]
    hold = [rule.rates for rule in rules if rule.day_us is not None or rule.since_us >= max(begun, default=0)]
    if not hold:
        return None
    return Rates(
        _dearest([one.input for one in hold]),
        _dearest([one.output for one in hold]),
        _dearest([one.cached or one.input for one in hold]),
        max(one.request_nano_usd for one in hold),
    )


def _dearest(ladders: list[Steps]) -> Steps:
    starts = sorted({above for steps in ladders for above, _ in steps})
    return tuple((above, max(_step(steps, above + 1) for steps in ladders)) for above in starts)


def _in_day(day_us: tuple[int, int] | None, time_us: int) -> bool:
    if day_us is None:
        return True
    begin, end = day_us
    return begin <= time_us < end if begin <= end else time_us >= begin or time_us < end


def cost_nano_usd(rates: Rates, tokens: Tokens) -> int | None:
    """The price of a request in nano-USD; None when its tokens were not counted."""
    if tokens.input is None or tokens.output is None:
        return None
    cached = min(tokens.cached or 0, tokens.input)
    parts = (
        (tokens.input - cached, rates.input),
        (cached, rates.cached or rates.input),
        (tokens.output, rates.output),
    )
    total = sum(count * _step(steps, tokens.input) for count, steps in parts)
    return (total + MILLION // 2) // MILLION + rates.request_nano_usd


def _step(steps: Steps, input_tokens: int) -> int:
    """The price of the highest step that the input reaches."""
    return next((price for above, price in reversed(steps) if input_tokens > above), 0)
