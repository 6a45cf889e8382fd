"""Journal and audit log after a crash between the two: late lines are written, losses are named, nothing twice."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.kit.journal_kit import STAMP, clock, opened

from gloveport.protocol.journal.envelope import NewEvent, StoredEvent
from gloveport.server.audit.line import Action, Entry
from gloveport.server.audit.log import AUDIT_FILE, AuditLog
from gloveport.server.audit.reading import iterate_backward
from gloveport.server.engine import reckoning
from gloveport.server.engine.bookkeeping import Bookkeeper
from gloveport.server.engine.reckoning import COMPARED_LINES, reckon
from gloveport.server.journal import losses
from gloveport.server.journal.records import Append, Loss, StreamAppend
from gloveport.server.journal.store import Journal

CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.contract.test_reckoning import act, books

async def main(directory, kept, lost):
    async with books(directory) as (journal, audit):
        for _ in range(kept):
            await act(journal, audit)
        for _ in range(lost):
            await act(journal, None)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
"""


@asynccontextmanager
async def books(directory: Path) -> AsyncIterator[tuple[Journal, AuditLog]]:
    """Journal and audit log of a directory."""
    async with opened(directory) as journal:
        audit = await AuditLog.open(directory / AUDIT_FILE, clock=clock)
        try:
            yield journal, audit
        finally:
            await audit.close()


async def act(journal: Journal, audit: AuditLog | None, stream: str = "session/a") -> None:
    """One audited event among others, as an actor writes it; without `audit` the daemon died before the line."""
    head = await journal.head(stream)
    kinds = ("TurnStarted", "PolicyDecided", "ModelTextDelta")
    events = tuple(NewEvent(kind, 1, b'{"verdict":"allow","call_id":"c","secret":"hunter2"}') for kind in kinds)
    done = await journal.append(Append((StreamAppend(stream, head.next_seq if head else 1, events),), STAMP))
    if audit is not None:
        await Bookkeeper(audit, redact).take(done.events)


def redact(text: str) -> str:
    """Take the secret of these tests out."""
    return text.replace("hunter2", "[redacted]")


async def compare(journal: Journal, audit: AuditLog, directory: Path) -> tuple[Loss, ...]:
    """What the daemon does at its start."""
    return await reckon(journal, audit, directory / AUDIT_FILE, redact, clock)


def lines(audit: AuditLog) -> list[tuple[Any, Any, bool]]:
    """Stream, event and lateness of each decision."""
    found = (line for line in audit.export() if line["action"] == Action.DECISION)
    return [(line["task_id"], line["params"]["seq"], line["params"].get("late", False)) for line in found]


async def test_a_line_lost_between_journal_and_log_is_written_late(tmp_path: Path) -> None:
    """A process killed after its append and before its line; the next start writes the line, redacted, once."""
    directory = tmp_path / "data"
    command = [sys.executable, "-c", CHILD, str(directory), "2", "2"]
    assert subprocess.run(command, env={**os.environ}, check=False).returncode == -signal.SIGKILL
    async with books(directory) as (journal, audit):
        assert len(lines(audit)) == 2
        assert await compare(journal, audit, directory) == ()
        expected = [("session/a", 2, False), ("session/a", 5, False), ("session/a", 8, True), ("session/a", 11, True)]
        assert lines(audit) == expected
        assert "hunter2" not in (directory / AUDIT_FILE).read_text()
        await compare(journal, audit, directory)
        assert lines(audit) == expected
        await act(journal, audit)
    async with books(directory) as (journal, audit):
        await compare(journal, audit, directory)
        assert lines(audit) == [*expected, ("session/a", 14, False)]
        assert (await audit.verify()).ok


async def test_a_stream_without_any_line_gets_all_of_them(tmp_path: Path) -> None:
    """The first action of a session is no exception, and other sessions are left alone."""
    directory = tmp_path / "data"
    async with books(directory) as (journal, audit):
        await act(journal, audit, "session/whole")
        await act(journal, None, "session/bare")
        await compare(journal, audit, directory)
        assert lines(audit) == [("session/whole", 2, False), ("session/bare", 2, True)]


async def test_events_that_only_the_audit_log_knows_are_declared_lost(tmp_path: Path) -> None:
    """A database that came from nowhere: the streams begin a new epoch, the loss is a line, and is named once."""
    directory = tmp_path / "data"
    async with books(directory) as (journal, audit):
        for _ in range(3):
            await act(journal, audit)
    for path in directory.glob("journal.*"):
        path.unlink()
    async with books(directory) as (journal, audit):
        losses = await compare(journal, audit, directory)
        assert [(one.stream, one.from_seq, one.events) for one in losses] == [("session/a", 1, 8)]
        assert (await audit.verify()).losses == ("session/a lost 8 events from 1 on",)
        await journal.told(losses)
        await act(journal, audit)
        head = await journal.head("session/a")
        assert head is not None
        assert (head.epoch, head.seq) == (2, 3)
    async with books(directory) as (journal, audit):
        assert await compare(journal, audit, directory) == ()
        assert lines(audit)[3:] == [("session/a", 2, False)]


async def test_a_stream_is_found_far_back_in_the_log(tmp_path: Path) -> None:
    """However many lines of others came after its last one, no line is written twice and none is left out."""
    directory = tmp_path / "data"
    async with books(directory) as (journal, audit):
        await act(journal, audit, "session/old")
        await act(journal, None, "session/old")
        others = Entry(
            STAMP, Action.EXEC_START, "session/other", "main", "", "agent", "allow", {"task_id": "session/old"}
        )
        await audit.record_all([others] * (COMPARED_LINES + 50))
        await compare(journal, audit, directory)
        assert lines(audit) == [("session/old", 2, False), ("session/old", 5, True)]


@asynccontextmanager
async def counted(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[int]]:
    """How many events each look at this journal takes: those read, and those passed over to find one of a type."""
    taken: list[int] = []
    read, last_of = journal.read, losses.last_of

    async def counting_read(*wanted: Any) -> tuple[StoredEvent, ...]:
        found = await read(*wanted)
        taken.append(len(found))
        return found

    def counting_last_of(
        connection: sqlite3.Connection, stream: str, types: tuple[str, ...], after: int, before: int | None
    ) -> int:
        end = connection.execute("SELECT next_seq - 1 FROM stream WHERE name=?", (stream,)).fetchone()[0]
        found = last_of(connection, stream, types, after, before)
        taken.append(end - max(found, after))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(journal, "read", counting_read)
        patch.setattr(losses, "last_of", counting_last_of)
        yield taken


async def talk(journal: Journal, count: int, stream: str = "session/a") -> None:
    """Events of which the audit log has no line."""
    head = await journal.head(stream)
    events = (NewEvent("ModelTextDelta", 1, b"{}"),) * count
    await journal.append(Append((StreamAppend(stream, head.next_seq if head else 1, events),), STAMP))


async def test_a_start_reads_no_more_of_a_long_log_than_of_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was settled before is not looked at again, whatever kinds of events there are."""
    directory = tmp_path / "data"
    async with books(directory) as (journal, audit):
        await act(journal, audit)
        await talk(journal, 3_000)
        await compare(journal, audit, directory)
        await talk(journal, 40)
        async with counted(journal, monkeypatch) as taken:
            await compare(journal, audit, directory)
        assert sum(taken) == 40
        await act(journal, None)
        await talk(journal, 5)
        async with counted(journal, monkeypatch) as taken:
            await compare(journal, audit, directory)
        assert sum(taken) == 6 + 2  # back to the event without a line, and the two up to it
        assert lines(audit)[-1] == ("session/a", 3_045, True)


async def test_a_session_that_goes_on_for_long_is_settled_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mark that the session's writer leaves bounds the next start; one of a past that is gone does not count."""
    directory = tmp_path / "data"
    async with books(directory) as (journal, audit):
        await act(journal, audit)
        await talk(journal, 2_000)
        head = await journal.head("session/a")
        assert head is not None
        await journal.settle_stream("session/a", head.seq, head.digest)
        await talk(journal, 7)
        async with counted(journal, monkeypatch) as taken:
            await compare(journal, audit, directory)
        assert sum(taken) == 7
        await journal.settle_stream("session/a", head.seq, "0" * 64)
        await talk(journal, 1)
        async with counted(journal, monkeypatch) as taken:
            await compare(journal, audit, directory)
        assert sum(taken) == head.seq + 7 + 1 - 2
        assert lines(audit) == [("session/a", 2, False)]


async def test_old_lines_are_not_read_to_find_a_stream_that_was_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that was long silent: its last line lies far back, and what lies there is known."""
    directory = tmp_path / "data"
    async with books(directory) as (journal, audit):
        await act(journal, audit, "session/old")
        others = Entry(STAMP, Action.EXEC_START, "session/other", "main", "", "agent", "allow", {})
        await audit.record_all([others] * (3 * COMPARED_LINES))
        await compare(journal, audit, directory)
        await act(journal, None, "session/old")
        read: list[bytes] = []

        def counting(path: Path) -> Iterator[bytes]:
            for line in iterate_backward(path):
                read.append(line)
                yield line

        monkeypatch.setattr(reckoning, "iterate_backward", counting)
        await compare(journal, audit, directory)
        assert len(read) <= COMPARED_LINES + reckoning.STRIDE_LINES
        assert lines(audit) == [("session/old", 2, False), ("session/old", 5, True)]
