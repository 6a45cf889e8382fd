"""Changes: what one path, or a renamed pair of paths, was and shall be.

Purpose: name the difference of two trees path by path, and say what each path holds when some of it is decided.
Invariant: taking a whole change over the base gives the result, leaving it out of the result gives the base; a part
holds exactly the chosen hunks' lines; no path that is not named is touched.
Must never: pair two paths of which one lies below the other, or cut what is no text into hunks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum, unique
from typing import Literal

from gloveport.server.edit.apply import apply_hunks, revert_hunks
from gloveport.server.edit.hunks import Hunk, diff_hunks
from gloveport.server.edit.lines import Encoding, sniff_form
from gloveport.server.edit.names import fold_path
from gloveport.server.edit.renames import Mark, find_renames, likeness
from gloveport.server.edit.replace import hash_of

EntryKind = Literal["file", "link"]


@unique
class ChangeKind(StrEnum):
    """What becomes of a path. A link that is made, changed or removed is `symlink`, whatever else it is."""

    create = "create"
    modify = "modify"
    delete = "delete"
    rename = "rename"
    case_rename = "case_rename"
    """The new name and the old one are one name on some file systems."""
    mode = "mode"
    symlink = "symlink"
    binary = "binary"


RENAMES = frozenset({ChangeKind.rename, ChangeKind.case_rename})


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a tree; absence is None. `mode` holds permission bits; a link has 0, and its target as `data`."""

    kind: EntryKind
    data: bytes
    mode: int


Tree = Mapping[str, Entry]
Ends = dict[str, Entry | None]


@dataclass(frozen=True, slots=True)
class Change:
    """The difference of one path. Of a rename `path` is the new name, and `base` what lies under the old one."""

    path: str
    renamed_from: str | None
    kind: ChangeKind
    base: Entry | None
    result: Entry | None
    hunks: tuple[Hunk, ...]

    @property
    def base_path(self) -> str:
        """Where the base lies."""
        return self.path if self.renamed_from is None else self.renamed_from


def describe(path: str, base: Entry | None, result: Entry | None, renamed_from: str | None = None) -> Change:
    """The change of one path; its hunks are empty where it can only be taken whole."""
    link = "link" in (base.kind if base else "", result.kind if result else "")
    textual = not link and is_textual(base, result)
    old, new = (b"" if side is None else side.data for side in (base, result))
    hunks = diff_hunks(old, new, path) if textual else ()
    return Change(path, renamed_from, kind_of(path, base, result, renamed_from, textual), base, result, hunks)


def is_textual(base: Entry | None, result: Entry | None) -> bool:
    """True when no side is binary."""
    return all(side is None or sniff_form(side.data).encoding is not Encoding.BINARY for side in (base, result))


def kind_of(path: str, base: Entry | None, result: Entry | None, renamed_from: str | None, textual: bool) -> ChangeKind:
    """The kind of a difference."""
    if renamed_from is not None:
        return ChangeKind.case_rename if fold_path(renamed_from) == fold_path(path) else ChangeKind.rename
    if "link" in (base.kind if base else "", result.kind if result else ""):
        return ChangeKind.symlink
    if base is None or result is None:
        return ChangeKind.create if base is None else ChangeKind.delete
    if base.data == result.data:
        return ChangeKind.mode
    return ChangeKind.modify if textual else ChangeKind.binary


def change_set(base: Tree, result: Tree, explicit: Mapping[str, str] | None = None) -> tuple[Change, ...]:
    """Every difference of two trees, ordered by path. `explicit` are renames that are known, old names by new ones."""
    contents = {hash_of(each.data): each.data for each in (*base.values(), *result.values())}
    pairs = find_renames(
        _marks(base), _marks(result), explicit or {}, lambda old, new: likeness(contents[old], contents[new])
    )
    moved = set(pairs.values())
    found = []
    for path in sorted(base.keys() | result.keys()):
        old = pairs.get(path)
        if old is not None:
            found.append(describe(path, base[old], result[path], old))
        elif path not in moved and base.get(path) != result.get(path):
            found.append(describe(path, base.get(path), result.get(path)))
    return tuple(found)


def _marks(tree: Tree) -> dict[str, Mark]:
    return {path: Mark(entry.kind, hash_of(entry.data)) for path, entry in tree.items()}


def taken(change: Change, hunks: Iterable[Hunk] | None = None) -> Ends:
    """What the paths of the accepting side hold when the change, or those of its hunks, is taken.

    Hunks of a rename are taken under the old name: the new name and the mode are taken with the whole change alone.
    """
    if hunks is None or change.base is None or change.result is None:
        gone: Ends = {} if change.renamed_from is None else {change.renamed_from: None}
        return {**gone, change.path: change.result}
    return {change.base_path: replace(change.base, data=apply_hunks(change.base.data, hunks))}


def left(change: Change, hunks: Iterable[Hunk] | None = None) -> Ends:
    """What the paths of the proposing side hold when the change, or those of its hunks, is rejected."""
    if hunks is None or change.base is None or change.result is None:
        gone: Ends = {} if change.renamed_from is None else {change.path: None}
        return {**gone, change.base_path: change.base}
    return {change.path: replace(change.result, data=revert_hunks(change.result.data, hunks))}


def with_ends(tree: Tree, ends: Mapping[str, Entry | None]) -> dict[str, Entry]:
    """The tree with these paths as told."""
    changed = {path: entry for path, entry in tree.items() if path not in ends}
    return changed | {path: entry for path, entry in ends.items() if entry is not None}
