"""The log of the database stays bounded, is moved between appends, and says who holds it."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import anyio
import pytest
from tests.kit.journal_kit import batch, open_journal, opened, texts, write

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.envelope import Durability
from gloveport.server.journal import checkpoints
from gloveport.server.journal.checkpoints import DUE_PAGES, FORCED_PAGES, PAGE_BYTES, RESTART_PAGES
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.schema import WAL_KEPT_BYTES_MAX, connect
from gloveport.server.journal.store import Journal
from gloveport.server.journal.writer import GROUP_BYTES_MAX

FILL = "f" * 100_000
FILL_PAGES = 28
"""Pages that one such append counts."""


def log_bytes(directory: Path) -> int:
    """Size of the log."""
    return (directory / "journal.db-wal").stat().st_size


async def grow(journal: Journal, pages: int) -> None:
    """Append at least so many pages, one append after the other."""
    head = await journal.head("s")
    start = head.next_seq if head is not None else 1
    for seq in range(start, start + pages // FILL_PAGES + 1):
        await journal.append(batch("s", seq, FILL, durability=Durability.RELAXED))


@contextmanager
def holding(directory: Path) -> Iterator[None]:
    """A reader that begins and does not end."""
    reader = connect(directory / "journal.db", read_only=True)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM event").fetchone()
    try:
        yield
    finally:
        reader.close()


async def test_the_log_stays_bounded(tmp_path: Path) -> None:
    """Many times more than the bound is appended, small and large, one by one and at once; the log is begun anew."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        for _ in range(4):
            await grow(journal, FORCED_PAGES)
            assert log_bytes(directory) < (FORCED_PAGES + DUE_PAGES) * PAGE_BYTES
            assert log_bytes(directory) < WAL_KEPT_BYTES_MAX + DUE_PAGES * PAGE_BYTES
        async with anyio.create_task_group() as group:
            for number in range(300):
                group.start_soon(journal.append, batch(f"t{number}", 1, FILL))
        # What waits is committed in groups, and a checkpoint comes between two of them.
        assert log_bytes(directory) < FORCED_PAGES * PAGE_BYTES + 3 * GROUP_BYTES_MAX // 2
        await grow(journal, DUE_PAGES)
        assert log_bytes(directory) < (FORCED_PAGES + DUE_PAGES) * PAGE_BYTES
        assert not journal.health().wal_pinned


async def test_a_checkpoint_runs_after_the_answers(tmp_path: Path) -> None:
    """The append that makes it due is answered first; the next one finds the log moved."""
    async with opened(tmp_path / "data") as journal:
        said: list[str] = []
        await journal._writing().run(lambda c: c.set_trace_callback(said.append))
        await grow(journal, DUE_PAGES)
        answered = len([sql for sql in said if sql == "COMMIT"])
        await write(journal, "after", "x")
        moved = [number for number, sql in enumerate(said) if "wal_checkpoint" in sql]
        assert len(moved) == 1
        assert "PASSIVE" in said[moved[0]]
        assert said[: moved[0]].count("COMMIT") == answered
        await journal._writing().run(lambda c: c.set_trace_callback(None))


async def test_a_reader_that_does_not_end_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Appends go on, waiting for nobody; health and the log file say it once; it heals when the reader ends."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        await write(journal, "s", "one")
        with holding(directory):
            await grow(journal, 4 * DUE_PAGES)
            await write(journal, "t", "x")
            health = journal.health()
            assert (health.wal_pinned, health.accepting) == (True, True)
            warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
            assert len(warnings) == 1
            assert "end programs that read journal.db" in warnings[0].getMessage()
            # Beyond the bound the writer waits a little for readers, and never as long as SQLite's own timeout.
            said: list[str] = []
            await journal._writing().run(lambda c: c.set_trace_callback(said.append))
            await grow(journal, RESTART_PAGES)
            waited = [said[number - 1] for number, sql in enumerate(said) if "RESTART" in sql]
            assert waited
            assert set(waited) == {f"PRAGMA busy_timeout={checkpoints.RESTART_WAIT_MS}"}
            await journal._writing().run(lambda c: c.set_trace_callback(None))
        await grow(journal, DUE_PAGES)
        await write(journal, "t", "y")
        assert not journal.health().wal_pinned
        await grow(journal, DUE_PAGES)
        assert log_bytes(directory) <= WAL_KEPT_BYTES_MAX + DUE_PAGES * PAGE_BYTES


async def test_the_alarm_of_the_log(tmp_path: Path) -> None:
    """A log beyond its limit is an alarm."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        assert not journal.health().wal_alarm
        with (directory / "journal.db-wal").open("ab") as file:
            file.truncate(checkpoints.WAL_ALARM_BYTES + 1)
        assert journal.health().wal_alarm


async def test_own_readers_never_hold_the_log(tmp_path: Path) -> None:
    """A whole chain is followed, and an event that cannot be read is met, in reads that end."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        await write(journal, "s", *("x" for _ in range(50)))
        await journal._writing().run(
            lambda c: c.execute("UPDATE event SET payload='bad' WHERE stream='s' AND seq=30").fetchone()
        )
        for _ in range(2):
            with pytest.raises(JournalError):
                await journal.read("s", 29)
            assert not (await journal.verify("s")).ok
        held = await journal._writing().run(lambda c: c.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())
        assert held[0] == 0


class Failing:
    """A connection whose checkpoints fail as a disk makes them fail."""

    def __init__(self, connection: sqlite3.Connection, code: int) -> None:
        self.connection, self.code = connection, code

    def execute(self, sql: str) -> sqlite3.Cursor:
        """As the connection does it."""
        if "wal_checkpoint" in sql:
            error = sqlite3.OperationalError("disk")
            error.sqlite_errorcode = self.code
            raise error
        return self.connection.execute(sql)

    @property
    def in_transaction(self) -> bool:
        """As the connection has it."""
        return self.connection.in_transaction


@pytest.mark.parametrize(
    ("code", "goes_on"),
    [(sqlite3.SQLITE_FULL, True), (sqlite3.SQLITE_IOERR_FSYNC, False), (sqlite3.SQLITE_IOERR_WRITE, False)],
)
async def test_a_failed_checkpoint_is_not_passed_over(tmp_path: Path, code: int, goes_on: bool) -> None:
    """It may have been the log's fsync that failed: nothing is accepted until a reopen. No room costs only time."""
    journal, _report = await open_journal(tmp_path / "data")
    await write(journal, "s", "one")
    await journal._writing().run(lambda c: journal._writer.checkpoint(cast(sqlite3.Connection, Failing(c, code))))
    assert journal.health().accepting is goes_on
    if not goes_on:
        with pytest.raises(JournalError) as caught:
            await write(journal, "s", "two")
        assert caught.value.code is ErrorCode.NOT_SAVED
        await journal.reopen()
    await write(journal, "s", "two")
    assert len(await texts(journal, "s")) == 2
    await journal.close()


async def test_without_a_reserve_the_log_is_kept_small(tmp_path: Path) -> None:
    """On a disk that is nearly full the log's room is given back after some pages."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        journal._writer.checkpoints.tight = True
        for number in range(30):
            await write(journal, "s", f"{number}" * 2_000)
        await write(journal, "s", "last")
        assert log_bytes(directory) < 4 * checkpoints.TIGHT_PAGES * PAGE_BYTES
        assert not journal.health().wal_pinned
