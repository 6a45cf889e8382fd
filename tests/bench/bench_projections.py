"""Events a second of each projection: from stored bytes (decoding what it needs), and from events decoded before.

Run: `make bench`, or `PYTHONPATH=. python tests/bench/bench_projections.py`. The log is that of real turns of the
machine: pieces of text, calls, questions, results, crashes; two thirds are pieces. The bar is that of catching up.
"""

import time
from collections.abc import Callable, Sequence

from tests.bench.report import heading, tell
from tests.kit.placed import placed_bodies
from tests.kit.projections import MAKERS
from tests.kit.simulation.driver import Simulation

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.protocol.journal.events import encode_body
from gloveport.server.engine.projecting import feed, never
from gloveport.server.session.views.placed import Placed, project

SESSIONS = 20
PIECES = 20
CATCH_UP_EVENTS_S = 200_000.0


def seconds(work: Callable[[], object]) -> float:
    """The processor time of one run, the better of two: what else the machine does is left out."""
    best = float("inf")
    for _ in range(2):
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def session_log(seed: int) -> list[ev.EventBody]:
    """A simulated session, with more pieces of text in each answer."""
    bodies: list[ev.EventBody] = []
    for entry in Simulation(seed, crash_rate=0.02).run(150).ledger.read():
        bodies.append(entry.body)
        if isinstance(entry.body, ev.ModelRequestStarted):
            born = {"turn_id": entry.body.turn_id, "goal_revision": entry.body.goal_revision}
            piece = ev.ModelTextDelta(**born, request_id=entry.body.request_id, offset=0, text="ten words ")  # type: ignore[arg-type] # the two fields of a turn
            bodies.extend([piece] * PIECES)
    return bodies


def as_stored(placed: Sequence[Placed]) -> list[StoredEvent]:
    """The events as the journal holds them."""
    return [
        StoredEvent("session/s1", 1, one.seq, one.type, one.body.version, one.at, encode_body(one.body), "0" * 64)
        for one in placed
        if one.body is not None
    ]


def main() -> None:
    """Print."""
    heading("projections")
    sessions = [placed_bodies(session_log(seed)) for seed in range(SESSIONS)]
    stored = [as_stored(session) for session in sessions]
    count = sum(map(len, sessions))
    pieces = sum(one.type == "ModelTextDelta" for session in sessions for one in session)
    print(f"  {SESSIONS} sessions, {count} events, {pieces} of them pieces of text")
    for name, make in MAKERS.items():
        whole = seconds(lambda make=make: [feed(make(), session, never) for session in stored])
        decoded = seconds(lambda make=make: [project(make(), session) for session in sessions])
        made = [project(make(), session) for session in sessions]
        ending = seconds(lambda made=made: [one.finish() for one in made])
        beside = f"decoded before {count / decoded:10,.0f} /s   result {ending / SESSIONS * 1e3:6.2f} ms"
        tell(name, count / whole, "ev/s", CATCH_UP_EVENTS_S, "more", beside)


if __name__ == "__main__":
    main()
