"""Folds kept beside the log, so that a long stream opens without being read.

Purpose: put and get what a fold of a stream was at some event; its maker alone knows what the bytes mean.
Invariant: what is given back was whole and made for this very place, and the event it stands at is still there with
the same past.
Must never: be needed: the log alone gives the same fold; be kept after something in its stream was erased.
"""

import hashlib
import json
import sqlite3
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.errors import JournalError, limit

FOLD_BYTES_MAX: Final = 64 * 1024 * 1024
KIND_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class FoldSnapshot:
    """A fold of a stream's events up to and including `seq`; `epoch` and `digest` are that event's."""

    stream: str
    kind: str
    epoch: int
    seq: int
    digest: str
    state: bytes


def check_snapshot(kind: str, state: bytes) -> None:
    """Raise JournalError (INVALID_PARAMS, LIMIT) for what is never kept."""
    if not 0 < len(kind) <= KIND_CHARS_MAX or not kind.isascii():
        raise JournalError(ErrorCode.INVALID_PARAMS, "a kind of snapshot has a short name in ASCII")
    if len(state) > FOLD_BYTES_MAX:
        raise limit(f"a snapshot is larger than {FOLD_BYTES_MAX} bytes")


def write_snapshot(connection: sqlite3.Connection, stream: str, seq: int, digest: str, kind: str, state: bytes) -> bool:
    """Keep a fold in the place of an older one of its kind; False when the stream has no such event (any more)."""
    row = connection.execute("SELECT digest FROM event WHERE stream=? AND seq=?", (stream, seq)).fetchone()
    if row is None or row[0] != bytes.fromhex(digest):
        return False
    connection.execute(
        "INSERT OR REPLACE INTO fold_snapshot VALUES (?,?,?,?,?,?)",
        (stream, kind, seq, row[0], state, _checksum(stream, kind, seq, row[0], state)),
    )
    return True


def read_snapshot(connection: sqlite3.Connection, stream: str, kind: str) -> FoldSnapshot | None:
    """The kept fold of a kind; None when there is none, or it is damaged, or its event is not there."""
    row = connection.execute(
        "SELECT f.seq, f.digest, f.state, f.checksum, e.epoch FROM fold_snapshot f JOIN event e"
        " ON e.stream=f.stream AND e.seq=f.seq AND e.digest=f.digest WHERE f.stream=? AND f.kind=?",
        (stream, kind),
    ).fetchone()
    if row is None or not isinstance(row[2], bytes) or _checksum(stream, kind, row[0], row[1], row[2]) != row[3]:
        return None
    return FoldSnapshot(stream, kind, row[4], row[0], row[1].hex(), row[2])


def drop_snapshots(connection: sqlite3.Connection, stream: str) -> None:
    """Forget every fold of a stream, inside the caller's transaction."""
    connection.execute("DELETE FROM fold_snapshot WHERE stream=?", (stream,))


def _checksum(stream: str, kind: str, seq: int, digest: bytes, state: bytes) -> bytes:
    """Over the state and its place: an older fold, or another session's, is none at a place it was not made for."""
    place = json.dumps([stream, kind, seq, digest.hex()]).encode()
    return hashlib.sha256(hashlib.sha256(place).digest() + state).digest()
