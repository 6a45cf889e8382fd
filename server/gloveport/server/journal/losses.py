"""Acknowledged events that are gone: found, declared, and remembered until somebody was told.

Purpose: a stream that is shorter than was acknowledged begins a new epoch, and what it lost is kept in the database
until the session's people and the audit log know.
Invariant: declaring is part of the caller's transaction; a loss is remembered until it is told, over any crash.
Must never: take a stream back further, or read a payload.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Final

from gloveport.protocol.journal.envelope import GENESIS_DIGEST
from gloveport.server.journal.records import Loss, Unsettled
from gloveport.server.journal.voids import forget_void, void_stream

_PREFIX: Final = "untold:"
_SETTLED: Final = "settled"
_SETTLED_OF: Final = "settled:"
_SETTLED_LINE: Final = "settled_line"
_REASON: Final = "acknowledged events are gone from the database"


def short_streams(connection: sqlite3.Connection, acknowledged: Mapping[str, int]) -> tuple[Loss, ...]:
    """Which streams end before what was acknowledged of them."""
    found: list[Loss] = []
    for stream, seq in sorted(acknowledged.items()):
        row = connection.execute(
            "SELECT next_seq FROM stream WHERE name=?1 UNION ALL SELECT next_seq FROM tombstone WHERE stream=?1",
            (stream,),
        ).fetchone()
        next_seq = row[0] if row is not None else 1
        if seq >= next_seq:
            found.append(Loss(stream, next_seq, seq - next_seq + 1, _REASON))
    return tuple(found)


def declare_lost(connection: sqlite3.Connection, losses: Iterable[Loss], *, begun: bool = False) -> None:
    """Begin a new epoch of each stream (those there are have `begun` one), so that no number names two events.

    The losses are remembered.
    """
    touched = connection.execute("SELECT coalesce(max(touched), 0) FROM stream").fetchone()[0]
    kept = tuple(losses)
    for loss in kept:
        connection.execute(
            "INSERT INTO stream VALUES (?,2,1,?,?,0) ON CONFLICT (name) DO UPDATE SET epoch=epoch+?",
            (loss.stream, bytes.fromhex(GENESIS_DIGEST), touched, 0 if begun else 1),
        )
    remember(connection, kept)


def remember(connection: sqlite3.Connection, losses: Iterable[Loss]) -> None:
    """Keep losses until they are told; a stream's earlier one becomes part of its later one."""
    for loss in losses:
        before = untold_of(connection, loss.stream)
        if before is not None and before != loss:
            events = loss.events + before.events
            loss = Loss(loss.stream, min(loss.from_seq, before.from_seq), events, loss.reason)
        value = json.dumps([loss.from_seq, loss.events, loss.reason])
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_PREFIX + loss.stream, value))
        void_stream(connection, loss.stream)  # what was allowed before may have been taken back in what is lost


def untold_of(connection: sqlite3.Connection, stream: str) -> Loss | None:
    """What a stream lost that nobody was told yet."""
    row = connection.execute("SELECT value FROM meta WHERE key=?", (_PREFIX + stream,)).fetchone()
    return Loss(stream, *json.loads(row[0])) if row is not None else None


def untold(connection: sqlite3.Connection) -> tuple[Loss, ...]:
    """What nobody was told yet."""
    rows = connection.execute(
        "SELECT key, value FROM meta WHERE substr(key, 1, ?)=? ORDER BY key", (len(_PREFIX), _PREFIX)
    )
    return tuple(Loss(key[len(_PREFIX) :], *json.loads(value)) for key, value in rows.fetchall())


def forget(connection: sqlite3.Connection, losses: Iterable[Loss]) -> None:
    """These were told."""
    for loss in losses:
        connection.execute("DELETE FROM meta WHERE key=?", (_PREFIX + loss.stream,))


def forget_stream(connection: sqlite3.Connection, stream: str) -> None:
    """A stream was deleted: there is nobody to tell, and nothing to settle."""
    connection.execute("DELETE FROM meta WHERE key IN (?,?)", (_PREFIX + stream, _SETTLED_OF + stream))
    forget_void(connection, stream)


def unsettled(connection: sqlite3.Connection, limit: int) -> Unsettled:
    """Streams written to since `settle`, those written last first, and up to where each was settled before."""
    rows = connection.execute(
        "SELECT s.name, m.value FROM stream s LEFT JOIN meta m ON m.key = ? || s.name"
        " WHERE s.touched > coalesce((SELECT value FROM meta WHERE key=?), 0) ORDER BY s.touched DESC LIMIT ?",
        (_SETTLED_OF, _SETTLED, limit),
    ).fetchall()
    marks = {name: _settled_seq(connection, name, value) for name, value in rows}
    line = connection.execute("SELECT value FROM meta WHERE key=?", (_SETTLED_LINE,)).fetchone()
    broken = line is None or any(seq is None for seq in marks.values())
    return Unsettled({name: seq or 0 for name, seq in marks.items()}, 0 if broken else line[0])


def _settled_seq(connection: sqlite3.Connection, stream: str, value: str | None) -> int | None:
    """The seq of a mark, 0 without one; None where the stream has not the event any more that was marked."""
    if value is None:
        return 0
    seq, digest = json.loads(value)
    row = connection.execute("SELECT digest FROM event WHERE stream=? AND seq=?", (stream, seq)).fetchone()
    return int(seq) if row is not None and row[0].hex() == digest else None


def settle(connection: sqlite3.Connection, line: int) -> None:
    """Everything written so far is in the other books too, whose last line has the number `line`."""
    rows = connection.execute(
        "SELECT name, next_seq - 1, digest FROM stream WHERE next_seq > 1"
        " AND (touched > coalesce((SELECT value FROM meta WHERE key=?), 0)"
        " OR NOT EXISTS (SELECT 1 FROM meta WHERE key = ? || name))",
        (_SETTLED, _SETTLED_OF),
    ).fetchall()
    for name, seq, digest in rows:
        settle_stream(connection, name, seq, digest.hex())
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_SETTLED_LINE, line))
    connection.execute(
        "INSERT OR REPLACE INTO meta SELECT ?, coalesce(max(touched), 0) FROM stream",
        (_SETTLED,),
    )


def settle_stream(connection: sqlite3.Connection, stream: str, seq: int, digest: str) -> None:
    """A stream is in the other books up to `seq`, whose event has `digest`."""
    value = json.dumps([seq, digest])
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_SETTLED_OF + stream, value))


def last_of(
    connection: sqlite3.Connection, stream: str, types: tuple[str, ...], after_seq: int, before_seq: int | None
) -> int:
    """Seq of a stream's last event of one of these types between two others; 0 when there is none."""
    marks = ",".join("?" * len(types))
    row = connection.execute(
        "SELECT seq FROM event WHERE stream=? AND seq>? AND (?3 IS NULL OR seq<?3) "  # noqa: S608 - marks
        f"AND type IN ({marks}) ORDER BY seq DESC LIMIT 1",
        (stream, after_seq, before_seq, *types),
    ).fetchone()
    return row[0] if row is not None else 0
