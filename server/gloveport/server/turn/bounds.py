"""What the user lets a session spend and do.

Purpose: when a limit of tokens ends a turn, and which calls a mode has no place for.
Invariant: no request is made that would, by the newest count, pass a limit; one whose size nobody knows yet may, once.
    In plan mode nothing that does more than look is begun, whatever policy says of it.
Must never: let a limit count for nothing because a provider does not count.
"""

from dataclasses import replace
from typing import Final

from gloveport.server.policy.effects import EffectKind
from gloveport.server.session.state import SessionState
from gloveport.server.turn.inputs import CallJudged

LOOKING: Final = frozenset({EffectKind.read, EffectKind.search, EffectKind.secret_read})
"""All that a call in plan mode may do."""
PLAN_RULE: Final = "mode:plan"
PLAN_REASON: Final = "the session is in plan mode, which looks and changes nothing; say what you would do instead"


def budget_words(state: SessionState) -> str:
    """Why no further request may be made, in words; empty as long as the limits have room for it."""
    limits = (
        (state.turn_tokens_max, state.turn.tokens if state.turn is not None else 0, "this turn"),
        (state.session_tokens_max, state.input_tokens + state.output_tokens, "this session"),
    )
    for limit, spent, whose in limits:
        if limit is None:
            continue
        if state.next_tokens is None:
            return f"{state.model_label or state.model} counts no tokens, so the limit of {whose} can't be kept"
        if spent + max(state.next_tokens, 1) > limit:
            needs = f"; the next request needs about {state.next_tokens:,}" if spent < limit else ""
            return f"{whose} has used {spent:,} of {limit:,} tokens{needs}"
    return ""


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
