"""What the user lets a session spend and do.

Purpose: when a limit of tokens or of money ends a turn, and which calls a mode has no place for.
Invariant: no request is made that would, by the newest count, pass a limit of tokens; one whose size nobody knows yet
    may, once. What was taken and ended without a count is counted by its bytes. None is made that could pass a limit of
    money, by as many tokens as its words have bytes and by the most that is asked for of an answer. In plan mode
    nothing that does more than look is begun, whatever policy says of it.
Must never: let a limit count for nothing because a provider does not count, or a request because nobody knows its
    price.
"""

from dataclasses import replace
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events import BudgetSet, SpendReserved, UsageEstimated
from gloveport.protocol.money import usd_words
from gloveport.server.policy.effects import EffectKind
from gloveport.server.session.spending import (
    about_input,
    least_nano_usd,
    model_name,
    rates_of,
    reserve_of,
    text_bytes,
    tokens_about,
)
from gloveport.server.session.state import Request, SessionState
from gloveport.server.turn.draft import Draft
from gloveport.server.turn.inputs import CallJudged, RequestFailed, ResponseEnded

LOOKING: Final = frozenset({EffectKind.read, EffectKind.search, EffectKind.secret_read})
"""All that a call in plan mode may do."""
PLAN_RULE: Final = "mode:plan"
PLAN_REASON: Final = "the session is in plan mode, which looks and changes nothing; say what you would do instead"


def budget_refusal(state: SessionState) -> tuple[ErrorCode, str] | None:
    """Why no further request may be made, with its code and in words; None as long as the limits have room for it."""
    if words := _token_words(state):
        return ErrorCode.BUDGET, words
    if state.money is None:
        return None
    has_price = rates_of(state.money.rates, state.provider, state.model) is not None
    missing = state.unpriced or ("" if has_price else model_name(state.provider, state.model))
    if missing:
        return ErrorCode.UNPRICED, f"no price is known for {missing}, so the limit in US dollars can't be kept"
    if words := _money_words(state, state.money):
        return ErrorCode.BUDGET, words
    return None


def _token_words(state: SessionState) -> str:
    limits = (
        (state.turn_tokens_max, *((turn.tokens, turn.uncounted) if (turn := state.turn) else (0, 0)), "this turn"),
        (state.session_tokens_max, state.input_tokens + state.output_tokens, state.uncounted_tokens, "this session"),
    )
    for limit, spent, uncounted, whose in limits:
        if limit is None:
            continue
        if state.next_tokens is None:
            return _uncounted_words(state, whose)
        if spent + max(state.next_tokens, 1) > limit:
            needs = f"; the next request needs about {state.next_tokens:,}" if spent < limit else ""
            about = "about " if uncounted else ""
            return f"{whose} has used {about}{spent:,} of {limit:,} tokens{needs}"
    return ""


def _uncounted_words(state: SessionState, whose: str) -> str:
    return f"{state.model_label or state.model} counts no tokens, so the limit of {whose} can't be kept"


def _money_words(state: SessionState, money: BudgetSet) -> str:
    least = least_nano_usd(state) or 0
    limits = (
        (money.turn_nano_usd, state.turn.nano_usd if state.turn is not None else 0, "this turn"),
        (money.session_nano_usd, state.nano_usd, "this session"),
    )
    for limit, spent, whose in limits:
        if limit is None:
            continue
        if state.next_tokens is None:
            return _uncounted_words(state, whose)
        if spent + least > limit:
            needs = f"; the next request may cost {usd_words(least)}" if spent < limit else ""
            return f"{whose} has spent {usd_words(spent)} of {usd_words(limit)}{needs}"
    return ""


def reserve_spend(draft: Draft) -> None:
    """Write down what the request that has begun keeps within, where money is limited."""
    request, reserve = draft.turn.request, reserve_of(draft.state)
    if request is None or reserve is None:
        return
    draft.emit(
        SpendReserved(
            turn_id=draft.turn.turn_id,
            goal_revision=request.goal_revision,
            request_id=request.request_id,
            input_tokens=reserve.input_tokens,
            output_tokens=reserve.output_tokens,
            nano_usd=reserve.nano_usd,
        )
    )


def estimate_spent(draft: Draft, given: ResponseEnded | RequestFailed | None, request: Request) -> None:
    """Write down about what a request that has ended used beside what its provider counted: of one that broke off the
    count is what it was until then. None: it ended with the daemon.
    """
    asked = draft.turn.asked
    if asked is None or not (asked.is_billed or isinstance(given, ResponseEnded)):
        return
    took, made, sent, arrived = (None, None, 0, 0) if given is None else _told(given)
    missed = 0 if took is not None else tokens_about(sent) or about_input(draft.state, asked)
    more = 0
    if asked.broken or made is None:
        more = max(0, tokens_about(max(arrived, text_bytes(request.text))) - (made or 0))
    if missed or more:
        draft.emit(
            UsageEstimated(
                turn_id=draft.turn.turn_id,
                goal_revision=request.goal_revision,
                request_id=request.request_id,
                input_tokens=missed,
                output_tokens=more,
            )
        )


def _told(given: ResponseEnded | RequestFailed) -> tuple[int | None, int | None, int, int]:
    return given.input_tokens, given.output_tokens, given.sent_bytes, given.received_bytes


def as_mode_allows(state: SessionState, given: CallJudged) -> CallJudged:
    """The judgement, or a refusal of what the mode has no place for."""
    if state.mode == "agent" or all(effect.kind in LOOKING for effect in given.plan.effects):
        return given
    refused = replace(
        given.judgement,
        verdict="deny",
        reason=PLAN_REASON,
        rule_ids=(PLAN_RULE,),
        grant_id=None,
        grant_uses_left=None,
    )
    return replace(given, judgement=refused, card=None, beside=())
