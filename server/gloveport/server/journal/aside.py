"""What was set aside of a stream, and the copies of the whole journal that lie beside it.

Purpose: look through what no stream holds any more and is still on the disk, and overwrite a part of it.
Invariant: rows keep their place, their reason and the hash of what stood there.
Must never: remove a copy, which may be all that is left of something.
"""

import sqlite3
from pathlib import Path
from typing import Final

from gloveport.protocol.journal.envelope import ERASED_PAYLOAD, payload_hash
from gloveport.server.journal.salvage import QUARANTINE_FOLDER
from gloveport.server.journal.schema import DATABASE_FILE

ASIDE_ROWS_MAX: Final = 100
"""Rows of one reading."""
COPIES_TOLD_MAX: Final = 5


def read_aside(connection: sqlite3.Connection, stream: str, after: int) -> tuple[tuple[int, bytes], ...]:
    """Number and payload of rows set aside of a stream, after a number, oldest first; at most `ASIDE_ROWS_MAX`."""
    rows = connection.execute(
        "SELECT n, CAST(payload AS BLOB) FROM quarantine WHERE stream=? AND n>? AND payload IS NOT NULL"
        " ORDER BY n LIMIT ?",
        (stream, after, ASIDE_ROWS_MAX),
    )
    return tuple((number, payload) for number, payload in rows)


def erase_aside(connection: sqlite3.Connection, stream: str, number: int) -> None:
    """Overwrite the payload of a row that was set aside; inside the caller's transaction."""
    row = connection.execute(
        "SELECT CAST(payload AS BLOB) FROM quarantine WHERE stream=? AND n=?", (stream, number)
    ).fetchone()
    if row is not None and row[0] != ERASED_PAYLOAD:
        kept = bytes.fromhex(payload_hash(row[0]))
        connection.execute("UPDATE quarantine SET payload=?, payload_hash=? WHERE n=?", (ERASED_PAYLOAD, kept, number))


def copies_beside(directory: Path) -> tuple[str, ...]:
    """Names of copies that upgrades left and of damaged files that were set aside; at most `COPIES_TOLD_MAX`."""
    copies = (*directory.glob(f"{DATABASE_FILE}.v*.backup*"), *(directory / QUARANTINE_FOLDER).glob("*"))
    return tuple(str(path.relative_to(directory)) for path in sorted(copies)[:COPIES_TOLD_MAX])
