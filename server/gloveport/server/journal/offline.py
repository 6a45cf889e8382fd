"""Reading a journal without owning it: for replay, export and verification, with or without a daemon.

Purpose: the reading half of `Journal`, on a data directory that is left exactly as it was found.
Invariant: nothing in the data directory is created, changed or removed; what is read is committed data.
Must never: take the lease, checkpoint a log, mend damage, or migrate.

Three ways in. A daemon lives (judged by pid *and* start time of the lease's owner): an ordinary read-only connection
beside it. No daemon and no left-over log: the file is read as immutable. No daemon and a log that a crash left behind:
SQLite would have to write an index beside it, so database and log are copied into a private folder and read there.
"""

import shutil
import sqlite3
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import quote

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.envelope import Head, StoredEvent
from gloveport.server.journal import reader
from gloveport.server.journal.errors import JournalError, corrupt, is_damage, not_saved, refused_by_disk
from gloveport.server.journal.lease import process_start_ticks, read_owner
from gloveport.server.journal.records import SessionRow, VerifyReport
from gloveport.server.journal.schema import DATABASE_FILE, MIGRATIONS, stored_version

COPY_TRIES: Final = 3
_MAGIC: Final = b"SQLite format 3\0"
_WAL: Final = f"{DATABASE_FILE}-wal"

Stamp = tuple[tuple[int, int, int] | None, ...]


class OfflineJournal:
    """A journal opened for reading only. Synchronous: its callers are short-lived commands. Use it in a `with`."""

    def __init__(self, connection: sqlite3.Connection, copy: Path | None) -> None:
        self._connection = connection
        self._copy = copy

    @classmethod
    def open(cls, directory: Path) -> "OfflineJournal":
        """Open the journal in `directory`.

        Raises JournalError: CORRUPT (no journal there, or not readable), NEWER_DATA, NOT_SAVED
        (busy: a daemon starts or stops right now), DATA_FULL (no room for the copy).
        """
        if not (directory / DATABASE_FILE).is_file():
            raise corrupt("there is no journal in this directory")
        try:
            opened = _open_beside_owner(directory) if owner_lives(directory) else _open_unowned(directory)
        except sqlite3.Error as error:
            raise _unreadable(error) from error
        except OSError as error:
            raise refused_by_disk("the journal cannot be read", error) from error
        try:
            _gate(opened._connection)
        except BaseException:
            opened.close()
            raise
        return opened

    @classmethod
    def open_file(cls, path: Path) -> "OfflineJournal":
        """Open one database file (a backup, one that was set aside) as it stands, without any log beside it.

        Raises JournalError: CORRUPT, NEWER_DATA, NOT_SAVED.
        """
        try:
            opened = cls(_connect(path, "mode=ro&immutable=1"), None)
        except sqlite3.Error as error:
            raise _unreadable(error) from error
        try:
            _gate(opened._connection)
        except BaseException:
            opened.close()
            raise
        return opened

    @staticmethod
    def is_database(path: Path) -> bool:
        """Whether a file begins as SQLite's files do."""
        try:
            with path.open("rb") as file:
                return file.read(len(_MAGIC)) == _MAGIC
        except OSError:
            return False

    def close(self) -> None:
        """End the reading; removes the private copy if there is one."""
        self._connection.close()
        if self._copy is not None:
            shutil.rmtree(self._copy, ignore_errors=True)

    def __enter__(self) -> "OfflineJournal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(
        self,
        stream: str,
        after_seq: int,
        limit: int = reader.READ_EVENTS_MAX,
        bytes_max: int = reader.READ_BYTES_MAX,
    ) -> tuple[StoredEvent, ...]:
        """Like `Journal.read`."""
        return reader.read_events(self._connection, stream, after_seq, limit, bytes_max)

    def head(self, stream: str) -> Head | None:
        """Like `Journal.head`; everything that a file shows counts as durable."""
        place = reader.find_place(self._connection, stream)
        return Head(place[0], place[1] - 1, place[2], place[1] - 1) if place is not None else None

    def streams(self, prefix: str = "", *, after: str = "", limit: int = reader.STREAMS_PAGE_MAX) -> tuple[str, ...]:
        """Like `Journal.streams`."""
        return reader.read_streams(self._connection, prefix, after, limit)

    def sessions(self, limit: int = reader.SESSIONS_PAGE_MAX, *, before: int | None = None) -> tuple[SessionRow, ...]:
        """Like `Journal.sessions`."""
        return reader.read_sessions(self._connection, limit, before, None, None)

    def session(self, session_id: str) -> SessionRow | None:
        """Like `Journal.session`."""
        return reader.read_session(self._connection, session_id)

    def verify(self, stream: str) -> VerifyReport:
        """Like `Journal.verify`."""
        return reader.verify_stream(self._connection, stream)


def owner_lives(directory: Path) -> bool:
    """Whether the process that took the directory's lease last is still that process."""
    owner = read_owner(directory)
    return owner is not None and process_start_ticks(owner.pid) == owner.start_ticks != 0


def _connect(path: Path, options: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"file:{quote(str(path))}?{options}", uri=True, isolation_level=None)
    connection.execute("PRAGMA query_only=ON")
    return connection


def _open_beside_owner(directory: Path) -> OfflineJournal:
    return OfflineJournal(_connect(directory / DATABASE_FILE, "mode=ro"), None)


def _open_unowned(directory: Path) -> OfflineJournal:
    for _ in range(COPY_TRIES):
        before = _stamp(directory)
        log = before[1]
        if log is None or log[1] == 0:
            return OfflineJournal(_connect(directory / DATABASE_FILE, "mode=ro&immutable=1"), None)
        folder = Path(tempfile.mkdtemp(prefix="gloveport-read-"))
        try:
            for name in (DATABASE_FILE, _WAL):
                with suppress(FileNotFoundError):
                    shutil.copyfile(directory / name, folder / name)
            if _stamp(directory) == before and not owner_lives(directory):
                return OfflineJournal(_connect(folder / DATABASE_FILE, "mode=rw"), folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
    raise not_saved("the journal is being written to; ask the daemon, or try again")


def _stamp(directory: Path) -> Stamp:
    """Inode, size and change time of database and log."""
    found: list[tuple[int, int, int] | None] = []
    for name in (DATABASE_FILE, _WAL):
        try:
            status = (directory / name).stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)


def _gate(connection: sqlite3.Connection) -> None:
    try:
        version = stored_version(connection)
    except sqlite3.Error as error:
        raise _unreadable(error) from error
    if version > len(MIGRATIONS):
        words = f"the data has version {version}; this gloveport knows up to {len(MIGRATIONS)}"
        raise JournalError(ErrorCode.NEWER_DATA, words)
    if version == 0:
        raise corrupt("there is no journal in this file")


def _unreadable(error: sqlite3.Error) -> JournalError:
    if is_damage(error):
        return corrupt(f"{DATABASE_FILE} is damaged; start the daemon to salvage it")
    return not_saved(f"the journal cannot be read ({error})")
