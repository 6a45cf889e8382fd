"""What the kernel says about a process: memory, processor time; and how long programs take to start."""

import os
import subprocess
import sys
import time
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int) -> float:
    """Resident memory."""
    return _status(pid, "VmRSS") / 1024


def pss_mib(pid: int) -> float:
    """Memory with shared pages divided among their users; 0 where it may not be read."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(row.split()[1]) for row in rows if row.startswith("Pss:")), 0) / 1024


def cpu_s(pid: int) -> float:
    """Processor seconds of all its threads so far, in steps of a clock tick."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def switches(pid: int) -> int:
    """How often its threads were given a processor and left it again."""
    texts = [task.joinpath("status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int(row.split()[1]) for text in texts for row in text.splitlines() if "ctxt_switches" in row)


def run_ms(code: str) -> float:
    """Milliseconds of an interpreter that runs `code`."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
    return (time.perf_counter() - began) * 1000


def _status(pid: int, name: str) -> int:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith(f"{name}:"))
