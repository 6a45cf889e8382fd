"""The rules of one session, on top of everybody's.

Purpose: the rule set and the answer about reading that hold in a session with rules of its own.
Invariant: rules of a session only narrow: they ask or refuse, and take nothing away that another rule asks for; text
that this build cannot read refuses everything.
Must never: touch the set that all sessions share.
"""

from functools import lru_cache
from typing import Final

from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.errors import RulesInvalidError
from gloveport.server.policy.reading import Reading
from gloveport.server.policy.rules.load import load_rules
from gloveport.server.policy.rules.rule import Rule, Source, Verdict
from gloveport.server.policy.rules.ruleset import RuleSet, build_ruleset

SETS_KEPT_MAX: Final = 64
UNREADABLE: Final = Rule(
    rule_id="session-rules-unreadable",
    source=Source.session,
    kinds=frozenset(EffectKind),
    verdict=Verdict.deny,
    justification="This session's own rules cannot be read by this version; set them again (gloveport policy rules).",
)


class SessionRules:
    """The shared rules, with those of a session added. Sets are remembered by the text they were made of."""

    def __init__(self, shared: RuleSet, reading: Reading) -> None:
        self._shared, self._reading = shared, reading
        self._made = lru_cache(maxsize=SETS_KEPT_MAX)(self._make)

    def check(self, text: str) -> tuple[Rule, ...]:
        """The rules of a text, if a session may have them. Raises RulesInvalidError."""
        rules = load_rules(text, Source.session)
        build_ruleset((*self._shared.rules, *rules))
        return rules

    def of(self, text: str) -> RuleSet:
        """The set in force in a session with this text; empty: no rules of its own."""
        return self._made(text)[0] if text else self._shared

    def reading(self, text: str) -> Reading:
        """Which paths may be read without being asked about there."""
        return self._made(text)[1] if text else self._reading

    def _make(self, text: str) -> tuple[RuleSet, Reading]:
        try:
            own = self.check(text)
        except RulesInvalidError:
            own = (UNREADABLE,)
        rules = build_ruleset((*self._shared.rules, *own))
        return rules, Reading(rules)
