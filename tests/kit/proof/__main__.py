"""`python -m tests.kit.proof`: kill the real daemon N times and say what was seen.

Purpose: the command behind `make crash`: baselines, lives until N kills, the table, the bound.
Invariant: a failure prints the seed of its life; the same seed lives it again.
Must never: end well with a complaint, or with a cell that could be filled and is not.
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.kit.proof.coverage import Course, Table
from tests.kit.proof.ending import Baseline
from tests.kit.proof.life import Life, Setting, live, words_of
from tests.kit.proof.progress import Aim
from tests.kit.proof.starting import Nursery, become_subreaper
from tests.kit.proof.workload import JOBS


async def measure(setting: Setting) -> tuple[dict[str, Any], dict[str, Baseline]]:
    """Each job without a kill: its points and its end."""
    traces: dict[str, Any] = {}
    baselines: dict[str, Baseline] = {}
    for job in JOBS:
        life = await live(Course(job.name, ()), None, setting)
        if life.complaints:
            raise SystemExit("\n".join(["without a kill:", *words_of(life)]))
        traces[job.name], baselines[job.name] = life.trace, life.baseline
    return traces, baselines


class Run:
    """Lives until enough kills are counted."""

    def __init__(self, table: Table, ends: dict[str, Baseline], setting: Setting, options: argparse.Namespace) -> None:
        self.table, self._ends, self._setting, self._options = table, ends, setting, options
        self.kills = self.missed = self.lives = 0
        self.failed: list[tuple[int, Life]] = []

    async def go(self) -> None:
        """Live; stop at the first failures that are enough to look at."""
        seed = self._options.seed
        while self.kills < self._options.kills and len(self.failed) < self._options.failures:
            seed = self.table.next_seed(seed)
            await self.one(seed)
            seed += 1

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
            print("\n".join([f"FAILED seed {seed}", *words_of(life)]), flush=True)
        elif self._options.verbose:
            print(f"seed {seed}: {course.job}, {len(life.kills)} kills, {life.took_s:.1f} s", flush=True)


def read_options(arguments: list[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.proof", description=__doc__)
    parser.add_argument("-n", "--kills", type=int, default=100, help="how many kills")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first life")
    parser.add_argument("--between", action="store_true", help="only from an intent on record to its outcome")
    parser.add_argument("--fault", default="", help="a negative control")
    parser.add_argument("--failures", type=int, default=3, help="stop after so many failed lives")
    parser.add_argument("--course", default="", help='live one course again: {"job": ..., "aims": ["label n"]}')
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args(arguments)


async def run(options: argparse.Namespace, setting: Setting) -> int:
    """Everything; the exit code."""
    began = time.monotonic()
    if (task := asyncio.current_task()) is not None:  # what was started is ended, also when this is told to end
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    traces, baselines = await measure(replace(setting, fault=""))
    table = Table(traces, options.between, options.fault)
    going = Run(table, baselines, setting, options)
    if options.course:
        plain = json.loads(Path(options.course).read_text() if options.course[0] != "{" else options.course)
        course = Course(plain["job"], tuple(Aim.decode(text) for text in plain["aims"]), plain.get("cold", False))
        life = await live(course, baselines[course.job], replace(setting, keep=True))
        print("\n".join(words_of(life)))
        return 1 if life.complaints else 0
    await going.go()
    took = time.monotonic() - began
    print("\n".join(table.lines()))
    empty = table.empty()
    print(f"{going.kills} kills in {going.lives} lives, {going.missed} aims missed, {len(going.failed)} failed lives")
    print(f"first seed {options.seed}; {took:.0f} s, {took / max(1, going.kills):.2f} s a kill")
    if not going.failed and going.kills:
        print(f"No failure in {going.kills} kills: at most {3 / going.kills:.4f} a kill, with 95 % confidence.")
    if empty:
        print(f"cells with fewer kills than wanted: {', '.join(empty)}")
    return 1 if going.failed else 0


def main() -> None:
    """Entry point."""
    become_subreaper()
    options, nursery = read_options(sys.argv[1:]), Nursery()
    try:
        code = asyncio.run(run(options, Setting(nursery, options.fault)))
    finally:
        nursery.close()
    sys.exit(code)


if __name__ == "__main__":
    main()
