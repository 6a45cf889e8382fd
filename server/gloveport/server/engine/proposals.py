"""From the worktree's differences to facts.

Purpose: compare what the workspace proposes with what the session already shows.
Invariant: at most one pending proposal a path; a proposal keeps its id while it changes, and its digest tells so.
Must never: look at a file.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gloveport.protocol.journal.events import ChangeProposed, ChangeWithdrawn, EventBody, HunkRecord
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.server.policy.protected import runs_by_itself
from gloveport.server.session.state import SessionState
from gloveport.server.workspace.proposal import Proposal


@dataclass(frozen=True, slots=True)
class Origin:
    """Which call made the worktree look like this."""

    turn_id: str
    goal_revision: int
    call_id: str
    label: LabelRecord


def _proposed(proposal: Proposal, origin: Origin) -> ChangeProposed:
    return ChangeProposed(
        turn_id=origin.turn_id,
        goal_revision=origin.goal_revision,
        call_id=origin.call_id,
        change_id=proposal.change_id,
        path=proposal.path,
        kind=proposal.kind,
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
        runs_by_itself=runs_by_itself(proposal.path),
        label=origin.label,
    )


def changed_facts(
    state: SessionState, proposals: Iterable[Proposal], origin: Origin, is_unknown: Callable[[str], bool]
) -> tuple[EventBody, ...]:
    """What is newly proposed, proposed differently, or no difference now; of `is_unknown` paths nothing is said."""
    pending = dict(state.changes)
    facts: list[EventBody] = []
    for proposal in proposals:
        known = pending.pop(proposal.change_id, None)
        if known is None or known.digest != proposal.digest:
            facts.append(_proposed(proposal, origin))
    gone = [each for each in pending.values() if not is_unknown(each.path)]
    facts += [ChangeWithdrawn(change_id=each.change_id, path=each.path, reason="reverted") for each in gone]
    return tuple(facts)
