"""From events to audit lines.

Purpose: write a line of the audit log for every action that the journal recorded.
Invariant: lines follow the journal, in its order; a line that cannot be written stops the session.
Must never: decide, or read the audit log.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.journal.envelope import StoredEvent
from gloveport.server.audit.line import Action, Entry
from gloveport.server.audit.log import AuditLog

TEXT_CHARACTERS_MAX: Final = 2_000
PARAMS_CHARACTERS_MAX: Final = 48_000
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
        "SessionFrozen": Action.SESSION_FREEZE,
        "SessionThawed": Action.SESSION_THAW,
    }
)
_OUTCOMES: Final[Mapping[str, Action]] = MappingProxyType({"oom": Action.OOM_KILL, "timeout": Action.TIMEOUT})
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


def entry_of(event: StoredEvent, redact: Callable[[str], str]) -> Entry | None:
    """The audit line of an event, known secrets taken out; None for one that is no action."""
    action = _ACTIONS.get(event.type)
    if action is None:
        return None
    body = _redacted(json.loads(event.payload), redact)
    context = body.get("security_context") or {}
    params = _fitting({key: _bounded(value) for key, value in body.items() if key not in _LEFT_OUT})
    return Entry(
        at=event.at,
        action=_OUTCOMES.get(body.get("outcome", ""), action),
        task_id=event.stream,
        sub_agent_type="main",
        sandbox_id=str(context.get("sandbox", "")),
        actor=str(body.get("by", "agent")),
        decision=str(body.get("verdict") or body.get("decision") or body.get("outcome") or body.get("finding") or ""),
        params={"event": event.type, "seq": event.seq, **params},
        security_context=context,
    )


class Bookkeeper:
    """Writes the audit lines of appended events."""

    def __init__(self, audit: AuditLog, redact: Callable[[str], str]) -> None:
        self._audit, self._redact = audit, redact

    async def take(self, events: Sequence[StoredEvent]) -> None:
        """Write a line for each action among `events`. Raises AuditError (NOT_SAVED, DATA_FULL)."""
        entries = [entry for event in events if (entry := entry_of(event, self._redact)) is not None]
        if entries:
            await self._audit.record_all(entries)
