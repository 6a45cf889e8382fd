"""The table rung × attempt of docs/escapes.md: what each rung stops by its own promise, and what it does not.

`python -m tests.security.escapes.table --write` writes it anew.
"""

import sys
from pathlib import Path

from gloveport.sandbox.backends import bubblewrap, docker, process
from gloveport.sandbox.contract import Claim

from .catalogue import load

PAGE = Path(__file__).resolve().parents[3] / "docs/escapes.md"
WITH_KERNEL = frozenset({Claim.SYSCALL_FILTER, Claim.MEMORY_CAP, Claim.LANDLOCK, Claim.NAMED_DENIALS})
WITH_DOMAINS = frozenset({Claim.RUNS_APART, Claim.LANDLOCK})
PROMISES = {
    "process": process._HELD | WITH_DOMAINS,
    "bubblewrap": bubblewrap._HELD | WITH_KERNEL,
    "docker": docker._HELD | set(docker._GROUP_CLAIMS),
    "gvisor": docker._HELD | set(docker._GROUP_CLAIMS) - {Claim.PROCESS_LIMIT},
    "remote-ssh, remote-tls": docker._HELD | set(docker._GROUP_CLAIMS),
}
HEAD = """# What each sandbox stops

Each row is an attempt to get out, made by a small program of ours (`tests/security/escapes`) on every rung that works
on the machine, as root and as an ordinary user, and judged from outside; over TLS, which asks for the same container as
ssh does, `make thorough` makes all of them and `make test` those about the way there. *stopped*: the rung promises it,
and the test fails if one attempt succeeds. *open*: the rung does not promise it, and most of these succeed there. That
each attempt can succeed at all is shown without the rung, or with the one wall or limit lifted. What a rung promises on
your machine says `gloveport doctor`: without control groups, Landlock or a known processor some promises are not made.

None of them stops a flaw in the kernel that the rung shares with you. Attempts on the proxy have tests of their own.
"""


def render() -> str:
    """The whole page."""
    rungs = list(PROMISES)
    lines = [HEAD]
    group = ""
    for one in load():
        if one.group != group:
            group = one.group
            lines += [f"\n## {group.capitalize()}\n", f"| attempt | what it tries | {' | '.join(rungs)} |"]
            lines.append("|---|---|" + "---|" * len(rungs))
        cells = ["stopped" if one.claim in PROMISES[rung] else "open" for rung in rungs]
        lines.append(f"| {one.id} | {one.tries.replace('|', '/')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(render(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != render():
        raise SystemExit(f"{PAGE} is not fresh")
