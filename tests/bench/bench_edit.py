"""Hunks of a long file, beside the time it takes to look at each of its lines once.

Purpose: `python tests/bench/bench_edit.py [LINES]` prints medians, hunks, and ratios to a dictionary of all lines.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from gloveport.server.edit.apply import apply_hunks
from gloveport.server.edit.hunks import diff_hunks
from gloveport.server.edit.lines import split_lines

LINES = 100_000
ROUNDS = 5
Lines = list[bytes]


def cases(lines: int) -> dict[str, tuple[Lines, Lines]]:
    """Pairs of a file and what became of it."""
    chance = random.Random(3)
    base = [b"    value_%d = compute(%d)\n" % (n, chance.randrange(50)) if n % 3 else b"\n" for n in range(lines)]

    def with_changes(count: int) -> Lines:
        changed = list(base)
        for number in range(count):
            changed[chance.randrange(lines)] = b"changed %d\n" % number
        return changed

    same = [b"}\n" if n % 2 else b"\n" for n in range(lines)]
    return {
        "200 lines changed": (base, with_changes(200)),
        "one line in five changed": (base, with_changes(lines // 5)),
        "indented as a whole": (base, [b"    " + line for line in base]),
        "halves swapped": (base, base[lines // 2 :] + base[: lines // 2]),
        "shuffled": (base, chance.sample(base, lines)),
        "nothing in common": (base, [b"x%d\n" % n for n in range(lines)]),
        "two kinds of lines, at random": (same, [chance.choice(same) for _ in range(lines)]),
    }


def look_once(base: bytes, result: bytes) -> list[dict[bytes, None]]:
    """Each line of both sides in a dictionary."""
    return [dict.fromkeys(split_lines(side)) for side in (base, result)]


def median(call: Callable[[], object]) -> float:
    """Median seconds of ROUNDS calls."""
    seconds = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def main(lines: int) -> None:
    """One row a case."""
    print(f"{lines} lines, median of {ROUNDS}")
    for name, (old, new) in cases(lines).items():
        base, result = b"".join(old), b"".join(new)
        plain = median(partial(look_once, base, result))
        took = median(partial(diff_hunks, base, result, "f"))
        hunks = diff_hunks(base, result, "f")
        assert apply_hunks(base, hunks) == result
        print(f"{name:<32}{took * 1e3:9.1f} ms  {took / plain:7.2f} x  {len(hunks):6d} hunks")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else LINES)
