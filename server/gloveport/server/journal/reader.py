"""Reading: short transactions on connections that never write.

Purpose: events, heads, index rows and chain checks, straight from the committed data.
Invariant: every function is one short read; none holds a snapshot over an await, so the log can be reset.
Must never: write, checkpoint, or answer a list by reading events.
"""

import sqlite3
from dataclasses import dataclass, field
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.envelope import (
    GENESIS_DIGEST,
    ChainBreak,
    ChainPoint,
    Cursor,
    StoredEvent,
    next_point,
)
from gloveport.server.journal.errors import JournalError, corrupt_event
from gloveport.server.journal.records import SessionRow, StreamSize, VerifyReport, shares_digest

READ_EVENTS_MAX: Final = 10_000
READ_BYTES_MAX: Final = 8 * 1024 * 1024
SESSIONS_PAGE_MAX: Final = 500
STREAMS_PAGE_MAX: Final = 1_000
EVENT_OVERHEAD_BYTES: Final = 200
"""What an event counts beyond its payload against a byte budget."""

EVENT_COLUMNS: Final = "stream, epoch, seq, type, version, at, payload, digest, payload_hash"
_COLUMN_TYPES: Final = (str, int, int, str, int, int, bytes, bytes)
_make_event: Final = StoredEvent._make
_SELECT_AFTER = (
    f"SELECT {EVENT_COLUMNS} FROM event WHERE stream=?1 AND seq>?2"  # noqa: S608 - constant
    " AND EXISTS (SELECT 1 FROM stream WHERE name=?1) ORDER BY seq LIMIT ?3"
)
"""Rows of a deleted stream that are still there are nobody's events any more."""
_SELECT_BRIEF = _SELECT_AFTER.replace("stream, epoch", "epoch", 1)
"""The same without the stream's name, which whoever asks knows: each column costs every event of a catch-up."""


def tolerant_text(raw: bytes) -> str:
    """Text factory for checks: a damaged text becomes a string that fails the check instead of an exception."""
    return raw.decode("utf-8", "surrogateescape")


def is_well_formed(row: tuple[Any, ...]) -> bool:
    """Whether every column of an event row has the type and the alphabet it was written with."""
    typed = all(type(value) is kind for value, kind in zip(row[:8], _COLUMN_TYPES, strict=True))
    return typed and (row[8] is None or isinstance(row[8], bytes)) and row[0].isascii() and row[3].isascii()


def to_event(row: tuple[Any, ...]) -> StoredEvent:
    """An event of a row in the order of `EVENT_COLUMNS`."""
    stream, epoch, seq, kind, version, at, payload, digest, erased = row
    return StoredEvent(stream, epoch, seq, kind, version, at, payload, digest.hex(), erased.hex() if erased else None)


def read_events(
    connection: sqlite3.Connection, stream: str, after_seq: int, limit: int, bytes_max: int
) -> tuple[StoredEvent, ...]:
    """Events after `after_seq`, oldest first, within both budgets; always at least one when there is one.

    Raises JournalError(CORRUPT) with `stream` and `seq` in its data when the first of them cannot be read.
    """
    events: list[StoredEvent] = []
    budget = min(bytes_max, READ_BYTES_MAX)
    cursor = connection.execute(_SELECT_BRIEF, (stream, after_seq, min(limit, READ_EVENTS_MAX)))
    try:
        for epoch, seq, kind, version, at, payload, digest, erased in cursor:
            if type(payload) is not bytes or type(digest) is not bytes:
                raise corrupt_event(stream, seq)
            budget -= len(payload) + EVENT_OVERHEAD_BYTES
            if budget < 0 and events:
                break
            kept = erased.hex() if erased else None
            events.append(_make_event((stream, epoch, seq, kind, version, at, payload, digest.hex(), kept)))
    except sqlite3.OperationalError as error:
        if not _is_no_text(error):
            raise
        if not events:
            raise corrupt_event(stream, _seq_after(connection, stream, after_seq)) from error
    except JournalError:
        if not events:
            raise
    finally:
        cursor.close()  # an open one would hold the log, and show old data to whoever reads next
    return tuple(events)


def _is_no_text(error: sqlite3.OperationalError) -> bool:
    return "decode to UTF-8" in str(error)


def _seq_after(connection: sqlite3.Connection, stream: str, after_seq: int) -> int:
    found: int = connection.execute(
        "SELECT min(seq) FROM event WHERE stream=? AND seq>?", (stream, after_seq)
    ).fetchone()[0]
    return found


def find_place(connection: sqlite3.Connection, stream: str) -> tuple[int, int, str] | None:
    """Epoch, next seq and digest of a stream; None when there is no such stream."""
    row = connection.execute("SELECT epoch, next_seq, digest FROM stream WHERE name=?", (stream,)).fetchone()
    return (row[0], row[1], row[2].hex()) if row is not None else None


def read_place(connection: sqlite3.Connection, stream: str) -> tuple[int, int, str]:
    """Like `find_place`; an unknown stream stands before its first event."""
    return find_place(connection, stream) or (1, 1, GENESIS_DIGEST)


def read_answer(connection: sqlite3.Connection, client_request_id: str, fingerprint: str | None) -> bytes | None:
    """The recorded result of a client request; raises JournalError(CONFLICT) when `fingerprint` is another one."""
    row = connection.execute("SELECT result, fingerprint FROM request WHERE id=?", (client_request_id,)).fetchone()
    if row is None:
        return None
    if fingerprint is not None and row[1] != fingerprint:
        raise JournalError(ErrorCode.CONFLICT, "this client request id was used for another request")
    return bytes(row[0])


def read_sessions(
    connection: sqlite3.Connection, limit: int, before: int | None, workspace: str | None, state: str | None
) -> tuple[SessionRow, ...]:
    """A page of the index, the session changed last first; `before` is the `order` of the last row seen."""
    rows = connection.execute(
        "SELECT session_id, title, state, workspace, updated_at, position FROM session_index"
        " WHERE (?1 IS NULL OR position < ?1) AND (?2 IS NULL OR workspace = ?2) AND (?3 IS NULL OR state = ?3)"
        " ORDER BY position DESC LIMIT ?4",
        (before, workspace, state, max(0, min(limit, SESSIONS_PAGE_MAX))),
    )
    return tuple(SessionRow(*row) for row in rows)


def read_session(connection: sqlite3.Connection, session_id: str) -> SessionRow | None:
    """One row of the index."""
    row = connection.execute(
        "SELECT session_id, title, state, workspace, updated_at, position FROM session_index WHERE session_id=?",
        (session_id,),
    ).fetchone()
    return SessionRow(*row) if row is not None else None


def read_streams(connection: sqlite3.Connection, prefix: str, after: str, limit: int) -> tuple[str, ...]:
    """Names of streams that begin with `prefix`, in name order, after the name `after`."""
    rows = connection.execute(
        "SELECT name FROM stream WHERE name > ? AND substr(name, 1, ?) = ? ORDER BY name LIMIT ?",
        (max(after, prefix[:-1]), len(prefix), prefix, max(0, min(limit, STREAMS_PAGE_MAX))),
    )
    return tuple(row[0] for row in rows)


def read_sizes(connection: sqlite3.Connection, prefix: str) -> tuple[StreamSize, ...]:
    """Sizes of streams whose names begin with `prefix`, those written to longest ago first."""
    rows = connection.execute(
        "SELECT name, next_seq - 1, bytes FROM stream WHERE substr(name, 1, length(?1)) = ?1 ORDER BY touched",
        (prefix,),
    )
    return tuple(StreamSize(*row) for row in rows)


def read_unlisted(connection: sqlite3.Connection, prefix: str, limit: int) -> tuple[str, ...]:
    """Streams with this prefix that have events and no row in the session index, those changed last at the end."""
    rows = connection.execute(
        "SELECT name FROM stream WHERE name >= ?1 AND substr(name, 1, length(?1)) = ?1 AND next_seq > 1"
        " AND substr(name, length(?1) + 1) NOT IN (SELECT session_id FROM session_index) ORDER BY touched LIMIT ?2",
        (prefix, limit),
    )
    return tuple(row[0] for row in rows)


def shares_past(connection: sqlite3.Connection, stream: str, cursor: Cursor) -> bool:
    """Whether the cursor's place exists in this stream with the very past its holder saw."""
    epoch, next_seq, _digest = read_place(connection, stream)
    if cursor.seq >= next_seq or cursor.epoch > epoch:
        return False
    if cursor.seq == 0:
        return shares_digest(GENESIS_DIGEST, cursor)
    row = connection.execute(
        "SELECT epoch, digest FROM event WHERE stream=? AND seq=?", (stream, cursor.seq)
    ).fetchone()
    return row is not None and row[0] <= cursor.epoch and shares_digest(row[1].hex(), cursor)


@dataclass(slots=True)
class Verifying:
    """How far a chain was followed. A whole stream takes many short reads, so that none holds the log."""

    stream: str
    point: ChainPoint = field(default_factory=ChainPoint)
    erased: list[int] = field(default_factory=list)


def verify_on(connection: sqlite3.Connection, done: Verifying, limit: int = READ_EVENTS_MAX) -> VerifyReport | None:
    """Follow a chain over the next events; its report at the end, where the head has to agree, or at a break."""
    connection.text_factory = tolerant_text
    connection.execute("BEGIN")  # events and head of one moment
    try:
        return _verify_on(connection, done, limit)
    finally:
        connection.execute("ROLLBACK")
        connection.text_factory = str


def verify_stream(connection: sqlite3.Connection, stream: str) -> VerifyReport:
    """Follow the whole chain of a stream."""
    done = Verifying(stream)
    while (report := verify_on(connection, done)) is None:
        pass
    return report


def _verify_on(connection: sqlite3.Connection, done: Verifying, limit: int) -> VerifyReport | None:
    stream, point, erased = done.stream, done.point, done.erased
    before = point.seq
    for row in connection.execute(_SELECT_AFTER, (stream, before, limit)):
        step = next_point(point, to_event(row)) if is_well_formed(row) else ChainBreak(point.seq + 1, "damaged row")
        if isinstance(step, ChainBreak):
            return VerifyReport(stream, point.seq, tuple(erased), step.seq, step.reason)
        done.point = point = step
        if row[8] is not None:
            erased.append(point.seq)
    if point.seq - before == limit:
        return None
    _epoch, next_seq, digest = read_place(connection, stream)
    if (next_seq, digest) != (point.seq + 1, point.digest):
        reason = "the head does not agree with the last event"
        return VerifyReport(stream, point.seq, tuple(erased), point.seq + 1, reason)
    return VerifyReport(stream, point.seq, tuple(erased), None, "")
