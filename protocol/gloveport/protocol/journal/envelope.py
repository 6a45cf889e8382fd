"""The envelope of a stored event: identity, order and the digest chain.

Purpose: one shape for what the journal stores and one rule for how a stream proves its past.
Invariant: `digest` of event n covers `digest` of event n-1, so equal digests mean an equal past; `seq` starts at 1
and is gapless over all epochs of a stream; `(epoch, seq)` names at most one event, ever.
Must never: look into a payload, read a clock, or need more than the standard library.

The digest of an event is SHA-256 over these eight UTF-8 fields, joined by one line feed (0x0A) each:

    previous digest (64 lower-case hex digits; 64 zeros before the first event)
    stream · epoch · seq · type · version · at   (integers in decimal without sign or leading zeros)
    SHA-256 of the payload's bytes (64 lower-case hex digits)

It covers the payload's *hash*, not the payload: a secret can be erased from a payload while its hash stays, and the
chain still verifies. An erased event carries `ERASED_PAYLOAD` and the hash of what was there in `erased`.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final, NamedTuple

from gloveport.protocol.errors import ErrorCode, GloveportError

GENESIS_DIGEST: Final = "0" * 64
"""The digest before the first event of any stream."""

ERASED_PAYLOAD: Final = b'{"erased":true}'
"""What stands in place of a payload that was erased."""

CURSOR_CHARS_MAX: Final = 160
CURSOR_DIGEST_CHARS: Final = 32
INTEGER_MAX: Final = 2**53 - 1
"""Largest integer that every client (JSON numbers are doubles there) keeps exactly."""

_CURSOR_FORM = re.compile(r"1\.(0|[1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,15})\.([0-9a-f]{32})")


@unique
class Durability(StrEnum):
    """What an append waits for: FULL survives power loss, RELAXED survives only the death of the process."""

    FULL = "full"
    RELAXED = "relaxed"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event that is to be appended; the journal gives it stream, epoch, seq and digest. `payload` is JSON."""

    type: str
    version: int
    payload: bytes


class StoredEvent(NamedTuple):
    """An event as stored. `at` is UTC microseconds, for display only: order is `seq` and nothing else.

    A tuple, since a client that catches up costs one of these an event.
    """

    stream: str
    epoch: int
    seq: int
    type: str
    version: int
    at: int
    payload: bytes
    digest: str
    erased: str | None = None

    @property
    def payload_hash(self) -> str:
        """SHA-256 of the payload as it was first stored (64 hex digits)."""
        return self.erased if self.erased is not None else payload_hash(self.payload)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a stream. `digest` is the first `CURSOR_DIGEST_CHARS` hex digits of the digest at `seq`."""

    epoch: int
    seq: int
    digest: str


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a stream: its last event (`seq`, `digest`) and the last seq that a power loss can't take back."""

    epoch: int
    seq: int
    digest: str
    durable_seq: int

    @property
    def next_seq(self) -> int:
        """What the next append to the stream must expect."""
        return self.seq + 1

    @property
    def cursor(self) -> Cursor:
        """The cursor after the last event."""
        return cursor_at(self.epoch, self.seq, self.digest)


class CursorError(GloveportError):
    """A cursor that this version did not issue; its holder needs a snapshot."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_PARAMS, message, hint="Subscribe without a cursor for a snapshot.")


def payload_hash(payload: bytes) -> str:
    """SHA-256 of a payload as 64 lower-case hex digits."""
    return hashlib.sha256(payload).hexdigest()


def chain_digest(
    prev: str, *, stream: str, epoch: int, seq: int, event_type: str, version: int, at: int, payload_hash: str
) -> str:
    """The digest of one event after `prev`, in the canonical form of this module's head.

    Raises ValueError when `stream` or `type` holds a line feed, since two events could then share one form.
    """
    if "\n" in stream or "\n" in event_type:
        raise ValueError("a stream or event type must not hold a line feed")
    form = f"{prev}\n{stream}\n{epoch}\n{seq}\n{event_type}\n{version}\n{at}\n{payload_hash}"
    return hashlib.sha256(form.encode()).hexdigest()


def event_digest(prev: str, event: StoredEvent) -> str:
    """The digest that `event` must carry when `prev` is the digest of the event before it."""
    return chain_digest(
        prev,
        stream=event.stream,
        epoch=event.epoch,
        seq=event.seq,
        event_type=event.type,
        version=event.version,
        at=event.at,
        payload_hash=event.payload_hash,
    )


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """The first event that does not follow from the one before it, and why, in words."""

    seq: int
    reason: str


@dataclass(frozen=True, slots=True)
class ChainPoint:
    """Where a chain stands: the last event's epoch, seq and digest."""

    epoch: int = 0
    seq: int = 0
    digest: str = GENESIS_DIGEST


def next_point(point: ChainPoint, event: StoredEvent) -> ChainPoint | ChainBreak:
    """Advance over one event, or say why it does not follow."""
    expected = point.seq + 1
    if event.seq != expected:
        return ChainBreak(expected, f"expected seq {expected}, found {event.seq}")
    if event.epoch < point.epoch:
        return ChainBreak(event.seq, f"epoch {event.epoch} after epoch {point.epoch}")
    if event.erased is not None and event.payload != ERASED_PAYLOAD:
        return ChainBreak(event.seq, "marked as erased but holds a payload")
    if event_digest(point.digest, event) != event.digest:
        return ChainBreak(event.seq, "digest does not follow from the event before it")
    return ChainPoint(event.epoch, event.seq, event.digest)


def verify_chain(events: Iterable[StoredEvent], start: ChainPoint | None = None) -> ChainPoint | ChainBreak:
    """Follow a whole chain from `start` (default: before the first event); its end, or its first break."""
    point = start if start is not None else ChainPoint()
    for event in events:
        step = next_point(point, event)
        if isinstance(step, ChainBreak):
            return step
        point = step
    return point


def cursor_at(epoch: int, seq: int, digest: str) -> Cursor:
    """The cursor of a place whose full digest is `digest`."""
    return Cursor(epoch, seq, digest[:CURSOR_DIGEST_CHARS])


def encode_cursor(cursor: Cursor) -> str:
    """The opaque form given to clients (base64url, no padding)."""
    text = f"1.{cursor.epoch}.{cursor.seq}.{cursor.digest}"
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode_cursor(text: str) -> Cursor:
    """The cursor of its opaque form; raises CursorError on anything `encode_cursor` did not make."""
    if len(text) > CURSOR_CHARS_MAX:
        raise CursorError("the cursor is too long")
    try:
        raw = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
        match = _CURSOR_FORM.fullmatch(raw.decode("ascii"))
    except (binascii.Error, UnicodeError) as error:
        raise CursorError("the cursor is not one of this daemon's") from error
    if match is None:
        raise CursorError("the cursor is not one of this daemon's")
    cursor = Cursor(int(match[1]), int(match[2]), match[3])
    if max(cursor.epoch, cursor.seq) > INTEGER_MAX or encode_cursor(cursor) != text:
        raise CursorError("the cursor is not one of this daemon's")
    return cursor
