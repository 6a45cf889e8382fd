"""Classifies paths: never written, running by themselves, sensitive, outside, ordinary.

Purpose: one answer for every way of reading or writing, from the table of names.
Invariant: the answer depends on the folded name alone, so that no spelling and no absent file gets around it.
Must never: touch a disk, or learn a name from the workspace.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
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
    found = [mark for group in GROUPS if (mark := _mark(group, facts)) is not None]
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


def _mark(group: Group, facts: PathFacts) -> Mark | None:
    if group.cls is PathClass.sensitive and facts.folded[-1:] and facts.folded[-1] in OPEN_FILES:
        return None
    name = next(_hits(group, facts.folded), None)
    return None if name is None else Mark(group.cls, f"{name}: {group.words}")


def _hits(group: Group, folded: tuple[str, ...]) -> Iterator[str]:
    yield from (part for part in folded if any(_same(folder, part) for folder in group.folders))
    if folded:
        yield from (folded[-1] for pattern in group.files if _same(pattern, folded[-1]))
    for path in group.paths:
        run = tuple(path.split("/"))
        if any(folded[at : at + len(run)] == run for at in range(len(folded))):
            yield path


def _same(pattern: str, name: str) -> bool:
    """True if the name is the pattern, or its short name on a volume that makes such (`SSH~1` for `.ssh`)."""
    if "*" in pattern:
        return name_matches(pattern, name)
    return name == pattern or (pattern.startswith(".") and _is_short_of(pattern, name))


def _is_short_of(pattern: str, name: str) -> bool:
    stem, tilde, number = name.split(".", 1)[0].partition("~")
    plain = pattern[1:].replace(".", "")
    return bool(tilde) and number.isdigit() and len(stem) >= _SHORT_STEM_MIN and plain.startswith(stem)


_SHORT_STEM_MIN: Final = 2


def _is_system(target: str, facts: PathFacts) -> bool:
    return target.startswith(("/", "\\")) and facts.folded[:1] != () and facts.folded[0] in SYSTEM_FOLDERS


def _shown(facts: PathFacts) -> str:
    return facts.exact[-1] if facts.exact else "the path"
