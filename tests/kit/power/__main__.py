"""`python -m tests.kit.power`: N simulated power losses on recordings of the real daemon.

Purpose: the command behind `make crash TIER=power`: record, lose power N times, say what broke and what was covered.
Invariant: a failure prints its loss, and keeps the recording that `--again` takes up.
Must never: end well with a broken promise.
"""

import argparse
import pickle
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tests.kit.power.recording import Recording, choose, place_of, record
from tests.kit.power.states import Loss
from tests.kit.power.trial import Found, try_loss

LOSSES_PER_RECORDING: Final = 100
"""After so many a new recording is made: threads and processes fall differently each time."""


def read_options(arguments: list[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.power", description=__doc__)
    parser.add_argument("-n", "--losses", type=int, default=100, help="how many power losses")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first loss")
    parser.add_argument("--fault", default="", help="a negative control: a name that the launcher knows")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many broken states")
    parser.add_argument("--again", default="", help="the kept recording of a failure")
    parser.add_argument("--loss", default="", help="with --again: the loss to try again")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args(arguments)


class Tally:
    """What was tried and what was found."""

    def __init__(self) -> None:
        self.places: Counter[str] = Counter()
        self.ways: Counter[str] = Counter()
        self.failed: list[Found] = []
        self.tried = 0

    def take(self, recording: Recording, found: Found) -> None:
        """Count one."""
        self.tried += 1
        self.places[place_of(recording, found.loss)] += 1
        self.ways[f"{found.loss.policy}, {found.loss.order}"] += 1
        if found.problems:
            self.failed.append(found)
            print("\n".join([f"FAILED {found.loss.words}", *(f"    {words}" for words in found.problems)]), flush=True)

    def lines(self) -> list[str]:
        """The table."""
        rows = [f"{count:5}  {name}" for name, count in sorted(self.places.items())]
        ways = [f"{count:5}  {name}" for name, count in sorted(self.ways.items())]
        return ["losses by the step before the cut:", *rows, "losses by what was left out:", *ways]


def keep(recording: Recording) -> Path:
    """Save a recording beside its world, whose folder must stay what it is."""
    path = recording.world.folder.with_suffix(".recording")
    path.write_bytes(pickle.dumps(recording))
    return path


def again(options: argparse.Namespace) -> int:
    """Try one loss of a kept recording."""
    recording: Recording = pickle.loads(Path(options.again).read_bytes())
    found = try_loss(recording, Loss.of(options.loss))
    print("\n".join(found.problems) or "all is well")
    return 1 if found.problems else 0


def one_recording(options: argparse.Namespace, seeds: range, tally: Tally) -> None:
    """Record, and lose power at each seed; a recording with a failure is kept."""
    recording = record(tuple(filter(None, [options.fault])))
    before = len(tally.failed)
    try:
        for seed in seeds:
            found = try_loss(recording, choose(recording, seed))
            tally.take(recording, found)
            if options.verbose:
                print(f"seed {seed}: {found.loss.words} after {place_of(recording, found.loss)}", flush=True)
            if len(tally.failed) >= options.failures:
                return
    finally:
        if len(tally.failed) > before and not options.fault:
            print(f"kept: --again {keep(recording)} (remove it and {recording.world.folder} when done)")
        else:
            recording.world.remove()


def run(options: argparse.Namespace) -> int:
    """All losses; the exit code."""
    sys.setrecursionlimit(100_000)  # a disk is a deep graph to pickle
    if options.again:
        return again(options)
    began, tally, first = time.monotonic(), Tally(), int(options.seed)
    last = first + int(options.losses)
    for begin in range(first, last, LOSSES_PER_RECORDING):
        if len(tally.failed) < options.failures:
            one_recording(options, range(begin, min(last, begin + LOSSES_PER_RECORDING)), tally)
    took = time.monotonic() - began
    print("\n".join(tally.lines()))
    print(f"{tally.tried} power losses, {len(tally.failed)} of them broke a promise; first seed {options.seed}")
    print(f"{took:.0f} s, {took / max(1, tally.tried):.2f} s a loss")
    if tally.tried and not tally.failed:
        print(f"No failure in {tally.tried}: at most {3 / tally.tried:.4f} a loss, with 95 % confidence.")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(run(read_options(sys.argv[1:])))
