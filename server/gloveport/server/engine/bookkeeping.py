"""From events to audit lines.

Purpose: write a line of the audit log for every action that the journal recorded.
Invariant: lines follow the journal, in its order; a line that cannot be written stops the session.
Must never: decide, or read the audit log.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.jail.requests import BREAKER
from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.sandbox.contract import Claim
from gloveport.server.audit.line import Action, Entry
from gloveport.server.audit.log import AuditLog
from gloveport.server.tools.contract import REFUSED

TEXT_CHARACTERS_MAX: Final = 2_000
PARAMS_CHARACTERS_MAX: Final = 48_000
STARTED_KEPT_MAX: Final = 1_000
_NOTHING: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
_ACTIONS: Final[Mapping[str, Action]] = MappingProxyType(
    {
        "ToolExecutionStarted": Action.EXEC_START,
        "ToolExecutionFinished": Action.EXEC_END,
        "EgressRecorded": Action.EGRESS,
        "PolicyDecided": Action.DECISION,
        "ApprovalResolved": Action.APPROVAL,
        "ChangeApplied": Action.CHANGE_APPLY,
        "ChangeRefused": Action.CHANGE_APPLY,
        "ToolReconciled": Action.RECONCILE,
        "SessionDeleted": Action.SESSION_DELETE,
        "TextErased": Action.SESSION_ERASE,
        "ReleaseIssued": Action.RELEASE,
        "ReleaseUsed": Action.RELEASE,
        "GrantIssued": Action.GRANT,
        "GrantRevoked": Action.REVOKE,
        "WorkspaceTrusted": Action.TRUST,
        "BreakerOpened": Action.BREAKER,
        "BreakerClosed": Action.BREAKER,
        "SessionFrozen": Action.SESSION_FREEZE,
        "SessionThawed": Action.SESSION_THAW,
    }
)
_OUTCOMES: Final[Mapping[str, Action]] = MappingProxyType({"oom": Action.OOM_KILL, "timeout": Action.TIMEOUT})
_ANSWERS: Final = ("verdict", "decision", "outcome", "finding", "trust_level", "scope")
"""Fields that say how it was decided, or how it ended; the first that an event has."""
_BY_THE_DAEMON: Final = frozenset({"BreakerOpened", "BreakerClosed", "GrantRevoked"})
REVOKED_BY: Final = "revoked by "
_LEFT_OUT: Final = frozenset({"text", "record", "security_context", "label", "card"})


def _bounded(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT_CHARACTERS_MAX:
        return f"{value[:TEXT_CHARACTERS_MAX]}[… {len(value) - TEXT_CHARACTERS_MAX} characters left out …]"
    if isinstance(value, dict):
        return {key: _bounded(each) for key, each in value.items()}
    return [_bounded(each) for each in value[:100]] if isinstance(value, list) else value


def _fitting(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters that fit a line: of what is too long together, the short texts and the counts."""
    if len(json.dumps(params)) <= PARAMS_CHARACTERS_MAX:
        return params
    short = {key: value for key, value in params.items() if not isinstance(value, list | dict)}
    return short | {f"{key}_count": len(value) for key, value in params.items() if isinstance(value, list | dict)}


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """Every text by itself, so that what is left is the same JSON."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _redacted(each, redact) for key, each in value.items()}
    return [_redacted(each, redact) for each in value] if isinstance(value, list) else value


AUDITED: Final = tuple(sorted(_ACTIONS))
"""Types of the events that have a line."""


def entries_of(
    event: StoredEvent, redact: Callable[[str], str], started: Mapping[str, Mapping[str, Any]] = _NOTHING
) -> tuple[Entry, ...]:
    """The audit lines of an event, known secrets taken out; none for one that is no action.

    `started` are the security contexts of calls by their id, for the line of their end. A line about a run is the
    daemon's own word alone, `self_report`, where nothing keeps the run from the log, or nobody knows what kept it.
    """
    action = _ACTIONS.get(event.type)
    if action is None:
        return ()
    body = _redacted(json.loads(event.payload), redact)
    context = body.get("security_context") or started.get(body.get("call_id", ""), {})
    params = _fitting({key: _bounded(value) for key, value in body.items() if key not in _LEFT_OUT})
    first = _entry(event, action, body, context, params)
    return (first, *(replace(first, action=more, params=named) for more, named in _beside(event, body)))


def _beside(event: StoredEvent, body: Mapping[str, Any]) -> Iterator[tuple[Action, dict[str, Any]]]:
    """What an event tells beside its own action: credentials used, thresholds passed, calls that were refused."""
    about = {"event": event.type, "seq": event.seq, "call_id": body.get("call_id", "")}
    for place in body.get("places") or () if event.type == "EgressRecorded" else ():
        for name in place["credentials"]:
            yield Action.SECRET_USE, {**about, "credential": name, "host": place["host"], "port": place["port"]}
    if event.type == "ToolExecutionFinished" and BREAKER in (ended := str(body.get("evidence", ""))):
        yield Action.BREAKER, {**about, "kind": "hand", "passed": _bounded(ended[ended.index(BREAKER) :])}
    if event.type == "ToolExecutionFinished" and REFUSED in (evidence := str(body.get("evidence", ""))):
        yield Action.SECCOMP_VIOLATION, {**about, "refused": _bounded(evidence[evidence.index(REFUSED) :])}


def _entry(
    event: StoredEvent, action: Action, body: Mapping[str, Any], context: Mapping[str, Any], params: dict[str, Any]
) -> Entry:
    ran = event.type in ("ToolExecutionStarted", "ToolExecutionFinished")
    return Entry(
        at=event.at,
        action=_OUTCOMES.get(body.get("outcome", ""), action),
        task_id=event.stream,
        sub_agent_type="main",
        sandbox_id=str(context.get("sandbox", "")),
        actor=_actor_of(event.type, body),
        decision=next((str(body[name]) for name in _ANSWERS if body.get(name)), ""),
        params={"event": event.type, "seq": event.seq, **params},
        security_context=context,
        self_report=ran and not _is_kept_apart(context),
    )


def _actor_of(event_type: str, body: Mapping[str, Any]) -> str:
    """Who caused it: a client by its name, the user by an answer, the daemon, or the agent."""
    if event_type == "GrantIssued":
        return "user"
    reason = str(body.get("reason", ""))
    if event_type == "GrantRevoked" and reason.startswith(REVOKED_BY):
        return reason.removeprefix(REVOKED_BY)
    return "daemon" if event_type in _BY_THE_DAEMON else str(body.get("by", "agent"))


def _is_kept_apart(context: Mapping[str, Any]) -> bool:
    """True if what ran could not reach the log: a jail with its own view of files, or nothing but the daemon ran."""
    return context.get("runs_in") == "daemon" or Claim.FILESYSTEM_VIEW.value in context.get("holds", ())


class Bookkeeper:
    """Writes the audit lines of appended events."""

    def __init__(self, audit: AuditLog, redact: Callable[[str], str]) -> None:
        self._audit, self._redact = audit, redact
        self._started: dict[str, Mapping[str, Any]] = {}

    async def take(self, events: Sequence[StoredEvent]) -> None:
        """Write a line for each action among `events`. Raises AuditError (NOT_SAVED, DATA_FULL)."""
        entries: list[Entry] = []
        for event in events:
            if event.type == "ToolExecutionStarted":
                self._remember(json.loads(event.payload))
            entries += entries_of(event, self._redact, self._started)
        if entries:
            await self._audit.record_all(entries)

    def _remember(self, body: Mapping[str, Any]) -> None:
        """Keep what was in force for the line of its end; the oldest goes first."""
        self._started[body["call_id"]] = _redacted(body.get("security_context") or {}, self._redact)
        while len(self._started) > STARTED_KEPT_MAX:
            del self._started[next(iter(self._started))]
