"""Waiting for a retry, and finding what the model can be shown shorter.

Purpose: let the pause of the journal pass by the daemon's clock; measure and plan a compaction.
Invariant: a pause that a restart interrupted ends when the journal says, and never lasts longer than it was made for.
Must never: decide whether to try again, or change what the log holds.
"""

from gloveport.server.engine.actor import Actor
from gloveport.server.session.shortening import plan_shortening, shown_chars
from gloveport.server.session.state import Entry, ResultEntry
from gloveport.server.turn.effects import Effect, ShrinkContext, WaitRetry
from gloveport.server.turn.inputs import ContextShrunk, RetryDue


async def wait_retry(actor: Actor, effect: WaitRetry) -> tuple[Effect, ...]:
    """Sleep until the retry is due, then say so. Cancelling drops it."""
    turn = actor.state.turn
    pause = turn.retry if turn is not None else None
    if pause is None or pause.request_id != effect.request_id:
        return ()
    # By a clock that was set back the moment may lie far off: the pause is no longer for that.
    left_us = min(pause.due_at - actor.room.now_us(), pause.backoff_us)
    if left_us > 0:
        await actor.room.sleep(left_us / 1e6)
    return await actor.submit(RetryDue(effect.request_id))


async def shrink_context(actor: Actor, effect: ShrinkContext) -> tuple[Effect, ...]:
    """Plan what is shown shorter, by the state alone."""
    history = actor.state.history
    results = plan_shortening(history)
    kept = {result.call_id: result.kept_chars for result in results}
    before = sum(map(shown_chars, history))
    after = before - sum(_saved(entry, kept) for entry in history)
    return await actor.submit(ContextShrunk(effect.compaction_id, results, before, after))


def _saved(entry: Entry, kept: dict[str, int]) -> int:
    if not isinstance(entry, ResultEntry) or entry.call_id not in kept:
        return 0
    return shown_chars(entry) - min(len(entry.text), kept[entry.call_id])
