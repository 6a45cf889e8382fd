"""Journal and audit log after a crash between the two: late lines are written, losses are named, nothing twice."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.kit.journal_kit import STAMP, clock, opened

from gloveport.protocol.journal.envelope import NewEvent
from gloveport.server.audit.line import Action, Entry
from gloveport.server.audit.log import AUDIT_FILE, AuditLog
from gloveport.server.engine.bookkeeping import Bookkeeper
from gloveport.server.engine.reckoning import COMPARED_LINES, reckon
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
