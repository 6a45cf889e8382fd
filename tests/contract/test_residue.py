"""What was erased or deleted is in no file, wherever SQLite had moved it, and whatever comes between."""

import ctypes
import os
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.crash.test_journal_disk_full import tiny_disk
from tests.kit.journal_kit import batch, open_journal, opened, write

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.records import Append, Erasure, Removal
from gloveport.server.journal.store import Journal

SECRET = "tok-93Q7-xyzzy-42"
OTHER = "tok-somethingelse"
SIZES = (10, 50, 300, 900, 3_000, 6_000)
DISK_BYTES, ROOM_BYTES = 2 * 1024 * 1024, 16 * 1024 * 1024
READ_ONLY, REMOUNT = 1, 32
MOVING, MOVING_WHOLE = 1, 2
"""Seeds under which SQLite leaves a copy of a row in the gap of another page."""


def holders(directory: Path) -> list[str]:
    """Files that hold the text."""
    return [path.name for path in directory.iterdir() if path.is_file() and SECRET.encode() in path.read_bytes()]


async def fill(journal: Journal, seed: int, *, whole: str = "") -> dict[str, list[int]]:
    """Sessions that grow side by side, so that pages are parted; where the text stands. `whole`: it is this one's."""
    rng, ends, held = Random(seed), Counter[str](), dict[str, list[int]]()
    for number in range(400):
        name = f"session/{rng.choice('dbacfe')}"
        text = "w" * rng.choice(SIZES)
        ends[name] += 1
        if whole:
            text += SECRET if name == whole else OTHER
        elif rng.random() < 0.3:
            at = rng.randint(0, len(text))
            text = text[:at] + f"{SECRET}-{seed}" + text[at:]
            held.setdefault(name, []).append(ends[name])
        done = await write(journal, name, text)
        if whole and number % 20 == 0:
            state = (SECRET if name == whole else OTHER).encode() + b"x" * rng.randint(0, 9_000)
            await journal.put_snapshot(name, ends[name], done.events[-1].digest, "fold", state)
    return held


async def erasure(journal: Journal, name: str, *seqs: int) -> Append:
    """What takes these events out, with the fact that says so."""
    head = await journal.head(name)
    assert head is not None
    return replace(batch(name, head.next_seq, "erased"), erased=(Erasure(name, seqs, ()),))


async def test_an_erased_text_is_in_no_gap_of_a_page(tmp_path: Path) -> None:
    """Rows that were moved when pages were parted left copies; they go too, and every chain verifies."""
    async with opened(tmp_path / "data") as journal:
        held = await fill(journal, MOVING)
        for name, seqs in held.items():
            await journal.append(await erasure(journal, name, *seqs))
            await journal.erase(name, ())
        assert holders(tmp_path / "data") == []
        for name, seqs in held.items():
            report = await journal.verify(name)
            assert (report.ok, report.erased) == (True, tuple(seqs))


async def test_a_deleted_session_is_in_no_gap_of_a_page(tmp_path: Path) -> None:
    """The same for a session that goes whole, with folds of it that were replaced."""
    async with opened(tmp_path / "data") as journal:
        await fill(journal, MOVING_WHOLE, whole="session/c")
        await journal.append(replace(batch("daemon", 1, "deleted"), removed=(Removal("session/c", "c"),)))
        while await journal.purge():
            pass
        assert holders(tmp_path / "data") == []


async def test_what_a_death_kept_from_being_overwritten_is_overwritten_at_the_next_start(tmp_path: Path) -> None:
    """Dead right after the transaction: old bytes lie in the log, and nobody has to ask again."""
    source, directory = tmp_path / "source", tmp_path / "data"
    journal, _report = await open_journal(source)
    await write(journal, "session/a", f"the key is {SECRET}", "more")
    await journal.append(await erasure(journal, "session/a", 1))
    shutil.copytree(source, directory)
    await journal.close()
    assert holders(directory)
    async with opened(directory) as again:
        assert holders(directory) == []
        assert (await again.verify("session/a")).erased == (1,)


async def test_that_the_log_was_emptied_is_synced(tmp_path: Path) -> None:
    """SQLite does not sync that it cut the log; the commit that follows is synced, and forgets the note."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        await write(journal, "session/a", f"the key is {SECRET}", "more")
        await journal.append(await erasure(journal, "session/a", 1))
        log = (directory / "journal.db-wal").read_bytes()
        assert SECRET.encode() in log
        await journal.erase("session/a", ())
        assert (directory / "journal.db-wal").stat().st_size > 0, "a synced commit stands in the emptied log"
        assert holders(directory) == []


async def test_a_reader_of_old_bytes_is_told_and_the_next_start_goes_on(tmp_path: Path) -> None:
    """Refused as busy; the note stays until the bytes are gone."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        await write(journal, "session/a", f"the key is {SECRET}", "more")
        with closing(sqlite3.connect(directory / "journal.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM event").fetchone()
            await journal.append(await erasure(journal, "session/a", 1))
            with pytest.raises(JournalError) as caught:
                await journal.erase("session/a", ())
            assert caught.value.code is ErrorCode.BUSY
            reader.execute("COMMIT")
        assert holders(directory)
        await write(journal, "session/a", "on")
    async with opened(directory):
        assert holders(directory) == []


def remount(disk: Path, flags: int, size_bytes: int) -> None:
    """Change a small disk that is mounted."""
    done = ctypes.CDLL(None).mount(b"x", os.fsencode(disk), b"tmpfs", REMOUNT | flags, f"size={size_bytes}".encode())
    assert done == 0


async def test_without_room_the_journal_goes_on_and_the_bytes_go_at_a_later_start(tmp_path: Path) -> None:
    """Refused with words, the text is out of the record all the same; a start without the right to write is typed."""
    with tiny_disk(tmp_path / "disk", DISK_BYTES) as disk:
        directory = disk / "data"
        async with opened(directory, ballast_bytes=0) as journal:
            await write(journal, "session/a", f"the key is {SECRET}", *["f" * 10_000] * 60)
            filler = disk / "filler"
            filler.write_bytes(bytes(DISK_BYTES // 4))
            await journal.append(await erasure(journal, "session/a", 1))
            with pytest.raises(JournalError) as caught:
                await journal.erase("session/a", ())
            assert caught.value.code is ErrorCode.DATA_FULL
            assert "it is erased" in caught.value.message
            assert journal.health().accepting
            await write(journal, "session/a", "on")
            assert (await journal.verify("session/a")).erased == (1,)
        filler.unlink()
        remount(disk, READ_ONLY, ROOM_BYTES)
        with pytest.raises(JournalError) as refused:
            await open_journal(directory)
        assert refused.value.code in (ErrorCode.NOT_SAVED, ErrorCode.UNSAFE_DIRECTORY)
        remount(disk, 0, ROOM_BYTES)
        async with opened(directory, ballast_bytes=0) as again:
            assert again.report.lost == ()
            assert holders(directory) == []
            with closing(sqlite3.connect(directory / "journal.db")) as looked:
                assert looked.execute("SELECT * FROM meta WHERE key='residue'").fetchall() == []
