"""From a decision to a plan.

Purpose: turn the selected hunks into the exact bytes each file shall have, and check every precondition.
Invariant: all contents a plan names are durable in the store before the plan is handed out.
Must never: write into the user's folder or the worktree, or plan over content that is not the expected one.
"""

import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import ChangeId, Sha256
from gloveport.server.edit.changes import Change, ChangeKind, Ends, left, taken
from gloveport.server.edit.hunks import Hunk, diff_hunks
from gloveport.server.edit.render import unified_diff
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.content import blocking, fits, path_state, path_with_data
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.limits import WorkspaceLimits
from gloveport.server.workspace.plan import BaseStep, Decided, Plan, Selected, Side, Step
from gloveport.server.workspace.proposal import Proposal, entry_of
from gloveport.server.workspace.state import FileState, WorkspaceState
from gloveport.server.workspace.store import ContentStore

CONFLICT_TEXT_MAX: Final = 8_000

_Rule = Callable[[Change, tuple[Hunk, ...] | None], Ends]


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans against one state and its current proposals."""

    state: WorkspaceState
    worktree: Root
    store: ContentStore
    limits: WorkspaceLimits
    proposals: Sequence[Proposal]

    def accept(self, selections: Sequence[Selected]) -> Plan:
        """The chosen hunks go into the user's files, and the base follows."""
        steps: list[Step] = []
        base_steps: list[BaseStep] = []
        decided: list[Decided] = []
        with Root(self.state.root) as root:
            chosen = self._ended(selections, taken)
            _refuse_nested({path: after for _, _, ends in chosen for path, after in ends.items()})
            for proposal, hunks, ends in chosen:
                for path, after in ends.items():
                    before = proposal.based(path)
                    if after is not None:
                        _refuse_blocked(root, path)
                    found, data = path_with_data(root, path, self.limits, exact=proposal.kind is ChangeKind.case_rename)
                    if not fits(found, after, before):
                        if not fits(found, before, after):
                            raise self._moved_on(path, "root", before, found, data, after)
                        origin = proposal.renamed_from if path == proposal.path else None
                        steps.append(Step("root", path, before, after, missing_folders(root, path), origin))
                    base_steps.append(BaseStep(path, before, after))
                whole = ends == {path: proposal.proposed(path) for path in proposal.paths}
                decided.append(_decided(proposal, hunks, whole=whole))
        return self._kept(Plan("accept", tuple(steps), tuple(base_steps), tuple(decided)))

    def reject(self, selections: Sequence[Selected]) -> Plan:
        """The chosen hunks leave the worktree."""
        steps = []
        decided = []
        chosen = self._ended(selections, left)
        _refuse_nested({path: after for _, _, ends in chosen for path, after in ends.items()})
        for proposal, hunks, ends in chosen:
            for path, after in ends.items():
                if after is not None:
                    _refuse_blocked(self.worktree, path)
                before = path_state(self.worktree, path, self.limits, exact=proposal.kind is ChangeKind.case_rename)
                if not fits(before, proposal.proposed(path), after):
                    raise _superseded(proposal.path)
                folders = missing_folders(self.worktree, path)
                steps.append(Step("worktree", path, before, after, folders))
            whole = ends == {path: proposal.based(path) for path in proposal.paths}
            decided.append(_decided(proposal, hunks, whole=whole))
        return self._kept(Plan("reject", tuple(steps), (), tuple(decided)))

    def undo(self, done: Plan) -> Plan:
        """Every step of `done` backwards."""
        origins, twins = {step.origin: step.path for step in done.steps if step.origin is not None}, done.twins
        steps = tuple(
            Step(step.side, step.path, step.after, step.before, step.new_folders, origins.get(step.path))
            for step in reversed(done.steps)
        )
        base_steps = tuple(BaseStep(step.path, step.after, step.before) for step in reversed(done.base_steps))
        for base_step in base_steps:
            if self.state.base.get(base_step.path) != base_step.before:
                raise WorkspaceError(
                    ErrorCode.CHANGE_CONFLICT,
                    f"{base_step.path}: a later decision builds on this one",
                    hint="Undo the later decision first.",
                    path=base_step.path,
                )
        with Root(self.state.root) as root:
            for step in steps:
                self._check_undo(step, root, exact=step.path in twins)
        return self._kept(Plan("undo", steps, base_steps, done.decided))

    def _check_undo(self, step: Step, root: Root, *, exact: bool) -> None:
        tree = root if step.side == "root" else self.worktree
        found, data = path_with_data(tree, step.path, self.limits, exact=exact)
        if not fits(found, step.before, step.after):
            raise self._moved_on(step.path, step.side, step.before, found, data, step.after)

    def _chosen(self, selections: Sequence[Selected]) -> list[tuple[Proposal, tuple[Hunk, ...] | None]]:
        by_id = {proposal.change_id: proposal for proposal in self.proposals}
        chosen: dict[str, tuple[Proposal, tuple[Hunk, ...] | None]] = {}
        for selected in selections:
            proposal = by_id.get(ChangeId(selected.change_id))
            if proposal is None:
                raise WorkspaceError(ErrorCode.CHANGE_UNKNOWN, f"no pending change {selected.change_id!r}")
            if proposal.digest != selected.digest:
                raise _superseded(proposal.path)
            if proposal.path in chosen:
                raise WorkspaceError(ErrorCode.INVALID_PARAMS, f"{proposal.path} is named twice", path=proposal.path)
            chosen[proposal.path] = (proposal, _hunks(proposal, selected.hunk_digests))
        if not chosen:
            raise WorkspaceError(ErrorCode.INVALID_PARAMS, "nothing is selected")
        return [chosen[path] for path in sorted(chosen)]

    def _ended(
        self, selections: Sequence[Selected], rule: _Rule
    ) -> list[tuple[Proposal, tuple[Hunk, ...] | None, dict[str, FileState | None]]]:
        """What is decided on, and what each of its paths shall hold."""
        return [(proposal, hunks, self._ends(proposal, hunks, rule)) for proposal, hunks in self._chosen(selections)]

    def _ends(self, proposal: Proposal, hunks: tuple[Hunk, ...] | None, rule: _Rule) -> dict[str, FileState | None]:
        """What each path shall hold, the content kept in the store; the removals first."""
        sides = (entry_of(proposal.base, self.store), entry_of(proposal.result, self.store))
        ends = rule(Change(proposal.path, proposal.renamed_from, proposal.kind, *sides, proposal.hunks), hunks)
        return {
            path: None if entry is None else FileState(entry.kind, self.store.put(entry.data), entry.mode)
            for path, entry in sorted(ends.items(), key=lambda end: end[1] is not None)
        }

    def _bytes(self, state: FileState | None) -> bytes:
        return b"" if state is None else self.store.get(state.digest)

    def _kept(self, plan: Plan) -> Plan:
        ends = [end for step in plan.steps for end in (step.before, step.after)]
        ends += [end for step in plan.base_steps for end in (step.before, step.after)]
        for end in ends:
            self._bytes(end)
        self.store.sync()
        return plan

    def _moved_on(
        self,
        path: str,
        side: Side,
        expected: FileState | None,
        found: FileState | None,
        data: bytes | None,
        wanted: FileState | None,
    ) -> WorkspaceError:
        base = self._bytes(expected)
        return WorkspaceError(
            ErrorCode.CHANGE_CONFLICT,
            f"{path} is not what the decision was made on; nothing was written",
            path=path,
            side=side,
            expected=None if expected is None else expected.digest,
            found=None if found is None else found.digest,
            wanted=None if wanted is None else wanted.digest,
            theirs=_side(path, base, data),
            ours=_side(path, base, None if wanted is None else self._bytes(wanted)),
        )


def _refuse_nested(ends: Mapping[str, FileState | None]) -> None:
    """A file and a folder cannot have one name at one time: such decisions are made one after the other."""
    for path in ends:
        parts = path.split("/")
        for above in ("/".join(parts[:depth]) for depth in range(1, len(parts))):
            if above in ends:
                first, then = (above, path) if ends[above] is None else (path, above)
                raise _in_the_way(above, path, f"Decide on {first} first, then on {then}.")


def _refuse_blocked(tree: Root, path: str) -> None:
    above = blocking(tree, path)
    if above is not None:
        raise _in_the_way(above, path, f"Decide on {above} first.")
    info = tree.state(path)
    if info is not None and stat.S_ISDIR(info.st_mode) and not tree.is_hollow(path):
        raise _in_the_way(path, f"{path}/…", f"Decide on what lies in {path} first.")


def _in_the_way(above: str, below: str, hint: str) -> WorkspaceError:
    return WorkspaceError(
        ErrorCode.CHANGE_CONFLICT,
        f"{above} and {below} cannot be there together: one is a file where the other needs a folder; "
        "nothing was written",
        hint=hint,
        path=above,
        other=below,
    )


def _hunks(proposal: Proposal, digests: tuple[str, ...] | None) -> tuple[Hunk, ...] | None:
    """The named hunks; None when that is all of them and so the whole proposal without its mode."""
    if digests is None:
        return None
    by_digest = {hunk.digest: hunk for hunk in proposal.hunks}
    try:
        chosen = tuple(by_digest[Sha256(digest)] for digest in dict.fromkeys(digests))
    except KeyError:
        raise _superseded(proposal.path) from None
    if not chosen:
        raise WorkspaceError(ErrorCode.INVALID_PARAMS, f"{proposal.path}: no hunk is named", path=proposal.path)
    return chosen


def _decided(proposal: Proposal, hunks: tuple[Hunk, ...] | None, *, whole: bool) -> Decided:
    taken = proposal.hunks if hunks is None else hunks
    return Decided(
        proposal.change_id,
        proposal.path,
        tuple(hunk.hunk_id for hunk in taken),
        tuple(hunk.digest for hunk in taken) or (proposal.digest,),
        whole,
    )


def _superseded(path: str) -> WorkspaceError:
    return WorkspaceError(ErrorCode.CHANGE_SUPERSEDED, f"{path}: the proposal is not the one that was shown", path=path)


def missing_folders(root: Root, path: str) -> tuple[str, ...]:
    """The folders above a path that are not there, outermost first."""
    parts = path.split("/")[:-1]
    folders = ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
    return tuple(folder for folder in folders if root.state(folder) is None)


def _side(path: str, base: bytes, data: bytes | None) -> str:
    """How one side differs from what was expected, for display."""
    if data is None:
        return f"{path} is absent"
    try:
        text = unified_diff((path, path), diff_hunks(base, data, path))
    except GloveportError:
        text = ""
    return text[:CONFLICT_TEXT_MAX]
