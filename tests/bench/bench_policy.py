"""How long a decision takes, beside hashing the same arguments once.

Purpose: keep policy far below the cost of anything it decides about.
Invariant: prints ratios; asserts nothing.
Must never: be part of the test run.
"""

import hashlib
import json
import timeit

from tests.kit.policy_cases import builtin_text, command, context, default_rules, effect, judge, request

from gloveport.server.policy.answer import grant_from_answer, option_for
from gloveport.server.policy.capability import Scope
from gloveport.server.policy.card import build_card
from gloveport.server.policy.decide import decide
from gloveport.server.policy.rules.rule import Source
from gloveport.server.policy.rules.ruleset import ruleset_from_texts

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
    took = timeit.timeit(lambda: ruleset_from_texts({Source.builtin: builtin_text()}), number=20) / 20
    print(f"loading the default rules with their examples: {took * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
