"""Events of simulated and recorded sessions, as projections take them.

Purpose: one place that turns stored and recorded events into `Placed`.
Invariant: a recording that holds no times gets steady ones, so that every test of one sees the same.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from tests.kit.simulation.driver import Simulation
from tests.kit.simulation.recordings import FOLDER

from gloveport.protocol.journal.events import REGISTRY, EventBody, decode_body
from gloveport.protocol.journal.upcast import upcast
from gloveport.server.session.views.placed import Placed

TICK_US = 1_500
RECORDINGS = tuple(sorted(FOLDER.glob("*.json")))


def placed_bodies(bodies: Iterable[EventBody], begin: int = 1) -> list[Placed]:
    """Bodies in a row, one tick apart."""
    return [Placed(seq, seq * TICK_US, type(body).__name__, body) for seq, body in enumerate(bodies, begin)]


def placed_run(run: Simulation) -> list[Placed]:
    """The stored events of a simulated session, at their times."""
    return [
        Placed(event.seq, event.at, event.type, decode_body(REGISTRY[event.type], event.payload))
        for event in run.ledger.stored
    ]


def placed_recording(path: Path) -> list[Placed]:
    """The events of a recorded session."""
    events = json.loads(path.read_text(encoding="ascii"))["events"]
    return placed_bodies(
        decode_body(REGISTRY[event["type"]], upcast(event["type"], event["version"], event["payload"]))
        for event in events
    )
