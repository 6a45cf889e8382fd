"""Prices of models: the user's own, and the list that ships with `genai-prices`, as plain data.

Purpose: rates of the models a session used, from the settings and from the snapshot inside the package.
Invariant: nothing is fetched; the user's own price goes before the list's; a model that neither knows has no rates,
    which is shown as unpriced.
Must never: take one server's price for another's: a model at an address of its own is looked up by that address.

The package takes 20 MiB and a third of a second to load, so it is loaded when somebody asks for the cost of a model
that could have a price, and not before. It knows the list prices on the day of its release.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any, Final

from gloveport.protocol.journal.events import ModelRates, RateStep
from gloveport.protocol.money import NANO
from gloveport.server.session.views.price import DAY_US, MILLION, PriceBook, PriceRule, Rates, Steps, dearest_rates
from gloveport.server.settings import ModelPrice as OwnPrice
from gloveport.server.settings import Settings

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

PRICED_PROVIDERS: Final = frozenset({"openai", "anthropic"})

Addresses = Mapping[tuple[str, str], str | None]
"""Provider and model, with the base URL that the user has set; None = the provider's own."""


def addresses_of(settings: Settings, models: frozenset[tuple[str, str]]) -> Addresses:
    """The base URL of each model as the user has set it; one that is not set up any more counts as the provider's."""
    known = {(choice.provider, choice.model): choice.base_url for choice in settings.models}
    return {model: known.get(model) for model in models}


def prices_of(settings: Settings, models: frozenset[tuple[str, str]]) -> PriceBook:
    """The rates of these models, the user's own first. Blocks as `load_prices` does, where the user named none."""
    own = {(one.provider, one.model): one.price for one in settings.models if one.price is not None}
    book = {key: (PriceRule(_own_rates(price)),) for key, price in own.items() if key in models}
    return {**load_prices(addresses_of(settings, models - book.keys())), **book}


def _own_rates(price: OwnPrice) -> Rates:
    cached = None if price.cached is None else ((-1, price.cached),)
    return Rates(((-1, price.input),), ((-1, price.output),), cached)


def recorded_rates(book: PriceBook, at: int) -> tuple[ModelRates, ...]:
    """The rates that a limit of money counts by from now on, as its event holds them; the dearest where they change."""
    found = ((key, dearest_rates(rules, at)) for key, rules in sorted(book.items()))
    return tuple(
        ModelRates(
            provider=provider,
            model=model,
            input=_recorded(rates.input),
            output=_recorded(rates.output),
            cached=None if rates.cached is None else _recorded(rates.cached),
            request_nano_usd=rates.request_nano_usd,
        )
        for (provider, model), rates in found
        if rates is not None
    )


def _recorded(steps: Steps) -> tuple[RateStep, ...]:
    return tuple(RateStep(above=above, nano_usd=nano_usd) for above, nano_usd in steps)


def load_prices(models: Addresses) -> PriceBook:
    """The rates of these models; those that have none are left out. Blocks for as long as the list takes to load."""
    asked = {key: url for key, url in models.items() if key[0] in PRICED_PROVIDERS}
    if not asked:
        return {}
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return {}
    snapshot, book = get_snapshot(), {}
    for (provider, model), url in asked.items():
        try:
            _, info = snapshot.find_provider_model(model, None, None if url else provider, url)
        except LookupError:
            continue
        if rules := tuple(_rules(info)):
            book[provider, model] = rules
    return book


def _rules(info: "ModelInfo") -> Iterable[PriceRule]:
    from genai_prices.types import ModelPrice

    if isinstance(info.prices, ModelPrice):
        rates = _rates(info.prices)
        return [PriceRule(rates)] if rates is not None else []
    rules = []
    for one in info.prices:
        rates = _rates(one.prices)
        if rates is None:
            return []
        rules.append(PriceRule(rates, *_when(one.constraint)))
    return rules


def _when(constraint: Any) -> tuple[int, tuple[int, int] | None]:
    start = getattr(constraint, "start_date", None)
    if start is not None:
        return int(datetime.combine(start, time(), UTC).timestamp()) * MILLION, None
    if constraint is None:
        return 0, None
    return 0, (_time_us(constraint.start_time), _time_us(constraint.end_time))


def _time_us(value: time) -> int:
    offset = value.utcoffset()
    shift = int(offset.total_seconds()) if offset is not None else 0
    seconds = value.hour * 3600 + value.minute * 60 + value.second - shift
    return (seconds * MILLION + value.microsecond) % DAY_US


def _rates(price: "ModelPrice") -> Rates | None:
    """Rates for text; None for a model that is not billed by tokens of text."""
    given, output = _steps(price.input_mtok), _steps(price.output_mtok)
    if given is None or output is None:
        return None
    request = price.requests_kcount
    per_request = _nano(request) // 1000 if isinstance(request, Decimal) else 0
    return Rates(given, output, _steps(price.cache_read_mtok), per_request)


def _steps(price: Any) -> Steps | None:
    if price is None:
        return None
    if isinstance(price, Decimal):
        return ((-1, _nano(price)),)
    return ((-1, _nano(price.base)), *((tier.start, _nano(tier.price)) for tier in price.tiers))


def _nano(dollars: Decimal) -> int:
    return int((dollars * NANO).quantize(Decimal(1), ROUND_HALF_UP))
