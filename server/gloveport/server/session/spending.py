"""What a session spends, and what its next request may.

Purpose: the cost of requests by the rates that stand beside the limit, and the most that the next one can take.
Invariant: whole billionths of a US dollar; what is not counted is taken for the most it may be, and what has no price
    is told, never taken for nothing. A request is reckoned at no fewer tokens than any model makes of its bytes.
Must never: use a float, know a price of its own, or count less because an answer broke off.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.journal.events import BudgetSet, ModelRates, RateStep
from gloveport.server.session.state import Asked, AssistantEntry, Entry, ResultEntry, SessionState, Spent
from gloveport.server.session.views.price import Rates, Steps, Tokens, cost_nano_usd

REPLY_TOKENS_MAX: Final = 8_192
"""What is asked for at most of an answer."""
REPLY_TOKENS_MIN: Final = 2_048
"""With room for less than this in a limit of money no request is made: the answer would be cut."""
PROMPT_TOKENS: Final = 16_000
"""The standing words and the tools on offer, at most."""
ENTRY_TOKENS: Final = 256
"""What an entry of the history takes beside its text, at most: its role, its marks, the words that are added to it."""
CALL_TOKENS: Final = 64
BYTES_A_TOKEN: Final = 4
"""So many bytes of text are about a token."""
TOKENIZERS_DIFFER: Final = 2
"""So many times the tokens another model may make of the same words."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """What a request keeps within."""

    input_tokens: int
    output_tokens: int
    nano_usd: int


def rates_of(rates: Iterable[ModelRates], provider: str, model: str) -> Rates | None:
    """The rates of a model; None where there are none."""
    for one in rates:
        if (one.provider, one.model) == (provider, model):
            cached = None if one.cached is None else _steps(one.cached)
            return Rates(_steps(one.input), _steps(one.output), cached, one.request_nano_usd)
    return None


def _steps(steps: Iterable[RateStep]) -> Steps:
    return tuple((step.above, step.nano_usd) for step in steps)


def cost_of(rates: Iterable[ModelRates], spent: Spent) -> int | None:
    """What a request cost; None where its model has no price."""
    known = rates_of(rates, spent.provider, spent.model)
    return None if known is None else cost_nano_usd(known, _tokens(spent))


def _tokens(spent: Spent) -> Tokens:
    return Tokens(spent.input_tokens, spent.output_tokens, spent.cached_tokens)


def model_name(provider: str, model: str) -> str:
    """As settings name it."""
    return f"{provider}/{model}"


def unpriced_model(state: SessionState, rates: Iterable[ModelRates]) -> str:
    """The first model that the session used, uses or would use next and that has no price here; empty: all have one."""
    known = {(one.provider, one.model) for one in rates}
    used = dict.fromkeys((one.provider, one.model) for one in state.spent)
    asked = state.turn.asked if state.turn is not None else None
    if asked is not None:
        used[asked.provider, asked.model] = None
    used[state.provider, state.model] = None
    return next((model_name(*one) for one in used if one not in known), "")


def expected_input(state: SessionState) -> int:
    """The most tokens that the next request takes in: the newest count, and a token for each byte since."""
    waiting = sum(ENTRY_TOKENS + text_bytes(message.text) for message in state.steering)
    known = state.counted
    if known is None:
        return PROMPT_TOKENS + waiting + sum(map(_entry_tokens, state.history))
    same = (known.provider, known.model) == (state.provider, state.model)
    base = known.input_tokens if same else known.input_tokens * TOKENIZERS_DIFFER
    base += 0 if known.mode == state.mode else PROMPT_TOKENS
    return base + waiting + sum(map(_entry_tokens, state.history[known.entries :]))


def tokens_about(size: int) -> int:
    """About so many tokens are so many bytes; more than none for any."""
    return -(-size // BYTES_A_TOKEN)


def about_input(state: SessionState, asked: Asked) -> int:
    """About what a request took in, where nobody knows the bytes of it any more."""
    known = state.counted
    base, since = (PROMPT_TOKENS, 0) if known is None else (known.input_tokens, known.entries)
    return base + tokens_about(sum(map(_entry_tokens, state.history[since : asked.entries])))


def _entry_tokens(entry: Entry) -> int:
    tokens = ENTRY_TOKENS + text_bytes(entry.text)
    if isinstance(entry, ResultEntry):
        return tokens + text_bytes(entry.provider_call_id)
    if isinstance(entry, AssistantEntry):
        tokens += sum(
            CALL_TOKENS + sum(map(text_bytes, (call.provider_call_id, call.tool, call.arguments_json)))
            for call in entry.calls
        )
    return tokens


def text_bytes(text: str) -> int:
    """How many bytes a text has."""
    return len(text.encode("utf-8", "surrogatepass"))


def least_nano_usd(state: SessionState) -> int | None:
    """What has to be left for the next request to be made; None without limits of money, or without a price."""
    rates = None if state.money is None else rates_of(state.money.rates, state.provider, state.model)
    return None if rates is None else cost_nano_usd(rates, Tokens(expected_input(state), REPLY_TOKENS_MIN, 0))


def reserve_of(state: SessionState) -> Reserve | None:
    """What the next request keeps within, in the room that the limits leave; None without limits of money.

    Given that there is room for the least.
    """
    if state.money is None or (rates := rates_of(state.money.rates, state.provider, state.model)) is None:
        return None
    given, left = expected_input(state), left_nano_usd(state, state.money)

    def cost(output: int) -> int:
        return cost_nano_usd(rates, Tokens(given, output, 0)) or 0

    fits = bisect_right(range(REPLY_TOKENS_MIN, REPLY_TOKENS_MAX + 1), left, key=cost)
    output = REPLY_TOKENS_MIN + max(0, fits - 1)
    return Reserve(given, output, cost(output))


def left_nano_usd(state: SessionState, money: BudgetSet) -> int:
    """What the limits leave; below zero where one is passed."""
    used = state.turn.nano_usd if state.turn is not None else 0
    lefts = [] if money.turn_nano_usd is None else [money.turn_nano_usd - used]
    return min([*lefts, *([] if money.session_nano_usd is None else [money.session_nano_usd - state.nano_usd])])


def turn_nano_usd(state: SessionState) -> int:
    """What the running turn has spent, or the newest one while none runs; 0 without limits of money."""
    if state.turn is not None:
        return state.turn.nano_usd
    rates = () if state.money is None else state.money.rates
    return sum(cost_of(rates, one) or 0 for one in state.spent[state.ended_turn.spent_from :])


def unseen_nano_usd(state: SessionState) -> int:
    """How much of what was spent is the most that requests without a count may have been billed."""
    rates = () if state.money is None else state.money.rates
    return sum(cost_of(rates, one) or 0 for one in state.spent if not one.counted)
