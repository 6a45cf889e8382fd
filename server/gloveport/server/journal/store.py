"""The journal: the append-only log that is the only source of truth.

Purpose: append, read and check streams of events; answer repeated requests; list sessions from an index.
Invariant: an event is returned or read only after its commit; one append is one transaction over all its streams;
`expected_next_seq` is the only concurrency check; after a failed write nothing is accepted until `reopen`.
Must never: interpret an event, repeat a failed commit, or be open twice on one directory.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Final, TypeVar

import anyio

from gloveport.protocol.journal.envelope import Cursor, Durability, Head, NewEvent, StoredEvent
from gloveport.server.journal import burial, losses, reader, voids
from gloveport.server.journal.acknowledged import Notes
from gloveport.server.journal.answers import Answer, read_answers
from gloveport.server.journal.aside import copies_beside, read_aside
from gloveport.server.journal.blob_uses import used_among, uses_of
from gloveport.server.journal.checkpoints import WAL_ALARM_BYTES
from gloveport.server.journal.door import Door, open_door
from gloveport.server.journal.errors import corrupt, is_damage, not_saved, refused_by_sqlite
from gloveport.server.journal.filesystem import (
    BALLAST_BYTES,
    ensure_ballast,
    has_ballast,
    prepare_directory,
    release_ballast,
)
from gloveport.server.journal.fold_snapshots import (
    FoldSnapshot,
    check_snapshot,
    drop_snapshots,
    read_snapshot,
    write_snapshot,
)
from gloveport.server.journal.generation import Marks
from gloveport.server.journal.latest import Latest
from gloveport.server.journal.lease import DataLease, current_boot_id
from gloveport.server.journal.opening import Found, Opened, mark_clean, open_database
from gloveport.server.journal.records import (
    Append,
    Appended,
    JournalHealth,
    Loss,
    OpenReport,
    SessionRow,
    StreamAppend,
    StreamSize,
    Unsettled,
    VerifyReport,
)
from gloveport.server.journal.schema import DATABASE_FILE, READER_CACHE_KIB, connect, keep_pages
from gloveport.server.journal.writer import Pending, Writer

READERS: Final = 2
UNLISTED_MAX: Final = 100_000

T = TypeVar("T")


class Journal:
    """One open journal. Make it with `open`, end it with `close`; both belong to the same owner."""

    def __init__(
        self, directory: Path, clock: Callable[[], int], boot_id: str, lease: DataLease, *, owns_lease: bool
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._boot_id = boot_id
        self._lease = lease
        self._owns_lease = owns_lease
        self._ballast_bytes = BALLAST_BYTES
        self._away: Path | None = None
        self._damaged = False
        self._writer = Writer(0, 0)
        self._latest = Latest()
        self._write_door: Door | None = None
        self._read_doors: list[Door] = []
        self._next_reader = cycle(range(READERS))
        self.report = OpenReport()
        self._loop = asyncio.get_running_loop()
        self._watcher: Callable[[], None] | None = None
        self._told_accepting = True

    @classmethod
    async def open(
        cls,
        directory: Path,
        *,
        clock: Callable[[], int],
        boot_id: str | None = None,
        lease: DataLease | None = None,
        ballast_bytes: int = BALLAST_BYTES,
        away: Path | None = None,
    ) -> "tuple[Journal, OpenReport]":
        """Open (or create) the journal of a data directory; the report says what was found.

        `clock` gives UTC microseconds and stamps set-aside rows and migrations only. `boot_id` names this boot of the
        machine (default: the kernel's name for it). `lease` is the directory's lease when the caller holds it
        already; otherwise the journal takes it. `away` is a file outside of the directory in which it is counted how
        far the journal has come, so that an older copy of the whole directory is found. Raises JournalError:
        UNSAFE_DIRECTORY, UNSUPPORTED_FS, LEASE_HELD, NEWER_DATA, NOT_SAVED, DATA_FULL, CORRUPT.
        """
        prepare_directory(directory)
        held = lease if lease is not None else DataLease.acquire(directory)
        boot = boot_id if boot_id is not None else current_boot_id()
        journal = cls(directory, clock, boot, held, owns_lease=lease is None)
        journal._ballast_bytes, journal._away = ballast_bytes, away
        try:
            await journal._open_doors({})
        except BaseException:
            if lease is None:
                held.release()
            raise
        return journal, journal.report

    async def append(self, batch: Append) -> Appended:
        """Append one batch: all of it or nothing, on disk to its durability when this returns.

        A known client request appends nothing and returns its recorded answer. Raises JournalError: CONFLICT (another
        append came first, or the request's id has another fingerprint; nothing written), LIMIT or INVALID_PARAMS
        (nothing written), NOT_SAVED or DATA_FULL (the disk refused; the journal has stopped). A cancelled caller's
        append is either not begun or complete.
        """
        item = Pending(batch)
        door = self._writing()
        self._writer.submit(item)
        await door.run(lambda connection: self._writer.drain(connection, item))
        if self._writer.checkpoints.due and self._write_door is door:
            door.post(self._writer.checkpoint)  # after the answers of this commit, before whatever comes next
        if item.error is not None:
            raise item.error
        if item.outcome is None:
            raise not_saved("the append was lost on its way")
        return item.outcome

    def latest(self, clock: int) -> int:
        """How late it is when the clock says this, in UTC microseconds: never earlier than it ever was here."""
        return self._latest.at(clock)

    async def new_epoch(self, stream: str, event: NewEvent, *, expected_next_seq: int, at: int) -> Appended:
        """Begin the next epoch of a stream with an event that says why; durable when this returns."""
        part = StreamAppend(stream, expected_next_seq, (event,), new_epoch=True)
        return await self.append(Append((part,), at, Durability.FULL))

    async def read(
        self, stream: str, after_seq: int, limit: int = reader.READ_EVENTS_MAX, bytes_max: int = reader.READ_BYTES_MAX
    ) -> tuple[StoredEvent, ...]:
        """Events after `after_seq`, oldest first; both budgets are capped; at least one when there is one."""
        return await self._read(lambda c: reader.read_events(c, stream, after_seq, limit, bytes_max))

    async def aside(self, stream: str, after: int) -> tuple[tuple[int, bytes], ...]:
        """Number and payload of some rows that were set aside of a stream, after a number, oldest first."""
        return await self._read(lambda c: read_aside(c, stream, after))

    async def answers(self, after: int) -> tuple[Answer, ...]:
        """Some recorded answers of client requests, after a number, oldest first."""
        return await self._read(lambda c: read_answers(c, after))

    async def copies(self) -> tuple[str, ...]:
        """Names of files in the data directory that hold what the journal held at some earlier time."""
        return await anyio.to_thread.run_sync(copies_beside, self._directory)

    async def head(self, stream: str) -> Head | None:
        """The end of a stream; None when nothing was ever appended to it (the next append expects seq 1 then)."""
        place = await self._read(lambda c: reader.find_place(c, stream))
        if place is None:
            return None
        epoch, next_seq, digest = place
        return Head(epoch, next_seq - 1, digest, self._writer.durable_seq(stream, next_seq - 1))

    async def answered(self, client_request_id: str, fingerprint: str | None = None) -> bytes | None:
        """The recorded answer of a client request; None when it never committed.

        Raises JournalError(CONFLICT) when a `fingerprint` is given and the id was used for another content.
        """
        return await self._read(lambda c: reader.read_answer(c, client_request_id, fingerprint))

    async def shares_past(self, stream: str, cursor: Cursor) -> bool:
        """Whether events after `cursor` continue exactly what its holder has; otherwise it needs a snapshot."""
        return await self._read(lambda c: reader.shares_past(c, stream, cursor))

    async def sessions(
        self,
        limit: int = reader.SESSIONS_PAGE_MAX,
        *,
        before: int | None = None,
        workspace: str | None = None,
        state: str | None = None,
    ) -> tuple[SessionRow, ...]:
        """A page of the session index, changed last first; `before` is the last row's `order`."""
        return await self._read(lambda c: reader.read_sessions(c, limit, before, workspace, state))

    async def session(self, session_id: str) -> SessionRow | None:
        """One session of the index."""
        return await self._read(lambda c: reader.read_session(c, session_id))

    async def unlisted(self, prefix: str, limit: int = UNLISTED_MAX) -> tuple[str, ...]:
        """Streams `prefix<session id>` that have events and no row in the index, those changed last at the end."""
        return await self._read(lambda c: reader.read_unlisted(c, prefix, limit))

    async def streams(
        self, prefix: str = "", *, after: str = "", limit: int = reader.STREAMS_PAGE_MAX
    ) -> tuple[str, ...]:
        """Stream names in name order, to rebuild an index or to verify everything; `after` is the last one seen."""
        return await self._read(lambda c: reader.read_streams(c, prefix, after, limit))

    async def verify(self, stream: str) -> VerifyReport:
        """Follow the whole digest chain of a stream."""
        done = reader.Verifying(stream)
        while (report := await self._read(lambda c: reader.verify_on(c, done))) is None:
            pass
        return report

    async def erase(self, stream: str, seqs: Iterable[int]) -> int:
        """Replace the payloads of events (a leaked secret); their hashes stay, so the chain still verifies."""
        wanted = tuple(seqs)
        return await self._writing().run(lambda c: self._writer.erase(c, stream, wanted))

    async def put_snapshot(self, stream: str, seq: int, digest: str, kind: str, state: bytes) -> bool:
        """Keep a fold of a stream up to `seq`, whose event has `digest`; False, and nothing kept, where it has not.

        It replaces the one of its kind, and survives the death of the process; a power loss may take it back.
        Raises JournalError: LIMIT, INVALID_PARAMS, NOT_SAVED, DATA_FULL.
        """
        return await self.put_snapshots(stream, seq, digest, {kind: state})

    async def put_snapshots(self, stream: str, seq: int, digest: str, states: Mapping[str, bytes]) -> bool:
        """`put_snapshot` for the parts of one fold by their kinds, all of them or none.

        DATA_FULL: there is no room for it; nothing else is refused for that.
        """
        for kind, state in states.items():
            check_snapshot(kind, state)

        def write(connection: sqlite3.Connection) -> bool:
            return all(write_snapshot(connection, stream, seq, digest, *part) for part in states.items())

        door = self._writing()
        size = sum(map(len, states.values()))
        return await door.run(lambda c: self._writer.note(c, lambda: write(c), Durability.RELAXED, size, spare=True))

    async def snapshots(self, stream: str, kinds: Iterable[str]) -> dict[str, FoldSnapshot]:
        """Those of the kept folds that are there, whole, each at an event that is still the same."""
        wanted = tuple(kinds)
        found = await self._read(lambda c: [read_snapshot(c, stream, kind) for kind in wanted])
        return {one.kind: one for one in found if one is not None}

    async def snapshot(self, stream: str, kind: str) -> FoldSnapshot | None:
        """The kept fold of a kind, if there is one, whole, at an event that is still the same."""
        return await self._read(lambda c: read_snapshot(c, stream, kind))

    async def drop_snapshots(self, stream: str) -> None:
        """Forget every kept fold of a stream."""
        await self._writing().run(lambda c: self._writer.note(c, lambda: drop_snapshots(c, stream), Durability.RELAXED))

    async def declare_lost(self, lost: Iterable[Loss]) -> None:
        """Begin a new epoch of streams that lost acknowledged events, and remember each loss until it is `told`."""
        wanted = tuple(lost)

        def declare(connection: sqlite3.Connection) -> None:
            losses.declare_lost(connection, wanted)
            if wanted:  # others know of more than is here, of whatever stream: the journal is an older one
                voids.void_all(connection)

        await self._writing().run(lambda c: self._writer.note(c, lambda: declare(c)))

    async def voided(self, stream: str) -> int:
        """Up to which event nothing holds that the stream allows: what took it back may be lost. 0 where all holds."""
        return await self._read(lambda c: voids.voided_until(c, stream))

    async def forget_void(self, stream: str) -> None:
        """All that was allowed up to there has been taken back by events."""
        await self._writing().run(lambda c: self._writer.note(c, lambda: voids.forget_void(c, stream)))

    async def purge(self) -> bool:
        """Give back some bytes of deleted streams in one short transaction; False once there are none.

        The last call shrinks the file and empties the log, as far as readers let it. Raises JournalError (NOT_SAVED,
        DATA_FULL).
        """
        if await self._writing().run(self._writer.purge):
            return True
        await self._writing().run(self._writer.give_back)
        return False

    async def last_seq(self, stream: str) -> int:
        """The last seq that a stream ever had, also one that was deleted; 0 for an unknown one."""
        return await self._read(lambda c: burial.last_seq(c, stream))

    async def is_deleted(self, stream: str) -> bool:
        """Whether a stream was deleted."""
        return await self._read(lambda c: burial.is_buried(c, stream))

    async def sizes(self, prefix: str) -> tuple[StreamSize, ...]:
        """What streams take on the disk, those written to longest ago first; from an index, no log is read."""
        return await self._read(lambda c: reader.read_sizes(c, prefix))

    async def unused_blobs(self, digests: Iterable[str]) -> tuple[str, ...]:
        """Those of `digests` that no stream refers to."""
        wanted = tuple(digests)
        used = await self._read(lambda c: used_among(c, wanted))
        return tuple(digest for digest in wanted if digest not in used)

    async def blobs_used(self, stream: str) -> tuple[tuple[str, bool], ...]:
        """The blobs that a stream refers to, each with whether another stream does so too."""
        return await self._read(lambda c: uses_of(c, stream))

    async def set_aside(self, stream: str, seq: int, reason: str) -> Loss:
        """Move a stream's events from `seq` on into the quarantine and begin its next epoch; durable.

        The loss is remembered until it is `told`. Raises JournalError (NOT_SAVED, DATA_FULL).
        """
        now = self._clock()
        return await self._writing().run(lambda c: self._writer.set_aside(c, stream, seq, reason, now))

    async def untold_loss(self, stream: str) -> Loss | None:
        """What a stream lost that nobody was told yet."""
        return await self._read(lambda c: losses.untold_of(c, stream))

    async def told(self, lost: Iterable[Loss]) -> None:
        """Forget losses: those whom they concern know."""
        wanted = tuple(lost)
        await self._writing().run(lambda c: self._writer.note(c, lambda: losses.forget(c, wanted)))

    async def settle(self, line: int) -> None:
        """Everything written so far is in the other books (the audit log) too, whose last line is number `line`."""
        await self._writing().run(lambda c: self._writer.note(c, lambda: losses.settle(c, line)))

    async def settle_stream(self, stream: str, seq: int, digest: str) -> None:
        """A stream is in the other books up to `seq`, whose event has `digest`; a power loss may forget it."""

        def write(connection: sqlite3.Connection) -> None:
            losses.settle_stream(connection, stream, seq, digest)

        await self._writing().run(lambda c: self._writer.note(c, lambda: write(c), Durability.RELAXED))

    async def unsettled(self, limit: int = reader.STREAMS_PAGE_MAX) -> Unsettled:
        """Streams written to since `settle`, those written last first, and up to where each is settled."""
        return await self._read(lambda c: losses.unsettled(c, limit))

    async def last_of(
        self, stream: str, types: tuple[str, ...], after_seq: int = 0, *, before_seq: int | None = None
    ) -> int:
        """Seq of a stream's last event of one of these types after one seq and before another; 0 when there is none."""
        return await self._read(lambda c: losses.last_of(c, stream, types, after_seq, before_seq))

    async def sync(self) -> None:
        """Make everything acknowledged so far durable; raises JournalError(NOT_SAVED)."""
        await self._writing().run(self._writer.sync)

    def health(self) -> JournalHealth:
        """State for doctor and alarms; no IO beyond one stat."""
        try:
            wal_bytes = (self._directory / f"{DATABASE_FILE}-wal").stat().st_size
        except OSError:
            wal_bytes = 0
        reason = self._writer.stopped_reason
        return JournalHealth(
            accepting=self._write_door is not None and not reason,
            stopped_reason=reason,
            disk_full=self._writer.full,
            has_ballast=has_ballast(self._directory),
            wal_bytes=wal_bytes,
            wal_alarm=wal_bytes > WAL_ALARM_BYTES,
            wal_pinned=self._writer.checkpoints.pinned,
        )

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` on the event loop each time the journal stops, before who wrote is refused, and each time it
        accepts again."""
        self._watcher = changed

    def _tell_standing(self) -> None:
        accepting = self._write_door is not None and not self._writer.stopped_reason
        if accepting is not self._told_accepting:
            self._told_accepting = accepting
            if self._watcher is not None:
                self._watcher()

    def _stopped(self) -> None:
        """On the writer's thread: it stopped."""
        self._loop.call_soon_threadsafe(self._tell_standing)

    def release_ballast(self) -> bool:
        """Give the reserved disk space back, so that a full disk can be cleaned; the next open reserves it again."""
        return release_ballast(self._directory)

    async def reopen(self) -> OpenReport:
        """Open anew after NOT_SAVED; what the journal then holds is the truth, so states must be folded again.

        After DATA_FULL the reserve is given back first, so that what ends work still fits; `has_ballast` of the report
        is False until a later open finds room for a new reserve. Refused (NOT_SAVED) while a file of the journal is
        gone or another one.
        """
        if self._writer.gone:  # what is open is all there is: closing it would drop it, and the readers still serve
            raise self._writer.refusal()
        acknowledged = {stream: tail.last_seq for stream, tail in self._writer.unsynced.items()}
        self._writer.stopped_reason = self._writer.stopped_reason or "reopening"
        self._damaged = self._damaged or self._writer.damaged
        full = self._writer.full
        if full:
            release_ballast(self._directory)
        await self._close_doors(clean=False)
        await self._open_doors(acknowledged, reserve=not full)
        return self.report

    async def close(self) -> None:
        """Make everything durable, mark the data as closed in good order and give the lease back."""
        with anyio.CancelScope(shield=True):
            try:
                await self._close_doors(clean=not self._writer.stopped_reason)
            finally:
                if self._owns_lease:
                    self._lease.release()

    async def _open_doors(self, acknowledged: dict[str, int], *, reserve: bool = True) -> None:
        found = Found(self._directory, self._clock(), self._boot_id, acknowledged, self._damaged, self._away)
        results: list[Opened] = []

        def make() -> sqlite3.Connection:
            results.append(open_database(found))
            self._latest.read(results[0].connection)
            return results[0].connection

        reserved = ensure_ballast(self._directory, self._ballast_bytes) if reserve else has_ballast(self._directory)
        self._write_door = await open_door(make)
        readers: list[Door] = []
        try:
            path = self._directory / DATABASE_FILE
            for _ in range(READERS):
                readers.append(await open_door(lambda: _connect_reader(path)))
        except BaseException:
            for reader_door in readers:
                await reader_door.close()
            await self._close_doors(clean=False)
            raise
        self._read_doors = readers  # all at once: nobody reads through half of them
        opened = results[0]
        self._damaged = False
        notes, marks = Notes(self._directory, opened.noted), found.marks
        self._writer = Writer(opened.touched, opened.position, notes, opened.files, self._stopped, marks, self._latest)
        self._writer.checkpoints.tight = not reserved
        self.report = replace(opened.report, has_ballast=reserved)
        self._tell_standing()

    async def _close_doors(self, *, clean: bool) -> None:
        # Readers first: the last connection to close checkpoints, and that must be the writer.
        readers, self._read_doors = self._read_doors, []  # who reads from now on is refused, typed
        for read_door in readers:
            await read_door.close()
        door = self._write_door
        self._write_door = None
        self._writer.close_notes()
        if door is None:
            return
        try:
            if clean:
                await door.run(lambda connection: mark_clean(connection, Marks(self._directory, self._away)))
        except sqlite3.Error as error:
            raise refused_by_sqlite(error) from error
        finally:
            await door.close()

    def _writing(self) -> Door:
        if self._write_door is None:
            raise self._writer.refusal() if self._writer.stopped_reason else not_saved("the journal is closed")
        return self._write_door

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self._read_doors:
            raise self._writer.refusal() if self._writer.stopped_reason else not_saved("the journal is closed")
        try:
            return await self._read_doors[next(self._next_reader)].run(work)
        except sqlite3.Error as error:
            if is_damage(error):
                self._damaged = True
                self._writer.stopped_reason = self._writer.stopped_reason or "a page of the database cannot be read"
                self._tell_standing()
                raise corrupt("a page of the journal cannot be read; reopen to salvage it") from error
            raise not_saved(f"the journal cannot be read ({error})") from error


def _connect_reader(path: Path) -> sqlite3.Connection:
    connection = connect(path, read_only=True)
    keep_pages(connection, READER_CACHE_KIB)
    connection.execute("SELECT count(*) FROM meta").fetchone()  # opens database and log now: their names may go
    return connection
