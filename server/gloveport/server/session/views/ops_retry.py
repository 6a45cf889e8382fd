"""What retries and compactions do to the view.

Purpose: a part of the projection's table: the running turn says what it waits for, and until when.
Invariant: as the projection: a function of one event alone.
Must never: show a time without its moment: clients count down by their own clocks.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.journal import events as ev

Op = dict[str, Any]


def _turn(turn_id: str, **fields: Any) -> tuple[Op, ...]:
    return ({"op": "upsert", "item": f"turn/{turn_id}", "kind": "turn", "fields": fields},)


def _scheduled(body: ev.RetryScheduled) -> tuple[Op, ...]:
    retry = {
        "requestId": body.request_id,
        "attempt": body.attempt,
        "attemptsMax": body.attempts_max,
        "errorClass": body.error_class,
        "backoffUs": body.backoff_us,
        "floor": body.floor,
        "dueAt": body.due_at,
        "reason": body.reason,
    }
    return _turn(body.turn_id, state="retrying", retry=retry)


def _started(body: ev.RetryStarted) -> tuple[Op, ...]:
    return _turn(body.turn_id, state="running", retry=None)


def _compaction(body: ev.CompactionStarted) -> tuple[Op, ...]:
    return _turn(body.turn_id, state="compacting", reason=body.reason)


def _compacted(body: ev.ContextCompacted) -> tuple[Op, ...]:
    fields = {
        "results": len(body.results),
        "charsBefore": body.chars_before,
        "charsAfter": body.chars_after,
        "turnId": body.turn_id,
    }
    note: Op = {"op": "upsert", "item": f"compaction/{body.compaction_id}", "kind": "compaction", "fields": fields}
    return (*_turn(body.turn_id, state="running", reason=""), note)


def _discarded(body: ev.CompactionDiscarded) -> tuple[Op, ...]:
    return _turn(body.turn_id, state="running", reason="")


RETRY_PROJECTORS: Final[Mapping[type[ev.EventBody], Callable[[Any], tuple[Op, ...]]]] = MappingProxyType(
    {
        ev.RetryScheduled: _scheduled,
        ev.RetryStarted: _started,
        ev.CompactionStarted: _compaction,
        ev.ContextCompacted: _compacted,
        ev.CompactionDiscarded: _discarded,
    }
)
