"""What a test's home leaves running, found and ended.

Purpose: end whatever daemon serves a home, whoever started it, and see that no process of the home is left.
Invariant: a process is known by its lease (pid and start time) or by the home in its environment or command line.
Must never: signal a process of another home.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from gloveport.server.journal.lease import process_start_ticks, read_owner

LEAVE_S = 15.0
"""How long what a dead daemon started may take to see that it is alone."""


def end_owner(data_dir: Path) -> None:
    """Kill the daemon that holds the lease of this data directory, if one does; returns when it is gone."""
    owner = read_owner(data_dir)
    if owner is None or owner.pid <= 0 or not owner.start_ticks:
        return
    deadline = time.monotonic() + LEAVE_S
    while process_start_ticks(owner.pid) == owner.start_ticks and time.monotonic() < deadline:
        with suppress(ProcessLookupError):
            os.kill(owner.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(owner.pid, os.WNOHANG)
        time.sleep(0.01)


def processes_of(home: Path) -> dict[int, str]:
    """Processes that have this home in their environment or command line, by pid."""
    found = {}
    marks = (f"GLOVEPORT_HOME={home}\0".encode(), f"{home}/".encode())
    for entry in os.listdir("/proc"):
        if not entry.isdecimal() or int(entry) == os.getpid():
            continue
        with suppress(OSError):
            line = Path("/proc", entry, "cmdline").read_bytes()
            around = Path("/proc", entry, "environ").read_bytes()
            if marks[0] in around or marks[1] in line:
                found[int(entry)] = line.replace(b"\0", b" ").decode(errors="replace")
    return found


def check_nothing_left(home: Path) -> None:
    """Wait for the processes of a home to end by themselves. Raises AssertionError, and ends them, when some stay."""
    deadline = time.monotonic() + LEAVE_S
    while (left := processes_of(home)) and time.monotonic() < deadline:
        time.sleep(0.02)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not left, f"still running when the test was over: {left}"
