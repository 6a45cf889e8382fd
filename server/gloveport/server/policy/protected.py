"""Classifies paths: never written, running by themselves, sensitive, outside, ordinary.

Purpose: one answer for every way of reading or writing, from the table of names.
Invariant: the answer depends on the folded name alone, so that no spelling and no absent file gets around it.
Must never: touch a disk, or learn a name from the workspace.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from gloveport.protocol.ids import Sha256
from gloveport.server.policy.names import PathFacts, path_facts
from gloveport.server.policy.protected_table import (
    GROUPS,
    OPEN_FILES,
    SYSTEM_FOLDERS,
    TABLE_VERSION,
    Group,
    PathClass,
)
from gloveport.server.policy.wildcard import name_matches

VERDICTS_CACHED_MAX = 4096


@dataclass(frozen=True, slots=True)
class Mark:
    """One class a path belongs to, and why in words ("`.envrc`: it is run …")."""

    cls: PathClass
    words: str


@lru_cache(maxsize=VERDICTS_CACHED_MAX)
def marks(target: str) -> tuple[Mark, ...]:
    """Every class of a workspace-relative (or outside) path, the reasons in words; never empty."""
    facts = path_facts(target)
    groups = GROUPS if _is_special(facts.folded) else ()
    found = [mark for group in groups if (mark := _mark(group, facts)) is not None]
    if facts.outside:
        found.append(Mark(PathClass.outside, f"{_shown(facts)}: it lies outside the workspace"))
        if _is_system(target, facts):
            found.append(Mark(PathClass.sensitive, f"{_shown(facts)}: the machine shows its inside there"))
    return tuple(found) or (Mark(PathClass.ordinary, "an ordinary file of the project"),)


def path_classes(target: str) -> frozenset[PathClass]:
    """The classes of a path; exactly `{ordinary}` when nothing is special about it."""
    return frozenset(mark.cls for mark in marks(target))


def is_never_written(target: str) -> bool:
    """True for `.git` in any spelling, at any depth, and for our own names: no change may ever touch it."""
    return PathClass.never in path_classes(target)


def runs_by_itself(target: str) -> str | None:
    """The word on why a file runs by itself (accepted one by one only), or None if it does not."""
    return next((mark.words for mark in marks(target) if mark.cls is PathClass.runs_by_itself), None)


def is_sensitive(target: str) -> bool:
    """True if reading the path is a capability of its own."""
    return PathClass.sensitive in path_classes(target)


def table_digest() -> Sha256:
    """SHA-256 of the table in force; part of the rules' hash."""
    text = repr((TABLE_VERSION, GROUPS, OPEN_FILES, SYSTEM_FOLDERS))
    return Sha256(hashlib.sha256(text.encode()).hexdigest())


def _is_special(folded: tuple[str, ...]) -> bool:
    """False for nearly every path: no component is in any group, so that no group need be asked."""
    names = _named(_every_name())
    return any(names.has(part) for part in folded)


@lru_cache(maxsize=1)
def _every_name() -> tuple[str, ...]:
    """All patterns of all groups; of a run of components, its first."""
    firsts = (path.split("/")[0] for group in GROUPS for path in group.paths)
    return (*firsts, *(name for group in GROUPS for name in (*group.folders, *group.files)))


def _mark(group: Group, facts: PathFacts) -> Mark | None:
    if group.cls is PathClass.sensitive and facts.folded[-1:] and facts.folded[-1] in OPEN_FILES:
        return None
    name = next(_hits(group, facts.folded), None)
    return None if name is None else Mark(group.cls, f"{name}: {group.words}")


def _hits(group: Group, folded: tuple[str, ...]) -> Iterator[str]:
    folders, files = _named(group.folders), _named(group.files)
    yield from (part for part in folded if folders.has(part))
    if folded and files.has(folded[-1]):
        yield folded[-1]
    for path in group.paths:
        run = tuple(path.split("/"))
        if any(folded[at : at + len(run)] == run for at in range(len(folded))):
            yield path


@dataclass(frozen=True, slots=True)
class _Names:
    """Patterns sorted by how they are compared; the starred ones by the character they begin, or else end, with."""

    plain: frozenset[str]
    starred: Mapping[tuple[str, str], tuple[str, ...]]

    def has(self, name: str) -> bool:
        """True if a pattern is the name, matches it, or has it as its short name (`SSH~1` for `.ssh`)."""
        if name in self.plain:
            return True
        for edge in ((name[:1], ""), ("", name[-1:]), ("", "")):
            if any(name_matches(pattern, name) for pattern in self.starred.get(edge, ())):
                return True
        return "~" in name and any(_is_short_of(pattern, name) for pattern in self.plain if pattern.startswith("."))


@lru_cache(maxsize=3 * len(GROUPS))
def _named(patterns: tuple[str, ...]) -> _Names:
    starred: dict[tuple[str, str], tuple[str, ...]] = {}
    for pattern in patterns:
        if "*" in pattern:
            edge = _edge(pattern)
            starred[edge] = (*starred.get(edge, ()), pattern)
    return _Names(frozenset(pattern for pattern in patterns if "*" not in pattern), MappingProxyType(starred))


def _edge(pattern: str) -> tuple[str, str]:
    if pattern[0] != "*":
        return (pattern[0], "")
    return ("", pattern[-1] if pattern[-1] != "*" else "")


def _is_short_of(pattern: str, name: str) -> bool:
    stem, tilde, number = name.split(".", 1)[0].partition("~")
    plain = pattern[1:].replace(".", "")
    return bool(tilde) and number.isdigit() and len(stem) >= _SHORT_STEM_MIN and plain.startswith(stem)


_SHORT_STEM_MIN: Final = 2


def _is_system(target: str, facts: PathFacts) -> bool:
    return target.startswith(("/", "\\")) and facts.folded[:1] != () and facts.folded[0] in SYSTEM_FOLDERS


def _shown(facts: PathFacts) -> str:
    return facts.exact[-1] if facts.exact else "the path"
