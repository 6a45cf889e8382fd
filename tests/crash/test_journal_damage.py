"""Damaged data: torn, zeroed, cut and altered tails are set aside and told; the good part is kept."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kit.journal_kit import batch, clock, open_journal, opened, texts, write

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.envelope import Durability
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.offline import OfflineJournal
from gloveport.server.journal.schema import (
    APPLICATION_ID,
    MIGRATIONS,
    backup_path,
    connect,
    migrate,
    stored_version,
)
from gloveport.server.journal.store import Journal


async def filled(directory: Path, count: int = 20) -> None:
    """Two streams of `count` events, closed in good order."""
    async with opened(directory) as journal:
        for letter in "ab":
            names = (f"{letter}{number}" for number in range(count))
            await write(journal, f"session/{letter}", *names, durability=Durability.RELAXED)


async def crashed_copy(tmp_path: Path, count: int = 20) -> Path:
    """A data directory as a crash leaves it: everything in the log, nothing closed."""
    source = tmp_path / "source"
    async with opened(source) as journal:
        for number in range(count):
            await write(journal, "session/a", f"a{number}", durability=Durability.RELAXED)
        target = tmp_path / "data"
        target.mkdir(mode=0o700)
        for name in ("journal.db", "journal.db-wal"):
            shutil.copyfile(source / name, target / name)
            (target / name).chmod(0o600)
    return target


def alter(directory: Path, sql: str, *values: object) -> None:
    """Change stored rows behind the journal's back."""
    connection = sqlite3.connect(directory / "journal.db")
    connection.execute(sql, values)
    connection.commit()
    connection.close()


ALTERATIONS = [
    pytest.param("UPDATE event SET payload=zeroblob(9) WHERE stream='session/a' AND seq=18", 18, 3, 0, id="zeroed"),
    pytest.param("UPDATE event SET payload='text' WHERE stream='session/a' AND seq=20", 20, 1, 0, id="wrong type"),
    pytest.param("UPDATE event SET digest=x'00' WHERE stream='session/a' AND seq=19", 19, 2, 0, id="digest"),
    pytest.param("UPDATE event SET type=type||char(0) WHERE stream='session/a' AND seq=19", 19, 2, 0, id="NUL in type"),
    pytest.param("DELETE FROM event WHERE stream='session/a' AND seq=18", 18, 2, 1, id="hole"),
    pytest.param("DELETE FROM event WHERE stream='session/a' AND seq>17", 18, 0, 3, id="tail gone"),
    pytest.param("UPDATE stream SET next_seq=25 WHERE name='session/a'", 21, 0, 0, id="head ahead"),
]


@pytest.mark.parametrize(("sql", "from_seq", "events", "gone"), ALTERATIONS)
async def test_damaged_tail_is_set_aside_and_told(
    tmp_path: Path, sql: str, from_seq: int, events: int, gone: int
) -> None:
    """The good part stays, the rest is quarantined as it was found, the stream begins an epoch; others stay."""
    directory = tmp_path / "data"
    await filled(directory)
    alter(directory, sql)
    async with opened(directory) as journal:
        found = journal.report.quarantined
        assert [(q.stream, q.from_seq, q.events) for q in found] == [("session/a", from_seq, events)]
        assert found[0].reason
        (loss,) = journal.report.untold
        assert (loss.from_seq, loss.events) == (from_seq, events + gone)  # people are told of all that is missing
        assert (await journal.verify("session/a")).ok
        assert len(await texts(journal, "session/a")) == from_seq - 1
        assert len(await texts(journal, "session/b")) == 20
        done = await write(journal, "session/a", "on")
        assert (done.events[0].epoch, done.events[0].seq) == (2, from_seq)
        assert (await write(journal, "session/b", "on")).events[0].epoch == 1
    connection = sqlite3.connect(directory / "journal.db")
    assert connection.execute("SELECT count(*) FROM quarantine").fetchone()[0] == events
    connection.close()
    async with opened(directory) as journal:
        assert journal.report.quarantined == ()


async def test_damage_below_the_checked_tail_is_found_by_verify(tmp_path: Path) -> None:
    """Opening checks the tail only; `verify` follows the whole chain and names the first break."""
    directory = tmp_path / "data"
    await filled(directory, 60)
    alter(directory, "UPDATE event SET at=at+1 WHERE stream='session/a' AND seq=5")
    async with opened(directory) as journal:
        assert journal.report.quarantined == ()
        report = await journal.verify("session/a")
        assert (report.ok, report.broken_seq) == (False, 5)


@pytest.mark.parametrize("kind", ["cut", "nul", "garbage", "bit"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.97])
async def test_torn_log_loads_to_the_last_whole_commit(tmp_path: Path, kind: str, share: float) -> None:
    """A torn, zeroed, overwritten or flipped log: a prefix of the events is there, whole, and the journal goes on."""
    directory = await crashed_copy(tmp_path)
    log = directory / "journal.db-wal"
    data = bytearray(log.read_bytes())
    place = int(len(data) * share)
    if kind == "cut":
        del data[place:]
    elif kind == "nul":
        data[place:] = bytes(len(data) - place)
    elif kind == "garbage":
        data[place:] = os.urandom(len(data) - place)
    else:
        data[place] ^= 0x40
    log.write_bytes(data)
    async with opened(directory) as journal:
        kept = await texts(journal, "session/a")
        assert kept == [f'{{"text":"a{number}"}}'.encode() for number in range(len(kept))]
        assert len(kept) < 20
        if kept:
            assert (await journal.verify("session/a")).ok
        await write(journal, "session/a", "on")


@pytest.mark.parametrize("page", [3, 4, 6, -1])
async def test_damaged_pages_are_salvaged(tmp_path: Path, page: int) -> None:
    """A page of garbage: every stream is loaded to its last good event, the damaged file is kept whole."""
    directory = tmp_path / "data"
    await filled(directory, 150)
    path = directory / "journal.db"
    data = bytearray(path.read_bytes())
    start = (page - 1) * 4096 if page > 0 else len(data) - 4096
    data[start : start + 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    async with opened(directory) as journal:
        assert journal.report.salvaged is not None
        assert (directory / journal.report.salvaged).stat().st_size == len(data)
        lost = {found.stream: found.from_seq for found in journal.report.quarantined}
        for stream in ("session/a", "session/b"):
            assert len(await texts(journal, stream)) == lost.get(stream, 151) - 1
            assert (await journal.verify(stream)).ok
            assert (await write(journal, stream, "on")).events[0].epoch == (2 if stream in lost else 1)


@pytest.mark.parametrize("missing", ["half", "some bytes"])
async def test_cut_database_is_salvaged_not_taken_for_whole(tmp_path: Path, missing: str) -> None:
    """A database file that lost its second half, or only the last bytes of its last page, is noticed."""
    directory = tmp_path / "data"
    await filled(directory, 300)
    path = directory / "journal.db"
    size = path.stat().st_size
    os.truncate(path, size // 2 if missing == "half" else size - 100)
    async with opened(directory) as journal:
        assert journal.report.salvaged is not None
        lost = {found.stream: found.from_seq for found in journal.report.quarantined}
        assert lost or missing == "some bytes"
        for stream in await journal.streams("session/"):
            assert len(await texts(journal, stream)) == lost.get(stream, 301) - 1
            assert (await journal.verify(stream)).ok


@pytest.mark.parametrize("content", [b"not a database at all" * 300, bytes(8192)])
async def test_file_that_cannot_be_read_at_all_is_left_alone(tmp_path: Path, content: bytes) -> None:
    """Nothing readable: a typed refusal, and the file stays as it was."""
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    (directory / "journal.db").write_bytes(content)
    with pytest.raises(JournalError) as caught:
        await open_journal(directory)
    assert caught.value.code is ErrorCode.CORRUPT
    assert (directory / "journal.db").read_bytes() == content


async def test_log_without_its_database_is_not_an_empty_journal(tmp_path: Path) -> None:
    """Starting anew beside a left-over log would throw its events away."""
    directory = await crashed_copy(tmp_path)
    (directory / "journal.db").unlink()
    with pytest.raises(JournalError) as caught:
        await open_journal(directory)
    assert caught.value.code is ErrorCode.CORRUPT
    assert (directory / "journal.db-wal").exists()


async def test_foreign_database_is_left_alone(tmp_path: Path) -> None:
    """Somebody else's SQLite file is not migrated into ours."""
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    connection = sqlite3.connect(directory / "journal.db")
    connection.execute("CREATE TABLE cats (name)")
    connection.close()
    before = (directory / "journal.db").read_bytes()
    with pytest.raises(JournalError) as caught:
        await open_journal(directory)
    assert caught.value.code is ErrorCode.CORRUPT
    assert (directory / "journal.db").read_bytes() == before


async def test_newer_data_is_refused_untouched(tmp_path: Path) -> None:
    """The version gate holds both ways, online and offline."""
    directory = tmp_path / "data"
    await filled(directory, 1)
    alter(directory, "INSERT INTO schema_version VALUES (99, 1)")
    with pytest.raises(JournalError) as caught:
        await open_journal(directory)
    assert caught.value.code is ErrorCode.NEWER_DATA
    with pytest.raises(JournalError) as caught:
        OfflineJournal.open(directory)
    assert caught.value.code is ErrorCode.NEWER_DATA


async def test_migration_keeps_a_backup_and_is_one_transaction(tmp_path: Path) -> None:
    """Old data is copied aside before a migration; one that fails changes nothing."""
    directory = tmp_path / "data"
    await filled(directory, 3)
    path = directory / "journal.db"

    def widen(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE session_index ADD COLUMN colour TEXT")

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE event ADD COLUMN extra")
        connection.execute("SELECT * FROM nowhere")

    connection = connect(path)
    with pytest.raises(sqlite3.Error):
        migrate(connection, path, clock(), (*MIGRATIONS, widen, fail))
    assert stored_version(connection) == len(MIGRATIONS)
    assert "colour" not in str(connection.execute("SELECT sql FROM sqlite_master").fetchall())
    assert migrate(connection, path, clock(), (*MIGRATIONS, widen)) == len(MIGRATIONS)
    connection.close()
    backup = connect(backup_path(path, len(MIGRATIONS)), read_only=True)
    assert backup.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    assert backup.execute("SELECT count(*) FROM event").fetchone()[0] == 6
    backup.close()


Change = Callable[[Path], None]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda path: path.chmod(0o755), id="open to others"),
        pytest.param(lambda path: (path.rename(path.with_name("real")), path.symlink_to("real")), id="a link"),
    ],
)
async def test_unsafe_data_directory_is_refused(tmp_path: Path, change: Change) -> None:
    """A directory that others may enter, or a link to one, holds no journal."""
    directory = tmp_path / "data"
    directory.mkdir(mode=0o700)
    change(directory)
    with pytest.raises(JournalError) as caught:
        await open_journal(directory)
    assert caught.value.code is ErrorCode.UNSAFE_DIRECTORY


@pytest.mark.parametrize("copied", ["closed", "running"])
async def test_database_put_back_from_a_copy_is_noticed(tmp_path: Path, copied: str) -> None:
    """Events after the copy are gone, so old cursors, approvals and grants must not go on: a new epoch, and told."""
    directory = tmp_path / "data"
    await filled(directory, 2)
    if copied == "closed":
        shutil.copyfile(directory / "journal.db", tmp_path / "copy")
    async with opened(directory) as journal:
        assert not journal.report.restored
        if copied == "running":
            shutil.copyfile(directory / "journal.db", tmp_path / "copy")
        await write(journal, "session/a", "after the copy")
    shutil.copyfile(tmp_path / "copy", directory / "journal.db")
    async with opened(directory) as journal:
        assert journal.report.restored
        done = await write(journal, "session/a", "on")
        assert (done.events[0].epoch, done.events[0].seq) == (2, 3)
        assert (await journal.verify("session/a")).ok
    async with opened(directory) as journal:
        assert not journal.report.restored


async def test_generation_file_never_blocks(tmp_path: Path) -> None:
    """A missing or senseless count says nothing."""
    directory = tmp_path / "data"
    await filled(directory, 1)
    for content in (b"", b"x", b"9" * 40):
        (directory / "journal.generation").write_bytes(content)
        async with opened(directory) as journal:
            assert not journal.report.restored


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param("UPDATE event SET payload='text' WHERE stream='session/a' AND seq=5", id="wrong type"),
        pytest.param("UPDATE event SET digest='text' WHERE stream='session/a' AND seq=5", id="no digest"),
        pytest.param("UPDATE event SET type=CAST(x'ff' AS TEXT) WHERE stream='session/a' AND seq=5", id="no text"),
    ],
)
async def test_d01_a_row_that_cannot_be_read_is_named_and_set_aside(tmp_path: Path, damage: str) -> None:
    """Far below the checked tail: a reader is told stream and number, and everything before it stays readable."""
    directory = tmp_path / "data"
    await filled(directory, 60)
    alter(directory, damage)
    async with opened(directory) as journal:
        assert len(await journal.read("session/a", 0)) == 4
        with pytest.raises(JournalError) as caught:
            await journal.read("session/a", 4)
        assert (caught.value.code, caught.value.data) == (ErrorCode.CORRUPT, {"stream": "session/a", "seq": 5})
        loss = await journal.set_aside("session/a", 5, caught.value.message)
        assert (loss.from_seq, loss.events) == (5, 56)
        assert await journal.untold_loss("session/a") == loss
        assert len(await texts(journal, "session/a")) == 4
        assert (await journal.verify("session/a")).ok
        done = await write(journal, "session/a", "on")
        assert (done.events[0].epoch, done.events[0].seq) == (2, 5)
    connection = sqlite3.connect(directory / "journal.db")
    connection.text_factory = bytes
    assert connection.execute("SELECT count(*) FROM quarantine WHERE stream='session/a'").fetchone()[0] == 56
    connection.close()
    async with opened(directory) as journal:
        assert journal.report.untold == (loss,)
        await journal.told((loss,))
        assert await journal.untold_loss("session/a") is None


async def test_d01_a_set_aside_tail_is_no_second_loss(tmp_path: Path) -> None:
    """The notes of what was acknowledged follow: after a kill nothing else is missed."""
    source, directory = tmp_path / "source", tmp_path / "data"
    async with opened(source) as journal:
        for number in range(20):
            await write(journal, "session/a", f"a{number}")
        loss = await journal.set_aside("session/a", 11, "damaged")
        await journal.told((loss,))
        shutil.copytree(source, directory)
    async with opened(directory) as journal:
        assert journal.report.unclean
        assert (journal.report.untold, journal.report.lost) == ((), ())


@pytest.mark.parametrize("seq", [0, 7])
async def test_d01_a_lost_head_is_built_again(tmp_path: Path, seq: int) -> None:
    """The row that says where a stream ends is gone: it ends after its last good event, in a new epoch, and told."""
    directory = tmp_path / "data"
    await filled(directory)
    alter(directory, "DELETE FROM stream WHERE name='session/a'")
    alter(directory, "UPDATE event SET payload=zeroblob(3) WHERE stream='session/a' AND seq=?", seq)
    async with opened(directory) as journal:
        kept = seq - 1 if seq else 20
        assert [(one.stream, one.from_seq) for one in journal.report.quarantined] == [("session/a", kept + 1)]
        assert len(await texts(journal, "session/a")) == kept
        assert (await write(journal, "session/a", "on")).events[0].epoch == 2
        assert (await journal.verify("session/a")).ok
        assert len(await texts(journal, "session/b")) == 20


async def test_d01_a_page_that_is_met_later_is_salvaged_by_the_next_open(tmp_path: Path) -> None:
    """Opening does not read whole logs; a reader that meets the page stops the journal, and `reopen` salvages."""
    directory = tmp_path / "data"
    await filled(directory, 400)
    path = directory / "journal.db"
    data = bytearray(path.read_bytes())
    place = data.index(b'{"text":"b200"}') // 4096 * 4096
    data[place : place + 4096] = bytes(4096)
    path.write_bytes(data)
    async with opened(directory) as journal:
        assert journal.report.salvaged is None
        with pytest.raises(JournalError) as caught:
            await texts(journal, "session/b")
        assert caught.value.code is ErrorCode.CORRUPT
        assert not journal.health().accepting
        report = await journal.reopen()
        assert report.salvaged is not None
        (lost,) = report.quarantined
        assert (lost.stream, await journal.untold_loss("session/b") is not None) == ("session/b", True)
        assert len(await texts(journal, "session/b")) == lost.from_seq - 1 > 50
        assert len(await texts(journal, "session/a")) == 400
        await write(journal, "session/b", "on")


@pytest.mark.parametrize("table", ["session_index", "fold_snapshot", "blob_use", "request"])
async def test_d04_a_derived_table_that_is_gone_is_made_anew(tmp_path: Path, table: str) -> None:
    """What can be filled from the log again is no reason to refuse the log."""
    directory = tmp_path / "data"
    await filled(directory, 2)
    alter(directory, f"DROP TABLE {table}")
    async with opened(directory) as journal:
        await write(journal, "session/a", "on")
        assert await journal.sessions() == ()
        assert await journal.unlisted("session/") == ("session/b", "session/a")


async def refusal(journal: Journal, stream: str) -> JournalError | None:
    """What the second append to a stream is refused with."""
    try:
        await journal.append(batch(stream, 2, "y"))
    except JournalError as error:
        return error
    return None


async def test_d01_a_page_that_the_writer_meets_is_salvaged_by_the_next_open(tmp_path: Path) -> None:
    """The rightmost leaf of a stream is garbage after a clean end: an append stops, `reopen` salvages, work goes on."""
    directory = tmp_path / "data"
    async with opened(directory) as journal:
        for number in range(200):
            await journal.append(batch(f"session/{number:04d}", 1, "x" * 300))
    path = directory / "journal.db"
    data = bytearray(path.read_bytes())
    place = data.index(b"session/0100") // 4096 * 4096
    data[place : place + 4096] = b"\x5a" * 4096
    path.write_bytes(data)
    async with opened(directory) as journal:
        if journal.report.salvaged is None:
            met = [await refusal(journal, f"session/{number:04d}") for number in range(200)]
            assert any(met)
            assert (await journal.reopen()).salvaged is not None
        assert len(await journal.streams()) > 150
        await write(journal, "session/0199", "on")
