"""Control groups of one run: make, join, read evidence, remove.

Purpose: hard limits for a whole tree and the kernel's own count of memory kills.
Invariant: a plan is made whole or `OSError` is raised and what was made is removed.
Must never: touch a directory that this run did not make.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import Final

from gloveport.protocol.jail.requests import CgroupPlan

REMOVE_TRIES_MAX: Final = 200
REMOVE_PAUSE_S: Final = 0.01


def make_groups(plan: CgroupPlan) -> None:
    """Make the directories and set the limits."""
    made: list[str] = []
    try:
        for directory in plan.directories:
            os.mkdir(directory, 0o755)
            made.append(directory)
        for file, value in plan.writes:
            Path(file).write_text(value, encoding="ascii")
    except OSError:
        for directory in made:
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        raise


def join_groups(plan: CgroupPlan) -> None:
    """Move the calling process into the groups."""
    for directory in plan.directories:
        Path(directory, "cgroup.procs").write_text("0", encoding="ascii")


def count_memory_kills(plan: CgroupPlan) -> int:
    """How many processes the kernel killed for this group's memory limit."""
    try:
        for line in Path(plan.events_file).read_text(encoding="ascii").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0


def read_peak_bytes(plan: CgroupPlan) -> int | None:
    """The group's highest memory use, None when the kernel does not tell."""
    try:
        return int(Path(plan.peak_file).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def remove_groups(plan: CgroupPlan) -> None:
    """Remove the directories; a dying process may hold one for some milliseconds."""
    for directory in plan.directories:
        for _ in range(REMOVE_TRIES_MAX):
            try:
                os.rmdir(directory)
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(REMOVE_PAUSE_S)
            else:
                break
