"""The disk refuses an fsync: the journal stops before anything follows, and the reopened one holds what it answered."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.journal_kit import opened, texts
from tests.kit.require import require

CHILD = """
import asyncio, os, sys
from pathlib import Path
from gloveport.protocol.journal.envelope import Durability
from gloveport.server.journal.errors import JournalError
from tests.kit.journal_kit import batch, open_journal, texts

async def main(directory, durability):
    journal, report = await open_journal(directory, ballast_bytes=0)
    seq = 1
    try:
        while seq < 60:
            await journal.append(batch("s", seq, f"n{seq}", durability=Durability(durability)))
            seq += 1
            if seq % 10 == 0:
                await journal.sync()
    except JournalError as error:
        print(seq - 1, error.code.value, journal.health().accepting, flush=True)
        try:
            await journal.append(batch("t", 1, "after"))
            print("accepted", flush=True)
        except JournalError as error:
            print(error.code.value, flush=True)
    os._exit(0)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.mark.parametrize("durability", ["full", "relaxed"])
async def test_d02_a_refused_fsync_stops_before_anything_follows(tmp_path: Path, durability: str) -> None:
    """EIO from the kernel at the n-th fsync of the log: typed, nothing more is taken, nothing answered is missing."""
    strace = shutil.which("strace")
    require(strace is not None, "strace is not installed")
    assert strace is not None
    directory = tmp_path / "data"
    async with opened(directory, ballast_bytes=0):
        pass
    log = directory / "journal.db-wal"
    inject = "inject=fdatasync,fsync:error=EIO:when=8+"
    command = [strace, "-f", "-qq", "-o", os.devnull, "-P", str(log), "-e", "trace=fdatasync,fsync", "-e", inject]
    done = subprocess.run(
        [*command, sys.executable, "-c", CHILD, str(directory), durability],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    require("Operation not permitted" not in done.stderr, "strace (ptrace)")
    first, *rest = done.stdout.splitlines()
    answered, code, accepting = first.split()
    assert (code, accepting) == ("journal.not_saved", "False")
    assert rest == ["journal.not_saved"]
    async with opened(directory) as journal:
        kept = await texts(journal, "s")
        assert len(kept) >= int(answered) > 0
        assert kept == [b'{"text":"n%d"}' % number for number in range(1, len(kept) + 1)]
        assert (await journal.verify("s")).ok
        assert await journal.head("t") is None
