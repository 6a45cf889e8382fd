"""Reading a log in pages, with pieces of text taken together, is reading it event by event."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json
from tests.kit.simulation.driver import Simulation
from tests.kit.simulation.recordings import known_bodies

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.envelope import ERASED_PAYLOAD, StoredEvent
from gloveport.protocol.journal.events import EventBody, ModelTextDelta, decode_body, encode_body
from gloveport.protocol.wire.reducer import View
from gloveport.server.engine.folding import Loaded, body_of, fold_stored, ops_of
from gloveport.server.engine.paged import PagedView
from gloveport.server.journal.errors import JournalError
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import SessionState
from gloveport.server.session.views.ops import project_ops

RECORDED = known_bodies()
DELTAS = [body for body in RECORDED if isinstance(body, ModelTextDelta)]


def stored(bodies: list[EventBody], erased: set[int]) -> list[StoredEvent]:
    """Bodies as the journal keeps them, some of them erased."""
    return [
        StoredEvent("session/s", 1, seq, type(body).__name__, body.version, 1, ERASED_PAYLOAD, "d", "00")
        if seq in erased
        else StoredEvent("session/s", 1, seq, type(body).__name__, body.version, 1, encode_body(body), "d")
        for seq, body in enumerate(bodies, 1)
    ]


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(1, 10_000),
    page=st.integers(1, 60),
)
def test_pages_and_pieces_give_the_state_of_single_events(seed: int, page: int) -> None:
    """A whole simulated history: state and view agree with one fold an event."""
    bodies = [entry.body for entry in Simulation(seed, crash_rate=0.05).run(40).ledger.read() if entry.body is not None]
    events = stored(bodies, set())
    alone, view = SessionState(), View()
    for event in events:
        body = body_of(event)
        alone = fold_event(alone, body)
        view.apply(event.seq, project_ops(body, event.type, event.seq, event.at))
    loaded = Loaded()
    for start in range(0, len(events), page):
        fold_stored(loaded, events[start : start + page])
    assert loaded.state == alone
    assert loaded.view.items() == view.items()
    assert loaded.seq == (events[-1].seq if events else 0)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(RECORDED) | st.sampled_from(DELTAS), max_size=40), st.sets(st.integers(1, 40)))
def test_any_order_of_events_folds_alike(bodies: list[EventBody], erased: set[int]) -> None:
    """Also where pieces of text stand between anything else, or were erased."""
    events = stored(bodies, erased)
    alone = SessionState()
    for event in events:
        if event.erased is None:
            alone = fold_event(alone, body_of(event))
    loaded = Loaded(view=_Blind())
    fold_stored(loaded, events)
    assert loaded.state == alone


class _Blind(PagedView):
    """A view that takes anything: these histories are not ones that a view could show."""

    def take(self, seq: int, ops: object) -> bool:
        """Look away."""
        return True


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(1, 10_000))
def test_the_quick_way_to_the_operations_is_the_same(seed: int) -> None:
    """Of every event of simulated and recorded histories, also of erased ones and of other versions."""
    bodies = [entry.body for entry in Simulation(seed, crash_rate=0.05).run(40).ledger.read() if entry.body is not None]
    events = stored([*bodies, *RECORDED], set(range(1, 200, 7)))
    events += [event._replace(version=99) for event in events[:50]]
    for event in events:
        if event.erased is None:
            assert ops_of(event) == project_ops(body_of(event), event.type, event.seq, event.at)
        else:
            assert [op["fields"]["erased"] for op in ops_of(event)] == [True]


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"{}", b'{"turn_id":"t","goal_revision":1,"request_id":"r","offset":-1,"text":"x"}',
     b'{"turn_id":"t","goal_revision":1,"request_id":"r","offset":0,"text":7}',
     b'{"turn_id":"t","goal_revision":1,"request_id":7,"offset":0,"text":"x"}'],
)  # fmt: skip
def test_a_damaged_piece_is_refused_on_the_quick_way_too(payload: bytes) -> None:
    """As on the slow one: a typed error, never a wrong operation."""
    event = StoredEvent("session/s", 1, 1, "ModelTextDelta", 1, 1, payload, "d")
    with pytest.raises(JournalError) as told:
        ops_of(event)
    assert told.value.code is ErrorCode.CORRUPT


def test_both_ways_of_reading_a_payload_agree() -> None:
    """Bytes are read by another door than parsed objects; both give the same body for everything recorded."""
    for body in RECORDED:
        raw = encode_body(body)
        assert decode_body(type(body), raw) == decode_body(type(body), from_json(raw)) == body
