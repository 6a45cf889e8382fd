"""Runs the attempts on one rung and prints the outcomes; a program of its own, so that another user can be it.

Arguments: name of the rung, a folder for it, ids of attempts (none: all that the rung promises to stop). Standard
library and the sandbox alone. With GLOVEPORT_THOROUGH=1 each attempt on bubblewrap has a jail of its own, and those by
certificates are all of them.

Several are made at once, each lane with a field and run folders of its own, since much of the time is waiting.
"""

import asyncio
import json
import os
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gloveport.sandbox.backends.names import REMOTE_NAMES
from gloveport.sandbox.backends.remote_choice import RemoteChoice
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Availability

from .catalogue import Attempt, load
from .field import Field, Outcome, try_on
from .together import AT_ONCE, goes_together, try_together

BEGUN_SLOWLY = frozenset({"docker", "gvisor", *REMOTE_NAMES})
REMOTE = "GLOVEPORT_TEST_REMOTE"
"""How the other machine of a remote rung is reached: a JSON object of the choice's fields."""
LANES = 3
CARRIED = frozenset(
    {"leftover_daemon", "leftover_deaf", "descriptor_reopened", "output_flood", "artifact_link", "artifact_huge",
     "artifact_swapped", "report_pipe", "target_replaced"}
)  # fmt: skip
"""Of those that want a jail of their own, the ones about what the way to another machine carries: the end that is asked
for, output, files there and back. For the rest, the container is the one that is asked for by ssh too."""


def is_thorough() -> bool:
    """Whether everything is wanted."""
    return os.environ.get("GLOVEPORT_THOROUGH") == "1"


def is_made(rung: str, attempt: Attempt) -> bool:
    """Whether an attempt that the rung promises to stop is made there in this run."""
    return rung != "remote-tls" or is_thorough() or goes_together(attempt) or attempt.id in CARRIED


class Lane:
    """One field and its backend."""

    def __init__(self, rung: str, field: Field, remotes: Mapping[str, RemoteChoice]) -> None:
        self.field = field
        self._backend = open_backend(rung, field.folder / "runs", hidden=(field.data,), remotes=remotes)

    async def probe(self) -> Availability:
        """What the rung says it holds."""
        return await self._backend.probe()

    async def make(self, waiting: deque[tuple[Attempt, ...]]) -> dict[str, Outcome]:
        """Outcomes of one group after the other, until none waits."""
        made: dict[str, Outcome] = {}
        while waiting:
            group = waiting.popleft()
            if len(group) > 1:
                made |= await try_together(self._backend, group, self.field)
            for one in group:
                if one.id not in made:
                    made[one.id] = await try_on(self._backend, one, self.field)
        return made

    async def close(self) -> None:
        """Let go of everything."""
        await self._backend.close()
        self.field.close()


def group_up(rung: str, attempts: list[Attempt]) -> deque[tuple[Attempt, ...]]:
    """Those that share a run, then each of the others alone."""
    alone = rung == "process" or (rung not in BEGUN_SLOWLY and is_thorough())
    shared = [] if alone else [one for one in attempts if goes_together(one)]
    groups = [tuple(shared[at : at + AT_ONCE]) for at in range(0, len(shared), AT_ONCE)]
    return deque([*groups, *((one,) for one in attempts if one not in shared)])


async def run(rung: str, folder: Path, wanted: tuple[str, ...]) -> dict[str, Any]:
    """Outcomes by id, and what the rung said it holds."""
    os.environ["GLOVEPORT_CANARY"] = "set"
    first = Field(folder / "1")
    others = [Field(folder / str(number), secret=first.secret) for number in range(2, LANES + 1)]
    os.environ["GLOVEPORT_CANARY"] = first.secret
    remotes = {rung: RemoteChoice(**json.loads(os.environ.pop(REMOTE)))} if rung in REMOTE_NAMES else {}
    lanes = [Lane(rung, field, remotes) for field in (first, *others)]
    try:
        found = await lanes[0].probe()
        told = {"ok": found.ok, "reason": found.reason, "holds": sorted(found.holds), "uid": os.getuid()}
        attempts = [one for one in load() if one.claim in found.holds and is_made(rung, one)]
        if wanted:
            attempts = [one for one in load() if one.id in wanted]
        waiting = group_up(rung, attempts if found.ok else [])
        made = [await one for one in [asyncio.create_task(lane.make(waiting)) for lane in lanes]]
        outcomes = {name: asdict(outcome) for some in made for name, outcome in some.items()}
        return {**told, "outcomes": outcomes}
    finally:
        for lane in lanes:
            await lane.close()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(sys.argv[1], Path(sys.argv[2]), tuple(sys.argv[3:])))))
