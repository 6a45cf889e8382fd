"""Opening the database: version gate, damage check, epochs, and the marks of a clean stop.

Purpose: everything between a path and a connection that may be written to, on the connection's own thread.
Invariant: nothing is written before the version gate passed; when this returns, all data found is durable, every
checked tail verifies, and the data is marked as in use on this boot.
Must never: open a damaged tail silently, or take a missing database with a left-over log for an empty one.
"""

import os
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gloveport.server.journal.acknowledged import Noted, read_notes
from gloveport.server.journal.errors import (
    JournalError,
    corrupt,
    disk_full,
    is_damage,
    is_full,
    refused_by_disk,
    refused_by_sqlite,
)
from gloveport.server.journal.filesystem import fsync_directory, fsync_file, has_room
from gloveport.server.journal.generation import (
    Marks,
    next_generation,
    stored_generation,
)
from gloveport.server.journal.identity import OpenFiles, close_to_others
from gloveport.server.journal.losses import declare_lost, remember, short_streams, untold
from gloveport.server.journal.reader import tolerant_text
from gloveport.server.journal.records import Loss, OpenReport, Quarantined
from gloveport.server.journal.residue import overwrite
from gloveport.server.journal.salvage import salvage
from gloveport.server.journal.schema import (
    DATABASE_FILE,
    RESCUED_FILE,
    connect,
    make_derived,
    migrate,
    set_writer_pragmas,
)
from gloveport.server.journal.tail import check_tails
from gloveport.server.journal.voids import void_all

_HEADER_BYTES: Final = 100
_NEEDED: Final = ("meta", "stream", "session_index")
"""Small tables that are read through at every open."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection that may be written to, the counters the writer goes on from, and what was found."""

    connection: sqlite3.Connection
    touched: int
    position: int
    report: OpenReport
    files: OpenFiles
    noted: Mapping[str, Noted]


@dataclass(frozen=True, slots=True)
class Found:
    """What must be known to open: where, when (UTC microseconds), on which boot, and acknowledged relaxed tails.

    `damaged`: a page was met that cannot be read, so the database is salvaged even where it opens well. `away`: the
    file outside of the directory that counts along, if any.
    """

    directory: Path
    now: int
    boot_id: str
    acknowledged: Mapping[str, int]
    damaged: bool = False
    away: Path | None = None

    @property
    def marks(self) -> Marks:
        """Where it is counted how far the journal has come."""
        return Marks(self.directory, self.away)


def open_database(found: Found) -> Opened:
    """Open or create the database.

    Raises JournalError: NEWER_DATA, CORRUPT (not a journal, or beyond salvage), NOT_SAVED (the disk refuses),
    UNSUPPORTED_FS (no write-ahead log possible). A damaged database is salvaged first.
    """
    path = found.directory / DATABASE_FILE
    try:
        try:
            if not found.damaged:
                return _open_once(path, found)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
        name, lost = salvage(path, found.now)
        return _open_once(path, found, salvaged=name, lost=lost)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise corrupt(f"{DATABASE_FILE} cannot be read; put it aside or restore a backup") from error
        raise _refusal(found, error) from error
    except sqlite3.Error as error:
        raise _refusal(found, error) from error
    except OSError as error:
        raise refused_by_disk(f"{DATABASE_FILE} cannot be opened", error) from error


def _refusal(found: Found, error: sqlite3.Error) -> JournalError:
    # Some ways of SQLite to meet a full disk (no room for its index file) come out as a plain IO error.
    return refused_by_sqlite(error) if has_room(found.directory) else disk_full(str(error))


def _open_once(path: Path, found: Found, *, salvaged: str | None = None, lost: tuple[Quarantined, ...] = ()) -> Opened:
    mended = _claim_files(path)
    connection = connect(path)
    try:
        migrated_from = migrate(connection, path, found.now)
        _refuse_cut_file(connection, path)
        _look_through(connection)
        set_writer_pragmas(connection)
        connection.text_factory = tolerant_text
        report = _check(connection, found, lost)
        connection.text_factory = str
        _overwrite_residue(connection)
        _make_durable(connection, path)
        touched = connection.execute("SELECT coalesce(max(touched), 0) FROM stream").fetchone()[0]
        noted = _still_noted(connection, path)
        position = connection.execute("SELECT coalesce(max(position), 0) FROM session_index").fetchone()[0]
    except BaseException:
        connection.close()
        raise
    quarantined = lost + report.quarantined
    report = replace(report, quarantined=quarantined, salvaged=salvaged, migrated_from=migrated_from, mended=mended)
    return Opened(connection, touched, position, report, OpenFiles(path.parent, _names(path)), noted)


def _overwrite_residue(connection: sqlite3.Connection) -> None:
    """What a crash or a reader kept an erasure from is done now; where there is no room, or a reader, it waits on."""

    def empty() -> bool:
        busy, pages, moved = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return moved >= pages and not busy

    try:
        overwrite(connection, empty)
    except JournalError:
        return
    except sqlite3.Error as error:
        if not is_full(error):
            raise


def _make_durable(connection: sqlite3.Connection, path: Path) -> None:
    """What was found is durable from here on: moved from the log into the database, or at least fsynced in the log."""
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        if not is_full(error):
            raise
        fsync_file(path.with_name(path.name + "-wal"))
        fsync_file(path)
    fsync_directory(path.parent)


def _still_noted(connection: sqlite3.Connection, path: Path) -> dict[str, Noted]:
    """The notes that go on: none once everything has moved into the database, those of what is there otherwise."""
    if path.with_name(path.name + "-wal").stat().st_size == 0:
        return {}
    kept: dict[str, Noted] = {}
    for stream in read_notes(path.parent, full_only=False):
        row = connection.execute("SELECT next_seq FROM stream WHERE name=?", (stream,)).fetchone()
        if row is not None:
            kept[stream] = Noted(row[0] - 1, row[0] - 1)
    return kept


def _names(path: Path) -> tuple[str, ...]:
    return path.name, f"{path.name}-wal", f"{path.name}-shm"


def _claim_files(path: Path) -> tuple[str, ...]:
    """Make or take the files; those that were open to other users, and are not any more."""
    if not path.exists() and path.with_name(path.name + "-wal").exists():
        raise corrupt(f"{DATABASE_FILE} is gone but its log is there; restore the file or put the log aside")
    rescued = _put_back(path)
    return rescued + tuple(name for name in _names(path) if _claim_file(path.with_name(name), path))


def _put_back(path: Path) -> tuple[str, ...]:
    """Let the copy that was rescued from a removed database take its name again."""
    rescued = path.with_name(RESCUED_FILE)
    if path.exists() or not rescued.is_file() or rescued.is_symlink():
        return ()
    try:
        rescued.rename(path)
        fsync_directory(path.parent)
    except OSError as error:
        raise refused_by_disk(f"{RESCUED_FILE} cannot be put back", error) from error
    return (RESCUED_FILE,)


def _claim_file(file: Path, database: Path) -> bool:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if file == database else 0)
    try:
        fd = os.open(file, flags, 0o600)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise refused_by_disk(f"{file.name} cannot be opened for writing", error) from error
    try:
        return close_to_others(fd, file.name)
    finally:
        os.close(fd)


def _refuse_cut_file(connection: sqlite3.Connection, path: Path) -> None:
    """Raise SQLite's own damage error when the file is shorter than its header says and no log makes up for it."""
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size > 0:
        return
    pages, page_bytes = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    with path.open("rb") as file:
        header_pages = int.from_bytes(file.read(_HEADER_BYTES)[28:32], "big")
    if path.stat().st_size < max(pages, header_pages) * page_bytes:
        error = sqlite3.DatabaseError("the database file was cut")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def _look_through(connection: sqlite3.Connection) -> None:
    """Raise SQLite's own damage error when a table that everything needs is damaged; make derived ones anew."""
    make_derived(connection)
    for table in _NEEDED:
        words = connection.execute(f"PRAGMA quick_check({table})").fetchone()[0]
        if words != "ok":
            error = sqlite3.DatabaseError(f"{table}: {words}")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error


def _check(connection: sqlite3.Connection, found: Found, salvaged: tuple[Quarantined, ...]) -> OpenReport:
    connection.execute("BEGIN IMMEDIATE")
    meta = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    unclean = bool(meta) and meta.get("clean") != 1
    other_boot = unclean and (not found.boot_id or meta.get("boot_id") != found.boot_id)
    restored = bool(meta) and stored_generation(connection) < found.marks.read()
    quarantined = check_tails(connection, unclean=unclean, now=found.now)
    if other_boot or restored:
        connection.execute("UPDATE stream SET epoch=epoch+1")
    if restored:
        void_all(connection)
    aside = tuple(Loss(one.stream, one.from_seq, one.events + one.gone, one.reason) for one in salvaged + quarantined)
    noted = read_notes(found.directory, full_only=other_boot)
    for stream, seq in found.acknowledged.items():
        noted[stream] = max(seq, noted.get(stream, 0))
    told = {one.stream for one in aside}
    lost = tuple(one for one in short_streams(connection, noted) if one.stream not in told)
    declare_lost(connection, lost, begun=other_boot or restored)
    remember(connection, aside)
    for key, value in (("clean", 0), ("boot_id", found.boot_id)):
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
    generation = next_generation(connection, found.marks)
    open_losses = untold(connection)
    connection.execute("COMMIT")
    found.marks.write(generation)
    return OpenReport(
        unclean=unclean,
        other_boot=other_boot,
        restored=restored,
        quarantined=quarantined,
        lost=tuple(one.stream for one in lost),
        untold=open_losses,
    )


def mark_clean(connection: sqlite3.Connection, marks: Marks) -> None:
    """Say that the data was closed in good order; raises sqlite3.Error."""
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('clean', 1)")
    generation = next_generation(connection, marks)
    connection.execute("COMMIT")
    marks.write(generation)
