"""How often this journal was opened and closed, counted twice: inside the database and in a file beside it.

Purpose: find a database that was put back from an older copy: it then counts less than the file.
Invariant: the database's count is committed before the file's is written, so a crash leaves the file behind, never
ahead; a missing or unreadable file says nothing.
Must never: make an open fail.
"""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

GENERATION_FILE: Final = "journal.generation"
_DIGITS_MAX: Final = 16


def read_generation(directory: Path) -> int:
    """The file's count; 0 when it says nothing."""
    try:
        with (directory / GENERATION_FILE).open("rb") as file:
            text = file.read(_DIGITS_MAX + 1)
    except OSError:
        return 0
    return int(text) if text.isdigit() and len(text) <= _DIGITS_MAX else 0


def write_generation(directory: Path, number: int) -> None:
    """Let the file follow the database; what the disk refuses is left as it was."""
    part = directory / (GENERATION_FILE + ".part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with suppress(OSError):
        with open(os.open(part, flags, 0o600), "wb") as file:
            file.write(b"%d" % number)
        part.replace(directory / GENERATION_FILE)


def stored_generation(connection: sqlite3.Connection) -> int:
    """The database's count; 0 before the first open."""
    row = connection.execute("SELECT value FROM meta WHERE key='generation'").fetchone()
    return row[0] if row is not None and isinstance(row[0], int) else 0


def next_generation(connection: sqlite3.Connection, directory: Path) -> int:
    """Count on, inside the caller's transaction; `write_generation` follows its commit."""
    number = max(stored_generation(connection), read_generation(directory)) + 1
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('generation', ?)", (number,))
    return number
