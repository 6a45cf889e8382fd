"""Audit lines in the shape of the Open Cybersecurity Schema Framework.

Purpose: map each line to the class that tools for security events know (version 1.5.0), losing nothing of it.
Invariant: total: every action has a class, and one that is not known is a base event; the whole line is kept beside
under `unmapped`, its digest with it.
Must never: be what the chain is checked by, or say that a line is more than the daemon's word.
"""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from gloveport.server.audit.line import Action

VERSION: Final = "1.5.0"
PRODUCT: Final[Mapping[str, str]] = MappingProxyType({"name": "Gloveport", "vendor_name": "Gloveport"})
INFORMATIONAL, LOW, MEDIUM, HIGH = 1, 2, 3, 4
SUCCESS, FAILURE, UNKNOWN = 1, 2, 0


class _Class(NamedTuple):
    """A class of events: its numbers and names, and which activity of it the action is."""

    category_uid: int
    category_name: str
    class_uid: int
    class_name: str
    activity_id: int
    severity_id: int


_PROCESS: Final = (1, "System Activity", 1007, "Process Activity")
_FILE: Final = (1, "System Activity", 1001, "File System Activity")
_NETWORK: Final = (4, "Network Activity", 4001, "Network Activity")
_API: Final = (6, "Application Activity", 6003, "API Activity")
_ACCESS: Final = (3, "Identity & Access Management", 3005, "User Access Management")
_FINDING: Final = (2, "Findings", 2004, "Detection Finding")
_BASE: Final = (0, "Uncategorized", 0, "Base Event")

_CLASSES: Final[Mapping[str, _Class]] = MappingProxyType(
    {
        Action.EXEC_START: _Class(*_PROCESS, 1, INFORMATIONAL),
        Action.EXEC_END: _Class(*_PROCESS, 2, INFORMATIONAL),
        Action.TIMEOUT: _Class(*_PROCESS, 2, LOW),
        Action.OOM_KILL: _Class(*_PROCESS, 2, LOW),
        Action.BREAKER: _Class(*_PROCESS, 2, MEDIUM),
        Action.SECCOMP_VIOLATION: _Class(*_FINDING, 1, MEDIUM),
        Action.DECISION: _Class(*_API, 99, INFORMATIONAL),
        Action.APPROVAL: _Class(*_API, 99, INFORMATIONAL),
        Action.SECRET_USE: _Class(*_API, 2, LOW),
        Action.RELEASE: _Class(*_API, 99, MEDIUM),
        Action.GRANT: _Class(*_ACCESS, 1, MEDIUM),
        Action.REVOKE: _Class(*_ACCESS, 2, LOW),
        Action.TRUST: _Class(*_ACCESS, 99, MEDIUM),
        Action.SESSION_DELETE: _Class(*_API, 4, LOW),
        Action.SESSION_ERASE: _Class(*_API, 3, LOW),
        Action.SESSION_FREEZE: _Class(*_FINDING, 1, HIGH),
        Action.SESSION_THAW: _Class(*_API, 3, MEDIUM),
        Action.EGRESS: _Class(*_NETWORK, 1, INFORMATIONAL),
        Action.CHANGE_APPLY: _Class(*_FILE, 3, INFORMATIONAL),
        Action.RECONCILE: _Class(*_PROCESS, 99, LOW),
        Action.TAIL_TORN: _Class(*_FINDING, 1, MEDIUM),
        Action.TAIL_LOST: _Class(*_FINDING, 1, HIGH),
        Action.LOG_DAMAGED: _Class(*_FINDING, 1, HIGH),
        Action.EVENTS_LOST: _Class(*_FINDING, 1, HIGH),
    }
)
_ACTIVITIES: Final[Mapping[tuple[int, int], str]] = MappingProxyType(
    {
        (1007, 1): "Launch", (1007, 2): "Terminate", (1001, 3): "Update", (4001, 1): "Open", (6003, 2): "Read",
        (6003, 3): "Update", (6003, 4): "Delete", (2004, 1): "Create",
        (3005, 1): "Assign Privileges", (3005, 2): "Revoke Privileges",
    }
)  # fmt: skip
_GOOD: Final = frozenset({"allow", "allowed", "ok", "succeeded", "accept", "found"})
_BAD: Final = frozenset({"deny", "denied", "failed", "timeout", "oom", "killed", "policy", "lost", "expired"})


def ocsf_event(line: Mapping[str, Any]) -> dict[str, Any]:
    """The event of one audit line (as `export_lines` gives them)."""
    action = str(line.get("action", ""))
    kind = _CLASSES.get(action, _Class(*_BASE, 99, INFORMATIONAL))
    decision = str(line.get("decision", ""))
    status = SUCCESS if decision in _GOOD else FAILURE if decision in _BAD else UNKNOWN
    return {
        "category_uid": kind.category_uid,
        "category_name": kind.category_name,
        "class_uid": kind.class_uid,
        "class_name": kind.class_name,
        "activity_id": kind.activity_id,
        "activity_name": _ACTIVITIES.get((kind.class_uid, kind.activity_id), action),
        "type_uid": kind.class_uid * 100 + kind.activity_id,
        "severity_id": kind.severity_id,
        "status_id": status,
        "status_detail": decision,
        "time": _milliseconds(str(line.get("timestamp", ""))),
        "message": f"{action}: {decision}" if decision else action,
        "metadata": {
            "version": VERSION,
            "product": dict(PRODUCT),
            "uid": str(line.get("digest", "")),
            "sequence": line.get("seq", 0),
            "original_time": str(line.get("timestamp", "")),
            "correlation_uid": str(line.get("task_id", "")),
        },
        "actor": {"user": {"name": str(line.get("actor", ""))}, "app_name": str(line.get("sub_agent_type", ""))},
        "device": {"type_id": 99, "type": "sandbox", "name": str(line.get("sandbox_id", ""))},
        "unmapped": dict(line),
    }


def _milliseconds(timestamp: str) -> int:
    try:
        return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except ValueError:
        return 0
