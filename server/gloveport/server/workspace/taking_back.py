"""Taking decisions back, and taking them again.

Purpose: one plan that brings back what decisions changed: one or many of them, whole or by file and hunk.
Invariant: what was changed since beside them stays, by whoever it was; where it meets them, both sides are told.
Must never: choose a side, or touch a path that none of the decisions touched.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.edit.apply import apply_hunks, revert_hunks
from gloveport.server.edit.hunks import diff_hunks
from gloveport.server.edit.lines import Encoding, sniff_form
from gloveport.server.edit.merge import merge_texts, take_again
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.content import fits, path_with_data
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.moving import Move, Mover, missing_folders
from gloveport.server.workspace.plan import Action, BaseStep, Decided, Plan, Side, Step
from gloveport.server.workspace.state import FileState


@dataclass(frozen=True, slots=True)
class Part:
    """What of the decisions is meant: these paths, these hunks by digest; None means all."""

    paths: frozenset[str] | None = None
    hunks: frozenset[str] | None = None

    @property
    def is_all(self) -> bool:
        """True when nothing is left out."""
        return self.paths is None and self.hunks is None

    def has(self, path: str) -> bool:
        """Whether a path is meant."""
        return self.paths is None or path in self.paths


ALL: Final = Part()
Done = Sequence[tuple[str, Plan]]
"""Decisions with their names, the newest first."""
Records = Sequence[tuple[str, Mapping[str, Any]]]
"""The same as they are recorded."""


@dataclass(frozen=True, slots=True)
class TakingBack(Mover):
    """Plans the way back from decisions."""

    def plan(self, action: Action, done: Done, part: Part = ALL) -> Plan:
        """What `done` did, backwards. Raises `change.conflict` with both sides, `change.unknown` for nothing left."""
        moves = self._moves(done, part)
        steps = self._worktree_steps(done, part)
        own = {step.path for step in steps}
        for move in moves:
            if move.worktree is not None and move.worktree.path in own:
                raise _both_sides(move.worktree.path, action)
        return self._planned(action, done, part, moves, steps)

    def restore(self, done: Done, dropped: Sequence[str]) -> Plan:
        """Back to before `done`, and nothing proposed any more at the paths it touched and at `dropped`."""
        moves = [replace(move, worktree=None) for move in self._moves(done, ALL)]
        ends = {move.base.path: move.base.after for move in moves}
        ends |= {path: self.state.base.get(path) for path in dropped if path not in ends}
        ends |= {step.path: self.state.base.get(step.path) for _, one in done for step in one.steps
                 if step.path not in ends}  # fmt: skip
        moving = [move for move in moves if move != Move(replace(move.base, after=move.base.before))]
        return self._planned("restore", done, ALL, moving, list(self._reset(ends)))

    def _reset(self, ends: dict[str, FileState | None]) -> Iterator[Step]:
        for path, after in ends.items():
            found, data = path_with_data(self.worktree, path, self.limits)
            if fits(found, after, None) and (found is None or after is None or found.runnable == after.runnable):
                continue
            self.store.put(data or b"")
            folders = () if after is None else missing_folders(self.worktree, path)
            yield Step("worktree", path, found, after, folders)

    def _planned(self, action: Action, done: Done, part: Part, moves: list[Move], steps: list[Step]) -> Plan:
        taken = tuple(move.worktree for move in moves if move.worktree is not None)
        plan = Plan(
            action,
            (*taken, *(move.step for move in moves if move.step is not None), *steps),
            tuple(move.base for move in moves),
            tuple(_decided(done, part)),
            tuple(move.buffer for move in moves if move.buffer is not None),
            tuple(step.path for step in taken),
            tuple(name for name, _ in done),
            not part.is_all,
        )
        if not plan.steps and not plan.base_steps and not plan.buffers:
            raise WorkspaceError(ErrorCode.CHANGE_UNKNOWN, "nothing of this is left to take back")
        return self.kept(plan)

    def _moves(self, done: Done, part: Part) -> list[Move]:
        """The user's side."""
        moves: list[Move] = []
        with Root(self.state.root) as root:
            for path, back in self._ways_back(done, "root", part):
                twins = any(path in plan.twins for _, plan in done)
                base = self._base_apart(path, done, part)
                moves.append(self.toward(root, back, exact=twins, keeps_added=True, base=base))
        moved = {move.base.path for move in moves}
        if part.hunks is None:
            moves += [self._base_back(step) for step in _bases_alone(done, part) if step.path not in moved]
        return moves

    def _base_apart(self, path: str, done: Done, part: Part) -> BaseStep | None:
        """The way back of a base that went another way than the user's side, as where the user's lines gave way."""
        steps: list[tuple[Step, bool]] = []
        for _, plan in done:
            bases = {step.path: step for step in plan.base_steps}
            for mine in reversed(plan.user_steps):
                if mine.path != path or path not in bases:
                    continue
                base = _apart(plan, mine)
                steps.append((base or mine, base is not None))
        if not any(apart for _, apart in steps):
            return None
        found = current = self.state.base.get(path)
        for step, _ in steps:
            found = self.rebased(path, found, step.after, self._without(step, part))
        return BaseStep(path, current, found)

    def _worktree_steps(self, done: Done, part: Part) -> list[Step]:
        steps: list[Step] = []
        for path, back in self._ways_back(done, "worktree", part):
            found, data = path_with_data(self.worktree, path, self.limits, exact=any(path in p.twins for _, p in done))
            if fits(found, back.after, back.before):
                continue
            target = back.after
            if not fits(found, back.before, back.after):
                target = self._merge(path, "worktree", back.before, back.after, found, data)
                self.store.put(data or b"")
            steps.append(replace(back, side="worktree", before=found, after=target))
        return steps

    def _ways_back(self, done: Done, side: Side, part: Part) -> Iterator[tuple[str, Step]]:
        for path, steps in _by_path(done, side, part).items():
            back = self._way_back(path, steps, part)
            if back.before != back.after:  # else none of its hunks are meant, or it is as it was
                yield path, back

    def _way_back(self, path: str, steps: Sequence["_Way"], part: Part) -> Step:
        """All steps of a path as one backwards."""
        newest, oldest = steps[0].step, steps[-1].step
        target = self._way_without(steps[0], part)
        for way in steps[1:]:
            older, earlier = way.step, self._way_without(way, part)
            if earlier == older.after:
                continue
            if fits(target, older.after, earlier):
                target = earlier
            else:
                data = None if target is None else self.bytes_of(target)
                target = self._merge(path, newest.side, older.after, earlier, target, data)
        folders = tuple(dict.fromkeys(folder for way in steps for folder in way.step.new_folders))
        return Step(newest.side, path, newest.after, target, folders, oldest.origin)

    def _way_without(self, way: "_Way", part: Part) -> FileState | None:
        """What a path held before its step, or without the meant hunks of it.

        Where the user's lines gave way, its hunks are not those that were decided on: then it is what the others of
        these made of the user's text.
        """
        step, base = way.step, way.base
        if part.hunks is not None and way.is_meant and (step.before is None or step.after is None):
            return step.before
        if part.hunks is None or step.before is None or step.after is None:
            return self._without(step, part)
        if way.is_meant:
            return replace(step.after, digest=step.before.digest)
        if base is None or base.before is None or base.after is None:
            return self._without(step, part)
        taken = diff_hunks(self.bytes_of(base.before), self.bytes_of(base.after), step.path)
        kept = [hunk for hunk in taken if hunk.digest not in part.hunks]
        if len(kept) == len(taken):
            return step.after
        text = take_again(self.bytes_of(base.before), kept, self.bytes_of(step.before), path=step.path)
        return replace(step.after, digest=self.store.put(text))

    def _without(self, step: Step, part: Part) -> FileState | None:
        """What the path held before the step, or without the meant hunks of it."""
        if part.hunks is None:
            return step.before
        before, after = self.bytes_of(step.before), self.bytes_of(step.after)
        forward = [hunk for hunk in diff_hunks(before, after, step.path) if hunk.digest in part.hunks]
        backward = [hunk for hunk in diff_hunks(after, before, step.path) if hunk.digest in part.hunks]
        if step.before is None or step.after is None:
            return step.before if forward or backward else step.after
        data = revert_hunks(after, forward) if forward else apply_hunks(after, backward)
        return replace(step.after, digest=self.store.put(data))

    def _merge(
        self,
        path: str,
        side: Side,
        before: FileState | None,
        after: FileState | None,
        found: FileState | None,
        data: bytes | None,
    ) -> FileState:
        """`after` with what became of `before` meanwhile (`found`)."""
        ends = [end for end in (before, after, found) if end is not None and end.kind == "file"]
        texts = [self.bytes_of(before), self.bytes_of(after), data or b""]
        if len(ends) < 3 or found is None or Encoding.BINARY in {sniff_form(text).encoding for text in texts}:
            raise self.moved_on(path, side, before, found, data, after)
        try:
            merged = merge_texts(texts[0], texts[1], texts[2], path=path)
        except GloveportError:
            raise self.moved_on(path, side, before, found, data, after) from None
        return replace(found, digest=self.store.put(merged))

    def _base_back(self, step: BaseStep) -> Move:
        """The user had it by themselves when it was accepted, and keeps it."""
        if self.state.base.get(step.path) != step.after:
            raise WorkspaceError(
                ErrorCode.CHANGE_CONFLICT,
                f"{step.path}: a later decision builds on this one",
                hint="Undo the later decision first.",
                path=step.path,
            )
        return Move(BaseStep(step.path, step.after, step.before))


def read_records(records: Records) -> Done:
    """The plans of records. Raises WorkspaceError where one is none."""
    return [(name, Plan.from_json(record)) for name, record in records]


@dataclass(frozen=True, slots=True)
class _Way:
    """A step of a decision; whether every hunk of it is meant; how the base went where it went another way."""

    step: Step
    is_meant: bool
    base: Step | None


def _apart(plan: Plan, mine: Step) -> Step | None:
    """How the base of a path went, where the user's lines gave way; None where it went as the user's side."""
    found = next((step for step in plan.base_steps if step.path == mine.path), None)
    if found is None or mine.path in plan.taken_over:
        return None
    base = Step("root", found.path, found.before, found.after)
    return None if fits(base.before, mine.before, None) and fits(base.after, mine.after, None) else base


def _by_path(done: Done, side: Side, part: Part) -> dict[str, list[_Way]]:
    """The steps of one side by path, each path's newest first; a step back knows where its file came from."""
    found: dict[str, list[_Way]] = {}
    for _, plan in done:
        origins = {step.origin: step.path for step in plan.steps if step.origin is not None}
        steps = plan.user_steps if side == "root" else [step for step in plan.steps if step.side == side]
        for step in reversed(steps):
            if part.has(step.path) and not (side == "worktree" and step.path in plan.taken_over):
                is_mine = side == "root"
                is_meant, base = (_is_meant(plan, step.path, part), _apart(plan, step)) if is_mine else (False, None)
                way = _Way(replace(step, origin=origins.get(step.path)), is_meant, base)
                found.setdefault(step.path, []).append(way)
    return found


def _is_meant(plan: Plan, path: str, part: Part) -> bool:
    decided = {digest for each in plan.decided if each.path == path for digest in each.digests}
    return part.hunks is not None and bool(decided) and decided <= part.hunks


def _bases_alone(done: Done, part: Part) -> Iterator[BaseStep]:
    """Steps of the base beside which nothing was written; all those of a path as one."""
    found: dict[str, BaseStep] = {}
    for _, plan in done:
        written = {step.path for step in plan.user_steps}
        for step in plan.base_steps:
            if step.path not in written and part.has(step.path):
                found[step.path] = BaseStep(step.path, step.before, found.get(step.path, step).after)
    yield from (step for step in found.values() if step.before != step.after)


def _decided(done: Done, part: Part) -> Iterator[Decided]:
    for _, plan in done:
        for each in plan.decided:
            if not part.has(each.path):
                continue
            if part.hunks is None:
                yield each
                continue
            pairs = zip(each.hunk_ids, each.digests, strict=False)
            meant = [(name, digest) for name, digest in pairs if digest in part.hunks]
            if meant:
                names, digests = zip(*meant, strict=True)
                yield replace(each, hunk_ids=names, digests=digests, whole=False)


def _both_sides(path: str, action: Action) -> WorkspaceError:
    words = f"{path}: you changed it, and it was changed in the agent's copy too; nothing was written"
    return WorkspaceError(
        ErrorCode.CHANGE_CONFLICT, words, hint=f"Send the agent a message first, then {action}.", path=path
    )
