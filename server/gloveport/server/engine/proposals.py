"""From the worktree's differences to facts.

Purpose: compare what the workspace proposes with what the session already shows.
Invariant: at most one pending proposal a path; a proposal keeps its id while it changes, and its digest tells so.
Must never: look at a file; where a link leads is asked of the workspace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.journal.events import ChangeProposed, ChangeWithdrawn, EventBody, HunkRecord
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.server.policy.protected import is_never_written, marks, runs_by_itself
from gloveport.server.policy.protected_table import PathClass
from gloveport.server.session.fold_labels import join_all_labels
from gloveport.server.session.state import SessionState
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.proposal import Proposal


@dataclass(frozen=True, slots=True)
class Origin:
    """Which call made the worktree look like this."""

    turn_id: str
    goal_revision: int
    call_id: str
    label: LabelRecord


def _proposed(proposal: Proposal, origin: Origin, note: str | None, label: LabelRecord) -> ChangeProposed:
    return ChangeProposed(
        turn_id=origin.turn_id,
        goal_revision=origin.goal_revision,
        call_id=origin.call_id,
        change_id=proposal.change_id,
        path=proposal.path,
        renamed_from=proposal.renamed_from,
        kind=proposal.kind.value,
        base_hash=proposal.base_digest,
        result_hash=proposal.result_digest,
        base_mode=proposal.base_mode,
        result_mode=proposal.result_mode,
        hunks=tuple(
            HunkRecord(
                hunk_id=hunk.hunk_id,
                digest=hunk.digest,
                old_start=hunk.old_start,
                old_count=len(hunk.old_lines),
                new_start=hunk.new_start,
                new_count=len(hunk.new_lines),
            )
            for hunk in proposal.hunks
        ),
        digest=proposal.digest,
        runs_by_itself=note,
        label=label,
    )


@dataclass(frozen=True, slots=True)
class Place:
    """A path that is decided on: what it leads to if it is a link, and the user's links that lead to it."""

    path: str
    leads_to: str | None = None
    aliases: tuple[str, ...] = ()

    @property
    def is_never_written(self) -> bool:
        """True if accepting would touch what no change may touch."""
        names = (self.path, *self.aliases, *(() if self.leads_to is None else (self.leads_to,)))
        return any(is_never_written(name) for name in names)

    @property
    def note(self) -> str | None:
        """Why it is accepted one by one only, in words; None for an ordinary file."""
        own = runs_by_itself(self.path)
        if own is not None:
            return own
        for alias in self.aliases:
            if (words := runs_by_itself(alias)) is not None:
                return f"{alias} leads to it, and {words}"
        if self.leads_to is None:
            return None
        if not self.leads_to:
            return "where it leads cannot be told"
        found = [mark.words for mark in marks(self.leads_to) if mark.cls is not PathClass.ordinary]
        return f"it leads to {self.leads_to}; {found[0]}" if found else None


async def places(workspace: SessionWorkspace, links: Mapping[str, bool]) -> dict[str, Place]:
    """The places of these paths; each with whether the proposal is a link that is made or changed."""
    aliases = await workspace.aliases(tuple(links))
    return {
        path: Place(path, await _lead(workspace, path) if is_link else None, aliases.get(path, ()))
        for path, is_link in links.items()
    }


async def _lead(workspace: SessionWorkspace, path: str) -> str:
    try:
        return await workspace.resolve(path)
    except GloveportError:
        return ""


async def changed_facts(
    state: SessionState, proposals: Sequence[Proposal], origin: Origin, workspace: SessionWorkspace
) -> tuple[EventBody, ...]:
    """What is newly proposed, proposed differently, or no difference now; of paths that are unknown nothing is said."""
    pending = dict(state.changes)
    fresh: list[Proposal] = []
    for proposal in proposals:
        known = pending.pop(proposal.change_id, None)
        if known is None or known.digest != proposal.digest:
            fresh.append(proposal)
    facts = await _proposed_all(workspace, fresh, origin, state)
    gone = [each for each in pending.values() if not workspace.is_unknown(each.path)]
    moved = {proposal.renamed_from for proposal in proposals}
    return (
        *facts,
        *(
            ChangeWithdrawn(
                change_id=each.change_id, path=each.path, reason="superseded" if each.path in moved else "reverted"
            )
            for each in gone
        ),
    )


async def _proposed_all(
    workspace: SessionWorkspace, fresh: Sequence[Proposal], origin: Origin, state: SessionState
) -> tuple[ChangeProposed, ...]:
    if not fresh:
        return ()
    links = {path: one.is_link_at(path) for one in fresh for path in one.paths}
    found = await places(workspace, links)
    return tuple(_proposed(one, origin, _note(found, one.paths), _label(state, one, origin)) for one in fresh)


def _label(state: SessionState, proposal: Proposal, origin: Origin) -> LabelRecord:
    """What is proposed again may still hold what it held before."""
    return join_all_labels(origin.label, *(state.file_labels.get(path) for path in proposal.paths))


def _note(found: Mapping[str, Place], paths: Sequence[str]) -> str | None:
    """Why a proposal is accepted one by one only: what holds for one of its paths holds for it."""
    return next((note for path in reversed(paths) if (note := found[path].note) is not None), None)
