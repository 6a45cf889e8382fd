"""The envelope: digests that prove a past, and cursors that only this daemon makes."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.protocol.journal.envelope import (
    ERASED_PAYLOAD,
    GENESIS_DIGEST,
    INTEGER_MAX,
    ChainBreak,
    ChainPoint,
    Cursor,
    CursorError,
    StoredEvent,
    chain_digest,
    decode_cursor,
    encode_cursor,
    event_digest,
    payload_hash,
    verify_chain,
)
from gloveport.protocol.journal.upcast import current_version, registry_gaps, upcast

PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=12)


def chain(payloads: list[bytes]) -> list[StoredEvent]:
    """A stream of these payloads."""
    events: list[StoredEvent] = []
    digest = GENESIS_DIGEST
    for seq, payload in enumerate(payloads, 1):
        bare = StoredEvent("s", 1, seq, "Noted", 1, 7, payload, "")
        digest = event_digest(digest, bare)
        events.append(bare._replace(digest=digest))
    return events


def test_digest_is_the_documented_form() -> None:
    """A second implementation, from the words of the module's head alone, gets the same digest."""
    inner = hashlib.sha256(b"{}").hexdigest()
    form = "\n".join(["0" * 64, "session/a", "1", "1", "TurnStarted", "1", "5", inner])
    found = chain_digest(
        GENESIS_DIGEST,
        stream="session/a",
        epoch=1,
        seq=1,
        event_type="TurnStarted",
        version=1,
        at=5,
        payload_hash=payload_hash(b"{}"),
    )
    assert found == hashlib.sha256(form.encode()).hexdigest()


@given(PAYLOADS)
def test_whole_chain_verifies(payloads: list[bytes]) -> None:
    """A chain as it was made holds to its end."""
    events = chain(payloads)
    assert verify_chain(events) == ChainPoint(1, len(events), events[-1].digest)


@given(PAYLOADS, st.data())
def test_any_change_breaks_the_chain_there(payloads: list[bytes], data: st.DataObject) -> None:
    """Whatever field of whatever event is changed, the break is found at that event."""
    events = chain(payloads)
    place = data.draw(st.integers(0, len(events) - 1))
    victim = events[place]
    change = data.draw(
        st.sampled_from(
            [
                {"payload": victim.payload + b"!"},
                {"type": "Other"},
                {"version": 2},
                {"at": 8},
                {"stream": "t"},
                {"epoch": 2},
                {"digest": GENESIS_DIGEST},
                {"erased": victim.payload_hash},
            ]
        )
    )
    events[place] = victim._replace(**change)
    broken = verify_chain(events)
    if change == {"erased": victim.payload_hash} and victim.payload == ERASED_PAYLOAD:
        return
    assert isinstance(broken, ChainBreak)
    assert broken.seq == place + 1


@given(PAYLOADS, st.data())
def test_erased_payload_keeps_the_chain(payloads: list[bytes], data: st.DataObject) -> None:
    """A payload may be erased while its hash stays; the chain says the same."""
    events = chain(payloads)
    place = data.draw(st.integers(0, len(events) - 1))
    events[place] = events[place]._replace(payload=ERASED_PAYLOAD, erased=events[place].payload_hash)
    assert verify_chain(events) == ChainPoint(1, len(events), events[-1].digest)


@given(PAYLOADS.filter(lambda found: len(found) > 1), st.data())
def test_missing_and_swapped_events_are_found(payloads: list[bytes], data: st.DataObject) -> None:
    """A hole and a changed order break the chain."""
    events = chain(payloads)
    place = data.draw(st.integers(0, len(events) - 2))
    assert isinstance(verify_chain(events[:place] + events[place + 1 :]), ChainBreak)
    events[place], events[place + 1] = events[place + 1], events[place]
    assert isinstance(verify_chain(events), ChainBreak)


def test_line_feed_in_a_name_is_refused() -> None:
    """Two events must not share one canonical form."""
    with pytest.raises(ValueError):
        chain_digest(
            GENESIS_DIGEST, stream="a\nb", epoch=1, seq=1, event_type="T", version=1, at=1, payload_hash="0" * 64
        )


@given(
    st.builds(
        Cursor,
        st.integers(0, INTEGER_MAX),
        st.integers(0, INTEGER_MAX),
        st.text("0123456789abcdef", min_size=32, max_size=32),
    )
)
def test_cursor_comes_back(cursor: Cursor) -> None:
    """The opaque form carries the whole cursor."""
    assert decode_cursor(encode_cursor(cursor)) == cursor


@given(st.text(max_size=200))
def test_foreign_cursor_is_refused_typed(text: str) -> None:
    """No text makes anything but a cursor error."""
    try:
        cursor = decode_cursor(text)
    except CursorError:
        return
    assert encode_cursor(cursor) == text


def test_upcasters_run_in_steps_and_leave_the_rest() -> None:
    """A payload is brought up step by step; unknown types and newer versions come back as they were."""
    registry = {("T", 1): lambda p: {**p, "a": 1}, ("T", 2): lambda p: {**p, "b": p["a"] + 1}}
    old = {"kept": True}
    assert upcast("T", 1, old, registry) == {"kept": True, "a": 1, "b": 2}
    assert old == {"kept": True}
    assert upcast("T", 3, old, registry) == old
    assert upcast("U", 1, old, registry) == old
    assert current_version("T", 1, registry) == 3
    assert registry_gaps(registry) == ()
    assert registry_gaps({("T", 1): dict, ("T", 3): dict}) == (("T", 2),)
    assert registry_gaps() == ()
