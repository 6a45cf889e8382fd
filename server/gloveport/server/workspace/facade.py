"""One session's workspace: the only door to it for tools and engine.

Purpose: snapshot, proposals, and decisions carried out as journalled plans, beside the files of the worktree.
Invariant: the user's folder is written by `apply`, `finish` and `roll_back` alone; all three take a plan whose every
step names the hash before and after. One call runs at a time; a call that was begun runs to its end.
Must never: decide, run a program, or write a part of a plan and leave it so.

The order for a decision: `plan_*` → journal `plan.as_json()` as intent → `apply(plan)` → journal the result.
After a crash: `reconcile(plan)`; on "partial" then `finish(plan)` or `roll_back(plan)`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from anyio import to_thread

from gloveport.protocol.errors import ErrorCode
from gloveport.server.workspace.applying import Applied, apply_plan, check_plan
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.contents import Contents
from gloveport.server.workspace.drift import Drift, Refreshed, find_drift, moved_names, plan_refresh
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.identity import is_folder
from gloveport.server.workspace.layers import drop_layers
from gloveport.server.workspace.limits import DEFAULT_LIMITS, WorkspaceLimits
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
from gloveport.server.workspace.repository import drop_repository
from gloveport.server.workspace.seen_file import load_seen
from gloveport.server.workspace.snapshot import WORKTREE_NAME, Taken, take_snapshot
from gloveport.server.workspace.state import folder_keys, load_state
from gloveport.server.workspace.staying import Staying, staying_since
from gloveport.server.workspace.taking_back import ALL, Part, Records, TakingBack, read_records
from gloveport.server.workspace.walk import NotCovered
from gloveport.server.workspace.worktree import Worktree


class SessionWorkspace(Worktree):
    """The user's folder (`root`), the session's copy of it (`worktree`) and what lies between them.

    `identity` names the folder by path, device, inode and birth. Failures are those of `Worktree`, and `EditError`.
    """

    def __init__(
        self,
        session_dir: Path,
        taken: Taken,
        limits: WorkspaceLimits,
        boot_id: str = "",
        contents: Contents | None = None,
    ) -> None:
        super().__init__(session_dir, taken, limits, contents)
        self._boot_id = boot_id
        self._seen_in_root = taken.seen_in_root
        self._not_covered_in_root: tuple[NotCovered, ...] = ()
        self._comparison = Comparison(self._look, self._store)
        self.opened: Callable[[], Sequence[OpenText]] = tuple
        """What editors show of files below the root, as it is now; whoever knows it puts itself here."""

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

    @property
    def unproposable(self) -> tuple[NotCovered, ...]:
        """Worktree paths that the last `proposals` could not look at, and why."""
        return self._look.not_covered

    @property
    def user_unknown(self) -> tuple[NotCovered, ...]:
        """Paths of the user's folder that the last `refresh` could not look at, and why."""
        known = {each.path for each in self._state.snapshot.not_covered}
        return tuple(each for each in self._not_covered_in_root if each.path not in known)

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

    def _proposals(self) -> tuple[Proposal, ...]:
        found = self._comparison.proposals(self._state)
        self._store.sync()  # what is told of a proposal holds after a power loss, and so must its content
        return found

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
