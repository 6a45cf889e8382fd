"""Processes as the kernel shows them: identity, descendants, memory and CPU of a tree.

Purpose: find every process of a run from outside, whatever sessions and groups it made.
Invariant: a process is named by pid and start time together; a pid alone is never trusted over time.
Must never: select a process by its name.
"""

import contextlib
import functools
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
# Positions behind the closing parenthesis of the program's name in /proc/PID/stat.
_STATE, _PPID, _UTIME, _CSTIME, _START, _RSS = 0, 1, 11, 14, 19, 21


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a tree; `depth` 1 is a direct child of the root."""

    pid: int
    start_ticks: int
    depth: int
    rss_bytes: int
    cpu_s: float


@functools.cache
def read_boot_id() -> str:
    """Identifier of this boot; start times are comparable within one boot only."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def read_start_ticks(pid: int) -> int | None:
    """Start time of a live process in clock ticks since boot; None when gone or a zombie."""
    fields = _stat(pid)
    return None if fields is None or fields[_STATE] in ("Z", "X") else int(fields[_START])


def is_alive(pid: int, start_ticks: int) -> bool:
    """Whether exactly this process still runs."""
    return pid > 0 and read_start_ticks(pid) == start_ticks


def send_signal(pid: int, start_ticks: int, signal_number: int) -> bool:
    """Signal exactly this process; False when it is gone. The descriptor pins the pid during the check."""
    try:
        fd = os.pidfd_open(pid)
    except (ProcessLookupError, ValueError):
        return False
    try:
        if read_start_ticks(pid) != start_ticks:
            return False
        signal.pidfd_send_signal(fd, signal_number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def find_these(pids: Iterable[int]) -> list[Process]:
    """Those of these that live, each as if it were a direct child."""
    seen = ((pid, _stat(pid)) for pid in pids)
    return [_process(pid, fields, 1) for pid, fields in seen if fields is not None and fields[_STATE] not in ("Z", "X")]


def find_descendants(root: int) -> list[Process]:
    """All live descendants of `root`, zombies left out."""
    table: dict[int, list[tuple[int, list[str]]]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))) is not None:
            table.setdefault(int(fields[_PPID]), []).append((int(entry), fields))
    found: list[Process] = []
    level, depth = [root], 1
    while level:
        children = [child for parent in level for child in table.get(parent, ())]
        found.extend(_process(pid, fields, depth) for pid, fields in children if fields[_STATE] not in ("Z", "X"))
        level, depth = [pid for pid, _fields in children], depth + 1
    return found


def kill_all(processes: list[Process], signal_number: int, below_depth: int = 0) -> None:
    """Signal each process deeper than `below_depth`."""
    for process in processes:
        if process.depth > below_depth:
            with contextlib.suppress(OSError):
                send_signal(process.pid, process.start_ticks, signal_number)


def kill_marked(marker: bytes) -> int:
    """KILL every process that was started with this entry in its environment; returns how many.

    For what a dead supervisor left: the descriptor pins the pid while the environment is read.
    """
    killed = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            killed += _kill_if_marked(int(entry), marker)
    return killed


def _kill_if_marked(pid: int, marker: bytes) -> bool:
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            if marker not in file.read().split(b"\0"):
                return False
        signal.pidfd_send_signal(fd, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def measure_shared(processes: list[Process]) -> int:
    """Proportional memory of a tree in bytes (shared pages counted once); falls back to the resident size."""
    return sum(_proportional(process) for process in processes)


def _proportional(process: Process) -> int:
    try:
        with open(f"/proc/{process.pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return process.rss_bytes


def _process(pid: int, fields: list[str], depth: int) -> Process:
    ticks = sum(int(value) for value in fields[_UTIME : _CSTIME + 1])
    return Process(pid, int(fields[_START]), depth, int(fields[_RSS]) * _PAGE_BYTES, ticks / _TICKS_PER_S)


def _stat(pid: int) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            raw = file.read()
    except OSError:
        return None
    return raw[raw.rfind(b")") + 2 :].decode("ascii").split() or None
