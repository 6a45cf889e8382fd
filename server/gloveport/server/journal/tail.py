"""The check of stream tails when a journal is opened, and the quarantine of what is damaged.

Purpose: find a torn or altered tail before anybody builds on it; keep the good part, set the rest aside, say so.
Invariant: after a check the head of a checked stream agrees with its last event; a stream that lost its tail is in a
new epoch; set-aside rows are kept as they were found.
Must never: delete a row it did not copy to the quarantine first, or read a whole log.
"""

import sqlite3
from typing import Any, Final

from gloveport.protocol.journal.envelope import GENESIS_DIGEST, ChainBreak, ChainPoint, next_point
from gloveport.server.journal.losses import remember
from gloveport.server.journal.reader import EVENT_COLUMNS, EVENT_OVERHEAD_BYTES, is_well_formed, to_event
from gloveport.server.journal.records import Loss, Quarantined

TAIL_EVENTS: Final = 32
TAIL_STREAMS_UNCLEAN_MAX: Final = 1_000
TAIL_STREAMS_CLEAN_MAX: Final = 16
"""Streams checked at open, those written last first. `verify` checks a whole stream at any time."""


def check_tails(connection: sqlite3.Connection, *, unclean: bool, now: int) -> tuple[Quarantined, ...]:
    """Check the tails of the streams written last, inside the caller's transaction; what was set aside."""
    limit = TAIL_STREAMS_UNCLEAN_MAX if unclean else TAIL_STREAMS_CLEAN_MAX
    rows = connection.execute(
        "SELECT name, next_seq, digest FROM stream ORDER BY touched DESC LIMIT ?", (limit,)
    ).fetchall()
    found: list[Quarantined] = [_rebuild_head(connection, name, now) for name in _headless(connection)]
    for name, next_seq, digest in rows:
        broken = find_break(connection, name, next_seq, digest)
        if broken is not None:
            found.append(set_aside(connection, name, broken, now))
    return tuple(found)


def _headless(connection: sqlite3.Connection) -> list[str]:
    """Streams that have events but no head; one look at the tree a stream."""
    rows = connection.execute(
        "WITH RECURSIVE s(n) AS (SELECT min(stream) FROM event UNION ALL"
        " SELECT (SELECT min(stream) FROM event WHERE stream > n) FROM s WHERE n IS NOT NULL)"
        " SELECT n FROM s WHERE n IS NOT NULL AND n NOT IN (SELECT name FROM stream)"
        " AND n NOT IN (SELECT stream FROM tombstone)"
    )
    return [row[0] for row in rows.fetchall()]


def _rebuild_head(connection: sqlite3.Connection, stream: str, now: int) -> Quarantined:
    """Give a stream its head again after its last good event, in a new epoch; what follows is set aside."""
    point, broken = ChainPoint(), ChainBreak(1, "the head was gone")
    for row in connection.execute(f"SELECT {EVENT_COLUMNS} FROM event WHERE stream=? ORDER BY seq", (stream,)):  # noqa: S608 - constant
        step = next_point(point, to_event(row)) if is_well_formed(row) else ChainBreak(point.seq + 1, "damaged row")
        if isinstance(step, ChainBreak):
            broken = step
            break
        point = step
    connection.execute(
        "INSERT INTO stream SELECT ?, ?, ?, ?, coalesce(max(touched), 0) + 1, 0 FROM stream",
        (stream, point.epoch, point.seq + 1, bytes.fromhex(point.digest)),
    )
    return set_aside(connection, stream, ChainBreak(point.seq + 1, broken.reason), now)


def find_break(connection: sqlite3.Connection, stream: str, next_seq: Any, digest: Any) -> ChainBreak | None:
    """The first damage among the last `TAIL_EVENTS` events of a stream, or in its head."""
    rows = connection.execute(
        f"SELECT {EVENT_COLUMNS} FROM event WHERE stream=? ORDER BY seq DESC LIMIT ?",  # noqa: S608 - constant
        (stream, TAIL_EVENTS + 1),
    ).fetchall()[::-1]
    point = ChainPoint()
    if rows and rows[0][2] != 1:
        anchor = rows.pop(0)
        if not is_well_formed(anchor):
            return ChainBreak(anchor[2], "damaged row")
        point = ChainPoint(anchor[1], anchor[2], anchor[7].hex())
    for row in rows:
        step = ChainBreak(point.seq + 1, "damaged row")
        if is_well_formed(row):
            after = next_point(point, to_event(row))
            if isinstance(after, ChainPoint):
                point = after
                continue
            step = after
        return step
    if (next_seq, digest) != (point.seq + 1, bytes.fromhex(point.digest)):
        return ChainBreak(point.seq + 1, "the head does not agree with the last event")
    return None


def set_aside(connection: sqlite3.Connection, stream: str, broken: ChainBreak, now: int) -> Quarantined:
    """Move the rows from the break on into the quarantine table and set the head back, in a new epoch."""
    connection.execute(
        f"INSERT INTO quarantine (found_at, reason, {EVENT_COLUMNS})"  # noqa: S608 - constant
        f" SELECT ?, ?, {EVENT_COLUMNS} FROM event WHERE stream=? AND seq>=?",
        (now, broken.reason, stream, broken.seq),
    )
    head = connection.execute("SELECT next_seq, digest FROM stream WHERE name=?", (stream,)).fetchone()
    count = connection.execute("DELETE FROM event WHERE stream=? AND seq>=?", (stream, broken.seq)).rowcount
    last = connection.execute(
        "SELECT seq, digest FROM event WHERE stream=? ORDER BY seq DESC LIMIT 1", (stream,)
    ).fetchone()
    seq, digest = last if last is not None else (0, bytes.fromhex(GENESIS_DIGEST))
    connection.execute("UPDATE stream SET epoch=epoch+1, next_seq=?, digest=? WHERE name=?", (seq + 1, digest, stream))
    recount(connection, stream)
    return Quarantined(stream, seq + 1, count, broken.reason, _gone(head, seq, digest, count))


def _gone(head: tuple[Any, Any] | None, seq: int, digest: bytes, aside: int) -> int:
    """How many events the head knew beyond those up to `seq` and those set aside; only its number may be wrong."""
    if head is None or not isinstance(head[0], int) or head[1] == digest:
        return 0
    return max(0, head[0] - 1 - seq - aside)


def lose_tail(connection: sqlite3.Connection, stream: str, seq: int, reason: str, now: int) -> Loss:
    """`set_aside` for a reader that met an event it cannot read; what is lost is remembered until it is told."""
    aside = set_aside(connection, stream, ChainBreak(seq, reason), now)
    loss = Loss(stream, aside.from_seq, aside.events + aside.gone, reason)
    remember(connection, (loss,))
    return loss


def recount(connection: sqlite3.Connection, stream: str) -> None:
    """Set the size of a stream anew from its events, inside the caller's transaction."""
    connection.execute(
        "UPDATE stream SET bytes=(SELECT coalesce(sum(length(payload) + ?1), 0) FROM event WHERE stream=?2)"
        " WHERE name=?2",
        (EVENT_OVERHEAD_BYTES, stream),
    )
