"""What became of a request whose answer broke off with the daemon.

Purpose: ask its provider by the provider's own id, where there is one and the provider can say.
Invariant: bounded in time; who cannot say, or fails to, leaves the fate unknown.
Must never: ask a question of the model.
"""

from typing import Final, Literal

import anyio

from gloveport.protocol.errors import GloveportError
from gloveport.server.engine.actor import Actor
from gloveport.server.models.contract import Fate
from gloveport.server.session.state import Request
from gloveport.server.turn.inputs import RequestInterrupted

LOOKUP_S: Final = 5.0
Answer = Literal["finished", "never_accepted", "unknown"]


async def find_fate(actor: Actor) -> RequestInterrupted | None:
    """The request that was under way, and what is known of it; None when there was none."""
    request = actor.state.turn.request if actor.state.turn is not None else None
    if request is None:
        return None
    fate, evidence = await _asked(actor, request)
    return RequestInterrupted(request.request_id, fate, evidence)


async def _asked(actor: Actor, request: Request) -> tuple[Answer, str]:
    asked_by = request.provider_request_id
    if asked_by is None:
        return "unknown", "it was not accepted as far as is known; it may have been sent"
    found: Fate | None = None
    try:
        with anyio.move_on_after(LOOKUP_S):
            found = await actor.room.providers.provider(request.provider, request.model).lookup(asked_by)
    except GloveportError as error:
        return "unknown", f"{request.provider} was asked for {asked_by}: {error.message}"
    match found:
        case Fate.FINISHED:
            return "finished", f"{request.provider} answered {asked_by} in full"
        case Fate.NEVER_ACCEPTED:
            return "never_accepted", f"{request.provider} never took {asked_by}"
        case _:
            return "unknown", f"{request.provider} cannot say what became of {asked_by}"
