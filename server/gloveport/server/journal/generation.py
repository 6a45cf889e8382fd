"""How far this journal has come, counted inside the database and in files beside and away from it.

Purpose: find a database that was put back from an older copy: it then counts less than a file. Opening, closing and
every append that takes something back (a right, a level of trust, a use) count on.
Invariant: the database's count is committed before a file's is written, so a crash leaves the file behind, never
ahead; a missing or unreadable file says nothing.
Must never: make an open or an append fail, or be taken for proof against who puts back every file together.
"""

import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GENERATION_FILE: Final = "journal.generation"
_DIGITS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Marks:
    """Where the count lies: in the data directory, and (unless None) in the file `away`, which a backup of that
    directory does not bring back.
    """

    directory: Path
    away: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that holds the count."""
        beside = self.directory / GENERATION_FILE
        return (beside,) if self.away is None else (beside, self.away)

    def read(self) -> int:
        """The highest count of the files; 0 when none says anything."""
        return max(map(_read, self.files))

    def write(self, number: int) -> None:
        """Let the files follow the database; what the disk refuses is left as it was."""
        for file in self.files:
            with suppress(OSError):
                _write(file, number)


def _read(path: Path) -> int:
    try:
        with path.open("rb") as file:
            text = file.read(_DIGITS_MAX + 1)
    except OSError:
        return 0
    return int(text) if text.isdigit() and len(text) <= _DIGITS_MAX else 0


def _write(path: Path, number: int) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(part, flags, 0o600), "wb") as file:
        file.write(b"%d" % number)
    part.replace(path)


def stored_generation(connection: sqlite3.Connection) -> int:
    """The database's count; 0 before the first open."""
    row = connection.execute("SELECT value FROM meta WHERE key='generation'").fetchone()
    return row[0] if row is not None and isinstance(row[0], int) else 0


def next_generation(connection: sqlite3.Connection, marks: Marks) -> int:
    """Count on, inside the caller's transaction; `Marks.write` follows its commit."""
    number = max(stored_generation(connection), marks.read()) + 1
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('generation', ?)", (number,))
    return number
