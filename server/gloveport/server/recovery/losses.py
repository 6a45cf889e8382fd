"""A session that lost recorded events.

Purpose: tell its people, in the item that tells what a restart found.
Invariant: words of a loss stand beside those of the recovery that came just before, not in their place.
Must never: guess what was lost; counts and places are all that is known.
"""

from collections.abc import Mapping
from typing import Any

from gloveport.protocol.journal.events import RecoverySummarised
from gloveport.protocol.text import counted
from gloveport.server.engine.actor import Actor
from gloveport.server.journal.records import Loss
from gloveport.server.recovery.recover import needs_recovery, recover
from gloveport.server.turn.effects import Effect

_COUNTS = ("interrupted_requests", "reconciled_calls", "pending_approvals", "unfinished_applies")


async def recover_and_tell(actor: Actor, loss: Loss | None) -> tuple[Effect, ...]:
    """`recover`, then the words about a loss. Raises GloveportError (SESSION_READ_ONLY, NOT_SAVED)."""
    summarised = needs_recovery(actor.state) and not actor.state.read_only
    effects = await recover(actor)
    if loss is not None:
        await actor.record((_told(await actor.item("recovery") if summarised else {}, loss),))
    return effects


def _told(before: Mapping[str, Any], loss: Loss) -> RecoverySummarised:
    words = (
        f"{before.get('text', 'The daemon was started again.')} Lost or set aside as damaged:"
        f" {counted(loss.events, 'recorded event')} of this session from number {loss.from_seq} on: {loss.reason}."
        " What is shown here ends"
        " before them, so look at your files before you go on."
    )
    return RecoverySummarised(**{name: before.get(name, 0) for name in _COUNTS}, text=words)
