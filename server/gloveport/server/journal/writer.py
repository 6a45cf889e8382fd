"""The writer: group commit on the one connection that writes and checkpoints.

Purpose: turn appends that wait at the same time into one transaction and one fsync, each with its own answer.
Invariant: an append is checked completely before any of it is written, so a refused one leaves no trace and fails
alone; after a failed write or fsync nothing is accepted any more.
Must never: repeat a commit that failed, answer before the commit, or leave its thread (`submit` excepted).

Durability. In WAL mode a commit writes frames to the log's end; with `synchronous=FULL` SQLite then fsyncs the log,
with NORMAL it does not. The level is switched between transactions (inside one SQLite refuses it), so a group is FULL
when any of its appends is. An fsync covers the whole log file, hence a FULL commit also makes every earlier relaxed
commit durable; a test counts the real fsyncs. `sync` commits one changed counter with FULL for the same effect.
Why not retry: after a failed fsync the kernel may call dirty pages clean, and a second fsync would lie. A commit that
failed may still be found after a reopen: what the reopened journal holds is the truth, `answered` tells a request's fate.
"""

import sqlite3
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.envelope import (
    ERASED_PAYLOAD,
    GENESIS_DIGEST,
    INTEGER_MAX,
    Durability,
    NewEvent,
    StoredEvent,
    chain_digest,
    payload_hash,
)
from gloveport.server.journal.errors import JournalError, conflict, is_busy, limit, not_saved
from gloveport.server.journal.records import (
    APPEND_BYTES_MAX,
    EVENTS_PER_APPEND_MAX,
    INDEX_CHARS_MAX,
    PAYLOAD_BYTES_MAX,
    REQUEST_ID_CHARS_MAX,
    STREAM_CHARS_MAX,
    STREAMS_PER_APPEND_MAX,
    TYPE_CHARS_MAX,
    Append,
    Appended,
    ClientRequest,
    Head,
    IndexUpdate,
    StreamAppend,
    is_name,
)

GROUP_APPENDS_MAX: Final = 256
GROUP_BYTES_MAX: Final = 8 * 1024 * 1024
REQUESTS_KEPT_MAX: Final = 100_000
REQUEST_PRUNE_EVERY: Final = 1_000
UNSYNCED_STREAMS_MAX: Final = 1_000
"""More streams than this with a relaxed tail make the next commit a FULL one."""


class Pending:
    """One append on its way: its outcome or its error is set on the writer's thread before its waiter goes on."""

    __slots__ = ("batch", "error", "outcome", "size_bytes")

    def __init__(self, batch: Append) -> None:
        self.batch = batch
        self.size_bytes = check_append(batch)
        self.outcome: Appended | None = None
        self.error: JournalError | None = None

    @property
    def finished(self) -> bool:
        """Whether the outcome is known."""
        return self.outcome is not None or self.error is not None


@dataclass(slots=True)
class _Place:
    epoch: int
    next_seq: int
    digest: str


@dataclass(slots=True)
class _Staged:
    events: list[StoredEvent]
    places: dict[str, _Place]
    answered: bytes | None = None


@dataclass(slots=True)
class Unsynced:
    """The relaxed tail of a stream: durable up to `durable_seq`, acknowledged up to `last_seq`."""

    durable_seq: int
    last_seq: int


class Writer:
    """State of the writing side. `submit` is called on the event loop, everything else on the writer's thread."""

    def __init__(self, touched: int, position: int) -> None:
        self._queue: deque[Pending] = deque()
        self._touched = touched
        self._position = position
        self._level = Durability.FULL
        self._relaxed_commits = False
        self.unsynced: dict[str, Unsynced] = {}
        self.stopped_reason = ""

    def submit(self, item: Pending) -> None:
        """Queue an append; a `drain` for it must follow."""
        self._queue.append(item)

    def drain(self, connection: sqlite3.Connection, item: Pending) -> None:
        """Commit groups until `item` has its outcome; whatever waits with it is committed along."""
        while not item.finished:
            group = self._take_group()
            try:
                self._commit_group(connection, group)
            except BaseException as error:
                # Never leave a transaction open or a waiter without an answer, whatever went wrong.
                _fail(group, self._stop(connection, error))
                raise

    def sync(self, connection: sqlite3.Connection) -> None:
        """Make every commit so far durable; raises JournalError(NOT_SAVED)."""
        self._refuse_when_stopped()
        if not self._relaxed_commits:
            return
        try:
            self._set_level(connection, Durability.FULL)
            connection.execute("INSERT INTO meta VALUES ('syncs', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1")
        except sqlite3.Error as error:
            raise self._stop(connection, error) from error
        self._note_synced()

    def erase(self, connection: sqlite3.Connection, stream: str, seqs: Iterable[int]) -> int:
        """Replace payloads by `ERASED_PAYLOAD`, keeping their hashes; the number of events erased.

        The old bytes are overwritten in the database and its log, not only unlinked.
        """
        self._refuse_when_stopped()
        try:
            self._set_level(connection, Durability.FULL)
            connection.execute("PRAGMA secure_delete=ON")
            connection.execute("BEGIN IMMEDIATE")
            count = sum(_erase_one(connection, stream, seq) for seq in seqs)
            connection.execute("COMMIT")
            connection.execute("PRAGMA secure_delete=OFF")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise self._stop(connection, error) from error
        self._note_synced()
        return count

    def durable_seq(self, stream: str, last_seq: int) -> int:
        """Up to which seq a power loss takes nothing back."""
        tail = self.unsynced.get(stream)
        return tail.durable_seq if tail is not None else last_seq

    def _take_group(self) -> list[Pending]:
        group: list[Pending] = []
        size_bytes = 0
        while self._queue and len(group) < GROUP_APPENDS_MAX and size_bytes < GROUP_BYTES_MAX:
            item = self._queue.popleft()
            size_bytes += item.size_bytes
            group.append(item)
        return group

    def _commit_group(self, connection: sqlite3.Connection, group: list[Pending]) -> None:
        staged: list[tuple[Pending, _Staged]] = []
        try:
            self._refuse_when_stopped()
            self._set_level(connection, self._group_level(group))
            connection.execute("BEGIN IMMEDIATE")
            for item in group:
                try:
                    staged.append((item, self._stage(connection, item.batch)))
                except JournalError as error:
                    item.error = error
            connection.execute("COMMIT" if staged else "ROLLBACK")
        except JournalError as error:
            _fail(group, error)
            return
        except sqlite3.Error as error:
            _fail(group, self._stop(connection, error))
            return
        self._publish(staged)

    def _group_level(self, group: list[Pending]) -> Durability:
        crowded = len(self.unsynced) > UNSYNCED_STREAMS_MAX
        full = crowded or any(item.batch.durability is Durability.FULL for item in group)
        return Durability.FULL if full else Durability.RELAXED

    def _set_level(self, connection: sqlite3.Connection, level: Durability) -> None:
        if level is not self._level:
            word = "FULL" if level is Durability.FULL else "NORMAL"
            connection.execute(f"PRAGMA synchronous={word}")
            self._level = level

    def _stage(self, connection: sqlite3.Connection, batch: Append) -> _Staged:
        """Check everything, then write everything; a JournalError leaves the transaction as it was."""
        if batch.request is not None:
            answer = find_answer(connection, batch.request)
            if answer is not None:
                return _Staged([], _places_of(connection, batch), answer)
        places = _places_of(connection, batch)
        for part in batch.streams:
            actual = places[part.stream].next_seq
            if part.expected_next_seq != actual:
                raise conflict(part.stream, part.expected_next_seq, actual)
        staged = _Staged([], places)
        for part in batch.streams:
            staged.events.extend(_chain(places[part.stream], part, batch.at))
        self._write(connection, batch, staged)
        return staged

    def _write(self, connection: sqlite3.Connection, batch: Append, staged: _Staged) -> None:
        self._touched += 1
        connection.executemany(
            "INSERT INTO event VALUES (?,?,?,?,?,?,?,?,NULL)",
            [
                (e.stream, e.epoch, e.seq, e.type, e.version, e.at, e.payload, bytes.fromhex(e.digest))
                for e in staged.events
            ],
        )
        for stream, place in staged.places.items():
            connection.execute(
                "INSERT INTO stream VALUES (?,?,?,?,?) ON CONFLICT (name) DO UPDATE SET epoch=excluded.epoch,"
                " next_seq=excluded.next_seq, digest=excluded.digest, touched=excluded.touched",
                (stream, place.epoch, place.next_seq, bytes.fromhex(place.digest), self._touched),
            )
        for update in batch.index:
            self._position += 1
            _write_index(connection, update, self._position)
        if batch.request is not None:
            _write_request(connection, batch.request)

    def _publish(self, staged: list[tuple[Pending, _Staged]]) -> None:
        # A transaction that only found old answers wrote nothing, so SQLite fsynced nothing.
        wrote = [done for _item, done in staged if done.answered is None]
        if wrote and self._level is Durability.FULL:
            self._note_synced()
        else:
            for done in wrote:
                self._note_relaxed(done)
        for item, done in staged:
            heads = {
                stream: Head(place.epoch, place.next_seq, place.digest, self.durable_seq(stream, place.next_seq - 1))
                for stream, place in done.places.items()
            }
            item.outcome = Appended(tuple(done.events), heads, done.answered)

    def _note_synced(self) -> None:
        self.unsynced.clear()
        self._relaxed_commits = False

    def _note_relaxed(self, done: _Staged) -> None:
        self._relaxed_commits = True
        counts: dict[str, int] = {}
        for event in done.events:
            counts[event.stream] = counts.get(event.stream, 0) + 1
        for stream, count in counts.items():
            last_seq = done.places[stream].next_seq - 1
            tail = self.unsynced.setdefault(stream, Unsynced(last_seq - count, last_seq))
            tail.last_seq = last_seq

    def _refuse_when_stopped(self) -> None:
        if self.stopped_reason:
            raise not_saved(f"the journal stopped: {self.stopped_reason}")

    def _stop(self, connection: sqlite3.Connection, error: BaseException) -> JournalError:
        if isinstance(error, sqlite3.Error) and is_busy(error) and not connection.in_transaction:
            return not_saved("another process holds the database; nothing was written")
        self.stopped_reason = str(error) or type(error).__name__
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error as second:
            self.stopped_reason += f"; and rolling back: {second}"
        return not_saved(self.stopped_reason)


def check_append(batch: Append) -> int:
    """Payload bytes of a batch; raises JournalError (LIMIT or INVALID_PARAMS) for one that can never be appended."""
    names = [part.stream for part in batch.streams]
    if len(set(names)) != len(names) or not all(is_name(name, STREAM_CHARS_MAX) for name in names):
        raise JournalError(ErrorCode.INVALID_PARAMS, "streams of an append are distinct printable names")
    _check_rows(batch)
    if not (batch.streams or batch.index):
        raise JournalError(ErrorCode.INVALID_PARAMS, "an append holds at least one event or index row")
    events = [event for part in batch.streams for event in part.events]
    if len(names) > STREAMS_PER_APPEND_MAX or len(events) > EVENTS_PER_APPEND_MAX:
        raise limit("too many streams or events in one append")
    if not all(part.events for part in batch.streams):
        raise JournalError(ErrorCode.INVALID_PARAMS, "a stream of an append holds at least one event")
    return _check_events(events)


def _check_rows(batch: Append) -> None:
    request = batch.request
    if request is not None and not is_name(request.client_request_id, REQUEST_ID_CHARS_MAX):
        raise JournalError(ErrorCode.INVALID_PARAMS, "a client request id is a printable name")
    texts = [request.fingerprint] if request is not None else []
    texts += [text for row in batch.index for text in (row.session_id, row.title, row.state, row.workspace) if text]
    times = [batch.at, *(row.updated_at for row in batch.index)]
    if any(not 0 <= time <= INTEGER_MAX for time in times):
        raise JournalError(ErrorCode.INVALID_PARAMS, "times are microseconds since 1970")
    if any(len(text) > INDEX_CHARS_MAX for text in texts):
        raise limit("a text of the index is too long")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise JournalError(ErrorCode.INVALID_PARAMS, "a text of the index is not valid Unicode") from error


def _check_events(events: list[NewEvent]) -> int:
    total = 0
    for event in events:
        if not is_name(event.type, TYPE_CHARS_MAX) or not 1 <= event.version <= INTEGER_MAX:
            raise JournalError(ErrorCode.INVALID_PARAMS, "an event has a printable type and a version from 1")
        if len(event.payload) > PAYLOAD_BYTES_MAX:
            raise limit("an event's payload is too large; large bodies go to the blob store")
        total += len(event.payload)
    if total > APPEND_BYTES_MAX:
        raise limit("one append carries too many bytes")
    return total


def find_answer(connection: sqlite3.Connection, request: ClientRequest) -> bytes | None:
    """The recorded answer of a request; raises JournalError(CONFLICT) when its id was used for another content."""
    row = connection.execute(
        "SELECT result, fingerprint FROM request WHERE id=?", (request.client_request_id,)
    ).fetchone()
    if row is None:
        return None
    if row[1] != request.fingerprint:
        raise JournalError(ErrorCode.CONFLICT, "this client request id was used for another request")
    return bytes(row[0])


def _places_of(connection: sqlite3.Connection, batch: Append) -> dict[str, _Place]:
    return {part.stream: _place(connection, part.stream) for part in batch.streams}


def _place(connection: sqlite3.Connection, stream: str) -> _Place:
    row = connection.execute("SELECT epoch, next_seq, digest FROM stream WHERE name=?", (stream,)).fetchone()
    return _Place(row[0], row[1], row[2].hex()) if row is not None else _Place(1, 1, GENESIS_DIGEST)


def _chain(place: _Place, part: StreamAppend, at: int) -> list[StoredEvent]:
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
            type=new.type,
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


def _erase_one(connection: sqlite3.Connection, stream: str, seq: int) -> int:
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
    return 1


def _fail(group: list[Pending], error: JournalError) -> None:
    for item in group:
        if not item.finished:
            item.error = error
