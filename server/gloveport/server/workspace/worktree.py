"""The session's copy of the user's folder, where the agent works.

Purpose: what tools and jails need of it: finding, reading and changing its files.
Invariant: nothing here writes into the user's folder. One call runs at a time; a call that was begun runs to its end.
Must never: decide, run a program, or leave an edit of several files half done.
"""

import os
import weakref
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.server.workspace import files
from gloveport.server.workspace.applying import Trees, apply_plan
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.changing import FileEdit, plan_edits, put_back, sweep_beside, with_moves
from gloveport.server.workspace.content import path_with_data
from gloveport.server.workspace.contents import Contents
from gloveport.server.workspace.errors import WorkspaceError, os_failure
from gloveport.server.workspace.layers import make_layers
from gloveport.server.workspace.limits import LIST_MAX, SEARCH_MATCHES_MAX, WorkspaceLimits
from gloveport.server.workspace.look import Look
from gloveport.server.workspace.plan import Plan
from gloveport.server.workspace.repository import LentRepository, Repository
from gloveport.server.workspace.snapshot import WORKTREE_NAME, Taken, open_store
from gloveport.server.workspace.state import FileState, SnapshotInfo, WorkspaceState, save_state
from gloveport.server.workspace.walk import Walk
from gloveport.server.workspace.withheld import Names, find_withheld

Result = TypeVar("Result")


def _never() -> bool:
    return False


def _unless(stopped: Callable[[], bool], call: Callable[..., Result], *args: object) -> Result:
    """Call, given that nobody has said stop: the last look before something changes."""
    if stopped():
        raise WorkspaceError(ErrorCode.CANCELLED, "stopped before anything was written", hint="Nothing was changed.")
    return call(*args)


class Worktree:
    """Files of the session's copy (`worktree`). Paths given to methods are relative, `/`-separated.

    Failures are `WorkspaceError`: `workspace.outside`, `workspace.protected`, `workspace.file_missing`,
    `workspace.not_a_file`, `workspace.file_too_large`, `workspace.disk_full`, `change.conflict`, …
    """

    def __init__(
        self,
        session_dir: Path,
        taken: Taken,
        limits: WorkspaceLimits,
        contents: Contents | None = None,
    ) -> None:
        self.session_dir = session_dir
        self._state = state = taken.state
        self._limits = limits = replace(limits, content_folders=state.committed)
        self._lock = anyio.Lock()
        self._stack = ExitStack()
        self._store = self._stack.enter_context(open_store(session_dir, contents))
        self._tree = self._stack.enter_context(Root(self.worktree))
        self._look = Look(self._tree, limits, taken.seen, hidden=_hidden(state))
        self._names = Names(self._store)
        self._repository = Repository(session_dir)
        # Handles go back when the last user of this object lets go of it, also where nobody closes it.
        weakref.finalize(self, self._stack.close)

    def close(self) -> None:
        """Give files and handles back."""
        self._stack.close()

    @property
    def root(self) -> Path:
        """The user's folder, real path."""
        return self._state.root

    @property
    def worktree(self) -> Path:
        """The session's copy, where the agent works."""
        return self.session_dir / WORKTREE_NAME

    @property
    def identity(self) -> str:
        """Opaque name of the folder as it was when the session began."""
        return self._state.identity

    @property
    def base(self) -> Mapping[str, FileState]:
        """What the user's folder is known to hold, by path; another object each time that it moved."""
        return self._state.base

    @property
    def snapshot(self) -> SnapshotInfo:
        """What was copied, what was left out and why, and the dependency folders that may be mounted read-only."""
        return self._state.snapshot

    async def layers(self) -> dict[str, str]:
        """Where a jail's writes over the user's installed dependencies go: layer by folder, both absolute."""
        make = partial(_typed, make_layers, self.session_dir, self.root, self.snapshot.dependency_folders)
        return await to_thread.run_sync(make, abandon_on_cancel=True)  # no look waits for it, and it for none

    async def repository(self, is_kept: Callable[[str], bool]) -> LentRepository:
        """What a jail shows at `repository.PLACE`; a program runs without git rather than not at all."""
        return await self._run(self._made_repository, is_kept)

    async def resolve(self, path: str, *, last: bool = True) -> str:
        """The link-free path that `path` leads to; with `last` false its last part is taken as it is.

        Raises WorkspaceError: `workspace.outside`, `workspace.protected`.
        """
        return await self._run(files.resolve_path, self._tree, path, last)

    async def check_place(self, path: str) -> None:
        """Raise WorkspaceError when a file at the link-free `path` could never be proposed."""
        await self._run(files.check_place, path, self._limits, self._look.is_hidden(path))

    async def read(self, path: str, *, at: str | None = None) -> bytes:
        """Bytes of a file of the worktree. With `at` the path must lead there now (`change.conflict` otherwise)."""
        return await self._run(files.read_file, self._tree, path, self._limits, at)

    def is_unknown(self, path: str) -> bool:
        """True when the last `proposals` could not tell what lies at `path`: nothing is said of it."""
        return path in self._look.unknown

    async def digest(self, path: str) -> Sha256 | None:
        """SHA-256 of a file of the worktree; None when there is no such file."""
        return await self._run(files.digest_file, self._tree, path, self._limits)

    async def list(self, pattern: str = "**", *, limit: int = LIST_MAX) -> files.Listing:
        """Content files of the worktree that fit `pattern` (as in ignore rules: `*.py`, `src/**`)."""
        return await self._look_up(files.list_files, self._tree, pattern, self._limits, min(limit, LIST_MAX))

    async def search(
        self, regex: str, *, pattern: str = "**", limit: int = SEARCH_MATCHES_MAX, leave_out: Container[str] = ()
    ) -> files.SearchResult:
        """Lines that match `regex` (RE2 syntax) in the files that fit `pattern` and are not to be left out."""
        bound = min(limit, SEARCH_MATCHES_MAX)
        return await self._look_up(files.search_files, self._tree, regex, pattern, self._limits, bound, leave_out)

    async def withheld(self, is_kept: Callable[[str], bool]) -> frozenset[str]:
        """The files of the worktree that a rule keeps: by their name, or as copies of what has such a name."""
        return await self._run(lambda: find_withheld(self.worktree, self._names.kept(self._state, is_kept), is_kept))

    async def kept_origin(self, digest: str | None, is_kept: Callable[[str], bool]) -> str | None:
        """The kept path of the base whose content has this hash, if any."""
        return await self._run(lambda: self._names.kept(self._state, is_kept).origins.get(Sha256(digest or "")))

    async def aliases(self, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Other names of link-free paths, through links that the user has; paths without any are left out."""
        return await self._run(lambda: self._names.aliases(self._state, paths))

    async def write(self, path: str, data: bytes, *, expected: Sha256 | None = None) -> Sha256:
        """Make a file of the worktree hold `data`; its mode is kept. Returns the hash, read back.

        With `expected` the file must have that hash now (`change.conflict` otherwise).
        """
        return await self._run(self._write, path, data, expected)

    async def delete(self, path: str, *, expected: Sha256 | None = None) -> None:
        """Remove a file of the worktree."""
        await self._run(files.delete_file, self._tree, path, self._limits, expected)

    async def entry(self, path: str) -> tuple[FileState | None, bytes | None]:
        """What lies at a link-free path of the worktree as it is spelled, and its bytes (a link's target)."""
        return await self._run(partial(path_with_data, self._tree, path, self._limits, exact=True))

    async def edit(self, edits: Sequence[FileEdit], *, unless: Callable[[], bool] = _never) -> None:
        """Change files of the worktree, all or none. Raises `change.conflict`.

        `unless` is asked last of all, when its turn has come: true means `rpc.cancelled`, nothing written.
        """
        await self._run(_unless, unless, self._edited, edits)

    async def put_back(self, marks: Mapping[str, tuple[Sha256 | None, Sha256 | None]]) -> tuple[str, ...]:
        """Give paths that hold the second hash their first content again, all or none; the paths."""
        return await self._run(self._put_back, marks)

    async def sweep_beside(self, paths: Sequence[str]) -> None:
        """Remove what a killed edit of these paths left beside them in the worktree. No edit may be under way."""
        await self._run(sweep_beside, paths, self._tree)

    async def _run(self, call: Callable[..., Result], *args: object) -> Result:
        async with self._lock:
            return await to_thread.run_sync(partial(_typed, call, *args))

    async def _look_up(self, call: Callable[..., Result], *args: object) -> Result:
        """`_run` for what only reads: a caller that leaves does not wait for the thread."""
        async with self._lock:
            return await to_thread.run_sync(partial(_typed, call, *args), abandon_on_cancel=True)

    def _write(self, path: str, data: bytes, expected: Sha256 | None) -> Sha256:
        real = files.write_file(self._tree, path, data, self._limits, expected)
        found = files.digest_file(self._tree, real, self._limits)
        if found is None:
            raise WorkspaceError(ErrorCode.CHANGE_CONFLICT, f"{path} was removed while it was written", path=path)
        self._noted(real)
        return found

    def _edited(self, edits: Sequence[FileEdit]) -> None:
        self._on_trees(plan_edits(edits, self._tree, self._store, self._limits), apply_plan)
        if any(edit.moved_from is not None for edit in edits):
            self._save(with_moves(self._state, edits))
        for edit in edits:
            if edit.data is not None:
                self._noted(edit.path)

    def _put_back(self, marks: Mapping[str, tuple[Sha256 | None, Sha256 | None]]) -> tuple[str, ...]:
        return self._on_trees(put_back(marks, self._state, self._tree, self._store, self._limits), apply_plan).paths

    def _noted(self, real: str) -> None:
        """Remember a path that a rule ignores and the agent wrote by name."""
        known = real in self._state.base or real in self._state.forced
        if not known and not Walk(self._tree, self._limits).covers(real):
            self._state.forced.add(real)
            save_state(self.session_dir, self._state)

    def _made_repository(self, is_kept: Callable[[str], bool]) -> LentRepository:
        kept, sides = self._names.kept(self._state, is_kept).origins.keys(), (self._tree, self._state, self._store)
        return self._repository.lent(self.root, *sides, kept, is_kept, partial(self._look.current, self._state))

    def _on_trees(self, plan: Plan, how: Callable[..., Result], *args: object) -> Result:
        with Trees.opened(plan, self._state, self._tree, self._store, self._limits, self._save) as trees:
            return how(plan, trees, *args)

    def _save(self, state: WorkspaceState) -> None:
        save_state(self.session_dir, state)
        self._state = state


def _typed(call: Callable[..., Result], *args: object) -> Result:
    """Call; whatever the operating system refuses comes out with a code."""
    try:
        return call(*args)
    except OSError as error:
        raise os_failure(error, "") from error


def _hidden(state: WorkspaceState) -> tuple[str, ...]:
    """Excluded folders as paths below the root: what a worktree holds there would return into them."""
    real = (Path(os.path.realpath(each)) for each in state.excluded)
    return tuple(each.relative_to(state.root).as_posix() for each in real if each.is_relative_to(state.root))
