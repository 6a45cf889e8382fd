"""The writer by itself: what is true between the statements of one commit."""

import sqlite3
from pathlib import Path

from tests.kit.journal_kit import batch

from gloveport.protocol.journal.envelope import Durability
from gloveport.server.journal.records import ClientRequest
from gloveport.server.journal.schema import connect, migrate, set_writer_pragmas
from gloveport.server.journal.writer import Pending, Writer


def writing(folder: Path) -> tuple[sqlite3.Connection, Writer]:
    """A connection to a fresh database and a writer for it."""
    connection = connect(folder / "journal.db")
    migrate(connection, folder / "journal.db", 1)
    set_writer_pragmas(connection)
    return connection, Writer(0, 0)


def test_relaxed_events_are_never_durable_for_a_reader(tmp_path: Path) -> None:
    """A reader may see a relaxed commit before its writer has told anybody: it must not be called durable then."""
    connection, writer = writing(tmp_path)
    seen: list[int] = []
    connection.set_trace_callback(lambda sql: seen.append(writer.durable_seq("s", 2)) if sql == "COMMIT" else None)
    item = Pending(batch("s", 1, "one", "two", durability=Durability.RELAXED))
    writer.submit(item)
    writer.drain(connection, item)
    assert seen == [0]
    assert item.outcome is not None
    assert item.outcome.durable_seq("s") == 0
    assert writer.unsynced["s"].last_seq == 2
    connection.close()


def test_waiting_appends_share_one_commit(tmp_path: Path) -> None:
    """Group commit: everything that waits goes into one transaction, each with its own outcome."""
    connection, writer = writing(tmp_path)
    commits: list[str] = []
    connection.set_trace_callback(lambda sql: commits.append(sql) if sql in {"COMMIT", "ROLLBACK"} else None)
    good = [Pending(batch(f"s{number}", 1, "x", durability=Durability.RELAXED)) for number in range(10)]
    late = Pending(batch("s3", 1, "too late"))
    same = [Pending(batch("r", 1, "x", request=ClientRequest("id", b"a"))) for _ in range(2)]
    for item in (*good, late, *same):
        writer.submit(item)
    writer.drain(connection, good[0])
    assert commits == ["COMMIT"]
    assert all(item.outcome is not None for item in good)
    assert late.error is not None
    assert same[1].outcome is not None
    assert same[1].outcome.answered == b"a"
    assert writer.unsynced == {}
    connection.close()


def test_checkpoints_are_the_writers(tmp_path: Path) -> None:
    """The settings that keep the log safe and small are in force on the writing connection only."""
    connection, _writer = writing(tmp_path)
    settings = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
    assert settings == {"journal_mode": "wal", "synchronous": 2}
    reader = connect(tmp_path / "journal.db", read_only=True)
    assert reader.execute("PRAGMA query_only").fetchone()[0] == 1
    reader.close()
    connection.close()
