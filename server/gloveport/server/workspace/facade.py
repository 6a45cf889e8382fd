"""One session's workspace: the only door to it for tools and engine.

Purpose: snapshot, worktree, file access, proposals, and decisions carried out as journalled plans.
Invariant: the user's folder is written by `apply`, `finish` and `roll_back` alone; all three take a plan whose every
step names the hash before and after. One call runs at a time; a call that was begun runs to its end.
Must never: decide, run a program, or write a part of a plan and leave it so.

The order for a decision: `plan_*` → journal `plan.as_json()` as intent → `apply(plan)` → journal the result.
After a crash: `reconcile(plan)`; on "partial" then `finish(plan)` or `roll_back(plan)`.
"""

import os
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio
from anyio import to_thread

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.server.workspace import files
from gloveport.server.workspace.applying import Applied, Trees, apply_plan, check_plan
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.changing import FileEdit, plan_edits, put_back, sweep_beside, with_moves
from gloveport.server.workspace.content import path_with_data
from gloveport.server.workspace.contents import Contents
from gloveport.server.workspace.drift import Drift, Refreshed, find_drift, moved_names, plan_refresh
from gloveport.server.workspace.errors import WorkspaceError, os_failure
from gloveport.server.workspace.identity import is_folder
from gloveport.server.workspace.layers import drop_layers, make_layers
from gloveport.server.workspace.limits import DEFAULT_LIMITS, LIST_MAX, SEARCH_MATCHES_MAX, WorkspaceLimits
from gloveport.server.workspace.look import Look
from gloveport.server.workspace.mending import Expected, make_places, plan_mending
from gloveport.server.workspace.opened import OpenText, unsaved_texts, user_bytes
from gloveport.server.workspace.plan import Action, Plan, Selected
from gloveport.server.workspace.planning import Planner
from gloveport.server.workspace.proposal import Comparison, Preview, Proposal, preview
from gloveport.server.workspace.reconcile import (
    Reconciled,
    Settled,
    finish_plan,
    reconcile_plan,
    roll_back_plan,
    settle_plan,
    sweep_staged,
)
from gloveport.server.workspace.repository import LentRepository, Repository, drop_repository
from gloveport.server.workspace.seen_file import load_seen
from gloveport.server.workspace.snapshot import WORKTREE_NAME, Taken, open_store, take_snapshot
from gloveport.server.workspace.state import (
    FileState,
    SnapshotInfo,
    WorkspaceState,
    folder_keys,
    load_state,
    save_state,
)
from gloveport.server.workspace.staying import Staying, staying_since
from gloveport.server.workspace.taking_back import ALL, Part, Records, TakingBack, read_records
from gloveport.server.workspace.walk import NotCovered, Walk
from gloveport.server.workspace.withheld import Names, find_withheld

Result = TypeVar("Result")


def _never() -> bool:
    return False


def _unless(stopped: Callable[[], bool], call: Callable[..., Result], *args: object) -> Result:
    """Call, given that nobody has said stop: the last look before something changes."""
    if stopped():
        raise WorkspaceError(ErrorCode.CANCELLED, "stopped before anything was written", hint="Nothing was changed.")
    return call(*args)


class SessionWorkspace:
    """The user's folder (`root`), the session's copy of it (`worktree`) and what lies between them.

    `identity` names the folder by path, device, inode and birth. Paths given to methods are relative, `/`-separated.
    Failures are `WorkspaceError` or `EditError`: `workspace.outside`, `workspace.protected`, `workspace.file_missing`,
    `workspace.not_a_file`, `workspace.file_too_large`, `workspace.disk_full`, `change.*`, …
    """

    def __init__(
        self,
        session_dir: Path,
        taken: Taken,
        limits: WorkspaceLimits,
        boot_id: str = "",
        contents: Contents | None = None,
    ) -> None:
        self.session_dir = session_dir
        self._boot_id = boot_id
        self._state = state = taken.state
        self._limits = limits = replace(limits, content_folders=state.committed)
        self._lock = anyio.Lock()
        self._stack = ExitStack()
        self._store = self._stack.enter_context(open_store(session_dir, contents))
        self._tree = self._stack.enter_context(Root(self.worktree))
        self._seen_in_root = taken.seen_in_root
        self._not_covered_in_root: tuple[NotCovered, ...] = ()
        self._look = Look(self._tree, limits, taken.seen, hidden=_hidden(state))
        self._comparison = Comparison(self._look, self._store)
        self._names = Names(self._store)
        self._repository = Repository(session_dir)
        self.opened: Callable[[], Sequence[OpenText]] = tuple
        """What editors show of files below the root, as it is now; whoever knows it puts itself here."""
        # Handles go back when the last user of this object lets go of it, also where nobody closes it.
        weakref.finalize(self, self._stack.close)

    @classmethod
    async def create(
        cls,
        root: Path,
        session_dir: Path,
        *,
        limits: WorkspaceLimits = DEFAULT_LIMITS,
        exclude: Iterable[Path] = (),
        boot_id: str = "",
        contents: Contents | None = None,
    ) -> Self:
        """Take the snapshot of `root` and make the worktree below `session_dir`.

        `exclude` are folders never read as content though they may lie below the root (the data directory);
        `contents` is the store that all sessions share, without it the session keeps all contents itself.
        Raises WorkspaceError: `workspace.missing`, `workspace.unreadable`, `limit.reached`, `workspace.disk_full`,
        `journal.conflict` when the session has a workspace already. Nothing is left when it fails.
        """
        take = partial(take_snapshot, root, session_dir, limits, tuple(exclude), boot_id, contents)
        return cls(session_dir, await to_thread.run_sync(take), limits, boot_id, contents)

    @classmethod
    async def open(
        cls,
        session_dir: Path,
        *,
        limits: WorkspaceLimits = DEFAULT_LIMITS,
        boot_id: str = "",
        contents: Contents | None = None,
    ) -> Self:
        """The workspace that `create` made, after a restart. Raises WorkspaceError when there is no complete one.

        `boot_id` names this boot of the machine: on another one than the last, `mend` comes before anything else.
        """
        state = await to_thread.run_sync(load_state, session_dir)
        if state.boot_id != boot_id:
            (session_dir / WORKTREE_NAME).mkdir(mode=0o700, exist_ok=True)
        seen = await to_thread.run_sync(load_seen, session_dir, boot_id, state.base, state.committed)
        return cls(session_dir, Taken(state, *seen), limits, boot_id, contents)

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
    def snapshot(self) -> SnapshotInfo:
        """What was copied, what was left out and why, and the dependency folders that may be mounted read-only."""
        return self._state.snapshot

    @property
    def unproposable(self) -> tuple[NotCovered, ...]:
        """Worktree paths that the last `proposals` could not look at, and why."""
        return self._look.not_covered

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

    @property
    def user_unknown(self) -> tuple[NotCovered, ...]:
        """Paths of the user's folder that the last `refresh` could not look at, and why."""
        known = {each.path for each in self._state.snapshot.not_covered}
        return tuple(each for each in self._not_covered_in_root if each.path not in known)

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

    async def proposals(self) -> tuple[Proposal, ...]:
        """Every pending difference between the base and the worktree, ordered by path."""
        return await self._run(self._proposals)

    async def preview(self, change_id: str) -> Preview:
        """Unified diff and both texts of one proposal. Raises `change.unknown`."""
        return await self._run(self._preview, change_id)

    async def staying(self, since_us: int, file_bytes_max: int, bytes_max: int) -> tuple[Staying, ...]:
        """What was written since, and is no content, by the last `proposals`."""
        return await self._look_up(staying_since, self._look, since_us, file_bytes_max, bytes_max)

    async def content(self, digest: str | None) -> bytes | None:
        """Bytes that a proposal names by their hash; None for no hash. Raises `journal.blob_missing`."""
        return None if digest is None else await self._run(self._store.get, digest)

    async def user_bytes(self, path: str) -> bytes | None:
        """Bytes of what the user has at a path, unsaved words included (a link's target); None for nothing."""
        return await self._look_up(user_bytes, self.root, path, self.opened(), self._limits)

    async def plan_accept(self, selections: Sequence[Selected]) -> Plan:
        """Plan to put the selected proposals or hunks into the user's folder: nothing is written, and raises
        `change.unknown`, `change.superseded` (another digest), `change.conflict` (`data` has both sides)."""
        return await self._run(self._planned, "accept", selections, self.opened())

    async def plan_reject(self, selections: Sequence[Selected]) -> Plan:
        """Plan to take the selected proposals or hunks out of the worktree."""
        return await self._run(self._planned, "reject", selections, ())

    async def plan_undo(self, record: Mapping[str, Any]) -> Plan:
        """Plan to take back an apply, from its `Applied.record`. Undoing an undo is redoing."""
        return await self.plan_back("undo", (("", record),))

    async def plan_back(self, action: Action, records: Records, part: Part = ALL) -> Plan:
        """Plan to take back decisions (`undo`, `redo`), the newest first, or a part of them.

        Raises `change.conflict` with both sides, `change.unknown` where nothing is left to take back.
        """
        return await self._run(lambda texts: self._back(texts).plan(action, read_records(records), part), self.opened())

    async def plan_restore(self, records: Records, dropped: Sequence[str]) -> Plan:
        """Plan to put the touched paths back to before the decisions, and to propose nothing there any more."""
        return await self._run(lambda texts: self._back(texts).restore(read_records(records), dropped), self.opened())

    async def check(self, plan: Plan) -> None:
        """Raise what would keep `apply` from beginning: `change.conflict`, `change.superseded`."""
        await self._run(self._on_trees, plan, check_plan)

    async def apply(self, plan: Plan) -> Applied:
        """Carry the plan out: all steps, read back, or none.

        Raises `change.conflict` with nothing written, `change.unsettled` when a step could not be taken back.
        """
        return await self._run(self._on_trees, plan, apply_plan)

    async def reconcile(self, plan: Plan) -> Reconciled:
        """What became of a plan whose end is not known, by hashes alone. Reads only."""
        return await self._run(self._on_trees, plan, reconcile_plan)

    async def finish(self, plan: Plan) -> Applied:
        """Do the rest of a plan found "partial", or the whole of one found "not_done"."""
        return await self._run(self._on_trees, plan, finish_plan)

    async def roll_back(self, plan: Plan) -> tuple[str, ...]:
        """Take back the steps done of a plan found "partial"; the paths that were put back."""
        return await self._run(self._on_trees, plan, roll_back_plan)

    async def settle(self, plan: Plan, *, suspects: Sequence[str] = ()) -> Settled:
        """End a plan whose end is not known: all of it or, where that cannot be, nothing; what is left is told.

        `suspects` are the paths of a `change.unsettled`. Nothing of ours stays beside the files.
        Raises `workspace.missing` while the user's folder is away.
        """
        return await self._run(self._on_trees, plan, settle_plan, suspects)

    async def sweep(self, plan: Plan) -> None:
        """Remove what an ended plan may have left beside the files. Raises `workspace.missing` like `settle`."""
        await self._run(self._on_trees, plan, sweep_staged)

    async def drift(self) -> tuple[Drift, ...]:
        """Where the user's folder is no longer the base, by content: own edits, branch switches, other tools."""
        return await self._run(self._drift, self.opened())

    async def refresh(self) -> Refreshed:
        """Take the user's edits into base and worktree, merged line by line with what the agent changed.

        Paths where both changed the same place are left as they are and named; accepting there is a conflict until the
        agent's change is rejected or written anew. To be called before a tool runs. Writes nothing into the root.
        """
        return await self._run(self._refreshed, self.opened())

    async def mend(self, expected: Mapping[str, Expected]) -> tuple[str, ...]:
        """After the machine went down since the last use: put the worktree back to what is recorded; the paths.

        `expected` are the recorded proposals by path. Writes nothing into the root; on the same boot it does nothing.
        """
        return await self._run(self._mended, expected)

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

    def _proposals(self) -> tuple[Proposal, ...]:
        found = self._comparison.proposals(self._state)
        self._store.sync()  # what is told of a proposal holds after a power loss, and so must its content
        return found

    def _made_repository(self, is_kept: Callable[[str], bool]) -> LentRepository:
        kept, sides = self._names.kept(self._state, is_kept).origins.keys(), (self._tree, self._state, self._store)
        return self._repository.lent(self.root, *sides, kept, is_kept, partial(self._look.current, self._state))

    def _preview(self, change_id: str) -> Preview:
        known = self._comparison.still(change_id, self._state)
        known = known or next((each for each in self._proposals() if each.change_id == change_id), None)
        if known is None:
            raise WorkspaceError(ErrorCode.CHANGE_UNKNOWN, f"no pending change {change_id!r}")
        return preview(known, self._store)

    def _planned(self, action: str, selections: Sequence[Selected], texts: Sequence[OpenText]) -> Plan:
        planner = Planner(self._state, self._tree, self._store, self._limits, texts, self._proposals())
        try:
            return planner.accept(selections) if action == "accept" else planner.reject(selections)
        except WorkspaceError as error:
            if error.code is ErrorCode.CHANGE_UNKNOWN and (left_out := self._look.not_covered):
                error.hint = f"It may be among what could not be looked at: {left_out[0].path} ({left_out[0].reason})."
            raise

    def _back(self, texts: Sequence[OpenText]) -> TakingBack:
        return TakingBack(self._state, self._tree, self._store, self._limits, texts)

    def _on_trees(self, plan: Plan, how: Callable[..., Result], *args: object) -> Result:
        with Trees.opened(plan, self._state, self._tree, self._store, self._limits, self._save) as trees:
            return how(plan, trees, *args)

    def _mended(self, expected: Mapping[str, Expected]) -> tuple[str, ...]:
        if self._state.boot_id == self._boot_id:
            return ()
        for drop in (drop_layers, drop_repository):
            drop(self.session_dir)
        make_places(self._state, self._look)
        plan = plan_mending(self._state, self._look, self._store, expected)
        if plan.steps:
            self._on_trees(plan, apply_plan)
        self._save(replace(self._state, boot_id=self._boot_id))
        return plan.paths

    def _drift(self, texts: Sequence[OpenText]) -> tuple[Drift, ...]:
        with self._user() as user:
            return find_drift(self._state, user, unsaved_texts(user.tree, self._state, texts, self._limits))

    def _refreshed(self, texts: Sequence[OpenText]) -> Refreshed:
        with self._user() as user:
            unsaved = unsaved_texts(user.tree, self._state, texts, self._limits)
            drifts = find_drift(self._state, user, unsaved)
            going = tuple(each for each in drifts if each.found is None)
            coming = tuple(each for each in drifts if each.found is not None)
            told = Refreshed((), ())
            # What the user removed goes first: a file may have taken the place of a folder.
            for part in filter(None, (going, coming)):
                moved = moved_names(part, self._tree, lambda: self._comparison.proposals(self._state))
                plan, more = plan_refresh(part, user, self._look, self._store, unsaved, moved)
                self._on_trees(plan, apply_plan)
                told = told.joined(more)
            return told

    @contextmanager
    def _user(self) -> Iterator[Look]:
        """A look at the user's folder, which must be the one of the beginning."""
        if not is_folder(self.root, self.identity):
            raise WorkspaceError(ErrorCode.WORKSPACE_MISSING, f"{self.root} is another folder than at the beginning")
        skip = folder_keys((self.session_dir, *map(Path, self._state.excluded)))
        with Root(self.root) as tree:
            look = Look(tree, self._limits, self._seen_in_root, skip)
            yield look
            self._not_covered_in_root = look.not_covered

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
