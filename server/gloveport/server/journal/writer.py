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
failed may still be found after a reopen: what the reopened journal holds is the truth, `answered` tells a request's
fate.
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.envelope import Durability, Head
from gloveport.server.journal.acknowledged import Notes
from gloveport.server.journal.burial import PURGE_EVENTS, give_back, purge_some
from gloveport.server.journal.checkpoints import Checkpoints
from gloveport.server.journal.checks import check_append
from gloveport.server.journal.errors import JournalError, disk_full, is_busy, is_damage, is_full, not_saved
from gloveport.server.journal.generation import Marks, next_generation
from gloveport.server.journal.identity import OpenFiles
from gloveport.server.journal.latest import Latest
from gloveport.server.journal.records import Append, Appended, Loss
from gloveport.server.journal.residue import note_residue, overwrite
from gloveport.server.journal.schema import RESCUED_FILE, copy_aside
from gloveport.server.journal.staging import Counters, Staged, erase_one, stage
from gloveport.server.journal.tail import lose_tail

GROUP_APPENDS_MAX: Final = 256
GROUP_BYTES_MAX: Final = 8 * 1024 * 1024
UNSYNCED_STREAMS_MAX: Final = 1_000
"""More streams than this with a relaxed tail make the next commit a FULL one."""


T = TypeVar("T")


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
class Unsynced:
    """The relaxed tail of a stream: durable up to `durable_seq`, acknowledged up to `last_seq`."""

    durable_seq: int
    last_seq: int


class Writer:
    """State of the writing side. `submit` is called on the event loop, everything else on the writer's thread."""

    def __init__(
        self,
        touched: int,
        position: int,
        notes: Notes | None = None,
        files: OpenFiles | None = None,
        stopped: Callable[[], None] | None = None,
        marks: Marks | None = None,
        latest: Latest | None = None,
    ) -> None:
        self._latest = latest
        self._marks = marks
        self._stopped = stopped
        self._notes = notes
        self._files = files
        self._queue: deque[Pending] = deque()
        self._counters = Counters(touched, position)
        self._level = Durability.FULL
        self._relaxed_commits = False
        self.unsynced: dict[str, Unsynced] = {}
        self.checkpoints = Checkpoints()
        self.stopped_reason = ""
        self.full = False
        self.damaged = False
        """A page was met that cannot be read: the next open salvages."""
        self.gone = ""
        """The file that was removed or replaced while it was open."""

    def submit(self, item: Pending) -> None:
        """Queue an append; a `drain` for it must follow."""
        self._queue.append(item)

    def drain(self, connection: sqlite3.Connection, item: Pending) -> None:
        """Commit groups until `item` has its outcome; whatever waits with it is committed along."""
        while not item.finished:
            group = self._take_group()
            try:
                self._commit_group(connection, group)
                if self.checkpoints.forced:
                    self.checkpoint(connection)
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
        self._refuse_when_gone(connection)
        self._note_synced()

    def checkpoint(self, connection: sqlite3.Connection) -> None:
        """Move the log into the database, as far as readers let it.

        A disk without room costs only the moving: what was acknowledged is in the log. Any other failure stops the
        writer, since it may have been the fsync of the log.
        """
        if self.stopped_reason:
            return
        try:
            self.checkpoints.run(connection)
        except sqlite3.Error as error:
            if is_full(error):
                self.checkpoints.put_off()
            else:
                self._stop(connection, error)

    def note(
        self,
        connection: sqlite3.Connection,
        work: Callable[[], T],
        durability: Durability = Durability.FULL,
        size_bytes: int = 0,
        *,
        spare: bool = False,
    ) -> T:
        """Write rows that are no events, about `size_bytes` of them, in a transaction of their own.

        `spare`: rows that can be made again; a disk without room for them costs them alone, and the journal goes on.
        Raises JournalError(NOT_SAVED, DATA_FULL).
        """
        self._refuse_when_stopped()
        try:
            self._set_level(connection, durability)
            connection.execute("BEGIN IMMEDIATE")
            outcome = work()
            self._relaxed_commits = self._relaxed_commits or durability is Durability.RELAXED
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if spare and is_full(error) and _rolled_back(connection):
                raise disk_full(str(error)) from error
            raise self._stop(connection, error) from error
        except BaseException as error:
            self._stop(connection, error)  # never leave a transaction open
            raise
        self._refuse_when_gone(connection)
        if durability is Durability.FULL:
            self._note_synced()
        self.checkpoints.count(size_bytes)
        return outcome

    def purge(self, connection: sqlite3.Connection) -> int:
        """Delete some rows of deleted streams, overwriting them; how many, 0 when none is left."""
        connection.execute("PRAGMA secure_delete=ON")
        count = self.note(connection, lambda: purge_some(connection), Durability.RELAXED, PURGE_EVENTS * 1_000)
        connection.execute("PRAGMA secure_delete=OFF")
        if self.checkpoints.due:
            self.checkpoint(connection)
        return count

    def give_back(self, connection: sqlite3.Connection) -> bool:
        """After the last purge: shrink the file and empty the log; False where a reader holds old bytes."""
        self.note(connection, lambda: None)
        try:
            give_back(connection)
            emptied = self.checkpoints.empty(connection)
        except sqlite3.Error as error:
            raise self._stop(connection, error) from error
        return self.overwrite(connection) and emptied

    def overwrite(self, connection: sqlite3.Connection) -> bool:
        """Where something was erased: write every page anew and empty the log; False where a reader holds old bytes.

        Raises JournalError: DATA_FULL (no room for that; the journal goes on), NOT_SAVED.
        """
        self._refuse_when_stopped()
        try:
            self._set_level(connection, Durability.FULL)
            emptied = overwrite(connection, lambda: self.checkpoints.empty(connection))
        except sqlite3.Error as error:
            if is_full(error) and _rolled_back(connection):
                raise disk_full(f"erased, but its old bytes could not be overwritten ({error})") from error
            raise self._stop(connection, error) from error
        self._refuse_when_gone(connection)
        return emptied

    def set_aside(self, connection: sqlite3.Connection, stream: str, seq: int, reason: str, now: int) -> Loss:
        """Move a stream's events from `seq` on into the quarantine; raises JournalError(NOT_SAVED)."""
        loss = self.note(connection, lambda: lose_tail(connection, stream, seq, reason, now))
        if self._notes is not None:
            self._notes.cut(stream, loss.from_seq - 1)
        return loss

    def erase(self, connection: sqlite3.Connection, stream: str, seqs: Iterable[int]) -> int:
        """Replace payloads by `ERASED_PAYLOAD`, keeping their hashes; the number of events erased.

        The old bytes are overwritten in the database and its log, not only unlinked; also those of earlier erasures.
        """
        self._refuse_when_stopped()
        try:
            self._set_level(connection, Durability.FULL)
            connection.execute("PRAGMA secure_delete=ON")
            connection.execute("BEGIN IMMEDIATE")
            if count := sum(erase_one(connection, stream, seq) for seq in seqs):
                note_residue(connection)
            connection.execute("COMMIT")
            connection.execute("PRAGMA secure_delete=OFF")
            emptied = self.checkpoints.empty(connection)
        except sqlite3.Error as error:
            raise self._stop(connection, error) from error
        self._refuse_when_gone(connection)
        if count:
            self._note_synced()
        if not (self.overwrite(connection) and emptied):
            raise JournalError(ErrorCode.BUSY, "erased, but a reader still holds the old bytes; erase them again")
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
        staged: list[tuple[Pending, Staged]] = []
        try:
            self._refuse_when_stopped()
            self._set_level(connection, self._group_level(group))
            if self._level is Durability.FULL:  # what is refused here is not in the rescued copy
                self._refuse_when_gone(connection)
            erases = any(item.batch.erased for item in group)
            if erases:  # the old bytes are overwritten, not only unlinked
                connection.execute("PRAGMA secure_delete=ON")
            connection.execute("BEGIN IMMEDIATE")
            for item in group:
                try:
                    staged.append((item, stage(connection, item.batch, self._counters)))
                except JournalError as error:
                    item.error = error
            generation = self._count_on(connection, staged)
            self._keep_time(connection, staged)
            if self._level is Durability.RELAXED:
                self._note_tails(staged)
            connection.execute("COMMIT" if staged else "ROLLBACK")
            if erases:
                connection.execute("PRAGMA secure_delete=OFF")
            if self._marks is not None and generation:
                self._marks.write(generation)
            self._refuse_when_gone(connection)  # after: what is acknowledged had its name when it was on disk
        except JournalError as error:
            _fail(group, error)
            return
        except sqlite3.Error as error:
            _fail(group, self._stop(connection, error))
            return
        self._publish(staged)

    def _count_on(self, connection: sqlite3.Connection, staged: list[tuple[Pending, Staged]]) -> int:
        """Count where something is taken back; the number to write once it is committed, 0 for none."""
        takes_back = any(item.batch.takes_back and done.answered is None for item, done in staged)
        return next_generation(connection, self._marks) if takes_back and self._marks is not None else 0

    def _keep_time(self, connection: sqlite3.Connection, staged: list[tuple[Pending, Staged]]) -> None:
        """Note how late it is by these appends."""
        if self._latest is not None and staged:
            self._latest.keep(connection, max(item.batch.at for item, _done in staged))

    def _group_level(self, group: list[Pending]) -> Durability:
        crowded = len(self.unsynced) > UNSYNCED_STREAMS_MAX
        full = crowded or any(item.batch.durability is Durability.FULL for item in group)
        return Durability.FULL if full else Durability.RELAXED

    def _set_level(self, connection: sqlite3.Connection, level: Durability) -> None:
        if level is not self._level:
            word = "FULL" if level is Durability.FULL else "NORMAL"
            connection.execute(f"PRAGMA synchronous={word}")
            self._level = level

    def _publish(self, staged: list[tuple[Pending, Staged]]) -> None:
        # A transaction that only found old answers wrote nothing, so SQLite fsynced nothing.
        wrote = [done for _item, done in staged if done.answered is None]
        if wrote and self._level is Durability.FULL:
            self._note_synced()
        for done in wrote:
            for stream, place in done.places.items():
                if stream in self.unsynced:
                    self.unsynced[stream].last_seq = place.next_seq - 1
        if wrote and self._notes is not None:
            heads_now = ((stream, place.next_seq - 1) for done in wrote for stream, place in done.places.items())
            self._notes.add(heads_now, full=self._level is Durability.FULL)
        for removal in (one for item, done in staged if done.answered is None for one in item.batch.removed):
            self.unsynced.pop(removal.stream, None)
            if self._notes is not None:
                self._notes.cut(removal.stream, 0)
        self.checkpoints.count(sum(item.size_bytes for item, _done in staged))
        for item, done in staged:
            heads = {
                stream: Head(
                    place.epoch, place.next_seq - 1, place.digest, self.durable_seq(stream, place.next_seq - 1)
                )
                for stream, place in done.places.items()
            }
            item.outcome = Appended(tuple(done.events), heads, done.answered)

    def _note_tails(self, staged: list[tuple[Pending, Staged]]) -> None:
        """Before a relaxed commit: a reader that sees its events must not take them for durable."""
        for _item, done in staged:
            self._relaxed_commits = self._relaxed_commits or done.answered is None
            for event in done.events:
                self.unsynced.setdefault(event.stream, Unsynced(event.seq - 1, event.seq - 1))

    def _note_synced(self) -> None:
        self.unsynced.clear()
        self._relaxed_commits = False

    def _refuse_when_stopped(self) -> None:
        if self.stopped_reason:
            raise self.refusal()

    def _refuse_when_gone(self, connection: sqlite3.Connection) -> None:
        name = self._files.changed() if self._files is not None else ""
        if name and self._files is not None:
            self.gone = name
            kept = rescue(connection, self._files.directory)
            after = f"everything is kept in {RESCUED_FILE}" if kept else "put it back"
            self.stopped_reason = f"{name} was removed or replaced while it was open; {after}; start the daemon again"
            self._tell_stopped()
            raise self.refusal()

    def _tell_stopped(self) -> None:
        if self._stopped is not None:
            self._stopped()

    def close_notes(self) -> None:
        """End the notes."""
        if self._notes is not None:
            self._notes.close()

    def refusal(self) -> JournalError:
        """Why nothing is accepted any more."""
        reason = f"the journal stopped: {self.stopped_reason}"
        return disk_full(reason) if self.full else not_saved(reason)

    def _stop(self, connection: sqlite3.Connection, error: BaseException) -> JournalError:
        if isinstance(error, sqlite3.Error) and is_busy(error) and not connection.in_transaction:
            return not_saved("another process holds the database; nothing was written")
        self.stopped_reason = str(error) or type(error).__name__
        self.full = isinstance(error, sqlite3.Error) and is_full(error)
        self.damaged = isinstance(error, sqlite3.Error) and is_damage(error)
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error as second:
            self.stopped_reason += f"; and rolling back: {second}"
        self._tell_stopped()
        return self.refusal()


def _rolled_back(connection: sqlite3.Connection) -> bool:
    """Whether nothing of a transaction is left."""
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error:
        return False
    return not connection.in_transaction


def rescue(connection: sqlite3.Connection, directory: Path) -> bool:
    """Copy what an open connection still holds beside the place of the file that is gone; whether that worked."""
    try:
        copy_aside(connection, directory / RESCUED_FILE)
    except (sqlite3.Error, OSError):
        return False
    return True


def _fail(group: list[Pending], error: JournalError) -> None:
    for item in group:
        if not item.finished:
            item.error = error
