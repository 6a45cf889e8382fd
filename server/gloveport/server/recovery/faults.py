"""A session's record, checked after it was read.

Purpose: tell in what it contradicts itself, before anything is built on it.
Invariant: each finding is written once; a contradiction makes the session read-only, a lost result is mended in what a
    model is sent.
Must never: pass over a finding silently.
"""

from gloveport.protocol.journal.events import FaultsFound
from gloveport.server.engine.actor import Actor
from gloveport.server.session.invariants import lost_results


async def tell_faults(actor: Actor) -> None:
    """Write what is newly found. Raises GloveportError (NOT_SAVED, DATA_FULL)."""
    known = actor.state.faults
    impossible = tuple(fault for fault in actor.contradictions if fault not in known)
    if impossible:
        await actor.record((FaultsFound(findings=impossible, read_only=True),))
        return
    lost = (f"the result of {call_id} is not recorded; its outcome is unknown" for call_id in lost_results(actor.state))
    news = tuple(fault for fault in lost if fault not in known)
    if news:
        await actor.record((FaultsFound(findings=news, read_only=False),))
