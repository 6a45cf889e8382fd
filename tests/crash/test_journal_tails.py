"""Every way in which the end of the log can be torn: cut, zeroed, half before a whole one, twice, out of order."""

import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from tests.kit.journal_kit import opened, texts, write

from gloveport.server.journal.acknowledged import NOTES_FILE

EVENTS = 12
FRAME_BYTES = 24 + 4096
INSIDE = 24
"""So many places inside the pages of the last commit, drawn once."""


async def crashed(folder: Path) -> tuple[Path, int]:
    """Data as a kill leaves it, and how long the log was before the last commit."""
    source, target = folder / "source", folder / "crashed"
    target.mkdir(mode=0o700)
    async with opened(source) as journal:
        before = 0
        for number in range(EVENTS):
            before = (source / "journal.db-wal").stat().st_size
            await write(journal, "session/a", f"a{number}")
        for name in ("journal.db", "journal.db-wal", NOTES_FILE):
            shutil.copyfile(source / name, target / name)
            (target / name).chmod(0o600)
    return target, before


def places(start: int, end: int) -> list[int]:
    """Every byte of the last record's frame heads and borders, and some inside its pages."""
    heads = {frame + byte for frame in range(start, end, FRAME_BYTES) for byte in range(25)}
    drawn = random.Random(1)
    return sorted(
        {place for place in heads if place < end} | {drawn.randrange(start, end) for _ in range(INSIDE)} | {end - 1}
    )


@pytest.mark.parametrize("kind", ["cut", "zeroed"])
async def test_d01_the_log_is_torn_at_every_byte_of_its_last_record(tmp_path: Path, kind: str) -> None:
    """Everything before is there, what was acknowledged and is gone is told, and the session goes on in a new epoch."""
    damaged, start = await crashed(tmp_path)
    whole = (damaged / "journal.db-wal").read_bytes()
    assert len(whole) > start
    for place in places(start, len(whole)):
        directory = tmp_path / "data"
        shutil.copytree(damaged, directory)
        torn = whole[:place] + (b"" if kind == "cut" else bytes(len(whole) - place))
        (directory / "journal.db-wal").write_bytes(torn)
        async with opened(directory) as journal:
            kept = await texts(journal, "session/a")
            if torn == whole:
                assert len(kept) == EVENTS
            else:
                assert kept == [b'{"text":"a%d"}' % number for number in range(EVENTS - 1)], place
                (loss,) = journal.report.untold
                assert (loss.stream, loss.from_seq, loss.events) == ("session/a", EVENTS, 1)
                assert (await write(journal, "session/a", "on")).events[0].epoch == 2
            assert (await journal.verify("session/a")).ok
        shutil.rmtree(directory)


async def test_d01_a_half_record_followed_by_a_good_one(tmp_path: Path) -> None:
    """The log holds a torn commit and a whole one behind it: neither is taken, and both are told."""
    damaged, _start = await crashed(tmp_path)
    log = damaged / "journal.db-wal"
    whole = log.read_bytes()
    commits = [place for place in range(32, len(whole), FRAME_BYTES) if whole[place + 4 : place + 8] != bytes(4)]
    torn = commits[-2]
    log.write_bytes(whole[: torn + 2000] + bytes(FRAME_BYTES - 2000) + whole[torn + FRAME_BYTES :])
    async with opened(damaged) as journal:
        assert len(await texts(journal, "session/a")) == EVENTS - 2
        (loss,) = journal.report.untold
        assert (loss.from_seq, loss.events) == (EVENTS - 1, 2)
        await write(journal, "session/a", "on")


def alter(directory: Path, *statements: tuple[str, tuple[object, ...]]) -> None:
    """Change rows behind the journal's back."""
    connection = sqlite3.connect(directory / "journal.db")
    for sql, values in statements:
        connection.execute(sql, values)
    connection.commit()
    connection.close()


LENGTH = len(b'{"text":"a11"}')


@pytest.mark.parametrize("fill", ["cut", "zeroed"])
@pytest.mark.parametrize("seq", [EVENTS, EVENTS - 1])
async def test_d01_a_row_is_torn_at_every_byte(tmp_path: Path, seq: int, fill: str) -> None:
    """Of the last event, and of the one before a good one: that row and what follows are set aside as they were."""
    source = tmp_path / "source"
    async with opened(source) as journal:
        for number in range(EVENTS):
            await write(journal, "session/a", f"a{number}")
    for place in range(LENGTH):
        directory = tmp_path / str(place)
        shutil.copytree(source, directory)
        payload = f'{{"text":"a{seq - 1}"}}'.encode()
        torn = payload[:place] + (b"" if fill == "cut" else bytes(len(payload) - place))
        alter(directory, ("UPDATE event SET payload=? WHERE stream='session/a' AND seq=?", (torn, seq)))
        async with opened(directory) as journal:
            (found,) = journal.report.quarantined
            assert (found.from_seq, found.events) == (seq, EVENTS - seq + 1)
            assert len(await texts(journal, "session/a")) == seq - 1
            assert (await write(journal, "session/a", "on")).events[0].epoch == 2
        connection = sqlite3.connect(directory / "journal.db")
        kept = connection.execute("SELECT payload FROM quarantine ORDER BY seq").fetchall()
        connection.close()
        assert kept[0][0] == torn
        assert len(kept) == EVENTS - seq + 1


async def test_d01_rows_twice_and_out_of_order(tmp_path: Path) -> None:
    """A row that stands twice, and two that changed places: the chain shows it, from the first wrong one on."""
    source = tmp_path / "source"
    async with opened(source) as journal:
        for number in range(EVENTS):
            await write(journal, "session/a", f"a{number}")
    columns = "epoch, type, version, at, payload, digest, payload_hash"
    twice = f"INSERT INTO event (stream, seq, {columns}) SELECT stream, ?, {columns} FROM event WHERE seq=?"
    swap = "UPDATE event SET seq=? WHERE stream='session/a' AND seq=?"
    cases = {
        "twice": (((twice, (EVENTS + 1, EVENTS)),), EVENTS + 1, 1),
        "swapped": (((swap, (99, 8)), (swap, (8, 9)), (swap, (9, 99))), 8, EVENTS - 7),
    }
    for name, (statements, from_seq, events) in cases.items():
        directory = tmp_path / name
        shutil.copytree(source, directory)
        alter(directory, *statements)
        async with opened(directory) as journal:
            (found,) = journal.report.quarantined
            assert (found.from_seq, found.events) == (from_seq, events)
            assert len(await texts(journal, "session/a")) == from_seq - 1
            assert (await journal.verify("session/a")).ok
