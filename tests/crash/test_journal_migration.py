"""Data of an earlier version: brought up to date whole or not at all, with a copy aside, gated both ways (D12)."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit import journal_first
from tests.kit.journal_first import EVENTS, STREAMS, write_first
from tests.kit.journal_kit import clock, open_journal, opened, write

import gloveport
from gloveport.protocol.errors import ErrorCode
from gloveport.server.client.paths import find_places, other_data_dirs
from gloveport.server.journal.blobs import BlobStore
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.schema import MIGRATIONS, backup_path, backups, connect, migrate, stored_version
from gloveport.server.journal.store import Journal

FIRST = MIGRATIONS[:1]


async def whole(journal: Journal, more: int = 0) -> None:
    """Everything that was there is there."""
    assert await journal.streams() == tuple(sorted(STREAMS))
    for stream in STREAMS:
        report = await journal.verify(stream)
        assert (report.ok, report.events) == (True, EVENTS + more)
    assert sorted(row.title for row in await journal.sessions()) == ["title a", "title b"]
    assert await journal.answered("asked") == b"ok"
    sizes = {one.stream: one.size_bytes for one in await journal.sizes("")}
    for stream in STREAMS:
        assert sizes[stream] == sum(len(one.payload) + 200 for one in await journal.read(stream, 0))


def version_of(path: Path) -> int:
    """The version of a file's data."""
    connection = connect(path, read_only=True)
    try:
        return stored_version(connection)
    finally:
        connection.close()


async def test_first_data_is_brought_up_to_date(tmp_path: Path) -> None:
    """All of it, sizes and all; a copy from before lies beside it; the second open finds nothing to do."""
    directory = tmp_path / "data"
    write_first(directory)
    async with opened(directory) as journal:
        assert journal.report.migrated_from == 1
        await whole(journal)
    assert version_of(directory / "journal.db") == len(MIGRATIONS)
    assert version_of(backup_path(directory / "journal.db", 1)) == 1
    async with opened(directory) as journal:
        assert journal.report.migrated_from is None


def kill_at(directory: Path, number: int) -> bool:
    """Open in a process that is killed at its n-th step; whether it was."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, journal_first.__file__, str(directory), str(number)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=60)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


async def test_d12_killed_at_every_step_of_a_migration(tmp_path: Path) -> None:
    """At each statement, and at each fsync of the copy: the next open has everything, and no half version."""
    number = 1
    while True:
        directory = tmp_path / str(number)
        write_first(directory)
        killed = kill_at(directory, number)
        assert version_of(directory / "journal.db") in (1, len(MIGRATIONS))
        if number % 3 == 0:
            kill_at(directory, number // 2)
        async with opened(directory) as journal:
            await whole(journal)
            await write(journal, "session/a", "on")
        for copy in backups(directory / "journal.db", 1):
            assert version_of(copy) == 1
        assert not list(directory.glob("*.part"))
        shutil.rmtree(directory)
        if not killed:
            break
        number += 1
    assert number > 15


async def test_d12_upgrade_downgrade_upgrade(tmp_path: Path) -> None:
    """The older program refuses newer data, says where the copy is, works on with it; nothing is written over."""
    directory = tmp_path / "data"
    path = directory / "journal.db"
    write_first(directory)
    async with opened(directory) as journal:
        await write(journal, "session/a", "only in the newer data")
    before = path.read_bytes()
    connection = connect(path)
    with pytest.raises(JournalError) as caught:
        migrate(connection, path, clock(), FIRST)
    connection.close()
    assert caught.value.code is ErrorCode.NEWER_DATA
    assert "journal.db.v1.backup" in caught.value.hint
    assert path.read_bytes() == before
    # The user does what the words say, works with the older program, and updates again.
    path.rename(directory / "journal.db.newer")
    shutil.copyfile(backup_path(path, 1), path)
    write_first(directory, more=3)
    async with opened(directory) as journal:
        assert (journal.report.migrated_from, journal.report.restored) == (1, True)
        await whole(journal, more=3)
        assert (await write(journal, "session/a", "on")).events[0].epoch == 2
    assert [copy.name for copy in backups(path, 1)] == ["journal.db.v1.backup.2", "journal.db.v1.backup"]
    assert (directory / "journal.db.newer").read_bytes() == before


async def test_a_gap_or_a_foreign_version_is_no_reason_to_guess(tmp_path: Path) -> None:
    """A file without a version, or with one that is no number, is left untouched."""
    for sql in ("DELETE FROM schema_version", "UPDATE schema_version SET version=x'00'"):
        directory = tmp_path / str(len(sql))
        write_first(directory)
        connection = sqlite3.connect(directory / "journal.db")
        connection.execute("PRAGMA writable_schema=ON")
        try:
            connection.execute(sql)
            connection.commit()
        except sqlite3.Error:
            connection.close()
            continue
        connection.close()
        before = (directory / "journal.db").read_bytes()
        with pytest.raises(JournalError) as caught:
            await open_journal(directory)
        assert caught.value.code is ErrorCode.CORRUPT
        assert (directory / "journal.db").read_bytes() == before


async def test_bodies_that_older_events_name_are_kept(tmp_path: Path) -> None:
    """The first version did not note which blobs are referred to: they are found in the payloads."""
    directory = tmp_path / "data"
    write_first(directory)
    store = await BlobStore.open(directory)
    named, other = await store.put(b"named"), await store.put(b"not named")
    connection = sqlite3.connect(directory / "journal.db")
    connection.execute(
        "UPDATE event SET payload=? WHERE stream='session/a' AND seq=2",
        (b'{"output_blob":"%s","digest":"%s"}' % (named.digest.encode(), b"0" * 64),),
    )
    connection.commit()
    connection.close()
    async with opened(directory) as journal:
        assert await journal.unused_blobs((named.digest, other.digest)) == (other.digest,)


async def test_no_room_for_the_copy_changes_nothing(tmp_path: Path) -> None:
    """A migration does not begin without its copy, and half a copy does not stay."""
    directory = tmp_path / "data"
    path = directory / "journal.db"
    write_first(directory)
    before = path.read_bytes()
    backup_path(path, 1).with_name("journal.db.v1.backup.part").mkdir()
    with pytest.raises(JournalError) as caught:
        await open_journal(directory)
    assert caught.value.code is ErrorCode.NOT_SAVED
    assert path.read_bytes() == before
    backup_path(path, 1).with_name("journal.db.v1.backup.part").rmdir()
    async with opened(directory) as journal:
        await whole(journal)


def test_d12_the_data_lies_where_the_user_is_not_where_the_program_is(tmp_path: Path) -> None:
    """Another copy of the program finds the same data; where the environment changed, the other places are known."""
    roots = []
    for name in ("protocol", "sandbox", "server"):
        source = next(Path(root) for root in gloveport.__path__ if (Path(root) / name).is_dir())
        shutil.copytree(source, tmp_path / name / "gloveport")
        roots.append(str(tmp_path / name))
    code = "from gloveport.server.client.paths import find_places; print(find_places().data_dir)"
    environment = {"HOME": "/home/user", "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(roots)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.decode().strip() == str(find_places({"HOME": "/home/user"}).data_dir)
    moved = {"HOME": "/home/user", "XDG_STATE_HOME": "/elsewhere", "GLOVEPORT_HOME": "/mine"}
    assert other_data_dirs(moved) == (Path("/elsewhere/gloveport"), Path("/home/user/.local/state/gloveport"))
    assert other_data_dirs({"HOME": "/home/user"}) == ()
