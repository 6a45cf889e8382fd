"""How long a decision takes, beside hashing the same arguments once.

Purpose: keep policy far below the cost of anything it decides about.
Invariant: prints ratios; asserts nothing.
Must never: be part of the test run.
"""

import hashlib
import json
import timeit
from collections.abc import Callable
from statistics import quantiles

from tests.kit.policy_cases import builtin_text, command, context, default_rules, effect, judge, request
from tests.kit.shell import nasty, ordinary

from gloveport.server.parsing.bash import parse_bash
from gloveport.server.policy.answer import grant_from_answer, option_for
from gloveport.server.policy.capability import Scope
from gloveport.server.policy.card import build_card
from gloveport.server.policy.decide import decide
from gloveport.server.policy.rules.rule import Source
from gloveport.server.policy.rules.ruleset import ruleset_from_texts
from gloveport.server.policy.shell.understood import understand

ROUNDS = 2000


def main() -> None:
    """Print each figure in microseconds and as a multiple of one small JSON encode and hash."""
    rules, where = default_rules(), context()
    run, edit = command("pytest", "-q", tool="run_tests"), request(*(effect("write", f"src/f{n}.py") for n in range(8)))
    card = build_card(run, judge(run), where)
    option = option_for(card, Scope.session) or 0
    grants = tuple(
        grant_from_answer(card, option=option, grant_id=f"g{n}", approval_id="a", issued_at=n) for n in range(100)
    )
    body = json.dumps({"argv": run.argv}).encode()
    unit = timeit.timeit(lambda: hashlib.sha256(json.dumps({"body": body.hex()}).encode()).hexdigest(), number=ROUNDS)
    cases = {
        "decide, a test run, no grant": lambda: decide(run, rules, (), where),
        "decide, a test run, 100 grants": lambda: decide(run, rules, grants, where),
        "decide, an edit of 8 files": lambda: decide(edit, rules, (), where),
        "card of a test run": lambda: build_card(run, judge(run), where),
    }
    for name, call in cases.items():
        took = timeit.timeit(call, number=ROUNDS)
        print(f"{name}: {took / ROUNDS * 1e6:.0f} µs, {took / unit:.0f} x a small hash")
    _spread()
    took = timeit.timeit(lambda: ruleset_from_texts({Source.builtin: builtin_text()}), number=20) / 20
    print(f"loading the default rules with their examples: {took * 1e3:.1f} ms")


def _spread() -> None:
    """Half and ninety-nine of a hundred, over both sets of command lines, as shell text: taken apart, then decided."""
    rules, where = default_rules(), context()
    lines = [("bash", "-c", line) for line in ordinary()] + [case.argv for case in nasty()]
    calls = [command(*argv) for argv in lines]  # the parser is loaded, and each text parsed once
    apart = [_took(lambda argv=argv: understand(argv, parse_bash.__wrapped__)) for argv in lines]
    decided = [_took(lambda call=call: decide(call, rules, (), where)) for call in calls]
    for name, times in (("taking a command line apart", apart), ("deciding about it", decided)):
        p50, p99 = quantiles(times, n=100)[49], quantiles(times, n=100)[98]
        print(f"{name}, {len(times)} lines: p50 {p50 * 1e6:.0f} µs, p99 {p99 * 1e6:.0f} µs, {p99 / p50:.1f} to one")


def _took(call: Callable[[], object]) -> float:
    return min(timeit.repeat(call, number=1, repeat=3))


if __name__ == "__main__":
    main()
