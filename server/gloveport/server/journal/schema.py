"""The shape of the database, its version and the way from one version to the next.

Purpose: create, check and migrate `journal.db`.
Invariant: newer data is refused untouched; older data is copied aside before it is migrated, and a migration is one
transaction; a file that is not ours is never taken for an empty one.
Must never: drop a table of events, skip a version, or migrate without a backup that is already on disk.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.blob_uses import find_uses
from gloveport.server.journal.errors import JournalError, corrupt
from gloveport.server.journal.filesystem import fsync_directory, fsync_file

DATABASE_FILE: Final = "journal.db"
RESCUED_FILE: Final = "journal.db.rescued"
"""A copy made from the open files of a database that was removed or replaced; put back when the next one begins."""
APPLICATION_ID: Final = 0x474C5650  # "GLVP", in the database's header
BUSY_TIMEOUT_MS: Final = 5_000
WAL_KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
WRITER_CACHE_KIB: Final = 1_024
READER_CACHE_KIB: Final = 256
"""Pages that a connection keeps. A reader goes through a log once, in order: what it kept it would not read again, and
the system keeps the file's pages as well. SQLite's own default is 2 MiB for each connection, for good."""

Migration = Callable[[sqlite3.Connection], None]

_TABLES: Final = (
    "CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL)",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    # payload_hash is NULL while the payload is there; it keeps the hash of a payload that was erased.
    """CREATE TABLE event (
        stream TEXT NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, type TEXT NOT NULL,
        version INTEGER NOT NULL, at INTEGER NOT NULL, payload BLOB NOT NULL, digest BLOB NOT NULL,
        payload_hash BLOB, PRIMARY KEY (stream, seq)) WITHOUT ROWID""",
    # touched grows with every transaction, so that the streams written last are found without a clock.
    """CREATE TABLE stream (
        name TEXT PRIMARY KEY, epoch INTEGER NOT NULL, next_seq INTEGER NOT NULL, digest BLOB NOT NULL,
        touched INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE session_index (
        session_id TEXT PRIMARY KEY, title TEXT NOT NULL, state TEXT NOT NULL, workspace TEXT NOT NULL,
        updated_at INTEGER NOT NULL, position INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX session_index_position ON session_index (position)",
    """CREATE TABLE request (
        n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL,
        result BLOB NOT NULL)""",
    """CREATE TABLE quarantine (
        n INTEGER PRIMARY KEY AUTOINCREMENT, found_at INTEGER NOT NULL, reason TEXT NOT NULL, stream, epoch, seq,
        type, version, at, payload, digest, payload_hash)""",
)


_SECOND: Final = (
    # Bytes of a stream's events, so that sizes are known without reading a log.
    "ALTER TABLE stream ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0",
    """UPDATE stream SET bytes=(SELECT coalesce(sum(length(payload) + 200), 0)
        FROM event WHERE event.stream=stream.name)""",
    # A fold as it stood at `seq`, whatever its maker keeps in `state`; losing one costs time only.
    """CREATE TABLE fold_snapshot (
        stream TEXT NOT NULL, kind TEXT NOT NULL, seq INTEGER NOT NULL, digest BLOB NOT NULL, state BLOB NOT NULL,
        checksum BLOB NOT NULL, PRIMARY KEY (stream, kind))""",
    """CREATE TABLE blob_use (
        digest TEXT NOT NULL, stream TEXT NOT NULL, PRIMARY KEY (digest, stream)) WITHOUT ROWID""",
    "CREATE INDEX blob_use_stream ON blob_use (stream)",
    # Where a deleted stream ended: its name and numbers are never used again. `purged` when its rows are gone too.
    """CREATE TABLE tombstone (
        stream TEXT PRIMARY KEY, epoch INTEGER NOT NULL, next_seq INTEGER NOT NULL, digest BLOB NOT NULL,
        deleted_at INTEGER NOT NULL, purged INTEGER NOT NULL) WITHOUT ROWID""",
)


_DERIVED: Final = frozenset(
    {"session_index", "session_index_position", "fold_snapshot", "blob_use", "blob_use_stream", "quarantine", "request"}
)


def _create(connection: sqlite3.Connection) -> None:
    for statement in _TABLES:
        connection.execute(statement)


def _add_sizes_snapshots_and_deletion(connection: sqlite3.Connection) -> None:
    for statement in _SECOND:
        connection.execute(statement)
    find_uses(connection)


def make_derived(connection: sqlite3.Connection) -> None:
    """Make tables anew that can be filled from the log, where they are gone. Raises sqlite3.Error."""
    there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    made = [
        statement
        for statement in (*_TABLES, *_SECOND)
        if statement.startswith("CREATE") and (name := statement.split()[2]) in _DERIVED and name not in there
    ]
    if made:
        connection.execute("BEGIN IMMEDIATE")
        for statement in made:
            connection.execute(statement)
        find_uses(connection)
        connection.execute("COMMIT")


MIGRATIONS: Final[tuple[Migration, ...]] = (_create, _add_sizes_snapshots_and_deletion)
"""Entry n brings version n to version n + 1; version 0 is the empty file."""


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a connection with this room's settings. Transactions are explicit. Raises sqlite3.Error."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT_MS / 1000)
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    if read_only:
        connection.execute("PRAGMA query_only=ON")
    return connection


def set_writer_pragmas(connection: sqlite3.Connection) -> None:
    """WAL, durable commits, checkpoints when they are asked for; raises JournalError(UNSUPPORTED_FS) without WAL."""
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise JournalError(ErrorCode.UNSUPPORTED_FS, f"the file system does not carry a write-ahead log ({mode})")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA wal_autocheckpoint=0")  # `Checkpoints` says when; the hook would drop their errors
    connection.execute(f"PRAGMA journal_size_limit={WAL_KEPT_BYTES_MAX}")
    keep_pages(connection, WRITER_CACHE_KIB)


def keep_pages(connection: sqlite3.Connection, kib: int) -> None:
    """How much of the file a connection keeps. It reads the schema: only for a file that was found whole."""
    connection.execute(f"PRAGMA cache_size=-{kib}")


def stored_version(connection: sqlite3.Connection) -> int:
    """The schema version of the data; 0 for an empty file; raises JournalError(CORRUPT) for somebody else's file."""
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    if not tables:
        return 0
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    if application_id != APPLICATION_ID or "schema_version" not in tables:
        raise corrupt(f"{DATABASE_FILE} holds data that is not a journal; it was left untouched")
    version = connection.execute("SELECT max(version) FROM schema_version").fetchone()[0]
    if not isinstance(version, int):
        raise corrupt(f"{DATABASE_FILE} does not say its version; it was left untouched")
    return version


def migrate(
    connection: sqlite3.Connection, path: Path, now: int, migrations: Sequence[Migration] = MIGRATIONS
) -> int | None:
    """Bring the data to the newest version; the version it had, or None when nothing older was there.

    `now` is UTC microseconds. Raises JournalError(NEWER_DATA) when a newer gloveport wrote it, sqlite3.Error or
    OSError when the disk refuses (nothing is changed then).
    """
    version = stored_version(connection)
    newest = len(migrations)
    if version > newest:
        raise _newer(path, version, newest)
    if version == newest:
        return None
    if version > 0:
        write_backup(connection, path, version)
    if version == 0:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # a file that shrinks when sessions are deleted
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number in range(version, newest):
            migrations[number](connection)
            connection.execute("INSERT INTO schema_version VALUES (?, ?)", (number + 1, now))
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return version or None


def _newer(path: Path, version: int, newest: int) -> JournalError:
    """Newer data is refused; where a copy from before is there, it is named."""
    words = f"the data has version {version}; this gloveport knows up to {newest}"
    copies = [one for known in range(newest, 0, -1) for one in backups(path, known)]
    hint = None
    if copies:
        hint = (
            f"Update gloveport. Or move {path.name} away and copy {copies[0].name} to its place: it is the data as it"
            " was before the update, and what came after is not in it."
        )
    return JournalError(ErrorCode.NEWER_DATA, words, hint=hint, found=version, known=newest)


def backup_path(path: Path, version: int, number: int = 1) -> Path:
    """Where the data of `version` is kept before it is migrated, the n-th time."""
    return path.with_name(f"{path.name}.v{version}.backup" + (f".{number}" if number > 1 else ""))


def backups(path: Path, version: int) -> tuple[Path, ...]:
    """The copies of data of a version that are there, the newest first."""
    found: list[Path] = []
    while (copy := backup_path(path, version, len(found) + 1)).exists():
        found.append(copy)
    return tuple(reversed(found))


def write_backup(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Copy the data aside, beside copies of earlier times. Raises sqlite3.Error or OSError."""
    copy_aside(connection, backup_path(path, version, len(backups(path, version)) + 1))


def copy_aside(connection: sqlite3.Connection, final: Path) -> None:
    """Copy everything committed to `final`: temporary file, fsync, rename, fsync of the directory.

    Whole or not at all; half a copy does not stay on a disk that has no room. Raises sqlite3.Error or OSError.
    """
    temporary = final.with_name(final.name + ".part")
    temporary.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(temporary)) as copy:
            connection.backup(copy)
        temporary.chmod(0o600)
        fsync_file(temporary)
        temporary.replace(final)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(final.parent)
