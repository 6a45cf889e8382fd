"""Reading without a daemon: nothing in the data directory changes, whatever state it is in."""

import os
import shutil
from pathlib import Path

import pytest
from tests.kit.journal_kit import batch, opened, write

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.offline import OfflineJournal
from gloveport.server.journal.records import IndexUpdate


def picture(directory: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Everything about the files of a directory that a reader could change."""
    return {
        entry.name: (entry.stat().st_ino, entry.stat().st_size, entry.stat().st_mtime_ns, Path(entry).read_bytes())
        for entry in os.scandir(directory)
    }


async def test_closed_journal_is_read_without_a_trace(tmp_path: Path) -> None:
    """After a clean end: every reading method answers, and no file is made, changed or removed."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        await journal.append(batch("session/a", 1, "one", "two", index=(IndexUpdate("a", 5, title="T"),)))
        head = await journal.head("session/a")
    before = picture(directory)
    with OfflineJournal.open(directory) as offline:
        assert [found.seq for found in offline.read("session/a", 0)] == [1, 2]
        assert offline.head("session/a") == head
        assert offline.head("none") is None
        assert offline.streams() == ("session/a",)
        assert [row.title for row in offline.sessions()] == ["T"]
        assert offline.session("a") is not None
        assert offline.verify("session/a").ok
        assert picture(directory) == before
    assert picture(directory) == before


async def test_log_of_a_crash_is_read_from_a_private_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Committed events that are only in the log are seen; the directory and the temporary folder stay clean."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    async with opened(tmp_path / "source") as journal:
        await write(journal, "session/a", "one", "two", "three")
        for name in ("journal.db", "journal.db-wal"):
            shutil.copyfile(tmp_path / "source" / name, directory / name)
    before = picture(directory)
    with OfflineJournal.open(directory) as offline:
        assert len(offline.read("session/a", 0)) == 3
        assert offline.verify("session/a").ok
    assert picture(directory) == before
    assert list(temporary.iterdir()) == []


async def test_read_only_directory_can_be_read(tmp_path: Path) -> None:
    """A journal on read-only media, or in a folder without write permission, is readable."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        await write(journal, "session/a", "one")
    directory.chmod(0o500)
    try:
        with OfflineJournal.open(directory) as offline:
            assert len(offline.read("session/a", 0)) == 1
    finally:
        directory.chmod(0o700)


async def test_beside_a_daemon_new_commits_are_seen(tmp_path: Path) -> None:
    """A reader beside the owner follows its commits and takes nothing from it."""
    async with opened(tmp_path / "data") as journal:
        await write(journal, "s", "one")
        with OfflineJournal.open(tmp_path / "data") as offline:
            assert len(offline.read("s", 0)) == 1
            await write(journal, "s", "two")
            assert len(offline.read("s", 0)) == 2
        await write(journal, "s", "three")


@pytest.mark.parametrize("content", [None, b"", b"no database" * 500])
def test_what_is_no_journal_is_said_so(tmp_path: Path, content: bytes | None) -> None:
    """Missing, empty and foreign files are one clear typed answer."""
    if content is not None:
        (tmp_path / "journal.db").write_bytes(content)
    with pytest.raises(JournalError) as caught:
        OfflineJournal.open(tmp_path)
    assert caught.value.code is ErrorCode.CORRUPT
    assert len(list(tmp_path.iterdir())) == (content is not None)
