"""How requests of all sessions reach what they share.

Purpose: hold the breaker and the line of each lane (a provider under one key), and let requests through them.
Invariant: the states are those of the pure machines; a request that was let through gives its place back however it
    ends; the first sign of an answer is told the breaker at once.
Must never: decide, wait for a breaker (who is refused is told when to ask again), or retry.
"""

import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.journal.events import BreakerClosed, BreakerOpened, EventBody
from gloveport.server.models.contract import ErrorClass, ModelError
from gloveport.server.models.failures import model_error
from gloveport.server.turn.breaker import Answered, Asked, Breaker, Dropped, Failed, Given, Position, Verdict
from gloveport.server.turn.breaker import step as step_breaker
from gloveport.server.turn.line import Joined, Left, Line, is_waiting
from gloveport.server.turn.line import step as step_line

_log = logging.getLogger("gloveport.engine")

REQUESTS_PER_LANE_MAX: Final = 8
"""Requests that one provider is sent at once under one key, by all sessions together."""
LANES_MAX: Final = 64
FULL_LINE_PAUSE_S: Final = 5.0
FAILURES: Final = frozenset(
    {
        ErrorClass.CONNECT,
        ErrorClass.IDLE,
        ErrorClass.SERVER,
        ErrorClass.OVERLOADED,
        ErrorClass.RATE,
        ErrorClass.TRUNCATED,
    }
)
"""What a breaker counts; every other error is an answer, or nothing that was sent."""

Tell = Callable[[EventBody], Awaitable[None]]


@dataclass(slots=True)
class _Lane:
    name: str
    line: Line
    breaker: Breaker = field(default_factory=Breaker)
    gates: dict[str, anyio.Event] = field(default_factory=dict)


class Passage:
    """A request under way through a lane."""

    def __init__(self, pacing: "Pacing", lane: _Lane, ticket: str) -> None:
        self._pacing, self._lane, self._ticket = pacing, lane, ticket
        self.settled = False

    async def answered(self) -> None:
        """The other side began to answer."""
        await self._settle(Answered(self._ticket), "")

    async def failed(self, error: ModelError) -> None:
        """The request failed, also in the middle of an answer."""
        if error.error_class in FAILURES:
            pause = None if error.retry_after_s is None else round(error.retry_after_s * 1e6)
            await self._settle(Failed(self._ticket, pause), error.message)
        elif not self.settled:
            sent = error.error_class is not ErrorClass.CONFIG
            await self._settle(Answered(self._ticket) if sent else Dropped(self._ticket), "")

    async def _settle(self, given: Given, why: str) -> None:
        self.settled = True
        await self._pacing.tell_breaker(self._lane, given, why)

    def drop(self) -> None:
        """It was given up before anything was learned."""
        if not self.settled:
            self._pacing.drop(self._lane, self._ticket)


class Pacing:
    """All lanes of a daemon; `tell` writes what breakers do where it is kept."""

    def __init__(self, now_us: Callable[[], int], tell: Tell, places: int = REQUESTS_PER_LANE_MAX) -> None:
        self._now_us, self._tell, self._places = now_us, tell, places
        self._lanes: dict[str, _Lane] = {}
        self._tickets = itertools.count(1)

    @asynccontextmanager
    async def passage(self, name: str | None, owner: str) -> AsyncIterator[Passage | None]:
        """Wait for a place in the lane `name`, then pass its breaker; null for what needs neither.

        Raises ModelError (paused, with the pause) when the breaker is open or the line is full.
        """
        if name is None:
            yield None
            return
        lane = self._lane(name)
        ticket = f"{owner}/{next(self._tickets)}"
        try:
            await self._enter(lane, ticket, owner)
            passage = Passage(self, lane, ticket)
            try:
                yield passage
            except ModelError as error:
                await passage.failed(error)
                raise
            finally:
                passage.drop()
        finally:
            self._step_line(lane, Left(ticket))

    def _lane(self, name: str) -> _Lane:
        if name not in self._lanes and len(self._lanes) >= LANES_MAX:
            idle = [lane for lane in self._lanes.values() if not lane.line.active and not lane.line.waiting]
            for forgotten in sorted(idle, key=lambda lane: lane.breaker.position is not Position.CLOSED)[:1]:
                del self._lanes[forgotten.name]
        return self._lanes.setdefault(name, _Lane(name, Line(self._places)))

    async def _enter(self, lane: _Lane, ticket: str, owner: str) -> None:
        gate = lane.gates[ticket] = anyio.Event()
        try:
            self._step_line(lane, Joined(ticket, owner))
            if not gate.is_set() and not is_waiting(lane.line, ticket):
                raise _paused(f"too many requests wait for {lane.name}", FULL_LINE_PAUSE_S)
            await gate.wait()
        finally:
            del lane.gates[ticket]
        verdict = self._step_breaker(lane, Asked(ticket))
        if not verdict.passes:
            words = f"{lane.name} is left alone for a moment after failures of this and other sessions"
            raise _paused(words, verdict.wait_us / 1e6)

    def _step_line(self, lane: _Lane, given: Joined | Left) -> None:
        lane.line, admitted = step_line(lane.line, given)
        for name in admitted:
            lane.gates[name].set()

    def _step_breaker(self, lane: _Lane, given: Given) -> Verdict:
        lane.breaker, verdict = step_breaker(lane.breaker, given, self._now_us())
        return verdict

    def drop(self, lane: _Lane, ticket: str) -> None:
        """Nothing was learned by this ticket."""
        self._step_breaker(lane, Dropped(ticket))

    async def tell_breaker(self, lane: _Lane, given: Given, why: str) -> None:
        """Take what was learned; an opening and a closing are kept as facts."""
        before = lane.breaker
        self._step_breaker(lane, given)
        after = lane.breaker
        fact: EventBody | None = None
        if after.position is Position.OPEN and after.openings > before.openings:
            fact = BreakerOpened(
                kind="provider", name=lane.name, failures=after.failures, until_at=after.until_us, reason=why
            )
        elif after.position is Position.CLOSED and before.position is not Position.CLOSED:
            fact = BreakerClosed(kind="provider", name=lane.name)
        if fact is not None:
            try:
                await self._tell(fact)
            except (
                GloveportError
            ) as error:  # the breaker works without its record; the journal's refusal shows elsewhere
                _log.warning("%s of %s could not be written: %s", type(fact).__name__, lane.name, error.message)


def _paused(words: str, pause_s: float) -> ModelError:
    plain = model_error(ErrorClass.PAUSED, words)
    return ModelError(plain.code, words, error_class=ErrorClass.PAUSED, retry_after_s=pause_s)
