"""A full or failing data disk: the turn stops before any side effect, nothing acknowledged is lost, room heals it."""

import asyncio
import ctypes
import errno
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kit.journal_kit import batch, event, open_journal, opened, texts, write
from tests.kit.require import require

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.envelope import Durability
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.filesystem import BALLAST_FILE
from gloveport.server.journal.store import Journal

DISK_BYTES = 2 * 1024 * 1024
FILL = "f" * 20_000


@contextmanager
def tiny_disk(mount_point: Path, size_bytes: int = DISK_BYTES) -> Iterator[Path]:
    """A small tmpfs for this user, in a directory of this test; needs the right to mount."""
    mount_point.mkdir(exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"size={size_bytes},mode=700,uid={os.geteuid()}".encode()
    done = libc.mount(b"gloveport-test", os.fsencode(mount_point), b"tmpfs", 0, options)
    require(done == 0, "mounting a tmpfs (root with CAP_SYS_ADMIN)")
    try:
        yield mount_point
    finally:
        libc.umount2(os.fsencode(mount_point), 2)


async def fill(journal: Journal, stream: str, limit: int = 1000) -> tuple[int, JournalError]:
    """Append until the disk refuses; how many were acknowledged, and the refusal."""
    head = await journal.head(stream)
    start = head.seq if head is not None else 0
    for number in range(start, start + limit):
        try:
            await journal.append(batch(stream, number + 1, FILL))
        except JournalError as error:
            return number, error
    raise AssertionError("the disk never filled")


async def test_full_disk_stops_typed_and_heals(tmp_path: Path) -> None:
    """ENOSPC on a real small disk: typed, nothing acknowledged lost, cancel fits into the reserve (D02, D04)."""
    with tiny_disk(tmp_path / "disk") as disk:
        directory = disk / "data"
        journal, report = await open_journal(directory, ballast_bytes=256 * 1024)
        assert report.has_ballast
        count, error = await fill(journal, "s")
        assert error.code is ErrorCode.DATA_FULL
        assert "free space" in error.hint.lower()
        # Stopped: nothing further is accepted, reading goes on, health says why.
        with pytest.raises(JournalError) as caught:
            await journal.append(batch("t", 1, "x"))
        assert caught.value.code is ErrorCode.DATA_FULL
        assert len(await texts(journal, "s")) == count
        health = journal.health()
        assert (health.accepting, health.disk_full) == (False, True)
        # The reserve is given back, so that what ends work still fits.
        report = await journal.reopen()
        assert (report.has_ballast, report.lost, report.quarantined) == (False, (), ())
        assert len(await texts(journal, "s")) == count
        await write(journal, "s", "TurnCancelled")
        # Full again, without a reserve now: still typed, still nothing lost.
        count, error = await fill(journal, "s")
        assert error.code is ErrorCode.DATA_FULL
        await journal.close()
        # Somebody frees space: it opens with everything, and reserves again when there is room enough.
        remount = ctypes.CDLL(None).mount(b"x", os.fsencode(disk), b"tmpfs", 32, b"size=8388608")
        assert remount == 0
        async with opened(directory, ballast_bytes=256 * 1024) as again:
            assert again.report.has_ballast
            assert len(await texts(again, "s")) == count
            assert (await again.verify("s")).ok
            await write(again, "s", "on")


async def test_disk_too_full_to_open_is_typed_and_changes_nothing(tmp_path: Path) -> None:
    """Starting on a full disk is one clear answer; the journal opens once there is room (D04)."""
    with tiny_disk(tmp_path / "disk") as disk:
        directory = disk / "data"
        async with opened(directory, ballast_bytes=0) as journal:
            await write(journal, "s", "one")
        filler = disk / "filler"
        with until_full(), filler.open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
        with pytest.raises(JournalError) as caught:
            await open_journal(directory)
        assert caught.value.code is ErrorCode.DATA_FULL
        filler.unlink()
        async with opened(directory) as journal:
            assert len(await texts(journal, "s")) == 1


@contextmanager
def until_full() -> Iterator[None]:
    """Until the disk is full."""
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        yield


async def test_page_limit_of_the_database_is_a_full_disk(tmp_path: Path) -> None:
    """SQLITE_FULL from SQLite itself, for users who may not mount: the same typed stop and the same healing."""
    async with opened(tmp_path / "data") as journal:
        await write(journal, "s", "one")
        door = journal._writing()
        await door.run(lambda connection: connection.execute("PRAGMA max_page_count=40").fetchone())
        count, error = await fill(journal, "s")
        assert error.code is ErrorCode.DATA_FULL
        assert journal.health().disk_full
        report = await journal.reopen()
        assert not (tmp_path / "data" / BALLAST_FILE).exists() or report.has_ballast
        assert len(await texts(journal, "s")) == count
        await write(journal, "s", "on")


async def test_failed_group_leaves_nobody_waiting(tmp_path: Path) -> None:
    """When a group commit fails, every waiter gets the refusal, and none of the group is there."""
    async with opened(tmp_path / "data") as journal:
        await write(journal, "s", "one")
        await journal._writing().run(lambda c: c.execute("PRAGMA max_page_count=20").fetchone())
        outcomes = await asyncio.gather(
            *(journal.append(batch(f"t{number}", 1, FILL)) for number in range(20)), return_exceptions=True
        )
        refused = [found for found in outcomes if isinstance(found, JournalError)]
        assert refused
        assert {found.code for found in refused} == {ErrorCode.DATA_FULL}
        await journal.reopen()
        for number, outcome in enumerate(outcomes):
            assert (len(await texts(journal, f"t{number}")) == 1) is not isinstance(outcome, JournalError)


CHILD = """
import asyncio, resource, signal, sys
from pathlib import Path
from gloveport.server.journal.errors import JournalError
from tests.kit.journal_kit import batch, open_journal, texts

async def main(directory):
    journal, report = await open_journal(directory, ballast_bytes=0)
    await journal.append(batch("s", 1, "one"))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    count = 1
    try:
        while True:
            await journal.append(batch("s", count + 1, "f" * 20_000))
            count += 1
    except JournalError as error:
        print(error.code.value, count)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await journal.reopen()
    print(len(await texts(journal, "s")), (await journal.verify("s")).ok)
    await journal.close()

asyncio.run(main(Path(sys.argv[1])))
"""


def test_refused_write_stops_and_loses_nothing(tmp_path: Path) -> None:
    """A write error that is not about room (file size limit): typed, and a reopen finds all that was acknowledged."""
    if resource.getrlimit(resource.RLIMIT_FSIZE)[1] != resource.RLIM_INFINITY:
        require(False, "an unlimited file size")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        env=environment,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    code, count, kept, verified = done.stdout.split()
    assert code in {"journal.not_saved", "journal.disk_full"}
    assert int(count) > 1
    assert (int(kept), verified) == (int(count), "True")


async def test_lost_relaxed_tail_is_told(tmp_path: Path) -> None:
    """A relaxed tail that was acknowledged and is gone after a write error begins a new epoch and is reported."""
    async with opened(tmp_path / "data") as journal:
        await write(journal, "s", "one")
        await write(journal, "s", "two", "three", durability=Durability.RELAXED)
        await write_error(journal)
        connection = sqlite3.connect(tmp_path / "data" / "journal.db")
        digest = connection.execute("SELECT digest FROM event WHERE stream='s' AND seq=1").fetchone()[0]
        connection.execute("DELETE FROM event WHERE stream='s' AND seq>1")
        connection.execute("UPDATE stream SET next_seq=2, digest=? WHERE name='s'", (digest,))
        connection.commit()
        connection.close()
        report = await journal.reopen()
        assert report.lost == ("s",)
        done = await journal.new_epoch("t", event(), expected_next_seq=1, at=1)
        assert done.events
        assert (await write(journal, "s", "again")).events[0].epoch == 2


async def write_error(journal: Journal) -> None:
    """Make the journal stop on a real refusal of SQLite."""
    await journal._writing().run(lambda c: c.execute("PRAGMA max_page_count=1").fetchone())
    with pytest.raises(JournalError):
        await journal.append(batch("filler", 1, *[FILL] * 50, durability=Durability.RELAXED))


async def test_no_room_for_a_snapshot_costs_the_snapshot_alone(tmp_path: Path) -> None:
    """Typed; the one before is still there, what is appended next is taken, and survives a death of the process."""
    with tiny_disk(tmp_path / "disk") as disk:
        journal, _report = await open_journal(disk / "data", ballast_bytes=0)
        done = await write(journal, "s", "one")
        place = (done.events[0].seq, done.events[0].digest)
        assert await journal.put_snapshots("s", *place, {"fold": b"before", "view": b"before"})
        with pytest.raises(JournalError) as caught:
            await journal.put_snapshots("s", *place, {"fold": b"after", "view": os.urandom(2 * DISK_BYTES)})
        assert caught.value.code is ErrorCode.DATA_FULL
        assert journal.health().accepting
        await write(journal, "s", "two")
        found = await journal.snapshots("s", ("fold", "view"))
        assert [found[kind].state for kind in ("fold", "view")] == [b"before", b"before"]
        copy = tmp_path / "copy"
        shutil.copytree(disk / "data", copy)  # as it stands, without a clean end
        await journal.close()
    async with opened(copy) as again:
        assert await texts(again, "s") == [event("one").payload, event("two").payload]
        assert (await again.verify("s")).ok
