"""Rebuilding a database whose pages are damaged.

Purpose: load every stream up to its last good event into a fresh file and set the damaged file aside.
Invariant: the damaged file is kept whole under `quarantine/`; the fresh one is complete and on disk before it takes
the name; each copied chain verifies; a stream that lost events is in a new epoch.
Must never: run on a file of which nothing can be read, or leave an old write-ahead log beside a new database.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gloveport.protocol.journal.envelope import ChainBreak, ChainPoint, next_point
from gloveport.server.journal.blob_uses import find_uses
from gloveport.server.journal.errors import corrupt, is_unreadable
from gloveport.server.journal.filesystem import fsync_directory, fsync_file
from gloveport.server.journal.reader import EVENT_COLUMNS, is_well_formed, to_event, tolerant_text
from gloveport.server.journal.records import Quarantined
from gloveport.server.journal.schema import connect, migrate
from gloveport.server.journal.tail import recount

QUARANTINE_FOLDER: Final = "quarantine"
_PLAIN_TABLES: Final = (
    ("session_index", "session_id, title, state, workspace, updated_at, position"),
    ("request", "n, id, fingerprint, result"),
    ("meta", "key, value"),
    ("blob_use", "digest, stream"),
    ("tombstone", "stream, epoch, next_seq, digest, deleted_at, purged"),
    ("quarantine", f"n, found_at, reason, {EVENT_COLUMNS}"),
)


def salvage(path: Path, now: int) -> tuple[str, tuple[Quarantined, ...]]:
    """Replace the damaged database at `path`; the name of the damaged file and what each stream lost.

    Raises JournalError(CORRUPT) when not even the list of tables can be read, sqlite3.Error or OSError when the fresh
    file cannot be written; the damaged file is untouched then.
    """
    fresh = path.with_name(path.name + ".salvage")
    for leftover in (fresh, fresh.with_name(fresh.name + "-journal")):
        leftover.unlink(missing_ok=True)
    source = connect(path, read_only=True)
    source.execute("PRAGMA writable_schema=ON")  # lets a file be read that is shorter than its header says
    source.text_factory = tolerant_text
    target = connect(fresh)
    try:
        migrate(target, fresh, now)
        target.execute("BEGIN")
        lost = _copy_streams(source, target)
        for table, columns in _PLAIN_TABLES:
            _copy_plain(source, target, table, columns)
        find_uses(target)
        target.execute("COMMIT")
        _empty_log(source)
    finally:
        source.close()
        target.close()
    return _exchange(path, fresh), lost


def _copy_streams(source: sqlite3.Connection, target: sqlite3.Connection) -> tuple[Quarantined, ...]:
    heads = {row[0]: row[1:] for row in _good_rows(source, "SELECT name, epoch, next_seq, touched FROM stream")}
    names = dict.fromkeys([*heads, *(row[0] for row in _good_rows(source, "SELECT DISTINCT stream FROM event"))])
    if not names and not _is_readable(source):
        raise corrupt("journal.db cannot be read at all; put it aside or restore a backup")
    buried = {row[0] for row in _good_rows(source, "SELECT stream FROM tombstone")}
    wanted = (name for name in names if isinstance(name, str) and name not in buried)
    reports = (_copy_stream(source, target, name, heads.get(name)) for name in wanted)
    return tuple(report for report in reports if report is not None)


def _copy_stream(
    source: sqlite3.Connection, target: sqlite3.Connection, name: str, head: tuple[Any, ...] | None
) -> Quarantined | None:
    point, reason = ChainPoint(), ""
    rows = _good_rows(source, f"SELECT {EVENT_COLUMNS} FROM event WHERE stream=? ORDER BY seq", name)  # noqa: S608 - constant
    for row in rows:
        step = next_point(point, to_event(row)) if is_well_formed(row) else ChainBreak(point.seq + 1, "damaged row")
        if isinstance(step, ChainBreak):
            reason = step.reason
            break
        target.execute("INSERT INTO event VALUES (?,?,?,?,?,?,?,?,?)", row)
        point = step
    epoch, next_seq, touched = head if head is not None else (point.epoch, None, 0)
    whole = next_seq == point.seq + 1
    epoch = max(epoch, point.epoch) + (0 if whole else 1)
    target.execute(
        "INSERT INTO stream VALUES (?,?,?,?,?,0)", (name, epoch, point.seq + 1, bytes.fromhex(point.digest), touched)
    )
    recount(target, name)
    if whole:
        return None
    missing = next_seq - 1 - point.seq if isinstance(next_seq, int) else 0
    return Quarantined(name, point.seq + 1, max(0, missing), reason or "unreadable pages")


def _good_rows(source: sqlite3.Connection, sql: str, *values: object) -> Iterator[tuple[Any, ...]]:
    """Rows up to the first page that cannot be read; none of a table that an older version did not have."""
    try:
        yield from source.execute(sql, values)
    except sqlite3.DatabaseError as error:
        if not (is_unreadable(error) or "no such table" in str(error)):
            raise


def _is_readable(source: sqlite3.Connection) -> bool:
    try:
        return bool(source.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except sqlite3.DatabaseError:
        return False


def _copy_plain(source: sqlite3.Connection, target: sqlite3.Connection, table: str, columns: str) -> None:
    marks = ",".join("?" * len(columns.split(",")))
    for row in _good_rows(source, f"SELECT {columns} FROM {table}"):  # noqa: S608 - constants of this module
        target.execute(f"INSERT OR IGNORE INTO {table} ({columns}) VALUES ({marks})", row)  # noqa: S608 - constants


def _empty_log(source: sqlite3.Connection) -> None:
    # The log belongs to the damaged file: moved into it where that still works, so that the file set aside is whole.
    try:
        source.execute("PRAGMA query_only=OFF")
        source.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.DatabaseError:
        return


def _exchange(path: Path, fresh: Path) -> str:
    folder = path.parent / QUARANTINE_FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    number = 1
    while (folder / f"{path.name}.{number}").exists():
        number += 1
    kept = folder / f"{path.name}.{number}"
    fresh.chmod(0o600)
    fsync_file(fresh)
    kept.hardlink_to(path)
    for suffix in ("-wal", "-shm"):
        log = path.with_name(path.name + suffix)
        if log.exists():
            log.rename(folder / f"{kept.name}{suffix}")
    fresh.replace(path)
    fsync_directory(folder)
    fsync_directory(path.parent)
    return f"{QUARANTINE_FOLDER}/{kept.name}"
