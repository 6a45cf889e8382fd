"""The decision.

Purpose: one call, the rules, the grants and the circumstances in; allow, ask or deny out, with every reason.
Invariant: the strictest finding wins (deny, then ask, then allow); a grant answers what is asked and nothing that is
denied; what no rule speaks of is asked; an order of rules or grants changes nothing.
Must never: raise, read a clock, or let a grant reach further than the card that issued it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gloveport.protocol.ids import GrantId, Sha256
from gloveport.server.policy.capability import Scope
from gloveport.server.policy.effects import Effect
from gloveport.server.policy.grant import Grant
from gloveport.server.policy.request import Context, Request
from gloveport.server.policy.rules.rule import Verdict
from gloveport.server.policy.rules.ruleset import RuleSet


@dataclass(frozen=True, slots=True)
class Need:
    """What an answer has to cover: the effects asked about, and the longest scope that may answer, with why no longer."""

    effects: tuple[Effect, ...]
    ceiling: Scope
    ceiling_reason: str
    strength_min: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer. `need` is set when the verdict is ask; `grant_id` when a grant made an ask into an allow.

    `grant_uses_left` is what is left of that grant after this use; None: any number of uses, or no grant.
    """

    verdict: Verdict
    risk: str
    reason: str
    rule_ids: tuple[str, ...]
    rules_hash: Sha256
    grant_id: GrantId | None = None
    grant_uses_left: int | None = None
    need: Need | None = None


def decide(request: Request, rules: RuleSet, grants: Sequence[Grant], context: Context) -> Decision:
    """Decide about one call."""
    raise NotImplementedError
