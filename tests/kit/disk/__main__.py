"""`python -m tests.kit.disk`: N times a disk that refuses, under the real daemon.

Purpose: the command behind `make crash TIER=disk`: say what broke, and which calls on which files were made to fail.
Invariant: a failure prints its seed and its refusal; `--refusal` tries it again.
Must never: count a refusal that was never met.
"""

import argparse
import sys
import time
from collections import Counter

from tests.kit.disk.refusal import Refusal, choose
from tests.kit.disk.trial import Found, Trial, as_json


def read_options(arguments: list[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="python -m tests.kit.disk", description=__doc__)
    parser.add_argument("-n", "--refusals", type=int, default=50, help="how many refusals to try")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first")
    parser.add_argument("--fault", default="", help="a negative control: a name that the launcher knows")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many failures")
    parser.add_argument("--refusal", default="", help="try one refusal: group:place:error:first:count")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args(arguments)


def table(met: list[Found]) -> list[str]:
    """Calls that failed, by call and kind of file."""
    cells: Counter[tuple[str, str]] = Counter()
    for found in met:
        cells.update(found.hits)
    rows = [f"{count:6}  {call:12} {kind}" for (call, kind), count in sorted(cells.items())]
    healed = Counter(found.healed for found in met)
    typed = Counter(words.rpartition(": ")[2] for found in met for words in found.refusals)
    return [
        "calls made to fail, by kind of file:",
        *rows,
        f"refusals told to clients: {', '.join(f'{code} {count}' for code, count in sorted(typed.items())) or 'none'}",
        f"healed: {', '.join(f'{way} {count}' for way, count in sorted(healed.items()))}",
    ]


def run(options: argparse.Namespace) -> int:
    """All refusals; the exit code."""
    began = time.monotonic()
    faults = tuple(filter(None, [options.fault]))
    chosen = [Refusal.of(options.refusal)] if options.refusal else []
    chosen = chosen or [choose(seed) for seed in range(options.seed, options.seed + options.refusals)]
    found: list[Found] = []
    failed = 0
    for number, refusal in enumerate(chosen):
        one = Trial(refusal, faults).run()
        found.append(one)
        if one.problems:
            failed += 1
            lines = [f"FAILED {refusal.words} (seed {options.seed + number})", *(f"    {w}" for w in one.problems)]
            print("\n".join(lines), flush=True)
        elif options.verbose:
            print(as_json(one), flush=True)
        if failed >= options.failures:
            break
    met = [one for one in found if one.hits]
    print("\n".join(table(met)))
    print(f"{len(found)} tries, {len(met)} met a refusal, {failed} failed; first seed {options.seed}")
    print(f"{time.monotonic() - began:.0f} s")
    if met and not failed:
        print(f"No failure in {len(met)}: at most {3 / len(met):.4f} a refusal, with 95 % confidence.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run(read_options(sys.argv[1:])))
