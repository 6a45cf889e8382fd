"""What the user's rules say of a proposed file when it is to be written into the user's folder.

Purpose: one answer for a path and what is done to it, whatever tool, program or link it came by.
Invariant: the strictest rule that speaks of the path decides; a link is judged as all that will be found below it.
Must never: take a grant into account: a right is for calls, and a decision on a file is the user's own each time.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.rules.rule import Rule, Source, Subject, Verdict, rule_matches, subject_of
from gloveport.server.policy.rules.ruleset import RuleSet
from gloveport.server.policy.wildcard import path_matches

CHANGING = frozenset({EffectKind.write, EffectKind.delete})
"""What a proposal does to a path."""


@dataclass(frozen=True, slots=True)
class Touch:
    """One path that a proposal changes. `is_link`: what is found below it from then on lies elsewhere."""

    kind: EffectKind
    path: str
    is_link: bool = False


def rules_about_files(rules: RuleSet) -> tuple[Rule, ...]:
    """The rules that are not built in and may keep a file from being accepted with others, or at all.

    One that names tools speaks of these tools, not of the files.
    """
    found = (rule for kind in sorted(CHANGING) for rule in rules.by_kind.get(kind, ()))
    return tuple(
        dict.fromkeys(
            rule
            for rule in found
            if rule.source is not Source.builtin and rule.verdict is not Verdict.allow and not rule.tools
        )
    )


def strictest(rules: Iterable[Rule], touches: Iterable[Touch]) -> Rule | None:
    """The strictest of these rules that speaks of one of the paths; None where none does."""
    given = tuple(touches)
    found = [rule for rule in rules if any(_speaks(rule, touch) for touch in given)]
    return min(found, key=lambda rule: (-rule.verdict.strictness, rule.qualified_id), default=None)


def _speaks(rule: Rule, touch: Touch) -> bool:
    subject = subject_of("", Effect(touch.kind, touch.path))
    return rule_matches(rule, subject) or (touch.is_link and touch.kind in rule.kinds and _below(rule, subject))


def _below(rule: Rule, subject: Subject) -> bool:
    """True if the rule names something below the path."""
    return any(path_matches(glob[:end], subject.parts) for glob in rule.globs for end in range(1, len(glob)))
