"""Killing the owner of a journal in the middle of appends.

Kills are placed by progress (after the n-th acknowledgement), not by time.
"""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.kit import journal_child
from tests.kit.journal_kit import opened, write

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.errors import JournalError
from gloveport.server.journal.lease import DataLease, process_start_ticks, read_owner
from gloveport.server.journal.offline import OfflineJournal, owner_lives


@contextmanager
def child(directory: Path, mode: str) -> Iterator["subprocess.Popen[str]"]:
    """A running owner; killed and reaped at the end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, journal_child.__file__, str(directory), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def kill_after(directory: Path, acknowledgements: int) -> list[tuple[str, int, str]]:
    """Kill after so many acknowledgements; every acknowledged (stream, seq, digest), late ones included."""
    with child(directory, "append") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(acknowledgements)]
        process.kill()
        lines += process.stdout.read().splitlines(keepends=True)
    whole = [line.split() for line in lines if line.endswith("\n")]
    return [(stream, int(seq), digest) for stream, seq, digest, _durable in whole]


@pytest.mark.parametrize("acknowledgements", [1, 2, 5, 23, 211])
async def test_acknowledged_means_there(tmp_path: Path, acknowledgements: int) -> None:
    """After kill -9 every acknowledged event is there, each chain verifies, and every answer is recorded (D02)."""
    directory = tmp_path / "data"
    seen = kill_after(directory, acknowledgements)
    seen += kill_after(directory, acknowledgements)
    assert not owner_lives(directory)
    with OfflineJournal.open(directory) as offline:
        for stream in offline.streams():
            assert offline.verify(stream).ok
    async with opened(directory) as journal:
        assert journal.report.unclean
        assert not journal.report.other_boot
        assert journal.report.quarantined == ()
        stored = {(e.stream, e.seq): e.digest for name in await journal.streams() for e in await journal.read(name, 0)}
        for stream, seq, digest in seen:
            assert stored[stream, seq] == digest
            assert await journal.answered(f"{stream}:{seq}") == b"done"
        for stream in await journal.streams():
            assert (await journal.verify(stream)).ok
            head = await journal.head(stream)
            assert head is not None
            assert (head.epoch, head.durable_seq) == (1, head.seq)
            # An event and the answer to its request share their fate.
            assert await journal.answered(f"{stream}:{head.seq}") == b"done"
            assert await journal.answered(f"{stream}:{head.seq + 1}") is None


async def test_unclean_stop_on_another_boot_begins_epochs(tmp_path: Path) -> None:
    """A power loss may have taken relaxed events back: every stream begins a new epoch, so old cursors show it."""
    kill_after(tmp_path / "data", 5)
    async with opened(tmp_path / "data", boot_id="boot-2") as journal:
        assert journal.report.other_boot
        for stream in await journal.streams():
            done = await write(journal, stream, "x")
            assert done.events[0].epoch == 2
            assert (await journal.verify(stream)).ok


async def test_second_owner_learns_who_the_first_is(tmp_path: Path) -> None:
    """One owner over processes; the refusal names it; its death frees the directory at once (D05)."""
    directory = tmp_path / "data"
    with child(directory, "hold") as process:
        assert owner_lives(directory)
        with pytest.raises(JournalError) as caught:
            async with opened(directory):
                pass
        assert caught.value.code is ErrorCode.LEASE_HELD
        assert caught.value.data == {"pid": process.pid}
        assert str(process.pid) in caught.value.message
        owner = read_owner(directory)
        assert owner is not None
        assert owner.start_ticks == process_start_ticks(process.pid)
        process.kill()
        process.wait()
    async with opened(directory) as journal:
        assert journal.report.unclean
    after = read_owner(directory)
    assert after is not None
    assert after.generation == owner.generation + 1


DIES_WITH_AN_HEIR = """
import os, signal, sys
from pathlib import Path
from gloveport.server.journal.lease import DataLease
DataLease.acquire(Path(sys.argv[1]))
if os.fork() == 0:
    os.read(0, 1)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_child_that_a_dead_owner_had_just_forked_is_waited_for(tmp_path: Path) -> None:
    """It holds the lock until it becomes a program: the owner is dead, so nobody is told that the directory is its."""
    words = [sys.executable, "-c", DIES_WITH_AN_HEIR, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stdin=subprocess.PIPE, env=environment) as process:
        assert process.wait() == -signal.SIGKILL
        directory = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(directory)
        assert process.stdin is not None
        later = threading.Timer(0.1, os.write, (process.stdin.fileno(), b"x"))
        later.start()
        with DataLease.acquire(tmp_path) as lease:
            assert lease.generation == 2
        later.join()


async def test_clean_end_in_another_process(tmp_path: Path) -> None:
    """An owner that closes leaves no log and no doubt."""
    directory = tmp_path / "data"
    with child(directory, "hold") as process:
        process.communicate()
        assert process.returncode == 0
    assert not (directory / "journal.db-wal").exists()
    async with opened(directory) as journal:
        assert not journal.report.unclean


def test_stale_or_broken_lock_file_blocks_nobody(tmp_path: Path) -> None:
    """What the file says is information only: garbage, a living pid, an empty file."""
    for number, text in enumerate(("", "{", '{"pid":1,"start_ticks":1,"generation":41}', "\0" * 9000)):
        (tmp_path / "daemon.lock").write_text(text)
        with DataLease.acquire(tmp_path) as lease:
            assert lease.held
            assert lease.generation == (42 if number == 2 else 1)
        assert not lease.held


def test_lease_is_exclusive_inside_one_process(tmp_path: Path) -> None:
    """A second taker in the same process is refused as well, and release is idempotent."""
    lease = DataLease.acquire(tmp_path)
    with pytest.raises(JournalError) as caught:
        DataLease.acquire(tmp_path)
    assert caught.value.data == {"pid": os.getpid()}
    lease.release()
    lease.release()
    DataLease.acquire(tmp_path).release()


def test_lock_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """A planted link must not make us write elsewhere."""
    target = tmp_path / "target"
    target.write_text("kept")
    (tmp_path / "daemon.lock").symlink_to(target)
    with pytest.raises(JournalError) as caught:
        DataLease.acquire(tmp_path)
    assert caught.value.code is ErrorCode.UNSAFE_DIRECTORY
    assert target.read_text() == "kept"
