"""A session in which a newer daemon wrote, or something was erased, can be read whole: nothing stumbles over a gap."""

from collections.abc import Callable

import pytest
from tests.kit.simulation.driver import Simulation

from gloveport.protocol.journal.envelope import ERASED_PAYLOAD, StoredEvent
from gloveport.protocol.journal.events import REGISTRY, encode_body
from gloveport.server.engine.folding import Loaded, fold_stored
from gloveport.server.engine.projecting import placed_of
from gloveport.server.session.views.context import ContextProjection
from gloveport.server.session.views.metrics import MetricsProjection
from gloveport.server.session.views.placed import Projection, project
from gloveport.server.session.views.plan import PlanProjection
from gloveport.server.session.views.samples import SampleProjection
from gloveport.server.session.views.task import TaskProjection
from gloveport.server.session.views.trace import TraceProjection
from gloveport.server.session.views.transcript import TranscriptProjection
from gloveport.server.session.views.usage import UsageProjection

NEWER = 99
SEEDS = range(1, 4)
PROJECTIONS: tuple[Callable[[], Projection[object]], ...] = (
    ContextProjection,
    MetricsProjection,
    PlanProjection,
    SampleProjection,
    TaskProjection,
    TraceProjection,
    TranscriptProjection,
    UsageProjection,
)


def history(seed: int) -> list[StoredEvent]:
    """What a simulated session leaves in the journal."""
    ledger = Simulation(seed, crash_rate=0.05).run(60).ledger
    bodies = [entry.body for entry in ledger.read() if entry.body is not None]
    return [
        StoredEvent("session/s", 1, seq, type(body).__name__, body.version, seq, encode_body(body), "d")
        for seq, body in enumerate(bodies, 1)
    ]


def newer(event: StoredEvent) -> StoredEvent:
    """The event in a version that is not known here."""
    return event._replace(version=NEWER)


def erased(event: StoredEvent) -> StoredEvent:
    """The event with its payload erased."""
    return event._replace(payload=ERASED_PAYLOAD, erased="00")


HISTORIES = {seed: history(seed) for seed in SEEDS}


@pytest.mark.parametrize("change", [newer, erased])
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_any_kind_of_event_may_be_unreadable(name: str, change: Callable[[StoredEvent], StoredEvent]) -> None:
    """State, view and every projection are made; what belongs to the unreadable event is left out, not a failure."""
    for events in HISTORIES.values():
        touched = [change(event) if event.type == name else event for event in events]
        count = sum(one is not other for one, other in zip(touched, events, strict=True))
        loaded = Loaded()
        fold_stored(loaded, touched)
        assert loaded.seq == len(events)
        assert loaded.faults == []
        if change is newer:
            assert loaded.state.unknown_events == count
            assert loaded.state.read_only == (count > 0)
        for make in PROJECTIONS:
            made = make()
            project(made, [placed_of(event, made.by_name) for event in touched]).finish()


def test_a_piece_that_belongs_to_nothing_is_a_fault_where_all_can_be_read() -> None:
    """A log that says so of itself is not gone on with."""
    events = next(list(one) for one in HISTORIES.values() if any(event.type == "ModelTextDelta" for event in one))
    kept = [event for event in events if event.type != "ModelRequestStarted"]
    loaded = Loaded()
    fold_stored(loaded, kept)
    assert any("belongs to nothing" in fault for fault in loaded.faults)
