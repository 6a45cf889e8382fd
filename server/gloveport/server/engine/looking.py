"""A look at the worktree, as facts.

Purpose: what is newly proposed or no longer a difference, and in words what could not be looked at.
Invariant: a look that fails is told and changes no proposal; what cannot be told is never taken for a deletion.
Must never: keep an outcome from being written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.journal.events import EventBody
from gloveport.server.engine.actor import Actor, is_fatal
from gloveport.server.engine.proposals import Origin, changed_facts
from gloveport.server.workspace.walk import NotCovered

NAMED_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look found; `words` is empty when there is nothing new to tell."""

    facts: tuple[EventBody, ...]
    words: str = ""
    whole: bool = True


NOTHING_NEW: Final = Looked(())


async def look(actor: Actor, origin: Origin) -> Looked:
    """Look at the worktree now. Raises GloveportError where the journal is at fault, and only there."""
    try:
        workspace = actor.workspace
        before = workspace.unproposable
        facts = await changed_facts(actor.state, await workspace.proposals(), origin, workspace)
    except GloveportError as error:
        if is_fatal(error):
            raise
        return Looked((), f"What this changed could not be looked at: {error.advice}", whole=False)
    news = [each for each in workspace.unproposable if each not in before]
    return Looked(facts, told("Not looked at, so not proposed", news))


def told(begin: str, left_out: Sequence[NotCovered]) -> str:
    """Paths that were left out, and why, in one line; empty when there is none."""
    if not left_out:
        return ""
    more = f" and {len(left_out) - NAMED_MAX} more" if len(left_out) > NAMED_MAX else ""
    return f"{begin}: {', '.join(f'{one.path} ({one.reason})' for one in left_out[:NAMED_MAX])}{more}."
