"""Up to where a stream's words hold no more: the journal turned out to be older than what was acknowledged.

Purpose: remember, in the transaction that finds it, that what was allowed up to an event may have been taken back after
it, so that whoever reads rights or trust from the stream lets none of them hold.
Invariant: a mark only rises until it is cleared by who took everything up to it back; it survives a crash.
Must never: look into an event.
"""

import sqlite3
from typing import Final

_PREFIX: Final = "void:"


def void_all(connection: sqlite3.Connection) -> None:
    """Whatever any stream says so far may be older than what was said last."""
    connection.execute(
        "INSERT OR REPLACE INTO meta SELECT ? || name, next_seq - 1 FROM stream WHERE next_seq > 1", (_PREFIX,)
    )


def void_stream(connection: sqlite3.Connection, stream: str) -> None:
    """The same of one stream, as far as it goes now."""
    connection.execute(
        "INSERT OR REPLACE INTO meta SELECT ? || name, next_seq - 1 FROM stream WHERE name=? AND next_seq > 1",
        (_PREFIX, stream),
    )


def voided_until(connection: sqlite3.Connection, stream: str) -> int:
    """The seq of the last event whose permissions hold no more; 0 where all hold."""
    row = connection.execute("SELECT value FROM meta WHERE key=?", (_PREFIX + stream,)).fetchone()
    return row[0] if row is not None and isinstance(row[0], int) else 0


def forget_void(connection: sqlite3.Connection, stream: str) -> None:
    """Everything up to the mark was taken back by events, or the stream is gone."""
    connection.execute("DELETE FROM meta WHERE key=?", (_PREFIX + stream,))
