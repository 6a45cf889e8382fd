"""Deleting a stream, whole.

Purpose: end a stream in one transaction, then give its bytes back in short ones.
Invariant: from the moment of its burial a stream is unknown and takes no append, over any crash; its name and its
numbers are never used again; what is purged is overwritten, not only unlinked.
Must never: keep the writer for longer than `PURGE_EVENTS` rows, or forget a stream whose rows are still there.
"""

import sqlite3
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.blob_uses import forget_uses
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.fold_snapshots import drop_snapshots
from gloveport.server.journal.losses import forget_stream
from gloveport.server.journal.records import Removal
from gloveport.server.journal.residue import note_deleted

PURGE_EVENTS: Final = 2_000
VACUUM_PAGES: Final = 2_000


def bury(connection: sqlite3.Connection, removal: Removal, at: int) -> None:
    """End a stream inside the caller's transaction; nothing happens to one that is unknown."""
    connection.execute(
        "INSERT OR IGNORE INTO tombstone SELECT name, epoch, next_seq, digest, ?, 0 FROM stream WHERE name=?",
        (at, removal.stream),
    )
    connection.execute("DELETE FROM stream WHERE name=?", (removal.stream,))
    connection.execute("DELETE FROM session_index WHERE session_id=?", (removal.session_id,))
    drop_snapshots(connection, removal.stream)
    forget_uses(connection, removal.stream)
    forget_stream(connection, removal.stream)


def refuse_buried(connection: sqlite3.Connection, stream: str) -> None:
    """Raise JournalError(SESSION_UNKNOWN) when a stream was deleted."""
    if connection.execute("SELECT 1 FROM tombstone WHERE stream=?", (stream,)).fetchone() is not None:
        raise JournalError(ErrorCode.SESSION_UNKNOWN, f"{stream} was deleted")


def last_seq(connection: sqlite3.Connection, stream: str) -> int:
    """The last seq that a stream ever had, also one that was deleted; 0 for an unknown one."""
    row = connection.execute(
        "SELECT next_seq FROM stream WHERE name=?1 UNION ALL SELECT next_seq FROM tombstone WHERE stream=?1", (stream,)
    ).fetchone()
    return row[0] - 1 if row is not None else 0


def is_buried(connection: sqlite3.Connection, stream: str) -> bool:
    """Whether a stream was deleted."""
    return connection.execute("SELECT 1 FROM tombstone WHERE stream=?", (stream,)).fetchone() is not None


def purge_some(connection: sqlite3.Connection) -> int:
    """Delete some rows of a buried stream inside the caller's transaction; how many, 0 when none is left."""
    row = connection.execute("SELECT stream FROM tombstone WHERE purged=0 LIMIT 1").fetchone()
    if row is None:
        return 0
    count = 0
    for table, key in (("event", "seq"), ("quarantine", "n")):
        if count == 0:
            count = connection.execute(
                f"DELETE FROM {table} WHERE stream=?1 AND {key} IN"  # noqa: S608 - constants
                f" (SELECT {key} FROM {table} WHERE stream=?1 LIMIT ?2)",
                (*row, PURGE_EVENTS),
            ).rowcount
    if count < 1:
        connection.execute("UPDATE tombstone SET purged=1 WHERE stream=?", row)
        note_deleted(connection)
    return max(count, 1)


def give_back(connection: sqlite3.Connection) -> None:
    """Let the file shrink by some free pages, where it was made to."""
    # A script, since it steps once a page: `execute` would give back one.
    connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
