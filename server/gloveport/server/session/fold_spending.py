"""The fold of what a session spends.

Purpose: a part of the fold's table: limits, reserves, counts; and what the ends of requests add to the account.
Invariant: as the fold: total over its types, pure, driven by order alone. Sums are those of the account by the rates of
    the newest limit.
Must never: leave a request out that may be billed, or believe a count of an answer that broke off.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.journal.events import (
    BudgetSet,
    EventBody,
    ModelRequestReconciled,
    ModelRequestStarted,
    ModelStreamInterrupted,
    SpendReserved,
    UsageEstimated,
    UsageRecorded,
)
from gloveport.server.session.evolve import evolve
from gloveport.server.session.spending import (
    PROMPT_TOKENS,
    REPLY_TOKENS_MAX,
    TOKENIZERS_DIFFER,
    cost_of,
    model_name,
)
from gloveport.server.session.state import Asked, Counted, SessionState, Spent, Turn


def asked(state: SessionState, body: ModelRequestStarted) -> Asked:
    """What a request that begins may take, as long as no reserve says it: no text of the history counts for that, so
    that one which is erased from the record changes nothing that was spent."""
    newest = state.counted.input_tokens if state.counted is not None else 0
    return Asked(
        body.request_id,
        body.provider,
        body.model,
        state.mode,
        entries=len(state.history),
        input_tokens=PROMPT_TOKENS + TOKENIZERS_DIFFER * newest,
        output_tokens=REPLY_TOKENS_MAX,
    )


def asked_with(turn: Turn, request_id: str, **changes: Any) -> Asked | None:
    """What is known of the newest request with something more, if it is the one named."""
    if turn.asked is None or turn.asked.request_id != request_id:
        return turn.asked
    return replace(turn.asked, **changes)


def request_broken(state: SessionState, body: ModelStreamInterrupted) -> SessionState:
    """The request broke off; one that its provider took is taken for the most it may be billed."""
    if state.turn is None or state.turn.asked is None or state.turn.asked.request_id != body.request_id:
        return state
    known = replace(state.turn.asked, broken=True)
    state = evolve(state, turn=evolve(state.turn, asked=known))
    if not known.is_billed:
        return state
    spent = _at_most(known)
    return _charged(evolve(state, spent=state.spent.plus(spent)), spent, None)


def _at_most(known: Asked) -> Spent:
    """A request that nobody counted."""
    return Spent(
        known.request_id,
        known.provider,
        known.model,
        known.input_tokens,
        known.output_tokens,
        0,
        counted=False,
    )


def _charged(state: SessionState, spent: Spent, instead_of: Spent | None) -> SessionState:
    """The sums with one more request in them, or with a better count of the last one."""
    if state.money is None:
        return state
    rates = state.money.rates
    cost = cost_of(rates, spent)
    if cost is None:
        return evolve(state, unpriced=state.unpriced or model_name(spent.provider, spent.model))
    more = cost - ((cost_of(rates, instead_of) or 0) if instead_of is not None else 0)
    if state.turn is not None:
        state = evolve(state, turn=evolve(state.turn, nano_usd=state.turn.nano_usd + more))
    return evolve(state, nano_usd=state.nano_usd + more)


def _counted(state: SessionState, body: UsageRecorded) -> SessionState:
    known = state.turn.asked if state.turn is not None else None
    if known is None or known.request_id != body.request_id:
        return state
    last = state.spent[-1] if state.spent and state.spent[-1].request_id == body.request_id else None
    given = known.input_tokens if body.input_tokens is None else body.input_tokens
    made = known.output_tokens if body.output_tokens is None else body.output_tokens
    spent = Spent(
        known.request_id,
        known.provider,
        known.model,
        given,
        max(made, known.output_tokens) if known.broken else made,
        min(body.cached_tokens or 0, given),
        counted=not known.broken and body.input_tokens is not None and body.output_tokens is not None,
    )
    account = state.spent.plus(spent) if last is None else state.spent.with_last(spent)
    state = evolve(state, spent=account)
    if body.input_tokens is not None:
        newest = Counted(body.input_tokens, known.entries, known.mode, known.provider, known.model)
        state = evolve(state, counted=newest)
    return _charged(state, spent, last)


def _usage(state: SessionState, body: UsageRecorded) -> SessionState:
    given, made = body.input_tokens or 0, body.output_tokens or 0
    known = state.turn.asked if state.turn is not None else None
    whole = body.output_tokens is not None or (known is not None and known.broken)
    if state.turn is not None:
        state = evolve(state, turn=evolve(state.turn, tokens=state.turn.tokens + given + made))
    state = evolve(
        state,
        input_tokens=state.input_tokens + given,
        output_tokens=state.output_tokens + made,
        next_tokens=body.input_tokens if whole else None,
    )
    return _counted(state, body)


def _estimated(state: SessionState, body: UsageEstimated) -> SessionState:
    more = body.input_tokens + body.output_tokens
    if state.turn is not None:
        turn = state.turn
        if body.input_tokens and turn.asked is not None and turn.asked.broken:
            state = evolve(state, next_tokens=body.input_tokens)
        state = evolve(state, turn=evolve(turn, tokens=turn.tokens + more, uncounted=turn.uncounted + more))
    return evolve(
        state,
        input_tokens=state.input_tokens + body.input_tokens,
        output_tokens=state.output_tokens + body.output_tokens,
        uncounted_tokens=state.uncounted_tokens + more,
    )


def _budget(state: SessionState, body: BudgetSet) -> SessionState:
    """The limits; with money among them all that was spent is counted by their rates."""
    in_money = body.turn_nano_usd is not None or body.session_nano_usd is not None
    state = evolve(
        state,
        turn_tokens_max=body.turn_tokens,
        session_tokens_max=body.session_tokens,
        money=body if in_money else None,
        unpriced="",
        nano_usd=0,
    )
    costs = [cost_of(body.rates, one) for one in state.spent] if in_money else []
    if state.turn is not None:
        own = costs[state.turn.spent_from :]
        state = evolve(state, turn=evolve(state.turn, nano_usd=sum(cost or 0 for cost in own)))
    missing = (one for one, cost in zip(state.spent, costs, strict=False) if cost is None)
    unpriced = next((model_name(one.provider, one.model) for one in missing), "")
    return evolve(state, nano_usd=sum(cost or 0 for cost in costs), unpriced=unpriced)


def _reserved(state: SessionState, body: SpendReserved) -> SessionState:
    if state.turn is None:
        return state
    kept = asked_with(state.turn, body.request_id, input_tokens=body.input_tokens, output_tokens=body.output_tokens)
    return evolve(state, turn=evolve(state.turn, asked=kept))


def _reconciled(state: SessionState, body: ModelRequestReconciled) -> SessionState:
    if state.turn is None:
        return state
    known = asked_with(state.turn, body.request_id, may_be_billed=body.may_be_billed)
    return evolve(state, turn=evolve(state.turn, restarts=state.turn.restarts + 1, asked=known))


SPENDING_HANDLERS: Final[Mapping[type[EventBody], Callable[[SessionState, Any], SessionState]]] = MappingProxyType(
    {
        BudgetSet: _budget,
        SpendReserved: _reserved,
        UsageRecorded: _usage,
        UsageEstimated: _estimated,
        ModelRequestReconciled: _reconciled,
    }
)
