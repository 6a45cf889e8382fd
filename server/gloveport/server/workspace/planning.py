"""From a decision to a plan.

Purpose: turn the selected hunks into the exact bytes each file shall have, and check every precondition.
Invariant: all contents a plan names are durable in the store before the plan is handed out.
Must never: write into the user's folder or the worktree, or plan over content that is not the expected one.
"""

import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import ChangeId, Sha256
from gloveport.server.edit.changes import Change, ChangeKind, Ends, left, taken
from gloveport.server.edit.hunks import Hunk
from gloveport.server.edit.merge import take_hunks
from gloveport.server.edit.names import collision
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.content import blocking, fits, path_state
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.moving import Give, Move, Mover, missing_folders
from gloveport.server.workspace.plan import Action, Decided, Plan, Selected, Step
from gloveport.server.workspace.proposal import Proposal, entry_of
from gloveport.server.workspace.state import FileState

_Rule = Callable[[Change, tuple[Hunk, ...] | None], Ends]


@dataclass(frozen=True, slots=True)
class Planner(Mover):
    """Plans against one state and its current proposals."""

    proposals: Sequence[Proposal]

    def accept(self, selections: Sequence[Selected]) -> Plan:
        """The chosen hunks go into the user's files, and the base follows."""
        decided: list[Decided] = []
        moves: list[Move] = []
        with Root(self.state.root) as root:
            chosen = self._ended(selections, taken)
            shown = {each.change_id: dict(each.replaces) for each in selections if each.replaces}
            _refuse_nested({path: after for _, _, ends in chosen for path, after in ends.items()})
            _refuse_twins(path for _, _, ends in chosen for path, after in ends.items() if after is not None)
            for proposal, hunks, ends in chosen:
                exact = proposal.kind is ChangeKind.case_rename
                give = self._give(proposal, hunks, shown[proposal.change_id]) if proposal.change_id in shown else None
                for path, after in ends.items():
                    if after is not None:
                        _refuse_blocked(root, path)
                    origin = proposal.renamed_from if path == proposal.path else None
                    step = Step("root", path, proposal.based(path), after, origin=origin)
                    moves.append(self.toward(root, step, exact=exact, give=give))
                whole = ends == {path: proposal.proposed(path) for path in proposal.paths}
                decided.append(_decided(proposal, hunks, whole=whole))
        return self.kept(_plan("accept", moves, decided))

    def reject(self, selections: Sequence[Selected]) -> Plan:
        """The chosen hunks leave the worktree."""
        steps = []
        decided = []
        chosen = self._ended(selections, left)
        if any(each.replaces for each in selections):
            raise WorkspaceError(ErrorCode.INVALID_PARAMS, "a reject replaces nothing of the user's")
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
        return self.kept(Plan("reject", tuple(steps), (), tuple(decided)))

    def _give(self, proposal: Proposal, hunks: tuple[Hunk, ...] | None, shown: Mapping[str, str]) -> Give:
        """How the user's text gives way to hunks of a proposal; `shown` names what was shown of it, by hunk."""
        meant = proposal.hunks if hunks is None else hunks
        if not shown.keys() <= {hunk.digest for hunk in meant}:
            words = f"{proposal.path}: what is replaced belongs to a hunk that is not accepted here"
            raise WorkspaceError(ErrorCode.INVALID_PARAMS, words, path=proposal.path)
        if proposal.renamed_from is not None:
            words = f"{proposal.path}: lines do not give way in a file that gets another name"
            hint = "Put your lines back as they were and accept again, or reject it."
            raise WorkspaceError(ErrorCode.INVALID_PARAMS, words, hint=hint, path=proposal.path)
        base, named = self.bytes_of(proposal.base), {Sha256(one): Sha256(other) for one, other in shown.items()}
        return lambda user: take_hunks(base, meant, user, named, path=proposal.path)

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


def _refuse_nested(ends: Mapping[str, FileState | None]) -> None:
    """A file and a folder cannot have one name at one time: such decisions are made one after the other."""
    for path in ends:
        parts = path.split("/")
        for above in ("/".join(parts[:depth]) for depth in range(1, len(parts))):
            if above in ends:
                first, then = (above, path) if ends[above] is None else (path, above)
                raise _in_the_way(above, path, f"Decide on {first} first, then on {then}.")


def _refuse_twins(paths: Iterable[str]) -> None:
    """What would be there together has names that are apart on every file system."""
    found = collision(paths)
    if found is not None:
        raise WorkspaceError(
            ErrorCode.CHANGE_CONFLICT,
            f"{found[0]} and {found[1]} are the same name on some file systems; nothing was written",
            hint="Accept one of them and reject the other.",
            path=found[1],
            other=found[0],
        )


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


def _plan(action: Action, moves: Sequence[Move], decided: Sequence[Decided]) -> Plan:
    """The plan of moves: first what is taken over into the worktree, then the user's side."""
    taken_over = tuple(move.worktree for move in moves if move.worktree is not None)
    return Plan(
        action,
        (*taken_over, *(move.step for move in moves if move.step is not None)),
        tuple(move.base for move in moves),
        tuple(decided),
        tuple(move.buffer for move in moves if move.buffer is not None),
        tuple(step.path for step in taken_over),
    )
