"""A look at the worktree, as facts.

Purpose: what is newly proposed or no longer a difference, and in words what could not be looked at.
Invariant: a look that fails is told and changes no proposal; what cannot be told is never taken for a deletion.
Must never: keep an outcome from being written, also not by its own size.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.journal.events import ChangeWithdrawn, EventBody, encode_body
from gloveport.server.engine.actor import Actor, is_fatal
from gloveport.server.engine.proposals import Origin, changed_facts
from gloveport.server.workspace.walk import NotCovered

NAMED_MAX: Final = 10
FACTS_MAX: Final = 8_000
FACTS_BYTES_MAX: Final = 8 * 1024 * 1024
"""What one look tells at most; it goes into one append with the outcome. The next look tells more."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look found; `words` is empty when there is nothing new to tell. `whole`: no fact is missing."""

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
    words = told("Not looked at, so not proposed", news)
    kept = _fitting(facts)
    if len(kept) == len(facts):
        return Looked(facts, words)
    more = f"{len(facts) - len(kept)} more changes are too many to be shown at once; they come with the next look."
    return Looked(kept, " ".join(filter(None, (words, more))), whole=False)


def _fitting(facts: Sequence[EventBody]) -> tuple[EventBody, ...]:
    """The facts that are told in one look, in their order; what is no difference any more goes first."""
    if len(facts) <= FACTS_MAX and _size(facts) <= FACTS_BYTES_MAX:
        return tuple(facts)
    room, kept = FACTS_BYTES_MAX, set[int]()
    for at, fact in sorted(enumerate(facts), key=lambda one: not isinstance(one[1], ChangeWithdrawn)):
        room -= _size((fact,))
        if len(kept) == FACTS_MAX or room < 0:
            break
        kept.add(at)
    return tuple(fact for at, fact in enumerate(facts) if at in kept)


def _size(facts: Iterable[EventBody]) -> int:
    return sum(len(encode_body(fact)) for fact in facts)


def told(begin: str, left_out: Sequence[NotCovered]) -> str:
    """Paths that were left out, and why, in one line; empty when there is none."""
    if not left_out:
        return ""
    more = f" and {len(left_out) - NAMED_MAX} more" if len(left_out) > NAMED_MAX else ""
    return f"{begin}: {', '.join(f'{one.path} ({one.reason})' for one in left_out[:NAMED_MAX])}{more}."
