"""What is cut out of stored bytes for a client is what the decoded body gives."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kit.simulation.driver import Simulation

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.protocol.journal.events import encode_body
from gloveport.server.engine.quick import quick_ops, raw_events
from gloveport.server.session.views.ops import project_ops

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
PIECES = st.one_of(
    st.builds(
        ev.ModelTextDelta,
        turn_id=TEXTS,
        goal_revision=st.integers(1, 2**53),
        request_id=TEXTS,
        offset=st.integers(0, 2**53),
        text=TEXTS,
    ),
    st.builds(
        ev.ToolExecutionProgress,
        turn_id=TEXTS,
        goal_revision=st.integers(1, 9),
        call_id=TEXTS,
        offset=st.integers(0, 2**53),
        text=TEXTS,
    ),
)


def raw_of(name: str, version: int, payload: bytes) -> list[Any] | None:
    """The operations that are cut out of one stored event; null when they are left to the slower way."""
    (raw,) = raw_events([StoredEvent("session/s", 2, 3, name, version, 4, payload, "d")], lambda _: b"null")
    sent = json.loads(raw)
    if sent is None:
        return None
    ops: list[Any] = sent.pop("ops")
    assert sent == {"stream": "session/s", "epoch": 2, "seq": 3, "at": 4, "type": name}
    return ops


def delta(**changes: Any) -> ev.ModelTextDelta:
    """A piece of text."""
    fields = {"turn_id": "t", "goal_revision": 1, "request_id": "r", "offset": 0, "text": "x", **changes}
    return ev.ModelTextDelta.model_validate(fields)


@settings(deadline=None, max_examples=500)
@given(PIECES)
@example(delta(text='"},{"op":"reset"}\\'))
@example(delta(text="".join(map(chr, range(0x100)))))
@example(delta(request_id='r","text":"'))
def test_a_piece_is_the_same_cut_out_or_made(body: ev.EventBody) -> None:
    """Whatever it says, and however its ids are spelled."""
    payload, name = encode_body(body), type(body).__name__
    made = list(project_ops(body, name, 1))
    raw = raw_of(name, body.version, payload)
    assert list(quick_ops(name, body.version, payload) or ()) == made
    if raw is None:  # left to the slower way: an id or a number that is not plain
        owner = made[0]["item"].partition("/")[2]
        assert json.dumps(owner, ensure_ascii=False) != f'"{owner}"' or made[0]["offset"] >= 10**15
    else:
        assert raw == made


@settings(deadline=None, max_examples=500)
@given(payload=PIECES.map(encode_body), at=st.integers(0, 300), byte=st.integers(0, 255))
def test_damaged_bytes_are_not_sent_as_they_are(payload: bytes, at: int, byte: int) -> None:
    """What is cut out is JSON of the one form, or nothing."""
    at %= len(payload)
    damaged = payload[:at] + bytes([byte]) + payload[at + 1 :]
    for name in ("ModelTextDelta", "ToolExecutionProgress"):
        raw = raw_of(name, 1, damaged)
        if raw is not None:
            assert raw == list(quick_ops(name, 1, damaged) or ())


@pytest.mark.parametrize("seed", range(1, 6))
def test_every_event_of_a_simulated_session(seed: int) -> None:
    """Any type; those that are no pieces are never cut out."""
    for entry in Simulation(seed, crash_rate=0.02).run(80).ledger.read():
        body, name = entry.body, type(entry.body).__name__
        payload = encode_body(body)
        made, quick = list(project_ops(body, name, 1)), quick_ops(name, body.version, payload)
        assert quick is None or json.loads(json.dumps(quick)) == json.loads(json.dumps(made))
        raw = raw_of(name, body.version, payload)
        assert (raw is not None) == isinstance(body, ev.ModelTextDelta | ev.ToolExecutionProgress)
        assert raw is None or raw == made
    assert raw_of("ModelTextDelta", 2, encode_body(delta())) is None
