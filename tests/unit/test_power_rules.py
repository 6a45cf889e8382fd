"""The rules that the power tier holds every record against: silent on a real one, and each caught when it is broken."""

import json
from typing import Any

import pytest
from tests.kit.power.trial import check_rules
from tests.kit.simulation.recordings import FOLDER

from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.server.session import fold

STREAM = "session/s"
CALL = {"call_id": "c9", "turn_id": "t1", "goal_revision": 0}
GRANT = {"grant_id": "g9", "scope": "session", "sentence": "twice", "grant": {"uses_left": 2}}


def recorded(name: str) -> list[tuple[str, int, dict[str, Any]]]:
    """Type, version and body of each event of a recorded session."""
    events = json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))["events"]
    return [(event["type"], event["version"], event["payload"]) for event in events]


def found(events: list[tuple[str, int, dict[str, Any]]]) -> list[str]:
    """What the rules say of a log of these events."""
    stored = [
        StoredEvent(STREAM, 1, seq, kind, version, seq, json.dumps(body).encode(), "")
        for seq, (kind, version, body) in enumerate(events, 1)
    ]
    return check_rules({STREAM: stored, "daemon": []})


@pytest.mark.parametrize("name", ["approved", "lost", "retried", "seed-21", "seed-22", "seed-23", "steered", "stopped"])
def test_a_real_record_breaks_no_rule(name: str) -> None:
    """No false alarm."""
    assert found(recorded(name)) == []


def test_a_right_used_too_often_is_caught() -> None:
    """Its number of uses stands in the grant itself."""
    uses = [("GrantUsed", 1, {"grant_id": "g9", "call_id": f"c{number}", "uses_left": 0}) for number in range(3)]
    assert found([("GrantIssued", 1, GRANT), *uses[:2]]) == []
    assert found([("GrantIssued", 1, GRANT), *uses]) == [f"{STREAM}: g9 holds for 2 uses and was used 3 times"]


@pytest.mark.parametrize("kind", ["ToolExecutionFinished", "ApprovalResolved"])
def test_what_ends_twice_is_caught(kind: str) -> None:
    """One end for each call, one answer for each card."""
    events = recorded("approved")
    again = next(event for event in events if event[0] == kind)
    assert any("2 times" in words for words in found([*events, again]))


def test_a_label_that_is_forgotten_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold that takes the newest label for the session's."""
    monkeypatch.setattr(fold, "join_labels", lambda _left, right: right)
    assert any(
        "the label was" in words for name in ("seed-21", "seed-22", "seed-23") for words in found(recorded(name))
    )
