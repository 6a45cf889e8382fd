"""Pieces of an answer that follow one another are folded as one, and nothing else changes by it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.simulation.driver import Simulation

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.envelope import ERASED_PAYLOAD, StoredEvent
from gloveport.protocol.journal.events import encode_body
from gloveport.protocol.text import utf16_length
from gloveport.server.engine.folding import Loaded, decode_stored, fold_stored

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def stored(bodies: list[ev.EventBody]) -> list[StoredEvent]:
    """Bodies as they lie in a journal."""
    return [
        StoredEvent("session/s", 1, seq, type(body).__name__, body.version, seq, encode_body(body), f"d{seq}")
        for seq, body in enumerate(bodies, 1)
    ]


def shown(loaded: Loaded) -> tuple[Any, ...]:
    """Everything that a fold comes to."""
    place = (loaded.epoch, loaded.seq, loaded.digest, loaded.view.watermark)
    return loaded.state, loaded.view.digest(), *place, bool(loaded.faults), loaded.has_erased


def folded(events: list[StoredEvent], at_once: int) -> Loaded:
    """The fold of events that are read so many at once."""
    loaded = Loaded()
    for start in range(0, len(events), at_once):
        fold_stored(loaded, events[start : start + at_once])
    return loaded


def answers(pieces: list[tuple[int, str, int]]) -> list[ev.EventBody]:
    """Two answers; each piece goes to one of them, mostly where it ends, sometimes further on."""
    names: dict[str, Any] = {"turn_id": "t", "goal_revision": 1}
    bodies: list[ev.EventBody] = [ev.TurnStarted(**names, message_id="m")]
    ends = [0, 0]
    for name in ("r0", "r1"):
        bodies.append(ev.ModelRequestStarted(**names, request_id=name, provider="p", model="m"))
    for which, text, gap in pieces:
        begun = ends[which] + gap
        bodies.append(ev.ModelTextDelta(**names, request_id=f"r{which}", offset=begun, text=text))
        ends[which] = begun + utf16_length(text)
    return bodies


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), TEXTS, st.sampled_from([0, 0, 0, 0, 1]))),
    st.sets(st.integers(4, 30)),
    st.integers(1, 9),
)
def test_pieces_come_to_the_same_at_once_or_one_by_one(
    pieces: list[tuple[int, str, int]], erased: set[int], at_once: int
) -> None:
    """Of any answers, with gaps, with pieces that were erased, and wherever reading is cut."""
    events = [
        event._replace(payload=ERASED_PAYLOAD, erased="00") if event.seq in erased else event
        for event in stored(answers(pieces))
    ]
    assert shown(folded(events, at_once)) == shown(folded(events, 1))


@pytest.mark.parametrize("seed", range(1, 9))
def test_sessions_come_to_the_same_at_once_or_one_by_one(seed: int) -> None:
    """Whole histories with crashes."""
    bodies = [entry.body for entry in Simulation(seed, crash_rate=0.02).run(120).ledger.read()]
    events = stored([body for body in bodies if body is not None])
    assert shown(folded(events, len(events))) == shown(folded(events, 1))


def test_pieces_that_follow_one_another_are_one() -> None:
    """Under the last one's event; one of another answer, or with a gap, is not."""
    pieces = [(0, "a", 0), (0, "\U0001d4b3", 0), (0, "c", 0), (1, "x", 0), (1, "y", 1)]
    decoded = decode_stored(stored(answers(pieces))[3:])
    texts = [(one.event.seq, one.body.text) for one in decoded if isinstance(one.body, ev.ModelTextDelta)]
    assert texts == [(6, "a\U0001d4b3c"), (7, "x"), (8, "y")]
