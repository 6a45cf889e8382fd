"""Audit lines as OCSF events: every action has a class, and nothing of a line is lost."""

import json
from pathlib import Path

import pytest

from gloveport.server.audit.line import Action, Entry, Link, make_line
from gloveport.server.audit.ocsf import ocsf_event


def line_of(action: Action, decision: str = "allow") -> dict[str, object]:
    """A recorded line."""
    entry = Entry(1_790_000_000_000_000, action, "session/s", "main", "bubblewrap", "agent", decision, {"host": "h"})
    values: dict[str, object] = json.loads(make_line(Link(), entry).text)
    return values


@pytest.mark.parametrize("action", list(Action))
def test_every_action_has_a_class_and_keeps_its_line(action: Action) -> None:
    line = line_of(action)
    event = ocsf_event(line)
    assert event["class_uid"] > 0
    assert event["type_uid"] == event["class_uid"] * 100 + event["activity_id"]
    assert event["category_uid"] == event["class_uid"] // 1000
    assert event["unmapped"] == line
    assert event["metadata"]["uid"] == line["digest"]
    assert event["metadata"]["sequence"] == 1
    assert event["time"] == 1_790_000_000_000
    json.dumps(event)


@pytest.mark.parametrize(("decision", "status"), [("ok", 1), ("deny", 2), ("", 0), ("unknown", 0)])
def test_a_status_is_said_only_where_it_is_known(decision: str, status: int) -> None:
    assert ocsf_event(line_of(Action.EXEC_END, decision))["status_id"] == status


def test_a_line_that_nobody_knows_is_a_base_event(tmp_path: Path) -> None:
    event = ocsf_event({"action": "newer", "timestamp": "no time"})
    assert (event["class_uid"], event["time"], event["message"]) == (0, 0, "newer")
