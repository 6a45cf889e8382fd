"""Many sessions before one provider, on a clock of its own.

Purpose: drive real machines (turns, breaker, line) of many sessions through hours of a provider's life in a moment.
Invariant: equal arguments give equal histories; time moves only from one happening to the next.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from tests.kit.simulation.opening import opened

from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import SessionState
from gloveport.server.turn import breaker as brk
from gloveport.server.turn import effects as eff
from gloveport.server.turn import inputs as inp
from gloveport.server.turn import line as queue
from gloveport.server.turn.machine import step

SECOND: Final = 1_000_000
ANSWER_US: Final = 2 * SECOND
REFUSAL_US: Final = SECOND // 10


@dataclass(frozen=True)
class Failure:
    """How a provider fails: the class, and the pause that it asks for."""

    error_class: str
    pause_us: int | None = None


Life = Callable[[int, Random], Failure | None]
"""What the provider does with a request that reaches it at a moment: null is an answer."""


@dataclass
class Session:
    """One session's machine."""

    name: str
    state: SessionState = field(default_factory=opened)
    scheduled: list[tuple[int, ev.RetryScheduled]] = field(default_factory=list)
    retried_at: list[int] = field(default_factory=list)
    end: ev.EventBody | None = None
    stopped_at: int | None = None


class Crowd:
    """The sessions, the lane they share, and what reached the provider."""

    def __init__(self, count: int, life: Life, *, places: int = 8, seed: int = 0, start_us: int = 0) -> None:
        self.now, self.life, self.rng = start_us, life, Random(seed)
        self.sessions = [Session(f"s{n}") for n in range(count)]
        self.line, self.breaker = queue.Line(places), brk.Breaker()
        self.sent: list[tuple[int, str]] = []
        self.under_way = 0
        self.under_way_most = 0
        self.probes_most = 0
        self._happenings: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._waiting: dict[str, tuple[Session, str]] = {}

    def at(self, moment: int, act: Callable[[], None]) -> None:
        """Something happens then."""
        heapq.heappush(self._happenings, (moment, next(self._numbers), act))

    def run(self, until_us: int = 24 * 3600 * SECOND) -> "Crowd":
        """Let everything happen that happens before then."""
        while self._happenings and self._happenings[0][0] <= until_us:
            moment, _, act = heapq.heappop(self._happenings)
            self.now = max(self.now, moment)
            act()
        return self

    def all_ask(self, within_us: int = SECOND) -> "Crowd":
        """Every session's user says something, somewhere in this time."""
        for session in self.sessions:
            given = inp.SendMessage("m1", f"{session.name}.t1", "go", queue=False)
            self.at(self.now + self.rng.randrange(within_us), partial(self.feed, session, given))
        return self

    def feed(self, session: Session, given: inp.Input) -> None:
        """One input to one session's machine."""
        decided = step(session.state, given)
        session.state = decided.state
        for body in decided.events:
            self._note(session, body)
        for effect in decided.effects:
            self._perform(session, effect)

    def _note(self, session: Session, body: ev.EventBody) -> None:
        match body:
            case ev.RetryScheduled():
                session.scheduled.append((self.now, body))
            case ev.RetryStarted():
                session.retried_at.append(self.now)
            case ev.TurnCompleted() | ev.TurnFailed() | ev.TurnCancelled():
                session.end = body
            case ev.TurnCancelRequested():
                session.stopped_at = self.now

    def _perform(self, session: Session, effect: eff.Effect) -> None:
        match effect:
            case eff.CallModel(request_id):
                ticket = f"{session.name}/{request_id}"
                self._waiting[ticket] = (session, request_id)
                self._move_line(queue.Joined(ticket, session.name))
            case eff.WaitRetry(request_id):
                pause = session.scheduled[-1][1]
                self.at(pause.due_at, partial(self.feed, session, inp.RetryDue(request_id)))
            case eff.StopModel(request_id):
                self.at(self.now, partial(self._stopped, session, request_id))

    def _stopped(self, session: Session, request_id: str) -> None:
        self.feed(session, inp.RequestFailed(request_id, "rpc.cancelled", "stopped", ""))

    def _move_line(self, given: queue.Joined | queue.Left) -> None:
        self.line, admitted = queue.step(self.line, given)
        for ticket in admitted:
            session, request_id = self._waiting.pop(ticket)
            self.at(self.now, partial(self._enter, ticket, session, request_id))

    def _enter(self, ticket: str, session: Session, request_id: str) -> None:
        self.breaker, verdict = brk.step(self.breaker, brk.Asked(ticket), self.now)
        if not verdict.passes:
            self._end(ticket, session, self._failed(request_id, Failure("paused", verdict.wait_us)))
            return
        self.sent.append((self.now, session.name))
        self.under_way += 1
        self.under_way_most = max(self.under_way_most, self.under_way)
        if self.breaker.position is brk.Position.HALF_OPEN:
            self.probes_most = max(self.probes_most, self.under_way)
        failure = self.life(self.now, self.rng)
        after = ANSWER_US if failure is None else REFUSAL_US
        self.at(self.now + after, partial(self._leave, ticket, session, request_id, failure))

    def _leave(self, ticket: str, session: Session, request_id: str, failure: Failure | None) -> None:
        self.under_way -= 1
        told: brk.Given = brk.Answered(ticket) if failure is None else brk.Failed(ticket, failure.pause_us)
        self.breaker, _ = brk.step(self.breaker, told, self.now)
        if failure is None:
            self._end(ticket, session, inp.ResponseEnded(request_id, (), "end", 1, 1, 0))
        else:
            self._end(ticket, session, self._failed(request_id, failure))

    def _failed(self, request_id: str, failure: Failure) -> inp.RequestFailed:
        trouble = inp.Trouble(failure.error_class, self.now, failure.pause_us)
        return inp.RequestFailed(request_id, "model.unreachable", "it failed", "Look.", trouble)

    def _end(self, ticket: str, session: Session, given: inp.Input) -> None:
        self._move_line(queue.Left(ticket))
        self.feed(session, given)

    def sent_in_second(self) -> int:
        """The most requests that reached the provider within one second."""
        counts = Counter(moment // SECOND for moment, _ in self.sent)
        return max(counts.values(), default=0)
