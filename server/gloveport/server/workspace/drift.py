"""The user's own edits since the base was taken.

Purpose: see by content what the user changed, and bring it into the base and the worktree.
Invariant: an agent's change is kept beside the user's where they do not meet; where they do, nothing moves and the
path is named.
Must never: write into the user's folder, or drop a change of either side.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.edit.lines import Encoding, sniff_form
from gloveport.server.edit.merge import merge_texts
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.content import blocking, path_with_data
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.look import Look
from gloveport.server.workspace.plan import BaseStep, Plan, Step
from gloveport.server.workspace.proposal import Proposal, settled_mode
from gloveport.server.workspace.state import FileState, WorkspaceState
from gloveport.server.workspace.store import ContentStore


@dataclass(frozen=True, slots=True)
class Drift:
    """A path where the user's folder is not the base: None is absence."""

    path: str
    base: FileState | None
    found: FileState | None
    ignored: bool = False
    """A rule ignores it, and it is looked at only since the agent wrote it by name."""


@dataclass(frozen=True, slots=True)
class Refreshed:
    """Paths whose user's state was taken over, and those where it meets a change of the agent's.

    `ignored` are those of the latter that a rule ignores: the user's file was none of the session's.
    """

    taken: tuple[str, ...]
    conflicted: tuple[str, ...]
    ignored: frozenset[str] = frozenset()

    def joined(self, more: "Refreshed") -> "Refreshed":
        """Both together, ordered."""
        taken, conflicted = self.taken + more.taken, self.conflicted + more.conflicted
        return Refreshed(tuple(sorted(taken)), tuple(sorted(conflicted)), self.ignored | more.ignored)


Unsaved = Mapping[str, tuple[FileState, bytes]]
"""What is in an editor and not in its file, by path: it counts in the file's place."""
_NOTHING: Final[Unsaved] = MappingProxyType({})


def find_drift(state: WorkspaceState, user: Look, unsaved: Unsaved = _NOTHING) -> tuple[Drift, ...]:
    """Every path where the user's content or executable bit is not the base's, ordered."""
    current = user.current(state, strict=True)
    if unsaved:
        current = {**current, **{path: shown for path, (shown, _) in unsaved.items()}}
    found = []
    for path in user.differing(state.base, current):
        base, here = state.base.get(path), current.get(path)
        if base is not None and here is not None and settled_mode(base, here) == base:
            continue
        found.append(Drift(path, base, here, base is None and path in state.forced))
    return tuple(found)


def moved_names(drifts: Sequence[Drift], worktree: Root, proposals: Callable[[], Sequence[Proposal]]) -> dict[str, str]:
    """The agent's renames, new names by old ones; looked for only where the user edited what the worktree has not."""
    edited = [drift.path for drift in drifts if drift.base is not None and drift.found is not None]
    if all(worktree.state(path) is not None for path in edited):
        return {}
    return {one.renamed_from: one.path for one in proposals() if one.renamed_from is not None}


def plan_refresh(
    drifts: tuple[Drift, ...],
    user: Look,
    worktree: Look,
    store: ContentStore,
    unsaved: Unsaved = _NOTHING,
    moved: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Plan, Refreshed]:
    """The steps that take the user's edits into worktree and base.

    `moved` are the agent's renames, new names by old ones: what the user edits under the old one goes to the new one.
    """
    steps: list[Step] = []
    base_steps: list[BaseStep] = []
    conflicted: list[str] = []
    for drift in drifts:
        try:
            theirs = None if drift.found is None else _users(user, drift.path, store, unsaved)
            place = drift.path if theirs is None else moved.get(drift.path, drift.path)
            if theirs is not None and blocking(worktree.tree, place) is not None:
                raise _meeting(drift.path)
            ours = _kept(worktree, place, store)
            merged = _merged(drift, theirs, ours, store)
        except GloveportError:
            conflicted.append(drift.path)
            continue
        base_steps.append(BaseStep(drift.path, drift.base, theirs))
        if merged != ours:
            steps.append(Step("worktree", place, ours, merged))
    store.sync()
    taken = tuple(step.path for step in base_steps)
    ignored = frozenset(drift.path for drift in drifts if drift.ignored).intersection(conflicted)
    return Plan("refresh", tuple(steps), tuple(base_steps), ()), Refreshed(taken, tuple(conflicted), ignored)


def _users(user: Look, path: str, store: ContentStore, unsaved: Unsaved) -> FileState | None:
    if path not in unsaved:
        return _kept(user, path, store)
    shown, data = unsaved[path]
    store.put(data)
    return shown


def _kept(look: Look, path: str, store: ContentStore) -> FileState | None:
    found, data = path_with_data(look.tree, path, look.limits)
    if data is not None:
        store.put(data)
    return found


def _merged(drift: Drift, theirs: FileState | None, ours: FileState | None, store: ContentStore) -> FileState | None:
    """What the worktree shall hold. Raises GloveportError where the sides meet."""
    base = drift.base
    if _same(ours, base) or _same(ours, theirs):
        return theirs
    if base is None or ours is None or theirs is None or {base.kind, ours.kind, theirs.kind} != {"file"}:
        raise _meeting(drift.path)
    sides = [store.get(state.digest) for state in (base, ours, theirs)]
    if any(sniff_form(side).encoding is Encoding.BINARY for side in sides):
        raise _meeting(drift.path)
    merged = merge_texts(sides[0], sides[1], sides[2], path=drift.path)
    mode = theirs.mode if ours.runnable == base.runnable else ours.mode
    return replace(ours, digest=store.put(merged), mode=mode)


def _meeting(path: str) -> WorkspaceError:
    return WorkspaceError(ErrorCode.CHANGE_CONFLICT, f"{path}: user and agent both changed it", path=path)


def _same(one: FileState | None, two: FileState | None) -> bool:
    if one is None or two is None:
        return one is two
    return (one.kind, one.digest, one.runnable) == (two.kind, two.digest, two.runnable)
