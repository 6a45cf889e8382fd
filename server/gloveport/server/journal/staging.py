"""What one append writes, inside the writer's transaction.

Purpose: check an append against what is stored, give its events their place and digest, and write its rows.
Invariant: everything is checked before anything is written, so a refused append leaves the transaction as it was.
Must never: begin or end a transaction, or look into a payload.
"""

import sqlite3
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.journal.envelope import (
    ERASED_PAYLOAD,
    StoredEvent,
    chain_digest,
    payload_hash,
)
from gloveport.server.journal.answers import replace_answer
from gloveport.server.journal.aside import erase_aside
from gloveport.server.journal.blob_uses import note_uses
from gloveport.server.journal.burial import bury, refuse_buried
from gloveport.server.journal.errors import conflict
from gloveport.server.journal.fold_snapshots import drop_snapshots
from gloveport.server.journal.reader import EVENT_OVERHEAD_BYTES, read_answer, read_place
from gloveport.server.journal.records import Append, ClientRequest, Erasure, IndexUpdate, StreamAppend
from gloveport.server.journal.residue import note_residue

REQUESTS_KEPT_MAX: Final = 100_000
REQUEST_PRUNE_EVERY: Final = 1_000


@dataclass(slots=True)
class Counters:
    """What grows with every append: `touched` per transaction's append, `position` per index update."""

    touched: int
    position: int


@dataclass(slots=True)
class Place:
    """Where a stream stands while appends of one transaction are placed."""

    epoch: int
    next_seq: int
    digest: str


@dataclass(slots=True)
class Staged:
    """An append that is written but not committed; `answered` when its request was known and nothing was written."""

    events: list[StoredEvent]
    places: dict[str, Place]
    answered: bytes | None = None


def stage(connection: sqlite3.Connection, batch: Append, counters: Counters) -> Staged:
    """Check everything, then write everything; a JournalError leaves the transaction as it was."""
    if batch.request is not None:
        answer = read_answer(connection, batch.request.client_request_id, batch.request.fingerprint)
        if answer is not None:
            return Staged([], _places_of(connection, batch), answer)
    places = _places_of(connection, batch)
    for part in batch.streams:
        actual = places[part.stream].next_seq
        if actual == 1:
            refuse_buried(connection, part.stream)
        if part.expected_next_seq != actual:
            raise conflict(part.stream, part.expected_next_seq, actual)
    staged = Staged([], places)
    for part in batch.streams:
        staged.events.extend(_chain(places[part.stream], part, batch.at))
    _write(connection, batch, staged, counters)
    return staged


def _write(connection: sqlite3.Connection, batch: Append, staged: Staged, counters: Counters) -> None:
    counters.touched += 1
    connection.executemany(
        "INSERT INTO event VALUES (?,?,?,?,?,?,?,?,NULL)",
        [
            (e.stream, e.epoch, e.seq, e.type, e.version, e.at, e.payload, bytes.fromhex(e.digest))
            for e in staged.events
        ],
    )
    sizes = {part.stream: _bytes_of(part) for part in batch.streams}
    for part in batch.streams:
        note_uses(connection, part.stream, part.blobs)
    for stream, place in staged.places.items():
        connection.execute(
            "INSERT INTO stream VALUES (?,?,?,?,?,?) ON CONFLICT (name) DO UPDATE SET epoch=excluded.epoch,"
            " next_seq=excluded.next_seq, digest=excluded.digest, touched=excluded.touched, bytes=bytes+excluded.bytes",
            (stream, place.epoch, place.next_seq, bytes.fromhex(place.digest), counters.touched, sizes[stream]),
        )
    for erasure in batch.erased:
        _erase(connection, erasure)
    if batch.erased:
        note_residue(connection)
    for removal in batch.removed:
        bury(connection, removal, batch.at)
    for update in batch.index:
        counters.position += 1
        _write_index(connection, update, counters.position)
    if batch.request is not None:
        _write_request(connection, batch.request)


def _erase(connection: sqlite3.Connection, erasure: Erasure) -> None:
    for seq in erasure.seqs:
        erase_one(connection, erasure.stream, seq)
    for number in erasure.aside:
        erase_aside(connection, erasure.stream, number)
    for answer in erasure.answers:
        replace_answer(connection, answer)


def _bytes_of(part: StreamAppend) -> int:
    return sum(len(new.payload) + EVENT_OVERHEAD_BYTES for new in part.events)


def _places_of(connection: sqlite3.Connection, batch: Append) -> dict[str, Place]:
    return {part.stream: Place(*read_place(connection, part.stream)) for part in batch.streams}


def _chain(place: Place, part: StreamAppend, at: int) -> list[StoredEvent]:
    """Give the events their place and digest; `place` moves along."""
    events: list[StoredEvent] = []
    if part.new_epoch:
        place.epoch += 1
    for new in part.events:
        place.digest = chain_digest(
            place.digest,
            stream=part.stream,
            epoch=place.epoch,
            seq=place.next_seq,
            event_type=new.type,
            version=new.version,
            at=at,
            payload_hash=payload_hash(new.payload),
        )
        events.append(
            StoredEvent(part.stream, place.epoch, place.next_seq, new.type, new.version, at, new.payload, place.digest)
        )
        place.next_seq += 1
    return events


def _write_index(connection: sqlite3.Connection, update: IndexUpdate, position: int) -> None:
    connection.execute(
        "INSERT INTO session_index VALUES (?1, coalesce(?2, ''), coalesce(?3, ''), coalesce(?4, ''), ?5, ?6)"
        " ON CONFLICT (session_id) DO UPDATE SET title=coalesce(?2, title), state=coalesce(?3, state),"
        " workspace=coalesce(?4, workspace), updated_at=?5, position=?6",
        (update.session_id, update.title, update.state, update.workspace, update.updated_at, position),
    )


def _write_request(connection: sqlite3.Connection, request: ClientRequest) -> None:
    number = connection.execute(
        "INSERT INTO request (id, fingerprint, result) VALUES (?,?,?)",
        (request.client_request_id, request.fingerprint, request.result),
    ).lastrowid
    if number is not None and number % REQUEST_PRUNE_EVERY == 0:
        connection.execute("DELETE FROM request WHERE n <= ?", (number - REQUESTS_KEPT_MAX,))


def erase_one(connection: sqlite3.Connection, stream: str, seq: int) -> int:
    """Put `ERASED_PAYLOAD` in the place of a payload, keeping its hash; 0 when there is nothing to erase."""
    row = connection.execute(
        "SELECT payload FROM event WHERE stream=? AND seq=? AND payload_hash IS NULL", (stream, seq)
    ).fetchone()
    if row is None:
        return 0
    kept = bytes.fromhex(payload_hash(row[0]))
    connection.execute(
        "UPDATE event SET payload=?, payload_hash=? WHERE stream=? AND seq=?",
        (ERASED_PAYLOAD, kept, stream, seq),
    )
    connection.execute("UPDATE stream SET bytes=bytes-?+? WHERE name=?", (len(row[0]), len(ERASED_PAYLOAD), stream))
    drop_snapshots(connection, stream)  # a fold may hold what was in the payload
    return 1
