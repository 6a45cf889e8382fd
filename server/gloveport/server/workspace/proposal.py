"""What the agent changed, as proposals to the user.

Purpose: compare the worktree with the base, path by path, and describe each difference in hunks.
Invariant: a proposal's digest names path, kind, both contents, both modes; equal trees give no proposal at all.
Must never: propose what is not content, or write anything but the store.
"""

import os
from dataclasses import dataclass, field
from typing import Final, Literal

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.ids import ChangeId, Sha256
from gloveport.server.edit.hunks import Hunk, content_digest, diff_hunks
from gloveport.server.edit.lines import Encoding, sniff_form
from gloveport.server.edit.patch import exact_patch
from gloveport.server.edit.render import unified_diff, visible
from gloveport.server.workspace.limits import PREVIEW_BYTES_MAX
from gloveport.server.workspace.look import Look, differing, reason_of
from gloveport.server.workspace.state import FileState, WorkspaceState
from gloveport.server.workspace.store import ContentStore

ChangeKind = Literal["create", "modify", "delete", "mode", "symlink", "binary"]

PROPOSALS_KEPT_MAX: Final = 4_096


@dataclass(frozen=True, slots=True)
class Proposal:
    """The pending difference of one path. `hunks` is empty where it can only be taken whole."""

    change_id: ChangeId
    path: str
    kind: ChangeKind
    base: FileState | None
    result: FileState | None
    digest: Sha256
    hunks: tuple[Hunk, ...]
    binary: bool

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


@dataclass(slots=True)
class Comparison:
    """Compares again and again; remembers proposals by content."""

    look: Look
    store: ContentStore
    made: dict[tuple[str, FileState | None, FileState | None], Proposal] = field(default_factory=dict)

    def proposals(self, state: WorkspaceState) -> tuple[Proposal, ...]:
        """Every pending difference, ordered by path."""
        current = self.look.current(state)
        if len(self.made) > PROPOSALS_KEPT_MAX:
            self.made.clear()
        found: list[Proposal] = []
        for path in differing(state.base, current):
            base, result = state.base.get(path), current.get(path)
            if base is not None and result is not None:
                result = settled_mode(base, result)
            if base != result and (proposal := self._proposed(path, base, result, len(found))) is not None:
                found.append(proposal)
        return tuple(found)

    def _proposed(self, path: str, base: FileState | None, result: FileState | None, before: int) -> Proposal | None:
        """The difference of a path; one that cannot be described is named as not looked at."""
        if before >= self.look.limits.proposals_max:
            self.look.leave_out(path, "proposals_max")
            return None
        try:
            return self._proposal(path, base, result)
        except GloveportError as error:
            self.look.leave_out(path, reason_of(error))
            return None

    def _proposal(self, path: str, base: FileState | None, result: FileState | None) -> Proposal:
        key = (path, base, result)
        known = self.made.get(key)
        if known is None:
            known = self.made[key] = self._fresh(path, base, result)
        return known

    def _fresh(self, path: str, base: FileState | None, result: FileState | None) -> Proposal:
        old = b"" if base is None else self.store.get(base.digest)
        new = b"" if result is None else self._kept(path, result)
        link = "link" in (base.kind if base else "", result.kind if result else "")
        binary = Encoding.BINARY in (sniff_form(old).encoding, sniff_form(new).encoding)
        hunks = () if link or binary else diff_hunks(old, new, path)
        kind = _kind(base, result, link=link, binary=binary)
        return Proposal(
            ChangeId(f"change-{content_digest(path.encode())[:24]}"),
            path,
            kind,
            base,
            result,
            proposal_digest(path, kind, base, result),
            hunks,
            binary,
        )

    def _kept(self, path: str, result: FileState) -> bytes:
        if not self.store.has(result.digest):
            if result.kind == "link":
                self.store.put(os.fsencode(self.look.tree.link_target(path)))
            else:
                self.store.put(self.look.tree.read(path, self.look.limits.file_bytes_max).data)
        return self.store.get(result.digest)


def proposal_digest(path: str, kind: str, base: FileState | None, result: FileState | None) -> Sha256:
    """What a decision on the whole proposal must name."""
    return content_digest(path.encode(), kind.encode(), _packed(base), _packed(result))


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
    diff = unified_diff(proposal.path, proposal.hunks, created=old is None, deleted=new is None)
    return Preview(proposal, _extended(proposal) + (diff or _whole(proposal, old, new)), _text(old), _text(new))


def patch_of(proposal: Proposal) -> bytes:
    """The proposal as a patch for programs; empty where a patch of lines cannot say it."""
    if proposal.kind in ("symlink", "binary") or proposal.binary:
        return b""
    modes = (None if side is None else _full_mode(side) for side in (proposal.base, proposal.result))
    return exact_patch(proposal.path, proposal.hunks, *modes)


def _kind(base: FileState | None, result: FileState | None, *, link: bool, binary: bool) -> ChangeKind:
    if base is None or result is None:
        return "symlink" if link else ("create" if base is None else "delete")
    if link:
        return "symlink"
    if base.digest == result.digest:
        return "mode"
    return "binary" if binary else "modify"


def _packed(state: FileState | None) -> bytes:
    return b"absent" if state is None else f"{state.kind} {state.digest} {state.mode:o}".encode()


def _extended(proposal: Proposal) -> str:
    """Header lines for what a unified diff cannot say, in the common extended form."""
    shown = visible(proposal.path)
    lines = [f"diff --git a/{shown} b/{shown}"]
    base, result = proposal.base, proposal.result
    if base is None and result is not None:
        lines.append(f"new file mode {_full_mode(result)}")
    elif result is None and base is not None:
        lines.append(f"deleted file mode {_full_mode(base)}")
    elif base is not None and result is not None and _full_mode(base) != _full_mode(result):
        lines += [f"old mode {_full_mode(base)}", f"new mode {_full_mode(result)}"]
    return "\n".join(lines) + "\n"


def _full_mode(state: FileState) -> str:
    if state.kind == "link":
        return "120000"
    return "100755" if state.runnable else "100644"


def _whole(proposal: Proposal, old: bytes | None, new: bytes | None) -> str:
    if proposal.kind == "symlink":
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
