"""Runs the attempts on one rung and prints the outcomes; a program of its own, so that another user can be it.

Arguments: name of the rung, a folder for it, ids of attempts (none: all that the rung promises to stop). Standard
library and the sandbox alone. With GLOVEPORT_THOROUGH=1 each attempt on bubblewrap has a jail of its own.
"""

import asyncio
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gloveport.sandbox.backends.names import REMOTE_NAMES
from gloveport.sandbox.backends.remote_choice import RemoteChoice
from gloveport.sandbox.backends.select import open_backend

from .catalogue import load
from .field import Field, try_on
from .together import try_together

BEGUN_SLOWLY = frozenset({"docker", "gvisor", *REMOTE_NAMES})
REMOTE = "GLOVEPORT_TEST_REMOTE"
"""How the other machine of a remote rung is reached: a JSON object of the choice's fields."""


async def run(rung: str, folder: Path, wanted: tuple[str, ...]) -> dict[str, Any]:
    """Outcomes by id, and what the rung said it holds."""
    os.environ["GLOVEPORT_CANARY"] = "set"
    field = Field(folder)
    os.environ["GLOVEPORT_CANARY"] = field.secret
    remotes = {rung: RemoteChoice(**json.loads(os.environ.pop(REMOTE)))} if rung in REMOTE_NAMES else {}
    backend = open_backend(rung, folder / "runs", hidden=(field.data,), remotes=remotes)
    try:
        found = await backend.probe()
        told = {"ok": found.ok, "reason": found.reason, "holds": sorted(found.holds), "uid": os.getuid()}
        chosen = wanted or tuple(one.id for one in load() if one.claim in found.holds)
        attempts = [one for one in load() if one.id in chosen] if found.ok else []
        alone = rung == "process" or (rung not in BEGUN_SLOWLY and os.environ.get("GLOVEPORT_THOROUGH") == "1")
        made = {} if alone else await try_together(backend, attempts, field)
        for one in attempts:
            if one.id not in made:
                made[one.id] = await try_on(backend, one, field)
        return {**told, "outcomes": {name: asdict(outcome) for name, outcome in made.items()}}
    finally:
        await backend.close()
        field.close()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(sys.argv[1], Path(sys.argv[2]), tuple(sys.argv[3:])))))
