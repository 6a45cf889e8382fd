"""Limits that no single kernel setting holds for a whole tree.

Purpose: sample a tree's memory, CPU time and process count, and read the control group's memory kills.
Invariant: sampling costs at most a twentieth of a core; a limit held here can be passed for one interval.
Must never: kill; it names an ending and the run carries it out.
"""

import os
import time
from typing import Final

from gloveport.protocol.jail.replies import ExitKind
from gloveport.protocol.jail.requests import RunRequest
from gloveport.sandbox.runner import groups, tree
from gloveport.sandbox.runner.breaker import Breaker
from gloveport.sandbox.runner.verdict import Ending
from gloveport.sandbox.runner.watching import Watch

INTERVAL_S: Final = 0.05
COST_SHARE: Final = 20
"""The pause after a sample is at least this many times what the sample took."""


class Watchdog:
    """Samples when due; `next_at` is None when nothing needs sampling."""

    def __init__(self, request: RunRequest, watch: Watch | None = None) -> None:
        self._limits, self._plan, self._watch = request.limits, request.cgroup, watch
        self._breaker = None if request.breaker is None else Breaker(request.breaker)
        self._soft_bytes = None if request.breaker is None else request.breaker.memory_soft_bytes
        self.alarms: list[str] = []
        limits = request.limits
        self._scan = (
            self._breaker is not None
            or limits.cpu_s is not None
            or (self._plan is None and (limits.memory_bytes_max is not None or limits.processes_max is not None))
        )
        self._wrapper_depth = request.wrapper_depth
        self.peak_bytes = 0
        needed = self._scan or (self._plan is not None and limits.memory_bytes_max is not None)
        self.next_at: float | None = time.monotonic() + INTERVAL_S if needed else None

    def check(self, now: float) -> Ending | None:
        """Sample if due and name the limit that was passed."""
        if self.next_at is None or now < self.next_at:
            return None
        ending = self._check_groups() or (self._check_tree() if self._scan else None)
        cost = time.monotonic() - now
        self.next_at = now + cost + max(INTERVAL_S, COST_SHARE * cost)
        return ending

    def _check_groups(self) -> Ending | None:
        if self._plan is not None and groups.count_memory_kills(self._plan):
            return Ending(ExitKind.OOM, f"memory limit of {self._limits.memory_bytes_max} bytes", True)
        return None

    def _check_tree(self) -> Ending | None:
        limits = self._limits
        processes = tree.find_descendants(os.getpid())
        cpu_s = sum(process.cpu_s for process in processes)
        if limits.cpu_s is not None and cpu_s >= limits.cpu_s:
            return Ending(ExitKind.TIMEOUT, f"CPU limit: {cpu_s:.1f} s used of {limits.cpu_s} s")
        resident = sum(process.rss_bytes for process in processes)
        if any(bound is not None and resident > bound for bound in (self._soft_bytes, limits.memory_bytes_max)):
            resident = tree.measure_shared(processes)
        if (ending := self._judge(cpu_s, resident)) is not None:
            return ending
        if self._plan is not None:
            return None
        self.peak_bytes = max(self.peak_bytes, resident)
        if limits.memory_bytes_max is not None and resident > limits.memory_bytes_max:
            return Ending(ExitKind.OOM, f"{resident} bytes in use, the limit is {limits.memory_bytes_max} bytes", True)
        inside = sum(process.depth > self._wrapper_depth for process in processes)
        if limits.processes_max is not None and inside > limits.processes_max:
            return Ending(ExitKind.KILLED, f"{inside} processes, the limit is {limits.processes_max}")
        return None

    def look_back(self) -> None:
        """When the run is over: note a rate that was passed after the last sample."""
        if self._breaker is not None and self._watch is not None:
            passed = self._breaker.judge_calls(self._watch.rate_peak, self._watch.busiest())
            if passed is not None:
                self.alarms.append(passed.evidence)

    def _judge(self, cpu_s: float, resident: int) -> Ending | None:
        """Hold the sample against the hand's thresholds; a hand that only alarms notes it."""
        if self._breaker is None:
            return None
        rate, busiest = (0, "") if self._watch is None else (self._watch.rate_peak, self._watch.busiest())
        passed = self._breaker.judge(time.monotonic(), cpu_s, resident, rate, busiest)
        if passed is None:
            return None
        if self._breaker.plan.ends:
            return passed
        self.alarms.append(passed.evidence)
        return None
