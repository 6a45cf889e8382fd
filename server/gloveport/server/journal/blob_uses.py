"""Which streams refer to which blobs.

Purpose: know which blobs nothing refers to any more, without reading a log.
Invariant: a reference is written in the transaction of the events that make it; where the table may lack some, they
are found again by looking for digests in all payloads, which finds too many rather than too few.
Must never: remove a blob, or take a digest for a reference to a blob that is not in the store.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

BLOBS_FOLDER: Final = "blobs"
LOOKED_FOR_MAX: Final = 500
"""Digests compared in one statement."""

_DIGEST: Final = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


def note_uses(connection: sqlite3.Connection, stream: str, digests: Iterable[str]) -> None:
    """Remember, inside the caller's transaction, that a stream refers to blobs."""
    connection.executemany("INSERT OR IGNORE INTO blob_use VALUES (?,?)", [(digest, stream) for digest in digests])


def find_uses(connection: sqlite3.Connection) -> None:
    """Fill the table from what the payloads of all events name, inside the caller's transaction."""
    folder = Path(connection.execute("PRAGMA database_list").fetchone()[2]).parent / BLOBS_FOLDER
    known: dict[bytes, bool] = {}
    for stream, payload in connection.execute("SELECT stream, payload FROM event WHERE length(payload) >= 64"):
        if not isinstance(payload, bytes):
            continue
        for digest in _DIGEST.findall(payload):
            if known.setdefault(digest, is_blob(folder, digest.decode())):
                note_uses(connection, stream, (digest.decode(),))


def is_blob(folder: Path, digest: str) -> bool:
    """Whether the store has this blob."""
    return (folder / digest[:2] / digest).is_file()


def uses_of(connection: sqlite3.Connection, stream: str) -> tuple[tuple[str, bool], ...]:
    """The blobs that a stream refers to, each with whether another stream does so too."""
    rows = connection.execute(
        "SELECT digest, EXISTS (SELECT 1 FROM blob_use AS other WHERE other.digest = own.digest AND other.stream <> ?1)"
        " FROM blob_use AS own WHERE stream = ?1 ORDER BY digest",
        (stream,),
    )
    return tuple((digest, bool(shared)) for digest, shared in rows)


def forget_uses(connection: sqlite3.Connection, stream: str) -> None:
    """A stream is gone: it refers to nothing."""
    connection.execute("DELETE FROM blob_use WHERE stream=?", (stream,))


def used_among(connection: sqlite3.Connection, digests: Iterable[str]) -> frozenset[str]:
    """Those of `digests` that some stream refers to."""
    used: set[str] = set()
    for part in _parts(tuple(digests)):
        marks = ",".join("?" * len(part))
        rows = connection.execute(f"SELECT DISTINCT digest FROM blob_use WHERE digest IN ({marks})", part)  # noqa: S608 - marks
        used.update(row[0] for row in rows)
    return frozenset(used)


def _parts(digests: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for start in range(0, len(digests), LOOKED_FOR_MAX):
        yield digests[start : start + LOOKED_FOR_MAX]
