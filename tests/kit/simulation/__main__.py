"""A long run of the simulation: `python -m tests.kit.simulation --steps 1000000`.

Purpose: drive the machine through as many steps as asked for under fresh seeds, and print which state met which input.
Invariant: every invariant of the harness holds at every step, or the run ends with the seed that broke it.
Must never: count a move in which the machine was not asked.
"""

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Final, get_args

from tests.kit.simulation.driver import Simulation

from gloveport.server.session.state import Phase, SessionState
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import Step
from gloveport.server.turn.machine import step

MOVES: Final = 250
CRASH_RATES: Final = (0.0, 0.03, 0.1, 0.25)
ERASE_RATES: Final = (0.0, 0.0, 0.02, 0.0, 0.2)

Pairs = Counter[tuple[str, str]]


def run_seeds(first: int, steps: int) -> tuple[Pairs, int, int, int]:
    """Histories from this seed on until the machine was asked so often; pairs, histories, crashes, erasures."""
    pairs: Pairs = Counter()
    last: list[inp.Input] = []

    def counting(state: SessionState, given: inp.Input) -> Step:
        if not last or last[0] is not given:  # the harness asks twice, to see that the machine is pure
            pairs[state.phase.value, type(given).__name__] += 1
            last[:] = [given]
        return step(state, given)

    crashes = erasures = histories = 0
    while pairs.total() < steps:
        seed = first + histories
        rate = CRASH_RATES[seed % len(CRASH_RATES)]
        erases = ERASE_RATES[seed % len(ERASE_RATES)]
        run = Simulation(seed, crash_rate=rate, erase_rate=erases, stepper=counting).run(MOVES)
        crashes, erasures = crashes + run.crashes, erasures + run.erasures
        histories += 1
    return pairs, histories, crashes, erasures


def table(pairs: Pairs) -> str:
    """State × input with how often they met; 0 stands out as a dash."""
    phases = [phase.value for phase in Phase]
    lines = [f"{'input':24}" + "".join(f"{phase:>12}" for phase in phases)]
    for kind in get_args(inp.Input):
        counts = [pairs[phase, kind.__name__] for phase in phases]
        lines.append(f"{kind.__name__:24}" + "".join(f"{count or '-':>12}" for count in counts))
    return "\n".join(lines)


def main() -> int:
    """Run, print the table; 1 when a pair was not reached."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.simulation")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=10_000_000, help="first seed; each worker has a range of its own")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    began = time.monotonic()
    share = -(-given.steps // given.workers)
    with ProcessPoolExecutor(given.workers) as pool:
        firsts = [given.seed + number * 1_000_000 for number in range(given.workers)]
        results = list(pool.map(run_seeds, firsts, [share] * given.workers))
    pairs: Pairs = Counter()
    for counted, *_ in results:
        pairs += counted
    print(table(pairs))
    missing = [pair for pair in ((p.value, k.__name__) for p in Phase for k in get_args(inp.Input)) if not pairs[pair]]
    histories, crashes, erasures = (sum(counts) for counts in zip(*(result[1:] for result in results), strict=True))
    print(
        f"{pairs.total()} steps in {histories} histories with {crashes} crashes and {erasures} erasures,"
        f" seeds from {given.seed},"
        f" {time.monotonic() - began:.0f} s; no invariant broke; {len(missing)} pairs of state and input not reached"
    )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
