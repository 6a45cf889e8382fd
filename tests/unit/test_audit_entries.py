"""Which events have an audit line, and what it says of who did it."""

import json
from typing import Any

import pytest

from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.protocol.journal.events import BreakerClosed, BreakerOpened, GrantIssued, GrantRevoked, WorkspaceTrusted
from gloveport.protocol.journal.events.base import EventBody
from gloveport.server.audit.line import Action, Link, make_line, read_line
from gloveport.server.audit.ocsf import ocsf_event
from gloveport.server.engine.bookkeeping import entries_of

GRANT = GrantIssued(grant_id="g", scope="workspace", sentence="run `make`", grant={"capability": {"tool": "run"}})
OPENED = BreakerOpened(kind="provider", name="openai", failures=5, until_at=9, reason="refused")


def stored(body: EventBody | str, payload: dict[str, Any] | None = None) -> StoredEvent:
    """An event as the journal gives it."""
    name, data = (body, json.dumps(payload)) if isinstance(body, str) else (type(body).__name__, body.model_dump_json())
    return StoredEvent("workspace/w", 1, 7, name, 1, 1_790_000_000_000_000, data.encode(), "0" * 64)


@pytest.mark.parametrize(
    ("body", "action", "actor", "decision", "class_uid"),
    [
        (GRANT, Action.GRANT, "user", "workspace", 3005),
        (GrantRevoked(grant_id="g", reason="revoked by vscode"), Action.REVOKE, "vscode", "", 3005),
        (GrantRevoked(grant_id="g", reason="trust changed"), Action.REVOKE, "daemon", "", 3005),
        (
            WorkspaceTrusted(workspace_id="w", root="/r", trust_level="untrusted", by="cli"),
            Action.TRUST, "cli", "untrusted", 3005,
        ),
        (OPENED, Action.BREAKER, "daemon", "", 1007),
        (BreakerClosed(kind="provider", name="openai"), Action.BREAKER, "daemon", "", 1007),
    ],
)  # fmt: skip
def test_rights_trust_and_breakers_have_lines(
    body: EventBody, action: Action, actor: str, decision: str, class_uid: int
) -> None:
    """Each names its event, so that what is missing is found, and its class for other tools."""
    (entry,) = entries_of(stored(body), str)
    assert (entry.action, entry.actor, entry.decision, entry.params["seq"]) == (action, actor, decision, 7)
    line = read_line(make_line(Link(), entry).text)
    assert line is not None
    event = ocsf_event(line)
    assert (event["class_uid"], event["unmapped"]["params"]["event"]) == (class_uid, type(body).__name__)


def test_a_threshold_that_a_run_passed_has_a_line_beside_its_end() -> None:
    """What ended a hand, or alarmed about a program, with the call that it was."""
    evidence = "exit 137; breaker, memory: 300 bytes in use, the soft limit is 200 bytes"
    ended = {"call_id": "c", "outcome": "oom", "evidence": evidence, "security_context": {"sandbox": "bubblewrap"}}
    first, beside = entries_of(stored("ToolExecutionFinished", ended), str)
    assert (first.action, beside.action, beside.params["call_id"]) == (Action.OOM_KILL, Action.BREAKER, "c")
    assert beside.params["passed"].startswith("breaker, memory: 300")
    (alone,) = entries_of(stored("ToolExecutionFinished", {**ended, "evidence": "exit 137"}), str)
    assert alone.action is Action.OOM_KILL
