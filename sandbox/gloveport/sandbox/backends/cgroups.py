"""Whether and how control groups hold a run's limits here.

Purpose: plan the groups of one run; the supervisor makes and removes them.
Invariant: a plan is given only where this process may make groups with every controller the limits need.
Must never: move any process but the run's, or change an existing group.
"""

import os
from pathlib import Path
from typing import Final

from gloveport.protocol.jail.requests import CgroupPlan
from gloveport.sandbox.profile import Limits

ROOT: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "gloveport-"


def find_version(root: Path = ROOT) -> int | None:
    """1 or 2 when groups for memory and processes can be made by us, else None."""
    if all(os.access(root / kind, os.W_OK) and (root / kind / "tasks").exists() for kind in ("memory", "pids")):
        return 1
    try:
        controllers = (root / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return None
    return 2 if {"memory", "pids"} <= set(controllers) and os.access(root, os.W_OK) else None


def plan_groups(
    version: int | None, run_id: str, limits: Limits, wrappers: int = 0, root: Path = ROOT
) -> CgroupPlan | None:
    """The groups for one run, `wrappers` processes of the jail's own allowed for; None where no limit needs one."""
    if version is None or (limits.memory_bytes_max is None and limits.processes_max is None):
        return None
    name = f"{PREFIX}{os.getpid()}-{run_id}"
    pids = None if limits.processes_max is None else limits.processes_max + wrappers
    memory = limits.memory_bytes_max
    return _plan_first(root, name, memory, pids) if version == 1 else _plan_second(root / name, memory, pids)


def _plan_first(root: Path, name: str, memory_max: int | None, pids_max: int | None) -> CgroupPlan:
    memory, processes = root / "memory" / name, root / "pids" / name
    directories, writes = [], []
    if memory_max is not None:
        directories.append(str(memory))
        writes.append((str(memory / "memory.limit_in_bytes"), str(memory_max)))
        if (root / "memory" / "memory.memsw.limit_in_bytes").exists():
            writes.append((str(memory / "memory.memsw.limit_in_bytes"), str(memory_max)))
    if pids_max is not None:
        directories.append(str(processes))
        writes.append((str(processes / "pids.max"), str(pids_max)))
    return CgroupPlan(
        1,
        tuple(directories),
        tuple(writes),
        str(memory / "memory.oom_control"),
        str(memory / "memory.max_usage_in_bytes"),
    )


def _plan_second(group: Path, memory_max: int | None, pids_max: int | None) -> CgroupPlan:
    writes = []
    if memory_max is not None:
        writes += [
            (str(group / "memory.max"), str(memory_max)),
            (str(group / "memory.swap.max"), "0"),
            (str(group / "memory.oom.group"), "1"),
        ]
    if pids_max is not None:
        writes.append((str(group / "pids.max"), str(pids_max)))
    return CgroupPlan(2, (str(group),), tuple(writes), str(group / "memory.events"), str(group / "memory.peak"))
