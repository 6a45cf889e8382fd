"""How many ordinary command lines need no question: `python -m tests.kit.shell [--list | --write]`.

Purpose: print the share under the default policy, and, with `--list`, what is asked about and why; `--write` writes the
golden file of what each line is taken for.
Invariant: counts each line once, as shell text given to bash.
Must never: assert anything.
"""

import sys
from collections import Counter

from tests.kit.policy_cases import command, judge
from tests.kit.shell import nasty, ordinary
from tests.kit.shell.golden import GOLDEN, golden


def main() -> None:
    """Print the figures, or write the golden file."""
    if "--write" in sys.argv[1:]:
        GOLDEN.write_text(golden(), encoding="ascii")
        return
    verdicts = {line: judge(command("bash", "-c", line)) for line in ordinary()}
    counted = Counter(str(decision.verdict) for decision in verdicts.values())
    share = counted["allow"] / len(verdicts)
    print(f"{len(verdicts)} ordinary command lines: {counted['allow']} need no question ({share:.0%}),", end=" ")
    print(f"{counted['ask']} are asked about, {counted['deny']} are refused")
    unasked = sum(judge(command(*case.argv)).verdict == "allow" for case in nasty())
    print(f"{len(nasty())} nasty ones: {unasked} would run unasked")
    if "--list" in sys.argv[1:]:
        for line, decision in verdicts.items():
            if decision.verdict != "allow":
                known = command("bash", "-c", line).understood
                why = known.doubts[:1] if known is not None else ()
                print(f"{decision.verdict}  {line}  -- {'; '.join(why) or decision.reason}")


if __name__ == "__main__":
    main()
