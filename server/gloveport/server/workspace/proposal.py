"""What the agent changed, as proposals to the user.

Purpose: compare the worktree with the base, path by path, and describe each difference in hunks.
Invariant: a proposal's digest names path, kind, both contents, both modes; equal trees give no proposal at all.
Must never: propose what is not content, or write anything but the store.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.ids import ChangeId, Sha256
from gloveport.server.edit.changes import Change, ChangeKind, Entry, describe, is_textual
from gloveport.server.edit.hunks import Hunk, content_digest
from gloveport.server.edit.lines import sniff_form
from gloveport.server.edit.patch import exact_patch
from gloveport.server.edit.renames import LIKENESS_BYTES_MAX, Mark, find_renames, likeness
from gloveport.server.edit.render import unified_diff, visible
from gloveport.server.workspace.content import path_state
from gloveport.server.workspace.limits import PREVIEW_BYTES_MAX
from gloveport.server.workspace.look import Look, reason_of
from gloveport.server.workspace.state import FileState, WorkspaceState
from gloveport.server.workspace.store import ContentStore

PROPOSALS_KEPT_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class Proposal:
    """The pending difference of one path. `hunks` is empty where it can only be taken whole.

    Of a rename `path` is the new name, and `base` what lies at `renamed_from`.
    """

    change_id: ChangeId
    path: str
    renamed_from: str | None
    kind: ChangeKind
    base: FileState | None
    result: FileState | None
    digest: Sha256
    hunks: tuple[Hunk, ...]
    binary: bool

    @property
    def base_path(self) -> str:
        """Where the base lies."""
        return self.path if self.renamed_from is None else self.renamed_from

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that a decision on the whole proposal touches, the old name first."""
        return (self.path,) if self.renamed_from is None else (self.renamed_from, self.path)

    def based(self, path: str) -> FileState | None:
        """What the base holds at one of `paths`."""
        return self.base if path == self.base_path else None

    def proposed(self, path: str) -> FileState | None:
        """What the worktree holds at one of `paths`."""
        return self.result if path == self.path else None

    def is_link_at(self, path: str) -> bool:
        """True when taking the proposal would leave a link at one of `paths`."""
        proposed = self.proposed(path)
        return proposed is not None and proposed.kind == "link"

    @property
    def base_digest(self) -> Sha256 | None:
        """Hash of what the user has; None when there is no such file."""
        return None if self.base is None else self.base.digest

    @property
    def result_digest(self) -> Sha256 | None:
        """Hash of what the agent wants; None for a deletion."""
        return None if self.result is None else self.result.digest

    @property
    def base_mode(self) -> int | None:
        """Permission bits before."""
        return None if self.base is None else self.base.mode

    @property
    def result_mode(self) -> int | None:
        """Permission bits after."""
        return None if self.result is None else self.result.mode


@dataclass(frozen=True, slots=True)
class Preview:
    """A proposal to look at. The texts are None where a side is absent, not text, or larger than the limit."""

    proposal: Proposal
    diff: str
    old_text: str | None
    new_text: str | None


_Key = tuple[str, str | None, FileState | None, FileState | None]


@dataclass(slots=True)
class Comparison:
    """Compares again and again; remembers proposals by content."""

    look: Look
    store: ContentStore
    made: dict[_Key, Proposal] = field(default_factory=dict)
    likes: dict[tuple[Sha256, Sha256], float] = field(default_factory=dict)
    found: dict[ChangeId, Proposal] = field(default_factory=dict)
    """The last comparison's, by id."""

    def still(self, change_id: str, state: WorkspaceState) -> Proposal | None:
        """The last comparison's proposal where its own paths hold today what it says; the rest is not looked at.

        None where that cannot be said: the whole comparison knows.
        """
        known = self.found.get(ChangeId(change_id))
        if known is None or not all(self._holds(known, path, state) for path in known.paths):
            return None
        return known

    def _holds(self, known: Proposal, path: str, state: WorkspaceState) -> bool:
        base, result = known.based(path), known.proposed(path)
        if state.base.get(path) != base:
            return False
        try:
            now = path_state(self.look.tree, path, self.look.limits)
        except GloveportError:
            return False
        if now is not None and known.base is not None:
            now = settled_mode(known.base, now)
        return now == result

    def proposals(self, state: WorkspaceState) -> tuple[Proposal, ...]:
        """Every pending difference, ordered by path."""
        current = self.look.current(state)
        for kept in (self.made, self.likes):
            if len(kept) > PROPOSALS_KEPT_MAX:
                kept.clear()
        changed = self.look.differing(state.base, current)
        renamed = self._renamed(changed, state, current)
        moved = set(renamed.values())
        found: list[Proposal] = []
        for path in changed:
            if path in moved:
                continue
            old = renamed.get(path)
            base, result = state.base.get(path if old is None else old), current.get(path)
            if base is not None and result is not None:
                result = settled_mode(base, result)
            if (old is not None or base != result) and (
                proposal := self._proposed((path, old, base, result), len(found))
            ) is not None:
                found.append(proposal)
        self.found = {proposal.change_id: proposal for proposal in found}
        return tuple(found)

    def _renamed(
        self, changed: Iterable[str], state: WorkspaceState, current: Mapping[str, FileState]
    ) -> dict[str, str]:
        """Old names by new ones."""
        gone, made, places = dict[str, Mark](), dict[str, Mark](), dict[Sha256, str]()
        for path in changed:
            base, found = state.base.get(path), current.get(path)
            if found is None and base is not None:
                gone[path] = Mark(base.kind, base.digest)
            elif base is None and found is not None:
                made[path] = Mark(found.kind, found.digest)
                places[found.digest] = path
        return find_renames(gone, made, state.renamed, partial(self._like, places))

    def _like(self, places: Mapping[Sha256, str], old: Sha256, new: Sha256) -> float:
        """How like two contents are; what cannot be read now is like nothing."""
        key = (old, new)
        if key not in self.likes:
            try:
                self._keep(places[new])
                small = max(self.store.size(each) or 0 for each in key) <= LIKENESS_BYTES_MAX
                self.likes[key] = likeness(*map(self.store.get, key)) if small else 0.0
            except GloveportError:
                return 0.0
        return self.likes[key]

    def _proposed(self, key: _Key, before: int) -> Proposal | None:
        """The difference of a path; one that cannot be described is named as not looked at."""
        if before >= self.look.limits.proposals_max:
            self.look.leave_out(key[0], "proposals_max")
            return None
        try:
            known = self.made.get(key)
            if known is None:
                known = self.made[key] = self._fresh(*key)
        except GloveportError as error:
            self.look.leave_out(key[0], reason_of(error))
            return None
        return known

    def _fresh(self, path: str, old: str | None, base: FileState | None, result: FileState | None) -> Proposal:
        if result is not None and not self.store.has(result.digest):
            self._keep(path)
        sides = (entry_of(base, self.store), entry_of(result, self.store))
        change = describe(path, *sides, old)
        return Proposal(
            ChangeId(f"change-{content_digest(path.encode())[:24]}"),
            path,
            old,
            change.kind,
            base,
            result,
            proposal_digest(change, base, result),
            change.hunks,
            not is_textual(*sides),
        )

    def _keep(self, path: str) -> None:
        """Put what lies at a path of the worktree into the store."""
        tree = self.look.tree
        info = tree.state(path)
        if info is not None and stat.S_ISLNK(info.st_mode):
            self.store.put(os.fsencode(tree.link_target(path)))
        else:
            self.store.put(tree.read(path, self.look.limits.file_bytes_max).data)


def entry_of(state: FileState | None, store: ContentStore) -> Entry | None:
    """A path's state with its content."""
    return None if state is None else Entry(state.kind, store.get(state.digest), state.mode)


def proposal_digest(change: Change, base: FileState | None, result: FileState | None) -> Sha256:
    """What a decision on the whole proposal must name."""
    names = [name.encode() for name in (change.path, change.renamed_from) if name is not None]
    return content_digest(*names, change.kind.encode(), _packed(base), _packed(result))


def settled_mode(base: FileState, result: FileState) -> FileState:
    """`result` with the base's mode unless it became executable or ceased to be: other bits are the machine's."""
    if base.kind != result.kind or base.kind == "link":
        return result
    if base.runnable == result.runnable:
        return FileState(result.kind, result.digest, base.mode)
    may_read = (base.mode & 0o444) >> 2
    return FileState(result.kind, result.digest, base.mode | may_read if result.runnable else base.mode & ~0o111)


def preview(proposal: Proposal, store: ContentStore) -> Preview:
    """The proposal as a unified diff and, where they are text, both sides."""
    old = None if proposal.base is None else store.get(proposal.base.digest)
    new = None if proposal.result is None else store.get(proposal.result.digest)
    names = (None if old is None else proposal.base_path, None if new is None else proposal.path)
    diff = unified_diff(names, proposal.hunks)
    return Preview(proposal, _extended(proposal) + (diff or _whole(proposal, old, new)), _text(old), _text(new))


def patch_of(proposal: Proposal) -> bytes:
    """The proposal as a patch for programs; empty where a patch of lines cannot say it."""
    sides = (proposal.base, proposal.result)
    if any(side is not None and side.kind == "link" for side in sides):
        return b""
    if proposal.binary and proposal.base_digest != proposal.result_digest:
        return b""
    modes = (None if side is None else _full_mode(side) for side in sides)
    return exact_patch((proposal.base_path, proposal.path), proposal.hunks, *modes)


def _packed(state: FileState | None) -> bytes:
    return b"absent" if state is None else f"{state.kind} {state.digest} {state.mode:o}".encode()


def _extended(proposal: Proposal) -> str:
    """Header lines for what a unified diff cannot say, in the common extended form."""
    before, after = visible(proposal.base_path), visible(proposal.path)
    lines = [f"diff --git a/{before} b/{after}"]
    base, result = proposal.base, proposal.result
    if base is None and result is not None:
        lines.append(f"new file mode {_full_mode(result)}")
    elif result is None and base is not None:
        lines.append(f"deleted file mode {_full_mode(base)}")
    elif base is not None and result is not None and _full_mode(base) != _full_mode(result):
        lines += [f"old mode {_full_mode(base)}", f"new mode {_full_mode(result)}"]
    if proposal.renamed_from is not None:
        lines += [f"rename from {before}", f"rename to {after}"]
    return "\n".join(lines) + "\n"


def _full_mode(state: FileState) -> str:
    if state.kind == "link":
        return "120000"
    return "100755" if state.runnable else "100644"


def _whole(proposal: Proposal, old: bytes | None, new: bytes | None) -> str:
    base, result = proposal.base, proposal.result
    if base is not None and result is not None and (base.kind, base.digest) == (result.kind, result.digest):
        return ""
    if proposal.kind is ChangeKind.symlink:
        sides = []
        for mark, state, data in (("-", proposal.base, old), ("+", proposal.result, new)):
            if state is not None and data is not None and state.kind == "link":
                sides.append(f"{mark}link to {visible(data.decode('utf-8', 'backslashreplace'))}")
        return "\n".join(sides) + "\n"
    if proposal.binary:
        sizes = f"{len(old or b'')} bytes before, {len(new or b'')} bytes after"
        return f"Binary files differ: {sizes}\n"
    return ""


def _text(data: bytes | None) -> str | None:
    if data is None or len(data) > PREVIEW_BYTES_MAX:
        return None
    form = sniff_form(data)
    if not form.editable:
        return None
    return data[len(form.bom) :].decode(form.encoding.value)
