"""What speaks about a call: rules about each effect, and what the kernel itself asks of every call.

Purpose: one list of reasons, each with its verdict and the longest grant that may answer it.
Invariant: an effect that no rule speaks of is asked about; a finding is never taken back by another.
Must never: look at grants.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gloveport.server.policy.capability import Scope
from gloveport.server.policy.effects import Effect
from gloveport.server.policy.request import Request
from gloveport.server.policy.rules.rule import CommandLine, Rule, Source, Subject, Verdict, subject_of
from gloveport.server.policy.rules.ruleset import RuleSet

KERNEL = "kernel"


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason. `effect` None: about the call as a whole. `ceiling`: the longest grant that may answer an ask."""

    rule_id: str
    verdict: Verdict
    words: str
    effect: Effect | None = None
    ceiling: Scope = Scope.once

    @property
    def order(self) -> tuple[int, str, str, str]:
        """Strictest first, then by name, effect and words: the same whatever the order they were found in."""
        return (-self.verdict.strictness, self.rule_id, "" if self.effect is None else self.effect.key, self.words)


def deny(check: str, words: str, effect: Effect | None = None) -> Finding:
    """A finding of the kernel that nothing can answer."""
    return Finding(f"{KERNEL}:{check}", Verdict.deny, words, effect)


def ask(check: str, words: str, effect: Effect | None = None, ceiling: Scope = Scope.once) -> Finding:
    """A finding of the kernel that the user may answer, for at most `ceiling`."""
    return Finding(f"{KERNEL}:{check}", Verdict.ask, words, effect, ceiling)


def rule_findings(request: Request, effects: tuple[Effect, ...], rules: RuleSet) -> Iterator[Finding]:
    """What the rules say about each effect, or about a call without any."""
    if not effects and not request.unknown:
        found = rules.matching(subject_of(request.tool, None))
        if all(rule.source is Source.session for rule in found):
            yield ask("no-effect", "The tool does not say what it does.")
        yield from _said(found, None)
    totals = Counter(effect.kind for effect in effects)
    line = CommandLine(request.argv, request.commands, request.only_looks)
    for effect in effects:
        subject = subject_of(request.tool, effect, line, totals[effect.kind])
        yield from _about(subject, effect, rules)


def _about(subject: Subject, effect: Effect, rules: RuleSet) -> Iterator[Finding]:
    found = rules.matching(subject)
    if all(rule.source is Source.session for rule in found):
        yield ask("no-rule", "No rule speaks of this, so it is asked about.", effect)
    yield from _said(found, effect)


def _said(rules: Iterable[Rule], effect: Effect | None) -> Iterator[Finding]:
    return (Finding(rule.qualified_id, rule.verdict, rule.justification, effect, rule.ceiling) for rule in rules)
