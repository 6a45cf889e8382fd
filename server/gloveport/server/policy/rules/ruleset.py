"""The rules in force.

Purpose: all sources together, indexed by kind of effect, with one hash that decisions record.
Invariant: an id is unique over all sources; the order of rules changes nothing, not even the hash; adding a rule of any
source never makes a verdict milder than a rule of another source asks for; a session's rules silence no other.
Must never: change after it was built; a new set is a new value with a new hash.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gloveport.protocol.ids import Sha256
from gloveport.server.policy.commands import commands_digest
from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.errors import RulesInvalidError
from gloveport.server.policy.protected import table_digest
from gloveport.server.policy.rules.load import load_rules
from gloveport.server.policy.rules.rule import Rule, Source, Subject, rule_matches
from gloveport.server.policy.shell.looks import looks_digest

Index = Mapping[EffectKind | None, tuple[Rule, ...]]


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules by source and their hash; made by `build_ruleset`."""

    rules: tuple[Rule, ...]
    hash: Sha256
    by_kind: Index

    def matching(self, subject: Subject) -> tuple[Rule, ...]:
        """The rules that speak about the subject: all that match, or the fallbacks where no other does.

        A session's own rules speak beside them, and never in a fallback's place.
        """
        kind = None if subject.effect is None else subject.effect.kind
        found = [rule for rule in self.by_kind.get(kind, ()) if rule_matches(rule, subject)]
        own = tuple(rule for rule in found if rule.source is Source.session)
        firm = tuple(rule for rule in found if not rule.fallback and rule.source is not Source.session)
        return (*(firm or (rule for rule in found if rule.fallback)), *own)


def build_ruleset(rules: Iterable[Rule]) -> RuleSet:
    """The set of these rules; raises RulesInvalidError when two share an id, whatever their sources."""
    ordered = tuple(sorted(rules, key=lambda rule: rule.qualified_id))
    seen: set[str] = set()
    for rule in ordered:
        if rule.rule_id in seen:
            raise RulesInvalidError(rule.source, rule.rule_id, "another rule has this id")
        seen.add(rule.rule_id)
    keys: list[EffectKind | None] = [None, *EffectKind]
    index = {key: tuple(rule for rule in ordered if _speaks_of(rule, key)) for key in keys}
    return RuleSet(ordered, _hash(ordered), MappingProxyType(index))


def ruleset_from_texts(texts: Mapping[Source, str]) -> RuleSet:
    """Loads one text per source and builds the set; raises RulesInvalidError."""
    return build_ruleset(rule for source, text in texts.items() for rule in load_rules(text, source))


def _speaks_of(rule: Rule, kind: EffectKind | None) -> bool:
    return not rule.kinds if kind is None else kind in rule.kinds


def _hash(rules: tuple[Rule, ...]) -> Sha256:
    body = {
        "rules": [_plain(rule) for rule in rules],
        "protected": table_digest(),
        "commands": commands_digest(),
        "looks": looks_digest(),
    }
    return Sha256(hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest())


def _plain(rule: Rule) -> list[object]:
    return [
        rule.rule_id,
        rule.source,
        sorted(rule.kinds),
        rule.verdict,
        rule.justification,
        rule.tools,
        sorted(rule.classes),
        rule.paths,
        rule.argv,
        rule.hosts,
        rule.mass,
        rule.only_looks,
        rule.ceiling,
        rule.fallback,
    ]
