"""The user's own edits, before a turn begins.

Purpose: bring what the user changed since into the worktree, so that the agent works on today's files.
Invariant: a change of either side is kept; what meets is left as it is and shown as a conflict when it is accepted.
Must never: write into the user's folder.
"""

import anyio

from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.proposals import Origin, changed_facts


async def take_over_edits(actor: Actor) -> None:
    """Merge the user's edits into the worktree, and show what that made of the proposals. Raises GloveportError."""
    # What was merged is shown, also when the turn is stopped meanwhile.
    with anyio.CancelScope(shield=True):
        async with actor.reviewing:
            refreshed = await actor.workspace.refresh()
            if refreshed.taken:
                await _show(actor)


async def _show(actor: Actor) -> None:
    state = actor.state
    turn_id = state.turn.turn_id if state.turn is not None else ""
    label = LabelRecord(integrity=1, readers=None, provenance=("workspace",))
    origin = Origin(turn_id, max(1, state.goal_revision), turn_id, label)
    facts = await changed_facts(state, actor.workspace, origin)
    if facts:
        await actor.record(facts)
