"""Which paths may be read without anybody being asked.

Purpose: one answer, from the rules in force, for whoever looks at many files at once: a search, a jail's view.
Invariant: a path is open only where the rules simply allow reading and searching it; everything else is kept.
Must never: take a grant or a trust level into account, or look at a disk.
"""

from functools import lru_cache
from typing import Final

from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.protected import path_classes
from gloveport.server.policy.protected_table import PathClass
from gloveport.server.policy.rules.rule import Verdict, subject_of
from gloveport.server.policy.rules.ruleset import RuleSet

PATHS_CACHED_MAX = 65_536
_LOOKS: Final = (("read_file", EffectKind.read), ("search", EffectKind.search))


class Reading:
    """The rules, asked about reading. `is_kept` is one and the same function for the life of the object."""

    def __init__(self, rules: RuleSet) -> None:
        self._rules = rules
        self.is_kept = lru_cache(maxsize=PATHS_CACHED_MAX)(self._is_kept)
        self._by_class: dict[frozenset[PathClass], bool] = {}

    def _is_kept(self, path: str) -> bool:
        """True unless every rule that speaks of reading or searching the path allows it, and one does."""
        classes = path_classes(path)
        known = self._by_class.get(classes)
        if known is None:
            known = any(self._asks(tool, kind, path) for tool, kind in _LOOKS)
            if not self._depends_on_names(classes):
                self._by_class[classes] = known
        return known

    def _depends_on_names(self, classes: frozenset[PathClass]) -> bool:
        """True if two paths of these classes may be answered differently: a rule names some of them."""
        rules = [rule for _, kind in _LOOKS for rule in self._rules.by_kind.get(kind, ())]
        return any(rule.globs and (not rule.classes or rule.classes & classes) for rule in rules)

    def _asks(self, tool: str, kind: EffectKind, path: str) -> bool:
        found = self._rules.matching(subject_of(tool, Effect(kind, path)))
        return not found or any(rule.verdict is not Verdict.allow for rule in found)
