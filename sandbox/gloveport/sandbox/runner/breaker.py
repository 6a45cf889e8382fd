"""When a run is taken for one that went wrong, before it meets a hard limit.

Purpose: hold a run's use of processor, memory and calls against its hand's thresholds, and write down what it did.
Invariant: thresholds come with the request; each is told once; a run that only alarms is never ended here.
Must never: kill; it names what was passed and the run decides.
"""

import contextlib
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gloveport.protocol.jail.replies import ExitKind
from gloveport.protocol.jail.requests import BREAKER, BreakerPlan
from gloveport.sandbox.runner.tree import Process
from gloveport.sandbox.runner.verdict import Ending

DUMP_BYTES_MAX: Final = 24 * 1024
MAPS_LINES_MAX: Final = 60
PROCESSES_MAX: Final = 4


@dataclass(slots=True)
class Breaker:
    """State of one run's thresholds. Feed it with samples; it answers with what was passed first."""

    plan: BreakerPlan
    _samples: deque[tuple[float, float]] = field(default_factory=deque)
    _told: frozenset[str] = frozenset()

    def judge(self, now: float, cpu_s: float, resident: int, rate_peak: int, busiest: str) -> Ending | None:
        """The threshold that this sample passes, once each. `cpu_s` is the tree's total, `resident` its bytes."""
        plan = self.plan
        share = plan.cpu_share
        if share is not None and self._share_of(now, cpu_s) >= share and (ending := self._once("processor")):
            words = f"{ending}: at least {100 * share:.0f} % of a core for {plan.cpu_window_s:g} s"
            return Ending(ExitKind.KILLED, words)
        soft = plan.memory_soft_bytes
        if soft is not None and resident > soft and (ending := self._once("memory")):
            return Ending(ExitKind.OOM, f"{ending}: {resident} bytes in use, the soft limit is {soft} bytes")
        return self.judge_calls(rate_peak, busiest)

    def judge_calls(self, rate_peak: int, busiest: str) -> Ending | None:
        """The threshold of calls alone, once: a peak stays seen, also when the run is over."""
        calls = self.plan.calls_per_s_max
        if calls is not None and rate_peak > calls and (ending := self._once("calls")):
            return Ending(ExitKind.POLICY, f"{ending}: more than {calls} calls in one second ({busiest})")
        return None

    def _once(self, what: str) -> str:
        if what in self._told:
            return ""
        self._told |= {what}
        return f"{BREAKER}{what}"

    def _share_of(self, now: float, cpu_s: float) -> float:
        """The share of a core that the tree used over the last window; 0 as long as it is younger than a window."""
        samples, window = self._samples, self.plan.cpu_window_s
        samples.append((now, cpu_s))
        while len(samples) > 1 and now - samples[1][0] >= window:
            samples.popleft()
        began, used = samples[0]
        return (cpu_s - used) / (now - began) if now - began >= window else 0.0


def dump(processes: Iterable[Process], wrapper_depth: int) -> str:
    """What the processes of a run are doing: state, kernel stack where we may read it, memory maps. Bounded."""
    inside = [process for process in processes if process.depth > wrapper_depth]
    parts = [f"dump at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}"]
    for process in sorted(inside, key=lambda one: -one.cpu_s)[:PROCESSES_MAX]:
        parts.append(f"process {process.pid}: {process.cpu_s:.2f} s of CPU, {process.rss_bytes} bytes resident")
        parts += [f"{name}: {text}" for name in ("wchan", "syscall", "stack") if (text := _read(process.pid, name))]
        maps = _read(process.pid, "maps").splitlines()
        parts += ["maps:", *maps[:MAPS_LINES_MAX]]
        if len(maps) > MAPS_LINES_MAX:
            parts.append(f"… {len(maps) - MAPS_LINES_MAX} more")
    return "\n".join(parts)[:DUMP_BYTES_MAX]


def _read(pid: int, name: str) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace").strip()
    return ""
