"""The decision.

Purpose: one call, the rules, the grants and the circumstances in; allow, ask or deny out, with every reason.
Invariant: the strictest finding wins (deny, then ask, then allow); a grant, or an address that the user typed, answers
what is asked and nothing that is denied; what no rule speaks of is asked; an order of rules or grants changes nothing.
Must never: raise, read a clock, or let a grant reach further than the card that issued it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gloveport.protocol.ids import GrantId, Sha256
from gloveport.server.policy.capability import Scope, pattern_words
from gloveport.server.policy.checks import ceiling_caps, check_findings, runs_program
from gloveport.server.policy.coverage import covering_grant
from gloveport.server.policy.effects import Effect
from gloveport.server.policy.findings import Finding, rule_findings
from gloveport.server.policy.grant import Grant
from gloveport.server.policy.request import Context, Request, effects_of
from gloveport.server.policy.risk import Factor, risk_factors, risk_level
from gloveport.server.policy.rules.rule import Verdict
from gloveport.server.policy.rules.ruleset import RuleSet
from gloveport.server.policy.rung import minimum_strength, trust_in_force
from gloveport.server.policy.typed import TYPED_WORDS, words_answer

REASONS_SHOWN_MAX = 4


@dataclass(frozen=True, slots=True)
class Need:
    """What an answer has to cover: the effects asked about, and the longest scope that may answer, with why no longer.

    `strength_min` is the sandbox strength (0–3) that the call needs at least.
    """

    effects: tuple[Effect, ...]
    ceiling: Scope
    ceiling_reason: str
    strength_min: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer. `need` is set when the verdict is ask; `grant_id` when a grant made an ask into an allow.

    `risk` is low, medium or high, with its `factors`. `findings` are all that spoke, strictest first; `rule_ids` those
    that decided. `grant_uses_left` is what is left of the grant after this use; None: any number, or no grant.
    """

    verdict: Verdict
    risk: str
    reason: str
    rule_ids: tuple[str, ...]
    rules_hash: Sha256
    grant_id: GrantId | None = None
    grant_uses_left: int | None = None
    need: Need | None = None
    factors: tuple[Factor, ...] = ()
    findings: tuple[Finding, ...] = ()
    effects: tuple[Effect, ...] = ()


def decide(request: Request, rules: RuleSet, grants: Sequence[Grant], context: Context) -> Decision:
    """Decide about one call. Pure and total."""
    effects = effects_of(request)
    found = {*rule_findings(request, effects, rules), *check_findings(request, effects, context)}
    findings = tuple(sorted(found, key=lambda finding: finding.order))
    verdict = findings[0].verdict
    deciding = tuple(finding for finding in findings if finding.verdict is verdict)
    need = _need(request, effects, deciding, context) if verdict is Verdict.ask else None
    typed = need is not None and words_answer(request.typed, request.label, deciding)
    grant = None if need is None or typed else covering_grant(grants, request, context, deciding, need.ceiling)
    factors = risk_factors(request, effects, context, grant is not None)
    return Decision(
        verdict=Verdict.allow if typed or grant is not None else verdict,
        risk=risk_level(factors).name,
        reason=TYPED_WORDS if typed else _reason(deciding) if grant is None else _granted(grant),
        rule_ids=tuple(sorted({finding.rule_id for finding in deciding})),
        rules_hash=rules.hash,
        grant_id=None if grant is None else grant.grant_id,
        grant_uses_left=None if grant is None or grant.uses_left is None else grant.uses_left - 1,
        need=None if typed or grant is not None else need,
        factors=factors,
        findings=findings,
        effects=effects,
    )


def _need(request: Request, effects: tuple[Effect, ...], asks: tuple[Finding, ...], context: Context) -> Need:
    limits = [*((ask.ceiling, ask.words) for ask in asks), *ceiling_caps(request, effects)]
    ceiling, reason = min(limits, key=lambda limit: (limit[0].width, limit[1]))
    asked = {ask.effect.key: ask.effect for ask in asks if ask.effect is not None}
    level = trust_in_force(context.trust_level, request.label.integrity, context.worktree)
    return Need(
        effects=tuple(asked[key] for key in sorted(asked)),
        ceiling=ceiling,
        ceiling_reason=reason,
        strength_min=minimum_strength(level) if runs_program(effects) else 0,
    )


def _reason(deciding: tuple[Finding, ...]) -> str:
    words = tuple(dict.fromkeys(finding.words for finding in deciding))
    left_out = len(words) - REASONS_SHOWN_MAX
    more = (f"And {left_out} more {'reason' if left_out == 1 else 'reasons'}.",) if left_out > 0 else ()
    return " ".join((*words[:REASONS_SHOWN_MAX], *more))


def _granted(grant: Grant) -> str:
    how_long = "once" if grant.scope is Scope.once else f"for this {grant.scope}"
    return f"You allowed it {how_long}: {pattern_words(grant.capability)}."
