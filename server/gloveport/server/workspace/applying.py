"""Carrying a plan out, all of it or nothing.

Purpose: check, stage, swap in, read back, move the base; and take everything back when any of it fails.
Invariant: no name ever leads to a half file; the former files stay beside their targets until the base is saved.
Must never: drop content that is neither the step's before nor its after: it is put back and told as a conflict.
"""

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.edit.names import fold_name
from gloveport.server.workspace import placing
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.content import entry_state, fits, path_state
from gloveport.server.workspace.errors import WorkspaceError, os_failure
from gloveport.server.workspace.identity import is_folder
from gloveport.server.workspace.limits import WorkspaceLimits
from gloveport.server.workspace.plan import Decided, Plan, Side, Step
from gloveport.server.workspace.state import FileState, WorkspaceState
from gloveport.server.workspace.store import ContentStore

STAGED_AT_ONCE: Final = 32
"""So many files are open at once, and made durable together."""
_WORKTREE_MODE: Final = 0o600


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done. `record` is what `plan_undo` takes; `decided` says what became of each proposal."""

    paths: tuple[str, ...]
    decided: tuple[Decided, ...]
    record: Mapping[str, JsonValue]


@dataclass(slots=True)
class Trees:
    """Both trees, opened for one plan, and the state it moves."""

    state: WorkspaceState
    handles: Mapping[Side, Root]
    store: ContentStore
    limits: WorkspaceLimits
    save: Callable[[WorkspaceState], None]
    twins: frozenset[str] = frozenset()
    names: dict[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """What lies in folders in which something new comes, by side and path: spellings by the folded name."""

    @classmethod
    @contextmanager
    def opened(
        cls,
        plan: Plan,
        state: WorkspaceState,
        worktree: Root,
        store: ContentStore,
        limits: WorkspaceLimits,
        save: Callable[[WorkspaceState], None],
    ) -> Iterator["Trees"]:
        """Open the root when the plan touches it; it must still be the folder of the session's beginning."""
        if all(step.side == "worktree" for step in plan.steps):
            yield cls(state, {"worktree": worktree}, store, limits, save, plan.twins)
            return
        if not is_folder(state.root, state.identity):
            raise WorkspaceError(
                ErrorCode.WORKSPACE_MISSING,
                f"{state.root} is another folder than the one this session began in",
                hint="Start a new session in the new folder.",
            )
        with Root(state.root) as root:
            yield cls(state, {"root": root, "worktree": worktree}, store, limits, save, plan.twins)

    def found(self, step: Step) -> FileState | None:
        """What lies at the step's path now."""
        return path_state(self.handles[step.side], step.path, self.limits, exact=step.path in self.twins)


@dataclass(slots=True)
class _Placing:
    """One step on its way."""

    trees: Trees
    step: Step
    staged: str
    leaving: frozenset[str] = frozenset()
    """Paths that the same plan takes away."""
    made: tuple[str, ...] = ()
    swapped: bool = False

    @contextmanager
    def _folder(self) -> Iterator[tuple[int, str]]:
        folder, _, name = self.step.path.rpartition("/")
        with self.trees.handles[self.step.side].folder(folder) as fd:
            yield fd, name

    def check(self) -> None:
        found = self.trees.found(self.step)
        if not fits(found, self.step.before, self.step.after):
            raise conflict(self.step, found)

    def stage(self) -> int | None:
        """Write the new content beside its target; the descriptor of what is not durable yet."""
        after = self.step.after
        if after is None:
            return None
        tree = self.trees.handles[self.step.side]
        self._refuse_alike_folder(tree)
        self.made = tree.make_folders(self.step.path.rpartition("/")[0])
        data = self.trees.store.get(after.digest)
        with self._folder() as (fd, name):
            if self.step.before is None:
                self._refuse_look_alike(fd, name)
            if after.kind == "link":
                placing.stage_link(fd, self.staged, data, self.step.path)
                return None
            source = self.step.path if self.step.origin is None else self.step.origin
            like = tree.state(source)
            written = placing.write_staged(fd, self.staged, data, self._mode(after, like), like, self.step.path)
            try:
                if placing.is_regular(like):
                    with tree.folder(source.rpartition("/")[0]) as source_fd:
                        placing.copy_attributes(source_fd, source.rpartition("/")[2], fd, self.staged)
            except BaseException:
                os.close(written)
                raise
            return written

    def swap(self) -> None:
        """Put the new file in place and look at what came out: it must be the step's before."""
        if self.step.before is None and self._is_folder():
            self.trees.handles[self.step.side].drop_hollow(self.step.path)
        with self._folder() as (fd, name):
            if self.step.after is not None:
                self._check_staged(fd)
            try:
                self._move(fd, name)
            except FileExistsError:
                raise conflict(self.step, self.trees.found(self.step)) from None
            except OSError as error:
                raise os_failure(error, self.step.path, writing=True) from None
            self.swapped = True
            if self.step.before is not None:
                out = entry_state(fd, self.staged, self.step.path, self.trees.limits)[0]
                if not fits(out, self.step.before, self.step.after):
                    raise conflict(self.step, out)

    def _check_staged(self, fd: int) -> None:
        waiting = entry_state(fd, self.staged, self.step.path, self.trees.limits)[0]
        if waiting is None or not is_own(waiting, self.step):
            raise conflict(self.step, waiting)

    def verify(self) -> None:
        found = self.trees.found(self.step)
        if not fits(found, self.step.after, self.step.before):
            raise conflict(self.step, found)

    def settle(self) -> None:
        """The former file is no longer needed. Everything is done already, so nothing here can fail the plan."""
        with suppress(OSError, GloveportError), self._folder() as (fd, _):
            placing.drop(fd, self.staged)
        if self.step.after is None:
            self.trees.handles[self.step.side].drop_folders(self.step.new_folders)

    def take_back(self) -> bool:
        """Bring the former file back under its name, and leave nothing of ours; False when that cannot be done."""
        with suppress(GloveportError, OSError), self._folder() as (fd, name):
            was_there = self.swapped
            if was_there:
                self._move_back(fd, name)
            if not was_there or self._is_ours(fd):
                placing.drop(fd, self.staged)
            else:  # a later content of the user's came out: it stays where it was
                self._move(fd, name)
                self.swapped = True
        self.trees.handles[self.step.side].drop_folders(self.made)
        return not self.swapped

    def _refuse_alike_folder(self, tree: Root) -> None:
        """A new folder beside one of the same folded name, unless the plan takes that one's files away."""
        above, _, name = next(iter(self.step.new_folders), "").rpartition("/")
        if not name:
            return
        with tree.folder(above) as fd:
            others = self._spelled(fd, above, name)
        for other in others:
            below = f"{above}/{other}/" if above else f"{other}/"
            if other != name and not any(path.startswith(below) for path in self.leaving):
                raise _alike(self.step.path, other)

    def _spelled(self, fd: int, folder: str, name: str) -> Sequence[str]:
        """The names in a folder that are one with `name` somewhere; a folder is listed once a plan."""
        place = f"{self.step.side}/{folder}"
        if place not in self.trees.names:
            self.trees.names[place] = _spellings(fd, folder)
        return self.trees.names[place].get(fold_name(name), ())

    def _refuse_look_alike(self, fd: int, name: str) -> None:
        path = self.step.path
        for other in self._spelled(fd, path.rpartition("/")[0], name):
            if other != name and f"{path.removesuffix(name)}{other}" not in self.leaving:
                raise _alike(path, other)

    def _is_folder(self) -> bool:
        info = self.trees.handles[self.step.side].state(self.step.path)
        return info is not None and stat.S_ISDIR(info.st_mode)

    def _is_ours(self, fd: int) -> bool:
        state = entry_state(fd, self.staged, self.step.path, self.trees.limits)[0]
        return state is None or is_own(state, self.step)

    def _move(self, fd: int, name: str) -> None:
        if self.step.before is None:
            placing.move_to_free(fd, self.staged, name)
        elif self.step.after is None:
            placing.move_to_free(fd, name, self.staged)
        else:
            placing.exchange(fd, name, self.staged)

    def _move_back(self, fd: int, name: str) -> None:
        if self.step.before is None:
            placing.move_to_free(fd, name, self.staged)
        elif self.step.after is None:
            placing.move_to_free(fd, self.staged, name)
        else:
            placing.exchange(fd, name, self.staged)
        self.swapped = False

    def _mode(self, after: FileState, like: os.stat_result | None) -> int:
        mode = after.mode
        before = self.step.before
        if like is not None and placing.is_regular(like):
            moved = self.step.origin is not None and after.runnable == bool(like.st_mode & 0o100)
            if moved or (before is not None and before.mode == mode):
                mode = like.st_mode & 0o777
        return mode | _WORKTREE_MODE if self.step.side == "worktree" else mode


def apply_plan(plan: Plan, trees: Trees) -> Applied:
    """Do every step. Raises with everything as it was before."""
    _check_base(plan, trees)
    carry_out(plan, enumerate(plan.steps), trees)
    return Applied(plan.paths, plan.decided, plan.as_json())


def check_plan(plan: Plan, trees: Trees) -> None:
    """Raise when the base or a path is no longer what the plan was made on."""
    _check_base(plan, trees)
    for index, step in enumerate(plan.steps):
        _Placing(trees, step, plan.staged(index)).check()


def conflict(step: Step, found: FileState | None) -> WorkspaceError:
    """The refusal of a step whose path holds something else."""
    return WorkspaceError(
        ErrorCode.CHANGE_CONFLICT,
        f"{step.path} changed meanwhile; nothing was written",
        path=step.path,
        side=step.side,
        expected=None if step.before is None else step.before.digest,
        found=None if found is None else found.digest,
        wanted=None if step.after is None else step.after.digest,
    )


def carry_out(plan: Plan, steps: Iterable[tuple[int, Step]], trees: Trees) -> None:
    """Do the given steps (with their indices in the plan) and move the base, or raise with all as it was."""
    leaving = frozenset(step.path for step in plan.steps if step.after is None)
    going = [_Placing(trees, step, plan.staged(index), leaving) for index, step in steps]
    try:
        for each in going:
            each.check()
        for start in range(0, len(going), STAGED_AT_ONCE):
            _stage(going[start : start + STAGED_AT_ONCE])
        for each in going:
            each.swap()
        for each in going:
            each.verify()
        sync_names(plan, trees)
        set_base(trees, {step.path: step.after for step in plan.base_steps})
    except BaseException as error:
        left = [each.step for each in reversed(going) if not each.take_back()]
        if left:
            raise _unsettled(left) from error
        raise
    for each in going:
        each.settle()


def _stage(going: Sequence[_Placing]) -> None:
    """Stage these, durably."""
    written: dict[int, str] = {}
    try:
        for each in going:
            if (fd := each.stage()) is not None:
                written[fd] = each.step.path
        placing.sync_files(written)
    finally:
        for fd in written:
            os.close(fd)


def sync_names(plan: Plan, trees: Trees) -> None:
    """The names of everything the plan put into the user's folder last, up to the folder itself; the worktree is ours
    to build again. Raises WorkspaceError."""
    folders = {""} if any(step.side == "root" for step in plan.steps) else set[str]()
    for step in plan.steps:
        if step.side == "root":
            parts = step.path.split("/")
            folders |= {"/".join(parts[:depth]) for depth in range(1, len(parts))}
    for folder in sorted(folders, key=len, reverse=True):
        try:
            with trees.handles["root"].folder(folder) as fd:
                placing.sync_fd(fd, folder or ".")
        except WorkspaceError as error:
            if error.code not in (ErrorCode.FILE_MISSING, ErrorCode.WORKSPACE_MISSING):
                raise


def is_own(state: FileState, step: Step) -> bool:
    """True when the content is one of the step's two, and so lies in the store."""
    return same_content(state, step.before) or same_content(state, step.after)


def same_content(state: FileState, other: FileState | None) -> bool:
    """True when kind and hash are the same."""
    return other is not None and (state.kind, state.digest) == (other.kind, other.digest)


def _alike(path: str, other: str) -> WorkspaceError:
    words = f"{path}: {other!r} is there already and is the same name on some file systems"
    return WorkspaceError(ErrorCode.CHANGE_CONFLICT, words, path=path)


def _unsettled(left: Sequence[Step]) -> WorkspaceError:
    paths = [step.path for step in left]
    return WorkspaceError(
        ErrorCode.CHANGE_UNSETTLED, f"written, then changed or out of reach: {', '.join(paths[:10])}", paths=paths
    )


def _check_base(plan: Plan, trees: Trees) -> None:
    for step in plan.base_steps:
        if trees.state.base.get(step.path) != step.before:
            raise WorkspaceError(
                ErrorCode.CHANGE_SUPERSEDED, f"{step.path}: another decision came first", path=step.path
            )


def set_base(trees: Trees, changes: dict[str, FileState | None]) -> None:
    """Move the base, durably, if it is not there yet."""
    if any(trees.state.base.get(path) != state for path, state in changes.items()):
        state = trees.state.with_base(changes)
        trees.save(state)
        trees.state = state


def _spellings(fd: int, path: str) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    try:
        for name in os.listdir(fd):
            found[fold_name(name)].append(name)
    except OSError as error:
        raise os_failure(error, path) from None
    return found
