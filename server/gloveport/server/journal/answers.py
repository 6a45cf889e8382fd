"""Recorded answers of client requests, as rows.

Purpose: look through what was answered, and put another answer in the place of one.
Invariant: a row keeps its number, its request's id and its fingerprint, so a request stays done once.
Must never: look into an answer.
"""

import sqlite3
from typing import Final

ANSWERS_MAX: Final = 500
"""Rows of one reading."""

Answer = tuple[int, bytes]
"""The number of an answer, and what is answered."""


def read_answers(connection: sqlite3.Connection, after: int) -> tuple[Answer, ...]:
    """Answers after a number, oldest first; at most `ANSWERS_MAX`."""
    rows = connection.execute(
        "SELECT n, CAST(result AS BLOB) FROM request WHERE n>? ORDER BY n LIMIT ?", (after, ANSWERS_MAX)
    )
    return tuple((number, result) for number, result in rows)


def replace_answer(connection: sqlite3.Connection, answer: Answer) -> None:
    """Answer this from now on; inside the caller's transaction."""
    number, result = answer
    connection.execute("UPDATE request SET result=? WHERE n=?", (result, number))
