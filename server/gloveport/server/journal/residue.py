"""Old bytes of what was erased or deleted, which SQLite leaves in its pages.

Purpose: write every page anew after an erasure, so that no file holds what was erased.
Invariant: that there is something to be overwritten is noted in the transaction that erases, and forgotten by a synced
commit into the emptied log: a crash or a power loss in between brings old bytes back with the note alone.
Must never: be done in halves: where there is no room for a whole new copy, nothing is begun.

`secure_delete` overwrites a row where it lies. When SQLite moves rows between pages, it leaves copies of them in the
gaps of pages, and those it does not find again.
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.errors import JournalError

DELETED_BYTES_MAX: Final = 512 * 1024 * 1024
"""After a deletion the pages of a larger database are not written anew: other sessions would wait for seconds."""
_KEY: Final = "residue"
_COPIES: Final = 2
"""The new pages lie in a temporary file and in the log before they take the place of the old ones."""
_SPARE_BYTES: Final = 256 * 1024


def note_residue(connection: sqlite3.Connection) -> None:
    """Something is erased: its old bytes are to be overwritten. Inside the caller's transaction."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, 1)", (_KEY,))


def note_deleted(connection: sqlite3.Connection) -> None:
    """`note_residue`, where the database is small enough. Inside the caller's transaction."""
    if _bytes_of(connection) <= DELETED_BYTES_MAX:
        note_residue(connection)


def has_residue(connection: sqlite3.Connection) -> bool:
    """Whether old bytes are still to be overwritten."""
    return connection.execute("SELECT 1 FROM meta WHERE key=?", (_KEY,)).fetchone() is not None


def overwrite(connection: sqlite3.Connection, empty: Callable[[], bool]) -> bool:
    """Write every page anew and empty the log by `empty`; False where a reader kept that from happening.

    Needs `synchronous=FULL` and no open transaction. Raises sqlite3.Error; JournalError(DATA_FULL), nothing begun.
    """
    if not has_residue(connection):
        return True
    _refuse_without_room(connection)
    connection.execute("VACUUM")
    if not empty():
        return False
    connection.execute("DELETE FROM meta WHERE key=?", (_KEY,))
    return True


def _bytes_of(connection: sqlite3.Connection) -> int:
    pages, page_bytes = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * page_bytes)


def _refuse_without_room(connection: sqlite3.Connection) -> None:
    (path,) = (row[2] for row in connection.execute("PRAGMA database_list") if row[1] == "main")
    needed = _COPIES * _bytes_of(connection) + _SPARE_BYTES
    found = os.statvfs(Path(path).parent)
    if found.f_bavail * found.f_frsize < needed:
        words = f"it is erased, and its old bytes can be overwritten once {needed} bytes of the data disk are free"
        raise JournalError(ErrorCode.DATA_FULL, words, hint="Make room and erase it again.")
