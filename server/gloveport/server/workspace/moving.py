"""From one state of a user's file to another, wherever the user has it.

Purpose: plan the step of one path on the user's side: in the file, in the editor that shows it, or merged with what
the user made of it meanwhile.
Invariant: what the user changed elsewhere in the file survives; where it meets the change, both sides are told.
Must never: plan a write over content that it did not see.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import Sha256
from gloveport.server.edit.hunks import diff_hunks
from gloveport.server.edit.lines import Encoding, same_units, sniff_form, split_lines
from gloveport.server.edit.matching import changed_ranges
from gloveport.server.edit.merge import merge_texts
from gloveport.server.edit.render import unified_diff
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.content import fits, path_state
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.limits import WorkspaceLimits
from gloveport.server.workspace.opened import NEW_FILE_MODE, OpenText, UserSide, takes_edit, user_side
from gloveport.server.workspace.plan import BaseStep, BufferStep, Plan, Side, Step
from gloveport.server.workspace.state import FileState, WorkspaceState
from gloveport.server.workspace.store import ContentStore

CONFLICT_TEXT_MAX: Final = 8_000


@dataclass(frozen=True, slots=True)
class Move:
    """What brings one path where it shall be. `worktree` takes over what the user changed in the same file."""

    base: BaseStep
    step: Step | None = None
    buffer: BufferStep | None = None
    worktree: Step | None = None


@dataclass(frozen=True, slots=True)
class Mover:
    """Plans moves against one state, the user's folder, and what editors show of it."""

    state: WorkspaceState
    worktree: Root
    store: ContentStore
    limits: WorkspaceLimits
    texts: Sequence[OpenText]

    def toward(self, root: Root, wanted: Step, *, exact: bool = False, keeps_added: bool = False) -> Move:
        """Bring the user's path from before to after, over what the user changed beside it.

        Folders of `wanted` go with a file that goes, once they are empty; with `keeps_added` lines that the user added
        to such a file stay as all of it. Raises WorkspaceError `change.conflict` with both sides where it cannot be.
        """
        path, before, after = wanted.path, wanted.before, wanted.after
        side = user_side(root, path, self.texts, self.limits, exact=exact)
        current = self.state.base.get(path)
        if fits(side.found, after, before):
            return Move(BaseStep(path, current, after))
        target, taken = after, None
        if not fits(side.found, before, after):
            target = self._added(before, after, side) if keeps_added else None
            if target is None:
                target = self._merged(path, before, after, side, is_later=fits(side.found, current, None))
            taken = self._taken_over(path, current, side)
            self.store.put(side.data or b"")
        if side.refusal is not None:
            raise refused(path, side.refusal)
        move = Move(BaseStep(path, current, target), worktree=taken)
        if side.documents and self._is_text_edit(side, target):
            return replace(move, buffer=BufferStep(path, side.found, target, side.documents))
        if side.unsaved:
            raise refused(path, "it is open with unsaved changes, and no editor can make this change in its text")
        folders = wanted.new_folders if target is None else missing_folders(root, path)
        return replace(move, step=replace(wanted, before=side.found, after=target, new_folders=folders))

    def _is_text_edit(self, side: UserSide, target: FileState | None) -> bool:
        found = side.found
        if found is None or target is None or (found.kind, target.kind) != ("file", "file"):
            return False
        return found.runnable == target.runnable and takes_edit(side.data, self.bytes_of(target))

    def _added(self, before: FileState | None, after: FileState | None, side: UserSide) -> FileState | None:
        """Nothing but the lines that the user added to a file that shall go; None where that is not all they did."""
        found = side.found
        if after is not None or before is None or found is None or {before.kind, found.kind} != {"file"}:
            return None
        old, new = self.bytes_of(before), side.data or b""
        if Encoding.BINARY in {sniff_form(data).encoding for data in (old, new)} or not same_units(old, new):
            return None
        lines = split_lines(new)
        changes = changed_ranges(split_lines(old), lines)
        if any(each.old_start != each.old_end for each in changes):
            return None
        own = b"".join(line for each in changes for line in lines[each.new_start : each.new_end])
        return FileState("file", self.store.put(own), found.mode)

    def _merged(
        self, path: str, before: FileState | None, after: FileState | None, side: UserSide, *, is_later: bool
    ) -> FileState:
        """`after` with what became of `before` meanwhile: by the user's hand, or (`is_later`) by a later decision."""
        ends = (before, after, side.found)
        if side.data is None or any(end is None or end.kind != "file" for end in ends):
            raise self.moved_on(path, "root", before, side.found, side.data, after)
        old, new = self.bytes_of(before), self.bytes_of(after)
        if Encoding.BINARY in {sniff_form(data).encoding for data in (old, new, side.data)}:
            raise self.moved_on(path, "root", before, side.found, side.data, after)
        try:
            merged = merge_texts(old, new, side.data, path=path)
        except GloveportError as error:
            told = self.moved_on(path, "root", before, side.found, side.data, after)
            told.data["line"] = error.data.get("line")
            if is_later:
                told.hint = "A later decision, or an edit taken over, builds on these lines: undo the later one first."
            raise told from None
        return self._with_mode(self.store.put(merged), before, after, side.found)

    def _with_mode(
        self, digest: Sha256, before: FileState | None, after: FileState | None, found: FileState | None
    ) -> FileState:
        """The mode is the user's, unless the change is about who may run the file."""
        is_about = before is not None and after is not None and before.runnable != after.runnable
        kept = after if is_about or found is None else found
        return FileState("file", digest, NEW_FILE_MODE if kept is None else kept.mode)

    def _taken_over(self, path: str, current: FileState | None, side: UserSide) -> Step | None:
        """The worktree's file with the user's edits, when the base has not got them yet."""
        ours = path_state(self.worktree, path, self.limits)
        if current is None or ours is None or fits(side.found, current, None):
            return None
        if ours.kind != "file" or current.kind != "file":
            raise self.moved_on(path, "root", current, side.found, side.data, ours)
        data = self._worktree_bytes(path, ours)
        try:
            merged = merge_texts(self.bytes_of(current), data, side.data or b"", path=path)
        except GloveportError:
            raise self.moved_on(path, "root", current, side.found, side.data, ours) from None
        after = replace(ours, digest=self.store.put(merged))
        return None if after == ours else Step("worktree", path, ours, after)

    def _worktree_bytes(self, path: str, ours: FileState) -> bytes:
        if not self.store.has(ours.digest):
            self.store.put(self.worktree.read(path, self.limits.file_bytes_max).data)
        return self.store.get(ours.digest)

    def bytes_of(self, state: FileState | None) -> bytes:
        """The content of an end; empty for an absent one."""
        return b"" if state is None else self.store.get(state.digest)

    def kept(self, plan: Plan) -> Plan:
        """The plan, once every content it names is durable in the store."""
        ends = [end for step in plan.steps for end in (step.before, step.after)]
        ends += [end for step in plan.base_steps for end in (step.before, step.after)]
        ends += [end for step in plan.buffers for end in (step.before, step.after)]
        for end in ends:
            self.bytes_of(end)
        self.store.sync()
        return plan

    def moved_on(
        self,
        path: str,
        side: Side,
        expected: FileState | None,
        found: FileState | None,
        data: bytes | None,
        wanted: FileState | None,
    ) -> WorkspaceError:
        """The refusal over a path that is not what was decided on, with both sides as differences from that."""
        base = self.bytes_of(expected)
        return WorkspaceError(
            ErrorCode.CHANGE_CONFLICT,
            f"{path} is not what the decision was made on; nothing was written",
            path=path,
            side=side,
            expected=None if expected is None else expected.digest,
            found=None if found is None else found.digest,
            wanted=None if wanted is None else wanted.digest,
            theirs=_difference(path, base, data),
            ours=_difference(path, base, None if wanted is None else self.bytes_of(wanted)),
        )


def refused(path: str, words: str) -> WorkspaceError:
    """The refusal over a file that an editor holds."""
    return WorkspaceError(
        ErrorCode.CHANGE_CONFLICT,
        f"{path}: {words}; nothing was written",
        hint="Save or revert the file there, then decide again.",
        path=path,
    )


def missing_folders(root: Root, path: str) -> tuple[str, ...]:
    """The folders above `path` that are not there."""
    parts = path.split("/")[:-1]
    folders = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    return tuple(folder for folder in folders if root.state(folder) is None)


def _difference(path: str, base: bytes, data: bytes | None) -> str:
    """How one side differs from what was expected, for display."""
    if data is None:
        return f"{path} is absent"
    try:
        text = unified_diff((path, path), diff_hunks(base, data, path))
    except GloveportError:
        text = ""
    return text[:CONFLICT_TEXT_MAX]
