"""The SQL hand for SQLite files: one statement that reads.

Purpose: ask a copy of a database, held in memory, and answer so many rows.
Invariant: only reading is authorised: nothing is written, attached or loaded, and a deadline ends the statement.
Must never: be imported by the daemon.

Asked: `{"sql", "rows", "timeout_s"}`, the file's bytes behind it. Answers like the file reader.
"""

import sqlite3
import time
from typing import Any, Final

from gloveport.server.hands.inside.frame import Answer, InputFault, serve
from gloveport.server.hands.inside.tables import query_answer

STEPS_BETWEEN_LOOKS: Final = 10_000
_JOURNAL_MODE: Final = slice(18, 20)
_READS: Final = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)


def ask(asked: dict[str, Any], data: bytes) -> Answer:
    """The rows of one statement."""
    notes = []
    if data[_JOURNAL_MODE] == b"\2\2":  # a log beside the file is not here, and memory has none
        data = data[:18] + b"\1\1" + data[20:]
        notes.append("it keeps a write-ahead log; what is only there is not seen")
    link = sqlite3.connect(":memory:")
    link.deserialize(data)
    link.set_authorizer(_allowed)
    until = time.monotonic() + asked["timeout_s"]
    link.set_progress_handler(lambda: time.monotonic() > until, STEPS_BETWEEN_LOOKS)
    try:
        found = link.execute(asked["sql"])
        names = [column[0] for column in found.description or ()]
        return query_answer("sqlite", names, found, asked["rows"], notes)
    except (sqlite3.Error, sqlite3.Warning) as error:
        over = time.monotonic() > until
        raise InputFault(f"the statement took longer than {asked['timeout_s']:g} s" if over else str(error)) from error


def _allowed(action: int, first: str | None, second: str | None, _where: str | None, _by: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and str(second).lower() == "load_extension":
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY


def main() -> None:
    """Ask once."""
    serve(ask)
