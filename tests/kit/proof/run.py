"""Many lives, one after the other.

Purpose: lives without a kill to measure by, lives until N kills, and lives with the faults of the negative controls.
Invariant: a failure is printed with the seed of its life and the course that lives it again.
Must never: end well with a complaint, or call a control caught that was not.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, TypeAlias

from tests.kit.proof.coverage import CELL_MIN, CONTROLS, Course, Table
from tests.kit.proof.ending import Baseline
from tests.kit.proof.life import Life, Setting, live, words_of
from tests.kit.proof.workload import JOBS

CONTROL_KILLS_MAX: Final = 40
CONTROL_SEEDS: Final[Mapping[str, int]] = MappingProxyType(
    {"ack_before_commit": 200, "running_runs_again": 245, "erased_before_fact": 492}
)
"""Lives that have shown their fault at once; another seed shows it some kills later."""
MORE_MAX: Final = 1.5
"""So many times the wanted kills are spent at most, to fill the last cells."""

Traces: TypeAlias = Mapping[str, Sequence[tuple[str, ...]]]


async def measure(setting: Setting) -> tuple[Traces, dict[str, Baseline]]:
    """Each job without a kill: its points and its end."""
    traces: dict[str, Sequence[tuple[str, ...]]] = {}
    baselines: dict[str, Baseline] = {}
    for job in JOBS:
        life = await live(Course(job.name, ()), None, setting)
        if life.complaints:
            raise SystemExit("\n".join(["without a kill:", *words_of(life)]))
        traces[job.name], baselines[job.name] = life.trace, life.baseline
    return traces, baselines


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many kills from which seed on, and after how many failed lives it is enough."""

    kills: int
    seed: int = 1
    failures: int = 3


class Run:
    """Lives until enough kills are counted and, where so many are wanted, every cell is filled."""

    def __init__(self, table: Table, ends: Mapping[str, Baseline], setting: Setting, *, quiet: bool = True) -> None:
        self.table, self._ends, self._setting, self._quiet = table, ends, setting, quiet
        self.kills = self.missed = self.lives = 0
        self.failed: list[tuple[int, Life]] = []

    async def go(self, wanted: Wanted) -> None:
        """Live; stop at the first failures that are enough to look at."""
        seed = wanted.seed
        while self._goes_on(wanted.kills) and len(self.failed) < wanted.failures:
            seed = self.table.next_seed(seed)
            await self.one(seed)
            seed += 1

    def _goes_on(self, wanted: int) -> bool:
        if self.kills < wanted:
            return True
        fillable = wanted >= CELL_MIN * len(self.table.wanted)
        return fillable and bool(self.table.empty()) and self.kills < MORE_MAX * wanted

    async def one(self, seed: int) -> None:
        """The life of a seed."""
        course = self.table.course(seed)
        life = await live(course, self._ends[course.job], self._setting)
        self.lives += 1
        self.kills += len(life.kills)
        self.missed += life.missed
        for labels in life.kills:
            self.table.count(labels)
        if life.complaints:
            self.failed.append((seed, life))
        if life.complaints and not self._setting.fault:
            print("\n".join([f"FAILED seed {seed}", *words_of(life)]), flush=True)
        elif not self._quiet:
            print(f"seed {seed}: {course.job}, {len(life.kills)} kills, {life.took_s:.1f} s", flush=True)


async def try_controls(traces: Traces, ends: Mapping[str, Baseline], setting: Setting) -> bool:
    """Whether the oracles see each fault within `CONTROL_KILLS_MAX` kills; every finding is printed."""
    all_seen = True
    for fault in CONTROLS:
        run = Run(Table(traces, fault=fault), ends, replace(setting, fault=fault))
        await run.go(Wanted(CONTROL_KILLS_MAX, seed=CONTROL_SEEDS.get(fault, 1), failures=1))
        for _, life in run.failed:
            print(f"control {fault}: caught at kill {run.kills}: {life.complaints[0]}", flush=True)
            shutil.rmtree(life.folder, ignore_errors=True)
        if not run.failed:
            print(f"control {fault}: NOT CAUGHT in {run.kills} kills", flush=True)
            all_seen = False
    return all_seen
