"""Failures of the model in the simulated world, and what the daemon waits for because of them.

Purpose: failures of every class with awkward pauses, timers, compactions; what of them is under way.
Invariant: a function of its arguments and the random source alone; a crash takes all of it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from tests.kit.simulation import materials as mat

from gloveport.protocol.journal.events import ShortenedResult
from gloveport.server.session.state import ResultEntry, SessionState
from gloveport.server.turn import effects as eff
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.retry import TABLE

CLASSES: Final = (*sorted(failure for row in TABLE for failure in row.failures), "a_later_class")
PASSING: Final = ("rate", "overloaded", "server", "connect", "idle", "truncated", "paused")
PAUSES_US: Final = (None, None, 0, 1, 3_000_000, 119_000_000, 121_000_000, 3_600_000_000)
WAITED: Final = (inp.RetryDue, inp.ContextShrunk, inp.ShrinkFailed)
"""Inputs that end a wait."""


def some_failure(rng: Random, request_id: str, now: int) -> inp.RequestFailed:
    """A failure of any class, more often of one that passes; seldom none of the provider's."""
    trouble = None
    if rng.random() < 0.9:
        chance = rng.random()
        name = "context_overflow" if chance < 0.3 else rng.choice(PASSING if chance < 0.8 else CLASSES)
        trouble = inp.Trouble(name, now, rng.choice(PAUSES_US), rng.choice((None, "req_2")))
    spent = rng.choice((None, None, 7))
    return inp.RequestFailed(request_id, "model.unreachable", mat.some_text(rng), "Try again.", trouble, spent)


@dataclass
class Waits:
    """Timers and compactions under way."""

    rng: Random
    timers: set[str] = field(default_factory=set)
    shrinks: set[str] = field(default_factory=set)

    def take(self, effect: eff.Effect) -> None:
        """Begin or drop a wait."""
        match effect:
            case eff.WaitRetry(request_id):
                self.timers.add(request_id)
            case eff.DropWait(request_id):
                self.timers.discard(request_id)
            case eff.ShrinkContext(compaction_id):
                self.shrinks.add(compaction_id)

    def settle(self, given: inp.Input) -> None:
        """What an input ends is over."""
        match given:
            case inp.RetryDue(request_id):
                self.timers.discard(request_id)
            case inp.ContextShrunk(compaction_id) | inp.ShrinkFailed(compaction_id):
                self.shrinks.discard(compaction_id)

    def is_live(self, given: inp.Input) -> bool:
        """Whether what an input speaks of is still awaited."""
        match given:
            case inp.RetryDue(request_id):
                return request_id in self.timers
            case inp.ContextShrunk(compaction_id) | inp.ShrinkFailed(compaction_id):
                return compaction_id in self.shrinks
        return True

    def crash(self) -> None:
        """All of it is gone."""
        self.timers.clear()
        self.shrinks.clear()

    def offers(self, state: SessionState) -> Iterator[tuple[int, Callable[[], inp.Input]]]:
        """What may end next."""
        for key in sorted(self.timers):
            yield 8, partial(inp.RetryDue, key)
        for key in sorted(self.shrinks):
            yield 3, partial(self._shrunk, key, state)
            yield 3, partial(inp.ShrinkFailed, key, "nothing is left to shorten")

    def _shrunk(self, key: str, state: SessionState) -> inp.Input:
        results = [entry for entry in state.history if isinstance(entry, ResultEntry)]
        chosen = self.rng.sample(results, min(len(results), self.rng.randint(0, 2)))
        kept = tuple(ShortenedResult(call_id=one.call_id, kept_chars=len(one.text) // 2) for one in chosen)
        return inp.ContextShrunk(key, kept, 100, self.rng.choice((50, 99, 100)))

    def expected(self, state: SessionState) -> set[eff.Effect]:
        """What a restart would have to wait for again."""
        turn = state.turn
        if turn is None or turn.cancelled_by is not None:
            return set()
        if turn.retry is not None:
            return {eff.WaitRetry(turn.retry.request_id)}
        return {eff.ShrinkContext(turn.compaction)} if turn.compaction is not None else set()

    def at_rest(self, state: SessionState) -> bool:
        """Whether exactly what the state waits for is under way; a compaction of an ended turn may still end, late."""
        turn = state.turn
        timers = {turn.retry.request_id} if turn is not None and turn.retry is not None else set()
        shrinks = {turn.compaction} if turn is not None and turn.compaction is not None else set()
        self.shrinks &= shrinks
        return self.timers == timers and self.shrinks == shrinks
