"""Several files of the worktree changed at once.

Purpose: turn edits of link-free paths into a plan for the worktree, and remember what was moved by name.
Invariant: each path holds what the edit was made from, or nothing is planned; a moved file keeps kind, mode and owner.
Must never: touch the user's folder, or plan over a file that is there where none was expected.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.server.edit.names import TEMP_PREFIX, fold_path
from gloveport.server.workspace import placing
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.content import path_with_data
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.files import NEW_FILE_MODE, check_place
from gloveport.server.workspace.limits import WorkspaceLimits
from gloveport.server.workspace.moving import missing_folders
from gloveport.server.workspace.plan import Plan, Step
from gloveport.server.workspace.state import FileState, WorkspaceState
from gloveport.server.workspace.store import ContentStore


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A link-free path goes from the content `expected` (a link's target; None: nothing there) to `data` (None: gone).

    With `moved_from` it is what lay there. `runnable` None: as it is.
    """

    path: str
    expected: Sha256 | None
    data: bytes | None
    moved_from: str | None = None
    runnable: bool | None = None


def plan_edits(edits: Sequence[FileEdit], tree: Root, store: ContentStore, limits: WorkspaceLimits) -> Plan:
    """The steps of all edits, removals first. Raises WorkspaceError: `change.conflict`, `workspace.*`, `limit.*`."""
    folds = [fold_path(edit.path) for edit in edits]
    steps = []
    for edit, fold in zip(edits, folds, strict=True):
        check_place(edit.path, limits)
        found, data = path_with_data(tree, edit.path, limits, exact=folds.count(fold) > 1)
        if (None if found is None else found.digest) != edit.expected:
            raise WorkspaceError(
                ErrorCode.CHANGE_CONFLICT, f"{edit.path} is not what the edit was made from", path=edit.path
            )
        if data is not None and len(edits) > 1:
            store.put(data)  # so that a part that a crash left can be put back
        after = None if edit.data is None else _after(edit, edit.data, found, tree, store, limits)
        steps.append(Step("worktree", edit.path, found, after, missing_folders(tree, edit.path), edit.moved_from))
    if len(edits) > 1:
        store.sync()
    return Plan("refresh", tuple(sorted(steps, key=lambda step: step.after is not None)), (), ())


def with_moves(state: WorkspaceState, edits: Sequence[FileEdit]) -> WorkspaceState:
    """The state that remembers which files were moved by name."""
    for edit in edits:
        if edit.moved_from is not None:
            state = state.moved(edit.moved_from, edit.path)
    return state


def put_back(
    marks: Mapping[str, tuple[Sha256 | None, Sha256 | None]], state: WorkspaceState, tree: Root, store: ContentStore,
    limits: WorkspaceLimits,
) -> Plan:  # fmt: skip
    """The steps that give every path that holds its second hash its first one again; the rest hold it already."""
    steps = []
    for path, (before, after) in marks.items():
        found, _ = path_with_data(tree, path, limits)
        if before == after or (None if found is None else found.digest) != after:
            continue
        was = found if found is not None else state.base.get(path)
        kind, mode = ("file", NEW_FILE_MODE) if was is None else (was.kind, was.mode)
        wanted = None if before is None else FileState("link" if kind == "link" else "file", before, mode)
        steps.append(Step("worktree", path, found, wanted, missing_folders(tree, path)))
    return Plan("refresh", tuple(sorted(steps, key=lambda step: step.after is not None)), (), ())


def sweep_beside(paths: Iterable[str], tree: Root) -> None:
    """Remove what a kill left of an edit beside `paths` of the worktree. No edit is under way: all of it is ours."""
    for folder in {path.rpartition("/")[0] for path in paths}:
        with suppress(WorkspaceError, OSError), tree.folder(folder) as fd:
            for name in os.listdir(fd):
                if name.startswith(TEMP_PREFIX):
                    placing.drop(fd, name)


def _after(
    edit: FileEdit, data: bytes, found: FileState | None, tree: Root, store: ContentStore, limits: WorkspaceLimits
) -> FileState:
    if len(data) > limits.file_bytes_max:
        words = f"{edit.path}: {len(data)} bytes, the limit is {limits.file_bytes_max}"
        raise WorkspaceError(ErrorCode.TOO_LARGE_FILE, words, path=edit.path)
    like = found if edit.moved_from is None else path_with_data(tree, edit.moved_from, limits)[0]
    digest = store.put(data)
    if like is None:
        return FileState("file", digest, _mode(NEW_FILE_MODE, edit.runnable))
    return replace(like, digest=digest, mode=like.mode if like.kind == "link" else _mode(like.mode, edit.runnable))


def _mode(mode: int, runnable: bool | None) -> int:
    if runnable is None:
        return mode
    return mode | ((mode & 0o444) >> 2) if runnable else mode & ~0o111
