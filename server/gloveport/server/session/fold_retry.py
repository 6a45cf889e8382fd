"""The fold of retries and compactions.

Purpose: a part of the fold's table: pauses, overflows, what the model is shown shortened.
Invariant: as the fold: total over its types, pure, driven by order alone.
Must never: take a text out of the history; what is shortened is marked.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.journal.events import (
    CompactionDiscarded,
    CompactionStarted,
    ContextCompacted,
    ContextOverflowed,
    EventBody,
    RetryScheduled,
    RetryStarted,
)
from gloveport.server.session.evolve import evolve
from gloveport.server.session.series import Series
from gloveport.server.session.state import ResultEntry, SessionState
from gloveport.server.session.views.held import is_held_back


def _turn(state: SessionState, **changes: Any) -> SessionState:
    return state if state.turn is None else evolve(state, turn=evolve(state.turn, **changes))


def _scheduled(state: SessionState, body: RetryScheduled) -> SessionState:
    if state.turn is None:
        return state
    waited, held_back = state.turn.waited_us + body.backoff_us, state.turn.held_back + is_held_back(body)
    return _turn(state, retry=body, attempt=body.attempt, waited_us=waited, held_back=held_back)


def _started(state: SessionState, _body: RetryStarted) -> SessionState:
    return _turn(state, retry=None)


def _overflowed(state: SessionState, body: ContextOverflowed) -> SessionState:
    return evolve(state, overflows=body.count)


def _compaction(state: SessionState, body: CompactionStarted) -> SessionState:
    return _turn(evolve(state, compactions=state.compactions + 1), compaction=body.compaction_id)


def _compacted(state: SessionState, body: ContextCompacted) -> SessionState:
    kept = {result.call_id: result.kept_chars for result in body.results}
    history = Series(
        replace(entry, kept_chars=kept[entry.call_id])
        if isinstance(entry, ResultEntry) and entry.call_id in kept
        else entry
        for entry in state.history
    )
    return _turn(evolve(state, history=history), compaction=None)


def _discarded(state: SessionState, _body: CompactionDiscarded) -> SessionState:
    return _turn(state, compaction=None)


RETRY_HANDLERS: Final[Mapping[type[EventBody], Callable[[SessionState, Any], SessionState]]] = MappingProxyType(
    {
        RetryScheduled: _scheduled,
        RetryStarted: _started,
        ContextOverflowed: _overflowed,
        CompactionStarted: _compaction,
        ContextCompacted: _compacted,
        CompactionDiscarded: _discarded,
    }
)
