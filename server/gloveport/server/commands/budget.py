"""session/budget, and what a limit of money asks of model/choose.

Purpose: the handler of limits, with the prices of today written down beside a limit of money.
Invariant: a limit of money is taken only where every model that the session used, uses or would use next has a price.
Must never: take a price that is not known for nothing.
"""

from functools import partial

import anyio.to_thread

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import BudgetSet, EventBody, ModelRates
from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.session import MoneyLimits, SessionBudgetParams
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.commands.price_list import prices_of, recorded_rates
from gloveport.server.session.spending import rates_of, unpriced_model
from gloveport.server.session.state import SessionState
from gloveport.server.transports.port import Caller


async def budget(house: House, params: SessionBudgetParams, caller: Caller, once: Once) -> Empty:
    """Set what a turn and the session may use; it counts from the next request on. Raises UNPRICED."""
    actor = await house.sessions.open(params.session_id)
    by, money = caller.client_name or "client", params.money
    rates = await _rates(house, _models(house, actor.state)) if money is not None and money != MoneyLimits() else ()

    def facts(state: SessionState) -> tuple[EventBody, ...]:
        if money is None:
            bound = BudgetSet(
                turn_tokens=params.turn_tokens,
                session_tokens=params.session_tokens,
                turn_nano_usd=state.money.turn_nano_usd if state.money is not None else None,
                session_nano_usd=state.money.session_nano_usd if state.money is not None else None,
                rates=state.money.rates if state.money is not None else (),
                by=by,
            )
            return (bound,)
        if money != MoneyLimits() and (missing := unpriced_model(state, rates)):
            raise GloveportError(ErrorCode.UNPRICED, f"no price is known for {missing}")
        bound = BudgetSet(
            turn_tokens=params.turn_tokens,
            session_tokens=params.session_tokens,
            turn_nano_usd=money.turn_nano_usd,
            session_nano_usd=money.session_nano_usd,
            rates=rates,
            by=by,
        )
        return (bound,)

    await actor.record(facts, once.request(Empty()))
    return Empty()


async def chosen_rates(house: House, state: SessionState, model: tuple[str, str]) -> tuple[ModelRates, ...]:
    """Today's price of a model that is chosen, where money is limited and it has none beside the limit."""
    if state.money is None or rates_of(state.money.rates, *model) is not None:
        return ()
    return await _rates(house, frozenset({model}))


def limits_with(state: SessionState, rates: tuple[ModelRates, ...], by: str) -> tuple[BudgetSet, ...]:
    """The limits in force with these prices beside them; nothing where there is nothing to add."""
    money = state.money
    if money is None or not rates:
        return ()
    return (money.model_copy(update={"rates": (*money.rates, *rates), "by": by}),)


def _models(house: House, state: SessionState) -> frozenset[tuple[str, str]]:
    """The models whose prices a limit is counted by: those that are set up, and those that the session used."""
    set_up = {(choice.provider, choice.model) for choice in house.settings().models}
    used = {(one.provider, one.model) for one in state.spent}
    return frozenset({*set_up, *used, (state.provider, state.model)})


async def _rates(house: House, models: frozenset[tuple[str, str]]) -> tuple[ModelRates, ...]:
    book = await anyio.to_thread.run_sync(partial(prices_of, house.settings(), models))
    return recorded_rates(book, house.sessions.room.now_us())
