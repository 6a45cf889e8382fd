"""The user's own edits, before the model is asked and so before its next tools run.

Purpose: bring what the user changed since into the worktree, so that the agent works on today's files.
Invariant: a change of either side is kept; what meets is left as it is and shown as a conflict when it is accepted.
Must never: write into the user's folder.
"""

from typing import Final

import anyio

from gloveport.protocol.journal.events import EditsTaken
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.labelling import note_found, written_label
from gloveport.server.engine.looking import look, told
from gloveport.server.engine.proposals import Origin
from gloveport.server.workspace.drift import Refreshed
from gloveport.server.workspace.walk import NotCovered

PATHS_KEPT_MAX: Final = 100
NAMED_MAX: Final = 5
_BOTH: Final = "you and the agent both changed it"
_IGNORED: Final = "it is ignored here, and you have one of your own"


async def take_over_edits(actor: Actor) -> None:
    """Merge the user's edits into the worktree, and show what that made of the proposals. Raises GloveportError."""
    # What was merged is shown, also when the turn is stopped meanwhile.
    with anyio.CancelScope(shield=True):
        async with actor.reviewing:
            refreshed = await actor.workspace.refresh()
            await note_found(actor)
            if refreshed.taken:
                await _show(actor)
            await _tell(actor, refreshed)


async def _tell(actor: Actor, refreshed: Refreshed) -> None:
    """Say in words what was taken over while the turn runs, and what could not be: once, as long as it stays so."""
    left_out = actor.workspace.user_unknown
    news = (refreshed.conflicted, tuple(one.path for one in left_out))
    is_new, actor.told_edits = news != actor.told_edits, news
    turn = actor.state.turn
    taken = refreshed.taken if turn is not None and turn.calls_made else ()
    if not is_new and not taken:
        return
    meeting = [NotCovered(path, _IGNORED if path in refreshed.ignored else _BOTH) for path in refreshed.conflicted]
    words = [
        taken_words(taken),
        told("Your edits were not taken over here", meeting) if is_new else "",
        told("Not looked at in your folder", left_out) if is_new else "",
    ]
    text = " ".join(filter(None, words))
    if text:
        await actor.record((_taken(actor, refreshed, left_out, text),))


def taken_words(taken: tuple[str, ...]) -> str:
    """The first few by name: a folder that somebody builds in changes thousands while a turn runs."""
    if not taken:
        return ""
    more = f" and {len(taken) - NAMED_MAX} more" if len(taken) > NAMED_MAX else ""
    return f"Your edits were taken over: {', '.join(taken[:NAMED_MAX])}{more} (changed while the turn ran)."


def _taken(actor: Actor, refreshed: Refreshed, left_out: tuple[NotCovered, ...], text: str) -> EditsTaken:
    return EditsTaken(
        turn_id=actor.state.turn.turn_id if actor.state.turn is not None else "",
        taken=refreshed.taken[:PATHS_KEPT_MAX],
        conflicted=refreshed.conflicted[:PATHS_KEPT_MAX],
        not_covered=tuple(f"{one.path}: {one.reason}" for one in left_out[:PATHS_KEPT_MAX]),
        text=text,
    )


async def _show(actor: Actor) -> None:
    state = actor.state
    turn_id = state.turn.turn_id if state.turn is not None else ""
    origin = Origin(turn_id, max(1, state.goal_revision), turn_id, written_label(actor))
    looked = await look(actor, origin)
    if looked.facts:
        await actor.record(looked.facts)
