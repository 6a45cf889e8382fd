"""Stored events back into a session.

Purpose: decode an event in today's form, and fold it into state and view.
Invariant: the same events give the same state and view, in a daemon and in a replay.
Must never: skip an event silently: one of a newer version is counted, an erased one is shown as such.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import orjson
from pydantic_core import from_json

from gloveport.protocol.journal.envelope import GENESIS_DIGEST, StoredEvent
from gloveport.protocol.journal.events import (
    REGISTRY,
    ChangeApplyStarted,
    ChangeRefused,
    ChangeUnsettled,
    EventBody,
    ModelTextDelta,
    decode_body,
)
from gloveport.protocol.journal.upcast import upcast
from gloveport.protocol.text import utf16_length
from gloveport.protocol.wire.event import event_json
from gloveport.server.engine.paged import PagedView
from gloveport.server.engine.quick import answer_piece, joined_piece, quick_ops, raw_events
from gloveport.server.journal.errors import corrupt_event
from gloveport.server.session.fold import fold_event
from gloveport.server.session.invariants import contradiction
from gloveport.server.session.state import SessionState
from gloveport.server.session.views.ops import Op, erased_ops, project_ops

PLANS_KEPT_MAX: Final = 4
FAULTS_KEPT_MAX: Final = 20


@dataclass(slots=True)
class Loaded:
    """A session as read from the journal, and the place of its last event."""

    state: SessionState = field(default_factory=SessionState)
    view: PagedView = field(default_factory=PagedView)
    epoch: int = 1
    seq: int = 0
    digest: str = GENESIS_DIGEST
    plans: deque[ChangeApplyStarted] = field(default_factory=partial(deque, maxlen=PLANS_KEPT_MAX))
    """The last decisions that were begun; what they may have left beside the files is swept at opening."""
    refusals: dict[str, ChangeRefused | ChangeUnsettled] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """In what the events contradict the state on which they came, oldest first, at most `FAULTS_KEPT_MAX`."""
    has_erased: bool = False


def body_of(event: StoredEvent) -> EventBody | None:
    """An event's body in today's form; None for an erased one and for one of a newer version.

    Raises JournalError(CORRUPT): what is stored is not what this type's events are.
    """
    known = REGISTRY.get(event.type)
    if event.erased is not None or known is None or event.version > known.version:
        return None
    try:
        if event.version == known.version:
            return decode_body(known, event.payload)
        return decode_body(known, upcast(event.type, event.version, from_json(event.payload)))
    except (ValueError, TypeError) as error:
        raise corrupt_event(event.stream, event.seq, event.type) from error


def ops_of(event: StoredEvent) -> tuple[Op, ...]:
    """What a stored event does to the view. Raises JournalError(CORRUPT)."""
    if event.erased is None and (ops := quick_ops(event.type, event.version, event.payload)) is not None:
        return ops
    return _ops(event, body_of(event))


def _ops(event: StoredEvent, body: EventBody | None) -> tuple[Op, ...]:
    if event.erased is not None:
        return erased_ops(event.type, event.seq)
    return project_ops(body, event.type, event.seq, event.at)


def events_json(events: Iterable[StoredEvent]) -> list[bytes]:
    """Each event as clients get it, with `ops_of` it, which are not made where that can be avoided."""
    return raw_events(events, _event_json)


def _event_json(event: StoredEvent) -> bytes:
    stream, epoch, seq, type_name, _, at, _, _, _ = event
    return event_json(stream, epoch, seq, at, type_name, orjson.dumps(ops_of(event)))


class Decoded(NamedTuple):
    """A stored event, its body in today's form, and what it does to the view.

    Pieces of one answer that follow one another are one, as if they had come at once, under the last one's event.
    """

    event: StoredEvent
    body: EventBody | None
    ops: tuple[Op, ...]


def decode_stored(events: Iterable[StoredEvent]) -> list[Decoded]:
    """The events as they are folded."""
    decoded: list[Decoded] = []
    for first, last, texts in _runs(events):
        body = body_of(first if len(texts) < 2 else joined_piece(first, "".join(texts)))
        decoded.append(Decoded(last, body, _ops(last, body)))
    return decoded


def _runs(events: Iterable[StoredEvent]) -> Iterator[tuple[StoredEvent, StoredEvent, list[str]]]:
    """The first and the last event of each run of pieces of one answer, with their texts; any other by itself."""
    first = last = None
    head, end = b"", 0
    texts: list[str] = []
    for event in events:
        piece = answer_piece(event)
        if piece is not None and first is not None and (piece.head, piece.offset) == (head, end):
            last = event
        else:
            if first is not None and last is not None:
                yield first, last, texts
            first, texts = event, []
            last = event
        if piece is not None:
            head, end = piece.head, piece.offset + utf16_length(piece.text)
            texts.append(piece.text)
        else:
            head = b""  # nothing goes on from here
    if first is not None and last is not None:
        yield first, last, texts


def fold_stored(loaded: Loaded, events: Iterable[StoredEvent]) -> None:
    """Take events in, in order; the whole view is in memory."""
    fold_decoded(loaded, decode_stored(events))


def fold_decoded(loaded: Loaded, events: Iterable[Decoded]) -> None:
    """Take events in, in order; the pages of the view that they need are in memory."""
    pieces: list[ModelTextDelta] = []
    for event, body, ops in events:
        if isinstance(body, ModelTextDelta):
            pieces.append(body)
        elif event.erased is None:
            before = _fold_pieces(loaded.state, pieces)
            _check(loaded, before, event.seq, body)
            loaded.state = fold_event(before, body)
        else:
            loaded.has_erased = True
        if isinstance(body, ChangeRefused | ChangeUnsettled):
            loaded.refusals[body.apply_id] = body
        if isinstance(body, ChangeApplyStarted):
            loaded.plans.append(body)
        if not loaded.view.take(event.seq, ops) and _can_be_judged(loaded):
            loaded.faults.append(f"event {event.seq}: {event.type} belongs to nothing that was recorded before it")
        loaded.epoch, loaded.seq, loaded.digest = event.epoch, event.seq, event.digest
    loaded.state = _fold_pieces(loaded.state, pieces)


def _check(loaded: Loaded, before: SessionState, seq: int, body: EventBody | None) -> None:
    """Note a contradiction; what follows an erased event, or one of a newer version, cannot be judged."""
    if body is None or not _can_be_judged(loaded):
        return
    fault = contradiction(before, body)
    if fault is not None:
        loaded.faults.append(f"event {seq}: {fault}")


def _can_be_judged(loaded: Loaded) -> bool:
    return not (loaded.has_erased or loaded.state.unknown_events or len(loaded.faults) >= FAULTS_KEPT_MAX)


def _fold_pieces(state: SessionState, pieces: list[ModelTextDelta]) -> SessionState:
    """Fold pieces of text that follow one another at once, and empty the list: most of a log is such pieces."""
    if not pieces:
        return state
    whole = pieces[0]
    if len(pieces) > 1:
        whole = whole.model_copy(update={"text": "".join(piece.text for piece in pieces)})
    pieces.clear()
    return fold_event(state, whole)
