"""`python -m tests.kit.proof`: kill the real daemon N times and say what was seen.

Purpose: the command behind `make crash`: the controls, the lives, the table, the bound.
Invariant: the exit code is 0 exactly when nothing failed and every control that was tried was caught.
Must never: state a bound beside a failure.
"""

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace

from tests.kit.proof.coverage import Course, Table
from tests.kit.proof.ending import Baseline
from tests.kit.proof.life import Setting, live, words_of
from tests.kit.proof.progress import Aim
from tests.kit.proof.run import Run, Wanted, measure, try_controls
from tests.kit.proof.starting import Nursery, become_subreaper


def read_options(arguments: list[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.proof", description=__doc__)
    parser.add_argument("-n", "--kills", type=int, default=100, help="how many kills")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first life")
    parser.add_argument("--between", action="store_true", help="only from an intent on record to its outcome")
    parser.add_argument("--rows", default="", help="only these rows of the table, such as EraseText,TellOutcome")
    parser.add_argument("--controls", action="store_true", help="the negative controls alone")
    parser.add_argument("--failures", type=int, default=3, help="stop after so many failed lives")
    parser.add_argument("--course", default="", help='live one course again: {"job": ..., "aims": ["label n"]}')
    parser.add_argument("--fault", default="", help="with --course: the fault of a control")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args(arguments)


async def run(options: argparse.Namespace, setting: Setting) -> int:
    """Everything; the exit code."""
    began = time.monotonic()
    if (task := asyncio.current_task()) is not None:  # what was started is ended, also when this is told to end
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    traces, ends = await measure(setting)
    if options.course:
        return await again(options, ends, setting)
    if options.controls:
        return 0 if await try_controls(traces, ends, setting) else 1
    rows = tuple(filter(None, options.rows.split(",")))
    going = Run(Table(traces, options.between, rows=rows), ends, setting, quiet=not options.verbose)
    await going.go(Wanted(options.kills, options.seed, options.failures))
    print("\n".join([*going.table.lines(), *conclusions(going, options.seed, time.monotonic() - began)]))
    return 1 if going.failed else 0


async def again(options: argparse.Namespace, ends: Mapping[str, Baseline], setting: Setting) -> int:
    """One course; its folder is kept."""
    plain = json.loads(options.course)
    course = Course(plain["job"], tuple(Aim.decode(text) for text in plain["aims"]), plain.get("cold", False))
    life = await live(course, ends[course.job], replace(setting, fault=options.fault, keep=True))
    print("\n".join(words_of(life)))
    return 1 if life.complaints else 0


def conclusions(going: Run, seed: int, took: float) -> list[str]:
    """What a run shows."""
    kills = going.kills
    lines = [f"{kills} kills in {going.lives} lives from seed {seed} on, {going.missed} aims missed"]
    lines.append(f"{took:.0f} s, {took / max(1, kills):.2f} s a kill")
    if going.failed:
        seeds = ", ".join(str(seed) for seed, _ in going.failed)
        lines.append(f"{len(going.failed)} lives FAILED, of seeds {seeds}; `make crash SEED=... N=1` lives one again")
    elif kills:
        lines.append(f"No failure in {kills} kills: at most {3 / kills:.4f} a kill, with 95 % confidence (3/N).")
    if empty := going.table.empty():
        lines.append(f"{len(empty)} cells have fewer kills than wanted: {', '.join(empty)}")
    return lines


def main() -> None:
    """Entry point."""
    become_subreaper()
    options, nursery = read_options(sys.argv[1:]), Nursery()
    try:
        code = asyncio.run(run(options, Setting(nursery)))
    finally:
        nursery.close()
    sys.exit(code)


if __name__ == "__main__":
    main()
