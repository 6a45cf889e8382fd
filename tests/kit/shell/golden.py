"""What each command line of the sets is taken for, as text.

Purpose: one line for each: verdict, what is asked or refused, commands, programs, effects and doubts, in their order.
Invariant: a function of the sets, the parser and the policy room alone.
Must never: leave a line out.
"""

import json
from pathlib import Path

from tests.kit.policy_cases import command, judge, understood
from tests.kit.shell import more, nasty, ordinary

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "shell_lines.json"


def taken_for(argv: tuple[str, ...]) -> dict[str, object]:
    """One command line."""
    known, decision = understood(argv), judge(command(*argv))
    return {
        "verdict": str(decision.verdict),
        "rules": list(decision.rule_ids),
        "risk": decision.risk,
        "commands": [list(one) for one in known.commands],
        "programs": list(known.programs),
        "effects": [effect.key for effect in known.effects],
        "doubts": list(known.doubts),
    }


def lines() -> dict[str, tuple[str, ...]]:
    """Every line by a name."""
    return {
        **{line: ("bash", "-c", line) for line in ordinary()},
        **{f"nasty: {case.name}": case.argv for case in nasty()},
        **{f"more: {' '.join(argv)}": argv for argv in more()},
    }


def golden() -> str:
    """The whole file."""
    rows = (f" {json.dumps(name)}: {json.dumps(taken_for(argv))}" for name, argv in lines().items())
    return "{\n" + ",\n".join(rows) + "\n}\n"
