"""What is called durable was really given to the disk: the system calls of a real process are counted."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kit.require import require

CHILD = """
import asyncio, os, sys
from pathlib import Path
from gloveport.protocol.journal.envelope import Durability
from tests.kit.journal_kit import batch, open_journal

def mark(text):
    os.access(f"/mark-{text}", os.F_OK)

async def main(directory):
    journal, report = await open_journal(directory)
    await journal.append(batch("s", 1, "first"))
    mark("full")
    for number in range(10):
        await journal.append(batch("s", number + 2, "x"))
    mark("relaxed")
    for number in range(10):
        await journal.append(batch("s", number + 12, "x", durability=Durability.RELAXED))
    mark("sync")
    await journal.sync()
    mark("group")
    await asyncio.gather(*(journal.append(batch(f"g{number}", 1, "x")) for number in range(40)))
    mark("end")
    await journal.close()

asyncio.run(main(Path(sys.argv[1])))
"""


def fsyncs_per_phase(trace: str) -> dict[str, int]:
    """How often the log was fsynced between the marks."""
    phases: dict[str, int] = {}
    phase = "start"
    for line in trace.splitlines():
        if (found := re.search(r'"/mark-(\w+)"', line)) is not None:
            phase = found[1]
        elif "sync(" in line and "journal.db-wal" in line:
            phases[phase] = phases.get(phase, 0) + 1
    return phases


def test_fsyncs_follow_durability(tmp_path: Path) -> None:
    """One fsync per full commit, none per relaxed one, one for a sync, few for many appends at once."""
    strace = shutil.which("strace")
    require(strace is not None, "strace is not installed")
    assert strace is not None
    output = tmp_path / "trace"
    command = [
        strace,
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-y",
        "-e",
        "trace=fsync,fdatasync,access,faccessat,faccessat2",
        "-o",
        str(output),
    ]
    done = subprocess.run(
        [*command, sys.executable, "-c", CHILD, str(tmp_path / "data")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["", *sys.path])},
        capture_output=True,
        text=True,
        timeout=100,
    )
    require("Operation not permitted" not in done.stderr, "strace (ptrace)")
    assert done.returncode == 0, done.stderr
    phases = fsyncs_per_phase(output.read_text())
    assert phases.get("full") == 10
    assert phases.get("relaxed", 0) == 0
    assert phases.get("sync") == 1
    assert 1 <= phases.get("group", 0) <= 10
