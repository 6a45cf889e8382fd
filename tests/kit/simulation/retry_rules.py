"""What must hold of the retries and compactions of every log, checked without the fold.

Purpose: an independent reading of pauses, attempts and compactions of one session.
Invariant: as the monitor's: a broken rule is named at the event that breaks it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from tests.kit.simulation.rules import hold

from gloveport.protocol.journal import events as ev
from gloveport.server.session.fold_labels import erased_result

ATTEMPTS_MAX: Final = 5
NEVER_AGAIN: Final = frozenset({"auth", "quota", "refused", "malformed", "too_large", "config", "context_overflow"})


class RetryRules:
    """Reads the events in order, beside the monitor."""

    def __init__(self) -> None:
        self.stopping = False
        self.pause: ev.RetryScheduled | None = None
        self.begun: ev.RetryStarted | None = None
        self.failed: str | None = None
        self.attempt = 1
        self.compaction: str | None = None
        self.compactions: set[str] = set()
        self.overflows = 0
        self.results: dict[str, int] = {}

    def take(self, body: ev.EventBody) -> None:
        """Check one event. Raises BrokenRuleError."""
        check = _CHECKS.get(type(body))
        if check is not None:
            check(self, body)

    def turn(self, _body: ev.TurnStarted) -> None:
        self.stopping, self.pause, self.begun, self.failed, self.attempt, self.compaction = (
            False, None, None, None, 1, None,
        )  # fmt: skip

    def stop(self, _body: ev.TurnCancelRequested) -> None:
        self.stopping = True

    def interrupted(self, body: ev.ModelStreamInterrupted) -> None:
        self.failed = body.request_id

    def answered(self, _body: ev.ModelResponseReceived) -> None:
        self.attempt, self.overflows = 1, 0

    def selected(self, _body: ev.ModelSelected) -> None:
        self.overflows = 0

    def scheduled(self, body: ev.RetryScheduled) -> None:
        hold(not self.stopping, "no retry after a stop", body.request_id)
        hold(self.pause is None and self.compaction is None, "one pause", body.request_id)
        hold(body.request_id == self.failed, "a retry follows a failure", body.request_id)
        hold(body.error_class not in NEVER_AGAIN, "some failures are never tried again", body.error_class)
        grows = 0 if body.error_class == "paused" else 1
        hold(body.attempt == self.attempt + grows, "attempts are counted", body.attempt)
        hold(body.attempt <= ATTEMPTS_MAX, "attempts are bounded", body.attempt)
        self.pause, self.attempt = body, body.attempt

    def started(self, body: ev.RetryStarted) -> None:
        hold(not self.stopping, "no retry after a stop", body.request_id)
        pause, self.pause = self.pause, None
        hold(pause is not None and pause.request_id == body.retry_of, "a retry follows its pause", body.request_id)
        hold(body.attempt == self.attempt, "attempts are counted", body.attempt)
        self.begun = body

    def requested(self, body: ev.ModelRequestStarted) -> None:
        hold(self.pause is None, "no request in a pause", body.request_id)
        hold(self.compaction is None, "no request in a compaction", body.request_id)
        begun, self.begun = self.begun, None
        hold(begun is None or begun.request_id == body.request_id, "a retry is a request", body.request_id)

    def overflowed(self, body: ev.ContextOverflowed) -> None:
        hold(body.request_id == self.failed, "a retry follows a failure", body.request_id)
        hold(body.count == self.overflows + 1, "overflows are counted over turns", body.count)
        self.overflows = body.count

    def compacting(self, body: ev.CompactionStarted) -> None:
        hold(not self.stopping, "no retry after a stop", body.compaction_id)
        hold(body.compaction_id not in self.compactions, "compaction once", body.compaction_id)
        hold(self.pause is None and self.compaction is None, "one pause", body.compaction_id)
        self.compaction = body.compaction_id
        self.compactions.add(body.compaction_id)

    def finished(self, body: ev.ToolExecutionFinished) -> None:
        self.results[body.call_id] = len(body.text)

    def erased(self, body: ev.TextErased) -> None:
        """Words that say how it ended stand in the place of an erased result."""
        self.results.update({one.call_id: len(erased_result(one.outcome)) for one in body.calls})

    def compacted(self, body: ev.ContextCompacted) -> None:
        self._end(body.compaction_id)
        hold(body.chars_after < body.chars_before, "a compaction makes it smaller", body.compaction_id)
        known = all(self.results.get(one.call_id, 0) >= one.kept_chars for one in body.results)
        hold(bool(body.results) and known, "only results are shortened", body.compaction_id)

    def discarded(self, body: ev.CompactionDiscarded) -> None:
        self._end(body.compaction_id)

    def _end(self, compaction_id: str) -> None:
        hold(self.compaction == compaction_id, "a compaction ends once", compaction_id)
        self.compaction = None


_CHECKS: Final[Mapping[type[ev.EventBody], Callable[[RetryRules, Any], None]]] = MappingProxyType(
    {
        ev.TurnStarted: RetryRules.turn,
        ev.TurnCancelRequested: RetryRules.stop,
        ev.ModelStreamInterrupted: RetryRules.interrupted,
        ev.ModelResponseReceived: RetryRules.answered,
        ev.ModelSelected: RetryRules.selected,
        ev.RetryScheduled: RetryRules.scheduled,
        ev.RetryStarted: RetryRules.started,
        ev.ModelRequestStarted: RetryRules.requested,
        ev.ContextOverflowed: RetryRules.overflowed,
        ev.CompactionStarted: RetryRules.compacting,
        ev.ToolExecutionFinished: RetryRules.finished,
        ev.TextErased: RetryRules.erased,
        ev.ContextCompacted: RetryRules.compacted,
        ev.CompactionDiscarded: RetryRules.discarded,
    }
)
