"""From one state of a user's file to another, wherever the user has it.

Purpose: plan the step of one path on the user's side: in the file, in the editor that shows it, or merged with what
the user made of it meanwhile.
Invariant: what the user changed elsewhere in the file survives; where it meets the change, both sides are told.
Must never: plan a write over content that it did not see, or let the user's side give way where they did not say so.
"""

from collections.abc import Callable, Sequence
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


Give = Callable[[bytes], bytes]
"""The user's text, and what of the change it becomes. Raises EditError `change.conflict`."""


@dataclass(frozen=True, slots=True)
class Mover:
    """Plans moves against one state, the user's folder, and what editors show of it."""

    state: WorkspaceState
    worktree: Root
    store: ContentStore
    limits: WorkspaceLimits
    texts: Sequence[OpenText]

    def toward(
        self,
        root: Root,
        wanted: Step,
        *,
        exact: bool = False,
        keeps_added: bool = False,
        give: Give | None = None,
        base: BaseStep | None = None,
    ) -> Move:
        """Bring the user's path from before to after, over what the user changed beside it.

        Folders of `wanted` go with a file that goes, once they are empty; with `keeps_added` lines that the user added
        to such a file stay as all of it. `give` makes the user's new text where some of theirs gives way; `base` says
        how the base moves where that is another way than the user's side. Raises WorkspaceError `change.conflict` with
        both sides where it cannot be.
        """
        path, before, after = wanted.path, wanted.before, wanted.after
        side = user_side(root, path, self.texts, self.limits, exact=exact)
        current = self.state.base.get(path)
        if fits(side.found, after, before):
            return Move(base or BaseStep(path, current, after))
        if give is not None:
            wanted = replace(wanted, after=self._given(path, before, after, side, give))
            move = Move(base or BaseStep(path, current, after))
        elif fits(side.found, before, after):
            move = Move(base or BaseStep(path, current, after))
        else:
            added = self._added(before, after, side) if keeps_added else None
            target = added or self._merged(path, before, after, side, is_later=fits(side.found, current, None))
            move = Move(base) if base is not None else self._over(wanted, target, side)
            wanted = replace(wanted, after=target)
        return self._placed(root, wanted, side, move)

    def _over(self, wanted: Step, target: FileState, side: UserSide) -> Move:
        """How base and worktree follow a user's side that goes to `target`, over what the user changed beside."""
        path, current = wanted.path, self.state.base.get(wanted.path)
        is_there = fits(side.found, target, wanted.before)
        taken, is_held = (None, False) if is_there else self._taken_over(path, current, side)
        after = target if is_held else self.rebased(path, current, wanted.before, wanted.after)
        return Move(BaseStep(path, current, after), worktree=taken)

    def _placed(self, root: Root, wanted: Step, side: UserSide, move: Move) -> Move:
        """The move with its step in the file or in the editor that shows it; without one where all is there already."""
        path, target = wanted.path, wanted.after
        if side.refusal is not None:
            raise refused(path, side.refusal)
        if not fits(side.found, wanted.before, target):
            self.store.put(side.data or b"")
        if fits(side.found, target, wanted.before):
            return move
        if side.documents and self._is_text_edit(side, target):
            return replace(move, buffer=BufferStep(path, side.found, target, side.documents))
        if side.unsaved:
            raise refused(path, "it is open with unsaved changes, and no editor can make this change in its text")
        folders = wanted.new_folders if target is None else missing_folders(root, path)
        return replace(move, step=replace(wanted, before=side.found, after=target, new_folders=folders))

    def rebased(
        self, path: str, current: FileState | None, before: FileState | None, after: FileState | None
    ) -> FileState | None:
        """The base with a change that its user's side gets too, and nothing else of that. Raises `change.conflict`."""
        if fits(current, before, after):
            return after
        if fits(current, after, before):
            return current
        if current is None or before is None or after is None or {current.kind, before.kind, after.kind} != {"file"}:
            raise self.moved_on(path, "root", before, current, None, after)
        try:
            sides = (self.bytes_of(before), self.bytes_of(after), self.bytes_of(current))
            merged = merge_texts(*sides, path=path)
        except GloveportError:
            raise self.moved_on(path, "root", before, current, self.bytes_of(current), after) from None
        return self._with_mode(self.store.put(merged), before, after, current)

    def _given(
        self, path: str, before: FileState | None, after: FileState | None, side: UserSide, give: Give
    ) -> FileState | None:
        """The user's text where some of it gives way; all of it to a file that is made or removed."""
        is_whole = before is None or after is None
        kinds = {end.kind for end in (before, after, side.found) if end is not None}
        if side.data is None or side.found is None or kinds != {"file"}:
            raise self.moved_on(path, "root", before, side.found, side.data, after)
        try:
            made = give(side.data)
        except GloveportError as error:
            told = self.moved_on(path, "root", before, side.found, side.data, after)
            told.hint = f"{error.message}: look at both again, then decide."
            raise told from None
        if is_whole:
            return after
        return self._with_mode(self.store.put(made), before, after, side.found)

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

    def _taken_over(self, path: str, current: FileState | None, side: UserSide) -> tuple[Step | None, bool]:
        """The worktree's file with the user's edits, when the base has not got them yet; False where they meet there.

        Then they wait beside the base, as they did.
        """
        ours = path_state(self.worktree, path, self.limits)
        if current is None or ours is None or fits(side.found, current, None):
            return None, True
        if ours.kind != "file" or current.kind != "file":
            raise self.moved_on(path, "root", current, side.found, side.data, ours)
        data = self._worktree_bytes(path, ours)
        try:
            merged = merge_texts(self.bytes_of(current), data, side.data or b"", path=path)
        except GloveportError:
            return None, False
        after = replace(ours, digest=self.store.put(merged))
        return (None if after == ours else Step("worktree", path, ours, after)), True

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
