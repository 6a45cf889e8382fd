"""Recorded histories, replayed by today's code to the state and the view they led to when they were recorded."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.kit.simulation.digest import state_digest
from tests.kit.simulation.monitor import Monitor
from tests.kit.simulation.recordings import FOLDER, HISTORIES, body_of, replay

from gloveport.protocol.journal.events import encode_body
from gloveport.protocol.journal.upcast import upcast
from gloveport.protocol.wire.reducer import ViewGapError
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import SessionState

RECORDINGS = sorted(FOLDER.glob("*.json"))


def read(path: Path) -> dict[str, Any]:
    """A recording."""
    recording: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
    return recording


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recording(path: Path) -> None:
    """The same phase, state and view as when it was written; the rules of the house hold of it."""
    recording = read(path)
    state, view = replay(recording["events"])
    assert state.phase == recording["phase"]
    assert state_digest(state) == recording["state_digest"]
    assert (view.digest(), len(view)) == (recording["view_digest"], recording["view_items"])
    monitor = Monitor()
    for event in recording["events"]:
        body = body_of(event)
        assert body is not None
        monitor.take(body)
        assert json.loads(encode_body(body)) == upcast(event["type"], event["version"], event["payload"])


def test_every_history_is_recorded() -> None:
    """No recording is missing, none was lost."""
    assert {path.stem for path in RECORDINGS} == {name for name, _ in HISTORIES}


def test_the_digest_sees_a_difference() -> None:
    """A control: a recording that lacks any one event leads elsewhere (a judgement that a later one replaced may)."""
    events = read(FOLDER / "approved.json")["events"]
    whole = replay(events)
    for index, event in enumerate(events):
        if event["type"] == "PolicyDecided":
            continue
        try:
            state, view = replay([*events[:index], *events[index + 1 :]])
        except ViewGapError:
            continue
        assert (state_digest(state), view.digest()) != (state_digest(whole[0]), whole[1].digest()), event["type"]


def test_events_of_a_newer_version_are_counted_and_shown() -> None:
    """A type that this version does not know makes the session read-only and shows as an opaque item."""
    events = read(FOLDER / "answered.json")["events"]
    newer = {"type": "ThoughtSold", "version": 1, "payload": {"price": 3}}
    state, view = replay([*events, newer])
    assert state.read_only
    assert state.unknown_events == 1
    assert view.items()[-1] == {
        "id": f"opaque/{len(events) + 1}", "kind": "opaque", "fields": {"type": "ThoughtSold"},
    }  # fmt: skip
    assert fold_event(SessionState(), None).read_only


def test_fields_of_a_newer_version_are_ignored() -> None:
    """A field that a later version adds does not keep this one from reading the event."""
    events = read(FOLDER / "approved.json")["events"]
    more = [{**event, "payload": {**event["payload"], "mood": "fine"}} for event in events]
    assert state_digest(replay(more)[0]) == state_digest(replay(events)[0])
