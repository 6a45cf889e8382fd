"""Acknowledged events that are gone, and files that are gone while they are open: told, typed, and no more is lost."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.journal_kit import batch, open_journal, opened, texts, write

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.envelope import Cursor, Durability
from gloveport.server.journal.acknowledged import NOTES_FILE, Noted, Notes, read_notes, write_notes
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.lease import LOCK_FILE, DataLease
from gloveport.server.journal.records import Loss
from gloveport.server.journal.schema import RESCUED_FILE

FILES = ("journal.db", "journal.db-wal", NOTES_FILE)


async def crashed(tmp_path: Path, durability: Durability = Durability.FULL, count: int = 20) -> Path:
    """A data directory as a killed daemon leaves it: events in the log, notes beside it."""
    source = tmp_path / "source"
    target = tmp_path / "data"
    target.mkdir(mode=0o700)
    async with opened(source) as journal:
        for number in range(count):
            await write(journal, "session/a", f"a{number}", durability=durability)
        await write(journal, "session/b", "b", durability=durability)
        for name in FILES:
            shutil.copyfile(source / name, target / name)
            (target / name).chmod(0o600)
    return target


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
async def test_a_flipped_bit_in_the_log_is_told(tmp_path: Path, place: float) -> None:
    """What SQLite drops without a word is named by stream and number, begins an epoch, and stays untold until told."""
    directory = await crashed(tmp_path)
    log = directory / "journal.db-wal"
    data = bytearray(log.read_bytes())
    data[int(len(data) * place)] ^= 1
    log.write_bytes(data)
    async with opened(directory) as journal:
        there = {name: len(await texts(journal, name)) for name in ("session/a", "session/b")}
        acknowledged = {"session/a": 20, "session/b": 1}
        expected = {(name, there[name] + 1, acknowledged[name] - there[name]) for name in there}
        expected = {one for one in expected if one[2] > 0}
        assert expected
        assert {(one.stream, one.from_seq, one.events) for one in journal.report.untold} == expected
        assert set(journal.report.lost) == {one[0] for one in expected}
        for stream, from_seq, _events in expected:
            done = await write(journal, stream, "on")
            assert (done.events[0].epoch, done.events[0].seq) == (2, from_seq)
        assert not await journal.shares_past("session/a", Cursor(1, 20, "0" * 32))
    async with opened(directory) as journal:  # nobody was told yet
        assert (journal.report.lost, len(journal.report.untold)) == ((), len(expected))
        await journal.told(journal.report.untold)
    async with opened(directory) as journal:
        assert journal.report.untold == ()


async def test_an_untouched_log_loses_nothing(tmp_path: Path) -> None:
    """A kill alone is no loss."""
    directory = await crashed(tmp_path, Durability.RELAXED)
    async with opened(directory) as journal:
        assert (journal.report.unclean, journal.report.untold, len(await texts(journal, "session/a"))) == (True, (), 20)


@pytest.mark.parametrize(
    ("durability", "boot", "lost"),
    [
        (Durability.FULL, "boot-2", ("session/a", "session/b")),
        (Durability.RELAXED, "boot-1", ("session/a", "session/b")),
        (Durability.RELAXED, "boot-2", ()),
    ],
)
async def test_a_removed_database_is_not_an_empty_one(
    tmp_path: Path, durability: Durability, boot: str, lost: tuple[str, ...]
) -> None:
    """Its streams are told as lost and begin a new epoch; what a power loss may take is not held against it."""
    directory = await crashed(tmp_path, durability)
    wal = directory / "journal.db-wal"
    wal.write_bytes(wal.read_bytes()[:4096])  # nothing whole is left in the log
    async with opened(directory, boot_id=boot) as journal:
        if boot == "boot-1" or durability is Durability.FULL:
            assert set(lost) <= set(journal.report.lost)
            assert (await write(journal, "session/a", "new")).events[0].epoch == 2
        else:
            assert journal.report.lost == lost


@pytest.mark.parametrize("durability", [Durability.FULL, Durability.RELAXED])
@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "journal.db-shm"])
async def test_a_file_removed_while_open_stops_and_is_rescued(
    tmp_path: Path, name: str, durability: Durability
) -> None:
    """Nothing is acknowledged into a file without a name; what the open files hold is kept, and put back."""
    directory = tmp_path / "data"
    journal, _report = await open_journal(directory)
    await write(journal, "s", "one")
    for path in (*directory.glob("journal.db*"),) if name == "journal.db" else (directory / name,):
        path.unlink()
    with pytest.raises(JournalError) as caught:
        await journal.append(batch("s", 2, "two", durability=durability))
    assert caught.value.code is ErrorCode.NOT_SAVED
    assert name in str(caught.value)
    assert not journal.health().accepting
    with pytest.raises(JournalError) as caught:
        await journal.reopen()
    assert name in str(caught.value)
    assert (await texts(journal, "s"))[0] == b'{"text":"one"}'
    await journal.close()
    journal, report = await open_journal(directory)
    assert (await texts(journal, "s"))[0] == b'{"text":"one"}'
    assert report.untold == ()
    if name == "journal.db":
        assert RESCUED_FILE in report.mended
        assert not (directory / RESCUED_FILE).exists()
    await journal.close()


async def test_a_replaced_database_stops(tmp_path: Path) -> None:
    """Another file under the name is not the one that is written to."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        await write(journal, "s", "one")
        shutil.copyfile(directory / "journal.db", directory / "other")
        (directory / "other").replace(directory / "journal.db")
        with pytest.raises(JournalError, match=r"journal\.db was removed or replaced"):
            await write(journal, "s", "two")
        with pytest.raises(JournalError) as caught:
            await journal.sync()
        assert caught.value.code is ErrorCode.NOT_SAVED


def test_a_removed_lock_file_lets_no_second_owner_in(tmp_path: Path) -> None:
    """The directory itself is locked too, and no lock file is made in the place of the removed one."""
    with DataLease.acquire(tmp_path):
        (tmp_path / LOCK_FILE).unlink()
        with pytest.raises(JournalError) as caught:
            DataLease.acquire(tmp_path)
        assert caught.value.code is ErrorCode.LEASE_HELD
        assert not (tmp_path / LOCK_FILE).exists()
    with DataLease.acquire(tmp_path) as lease:
        assert lease.held


async def test_files_open_to_others_are_closed_to_them(tmp_path: Path) -> None:
    """A database with mode 0666 is taken back to 0600, and the report says so."""
    directory = tmp_path / "data"
    async with opened(directory):
        pass
    (directory / "journal.db").chmod(0o666)
    async with opened(directory) as journal:
        assert journal.report.mended == ("journal.db",)
    assert (directory / "journal.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("kind", ["link", "folder", "foreign"])
async def test_what_is_not_our_file_is_refused(tmp_path: Path, kind: str) -> None:
    """A link, a folder, another user's file in the place of the database: typed, and left as it is."""
    directory = tmp_path / "data"
    async with opened(directory):
        pass
    path = directory / "journal.db"
    if kind == "foreign":
        if os.geteuid() != 0:
            pytest.skip("needs root to give a file away")
        os.chown(path, 12345, 12345)
    else:
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere") if kind == "link" else path.mkdir()
    with pytest.raises(JournalError) as caught:
        await open_journal(directory)
    expected = ErrorCode.UNSAFE_DIRECTORY if kind == "foreign" else ErrorCode.NOT_SAVED
    assert caught.value.code is expected


@given(
    noted=st.dictionaries(st.from_regex(r"\A[!-~]{1,20}\Z"), st.tuples(st.integers(0, 50), st.integers(1, 50))),
    garbage=st.binary(max_size=60),
)
def test_notes_say_what_was_noted_and_garbage_says_nothing(
    tmp_path_factory: pytest.TempPathFactory, noted: dict[str, tuple[int, int]], garbage: bytes
) -> None:
    """Reading gives back what was written, whatever stands behind it; full notes alone after a power loss."""
    directory = tmp_path_factory.mktemp("notes")
    write_notes(directory, {name: Noted(full + extra, full) for name, (full, extra) in noted.items()})
    with (directory / NOTES_FILE).open("ab") as file:
        file.write(garbage + b"\n")
    assert read_notes(directory, full_only=False) == {name: full + extra for name, (full, extra) in noted.items()}
    assert read_notes(directory, full_only=True) == {name: full for name, (full, _extra) in noted.items() if full}


def test_notes_stay_small(tmp_path: Path) -> None:
    """Many notes of few streams are written together into one short file now and then."""
    notes = Notes(tmp_path, {})
    for seq in range(1, 60_001):
        notes.add((("session/one", seq),), full=seq % 2 == 0)
    notes.close()
    assert (tmp_path / NOTES_FILE).stat().st_size < 1_200_000
    assert read_notes(tmp_path, full_only=False) == {"session/one": 60_000}


CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.kit.journal_kit import open_journal, write

async def main(directory):
    journal, _report = await open_journal(directory)
    for number in range(30):
        await write(journal, "session/a", f"a{number}")
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_killed_for_real_and_then_damaged(tmp_path: Path) -> None:
    """The notes of a process that was killed are enough to tell what its damaged log lost."""
    directory = tmp_path / "data"
    done = subprocess.run([sys.executable, "-c", CHILD, str(directory)], env={**os.environ}, check=False)
    assert done.returncode == -signal.SIGKILL
    log = directory / "journal.db-wal"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0x10
    log.write_bytes(data)
    async with opened(directory) as journal:
        there = len(await texts(journal, "session/a"))
        assert there < 30
        (loss,) = journal.report.untold
        assert loss == Loss("session/a", there + 1, 30 - there, loss.reason)
