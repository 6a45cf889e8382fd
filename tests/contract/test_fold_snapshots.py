"""Folds kept beside the log: given back only while their event is there with the same past."""

import sqlite3
from pathlib import Path

import pytest
from tests.kit.journal_kit import opened, write

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal import fold_snapshots
from gloveport.server.journal.errors import JournalError


async def test_a_fold_comes_back_as_it_was_put(tmp_path: Path) -> None:
    """The newest of its kind, with the place it stands at, over a restart."""
    async with opened(tmp_path / "data") as journal:
        done = await write(journal, "s", "one", "two")
        assert await journal.snapshot("s", "fold") is None
        for event in done.events:
            assert await journal.put_snapshot("s", event.seq, event.digest, "fold", b"\0state %d" % event.seq)
        assert await journal.put_snapshot("s", 1, done.events[0].digest, "view", b"")
    async with opened(tmp_path / "data") as journal:
        kept = await journal.snapshot("s", "fold")
        assert kept is not None
        assert (kept.epoch, kept.seq, kept.digest, kept.state) == (1, 2, done.events[1].digest, b"\0state 2")
        other = await journal.snapshot("s", "view")
        assert other is not None
        assert (other.seq, other.state) == (1, b"")
        await journal.drop_snapshots("s")
        assert await journal.snapshot("s", "fold") is None


async def test_a_fold_of_no_such_event_is_not_kept(tmp_path: Path) -> None:
    """Another past, or a place that is not there."""
    async with opened(tmp_path / "data") as journal:
        done = await write(journal, "s", "one")
        assert not await journal.put_snapshot("s", 1, "0" * 64, "fold", b"x")
        assert not await journal.put_snapshot("s", 2, done.events[0].digest, "fold", b"x")
        assert await journal.snapshot("s", "fold") is None


async def test_limits_of_a_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too large a fold is refused typed, and so is one without a name."""
    monkeypatch.setattr(fold_snapshots, "FOLD_BYTES_MAX", 10)
    async with opened(tmp_path / "data") as journal:
        digest = (await write(journal, "s", "one")).events[0].digest
        for kind, state, code in (("fold", b"x" * 11, ErrorCode.LIMIT), ("", b"x", ErrorCode.INVALID_PARAMS)):
            with pytest.raises(JournalError) as caught:
                await journal.put_snapshot("s", 1, digest, kind, state)
            assert caught.value.code is code


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE fold_snapshot SET state=x'00'",
        "UPDATE fold_snapshot SET state='text'",
        "UPDATE fold_snapshot SET digest=zeroblob(32)",
        "DELETE FROM event WHERE seq=2",
        "UPDATE fold_snapshot SET seq=1, digest=(SELECT digest FROM event WHERE seq=1)",
        "DELETE FROM fold_snapshot WHERE kind='fold'; UPDATE fold_snapshot SET kind='fold' WHERE kind='old'",
        "UPDATE fold_snapshot SET stream='s', digest=(SELECT digest FROM event WHERE stream='s' AND seq=2), kind='fold'"
        " WHERE stream='t'",
    ],
)
async def test_a_damaged_fold_is_not_given_back(tmp_path: Path, sql: str) -> None:
    """Its bytes, its place or its event are not what they were, or it is another's: the log has to be read."""
    async with opened(tmp_path / "data") as journal:
        done, other = await write(journal, "s", "one", "two"), await write(journal, "t", "one", "two")
        await journal.put_snapshot("s", 2, done.events[1].digest, "old", b"old state")
        await journal.put_snapshot("t", 2, other.events[1].digest, "fold of t", b"state of t")
        if "'t'" not in sql:
            await journal.put_snapshot("s", 2, done.events[1].digest, "fold", b"state")
    connection = sqlite3.connect(tmp_path / "data" / "journal.db")
    connection.executescript(sql)
    connection.commit()
    connection.close()
    async with opened(tmp_path / "data") as journal:
        assert await journal.snapshot("s", "fold") is None


async def test_erasing_takes_the_folds_with_it(tmp_path: Path) -> None:
    """A fold may hold the secret that is erased from its stream; no file of the journal holds it afterwards."""
    secret = "sk-very-secret-value-0123456789"
    async with opened(tmp_path / "data") as journal:
        done = await write(journal, "s", secret)
        other = await write(journal, "t", "other")
        await journal.put_snapshot("s", 1, done.events[0].digest, "fold", secret.encode() * 500)
        await journal.put_snapshot("t", 1, other.events[0].digest, "fold", b"kept")
        await journal.erase("s", [1])
        assert await journal.snapshot("s", "fold") is None
        assert await journal.snapshot("t", "fold") is not None
        for path in (tmp_path / "data").iterdir():
            assert secret.encode() not in path.read_bytes(), path.name
