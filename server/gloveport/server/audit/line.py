"""One line of the audit log, and the rule by which it proves the lines before it.

Purpose: the shape of an action's record, its one canonical encoding and its digest.
Invariant: equal digests mean equal lines and an equal past; the encoding of a line is unique, so that a changed byte
is a changed digest; a line holds no line feed.
Must never: read a clock or a disk.

The seven fields of every line are `timestamp`, `task_id`, `sub_agent_type`, `sandbox_id`, `action`, `params` and
`security_context` (the values in force, not the template). Beside them stand `actor`, `decision`, `self_report`, the
line's number `seq` and, last, `digest`: SHA-256 (hex) over the digest of the line before (64 zeros at the start), one
line feed, and this line's canonical JSON without `digest`. Canonical: UTF-8, keys sorted, no spaces.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum, unique
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.audit.errors import AuditError

GENESIS: Final = "0" * 64
LINE_BYTES_MAX: Final = 64 * 1024
_FIELDS: Final = (("seq", int), ("digest", str), ("task_id", str), ("action", str), ("params", dict))
"""What every reader of a line relies on."""
_HALF_A_PAIR: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""JSON can spell characters that no text holds; this module never writes them so."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@unique
class Action(StrEnum):
    """What can be recorded.

    `tail_torn`, `tail_lost` and `log_damaged` are the log's own findings about itself, `events_lost` is one about the
    journal: `task_id` names the stream, `params` say from which event on how many are gone.
    """

    EXEC_START = "exec_start"
    EXEC_END = "exec_end"
    DECISION = "decision"
    APPROVAL = "approval"
    EGRESS = "egress"
    SECRET_USE = "secret_use"  # noqa: S105 - an action's name, not a secret
    CHANGE_APPLY = "change_apply"
    SECCOMP_VIOLATION = "seccomp_violation"
    OOM_KILL = "oom_kill"
    TIMEOUT = "timeout"
    BREAKER = "breaker"
    RECONCILE = "reconcile"
    RELEASE = "release"
    GRANT = "grant"
    REVOKE = "revoke"
    TRUST = "trust"
    SESSION_DELETE = "session_delete"
    SESSION_ERASE = "session_erase"
    SESSION_FREEZE = "session_freeze"
    SESSION_THAW = "session_thaw"
    TAIL_TORN = "tail_torn"
    TAIL_LOST = "tail_lost"
    LOG_DAMAGED = "log_damaged"
    EVENTS_LOST = "events_lost"


FINDINGS: Final = frozenset({Action.TAIL_TORN, Action.TAIL_LOST, Action.LOG_DAMAGED, Action.EVENTS_LOST})


@dataclass(frozen=True, slots=True)
class Entry:
    """An action to be recorded. `at` is UTC microseconds; params are redacted by the caller before they come here.

    `actor` is who caused it (`user`, `agent`, `daemon`, a client's id), `decision` how it was decided (`allow`,
    `deny`, `approved:<id>`, a rule's name). `self_report` marks a line whose rung could not protect its making.
    """

    at: int
    action: Action
    task_id: str
    sub_agent_type: str
    sandbox_id: str
    actor: str
    decision: str
    params: Mapping[str, Any] = field(default_factory=dict)
    security_context: Mapping[str, Any] = field(default_factory=dict)
    self_report: bool = False


@dataclass(frozen=True, slots=True)
class Link:
    """The end of a chain: number and digest of its last line."""

    seq: int = 0
    digest: str = GENESIS


@dataclass(frozen=True, slots=True)
class Line:
    """A recorded line: its place in the chain and its bytes, without the line feed."""

    link: Link
    text: bytes


def canonical(values: Mapping[str, Any]) -> bytes:
    """The one encoding of a JSON object; raises AuditError(INVALID_PARAMS) for what JSON cannot say."""
    try:
        text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise AuditError(ErrorCode.INVALID_PARAMS, "an audit line holds JSON values only") from error


def line_digest(before: str, body: bytes) -> str:
    """The digest of the line with canonical form `body` after a line with digest `before`."""
    return hashlib.sha256(before.encode() + b"\n" + body).hexdigest()


def iso_time(at: int) -> str:
    """UTC microseconds as RFC 3339."""
    moment = _EPOCH + timedelta(microseconds=at)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def make_line(before: Link, entry: Entry) -> Line:
    """The line of `entry` after `before`; raises AuditError: LIMIT, INVALID_PARAMS."""
    values: dict[str, Any] = {
        "seq": before.seq + 1,
        "timestamp": iso_time(entry.at),
        "task_id": entry.task_id,
        "sub_agent_type": entry.sub_agent_type,
        "sandbox_id": entry.sandbox_id,
        "action": entry.action.value,
        "params": entry.params,
        "security_context": entry.security_context,
        "actor": entry.actor,
        "decision": entry.decision,
        "self_report": entry.self_report,
    }
    digest = line_digest(before.digest, canonical(values))
    text = canonical({**values, "digest": digest})
    if len(text) > LINE_BYTES_MAX:
        raise AuditError(ErrorCode.LIMIT, f"an audit line is at most {LINE_BYTES_MAX} bytes; refer to large values")
    return Line(Link(before.seq + 1, digest), text)


def read_object(text: bytes) -> dict[str, Any] | None:
    """The JSON object of a file that anybody may have changed, whose strings are texts; None for anything else."""
    try:
        values = json.loads(text)
        if _HALF_A_PAIR.search(text) is not None:
            canonical(values)
    except (ValueError, RecursionError, AuditError):
        return None
    return values if isinstance(values, dict) else None


def read_line(text: bytes) -> dict[str, Any] | None:
    """The values of a stored line, the fields that readers rely on of their types; None for what is no such line."""
    values = read_object(text)
    if values is None or any(type(values.get(name)) is not kind for name, kind in _FIELDS):
        return None
    return values


def follow(before: Link, text: bytes) -> Link | str:
    """Advance over one stored line, or say in words why it does not follow."""
    values = read_line(text)
    if values is None:
        return "not an audit line"
    digest = values.pop("digest")
    if values["seq"] != before.seq + 1:
        return f"line {before.seq + 1} was expected, line {values['seq']} stands here"
    try:
        body = canonical(values)
    except (AuditError, UnicodeError):
        return "not an audit line"
    if canonical({**values, "digest": digest}) != text or line_digest(before.digest, body) != digest:
        return f"line {values['seq']} does not follow from the line before it"
    return Link(values["seq"], digest)
