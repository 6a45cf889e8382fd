"""Hands over a real worktree and a real jail.

Purpose: plan and perform calls of tools that use hands, each under a name of its own, without a daemon around.
Invariant: the rung, the programs inside and the libraries are the real ones.
Must never: stand in for any part of a tool.
"""

import dataclasses
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator, Container, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from tests.kit.require import require_bubblewrap

from gloveport.sandbox.backends.docker_choice import EngineChoice
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.interpreter import find_interpreter
from gloveport.server.app.resources import readable_roots
from gloveport.server.engine.hands import Hands, Place
from gloveport.server.engine.way_out import WaysOut
from gloveport.server.hands import inside
from gloveport.server.policy.protected import is_sensitive
from gloveport.server.secrets.detect import Redactor
from gloveport.server.tools.contract import OWN_LABEL, Performed, ToolContext, ToolPlan, parse
from gloveport.server.tools.registry import builtin_toolbox
from gloveport.server.workspace.facade import SessionWorkspace


def find_hand(module: str, ancestor: int | None = None, leave_out: Container[int] = ()) -> int | None:
    """The pid of a program that runs in a jail as this hand, started by a process (this one) or what it started."""
    program = (find_interpreter().path.encode(), f"{inside.__name__}.{module}".encode())
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in leave_out:
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            is_jailed = len(_status(entry.name)["NSpid"].split()) > 1
        except OSError:
            continue
        is_ours = words[0] == program[0] and program[1] in words and is_jailed
        if is_ours and (ancestor or os.getpid()) in _ancestors(int(entry.name)):
            return int(entry.name)
    return None


def _status(pid: str) -> dict[str, str]:
    lines = Path("/proc", pid, "status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines)


def _ancestors(pid: int) -> set[int]:
    found: set[int] = set()
    try:
        while pid > 1:
            pid = int(_status(str(pid))["PPid"])
            found.add(pid)
    except OSError:
        pass
    return found


SECRET = "correct-horse-battery-staple"


@dataclass
class Table:
    """Where hands work in a test. `planned` is the plan of the last call, `done` what a test keeps of it."""

    context: ToolContext
    hands: Hands
    numbers: Iterator[int]
    planned: ToolPlan | None = None
    done: Performed | None = None

    async def use(self, name: str, **arguments: Any) -> Performed:
        """Plan a call, take it as allowed, perform it."""
        tool = builtin_toolbox().find(name)
        parsed = parse(tool.arguments, json.dumps(arguments))
        context = dataclasses.replace(self.context, call_id=f"t1.c{next(self.numbers)}")
        self.planned = await tool.plan(parsed, context)
        context = dataclasses.replace(context, fingerprint=self.planned.fingerprint, planned=self.planned.effects)
        return await tool.perform(parsed, context)

    async def read(self, path: str) -> bytes:
        """A file of the worktree."""
        return await self.context.workspace.read(path)


@asynccontextmanager
async def hand_table(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    rung: str = "bubblewrap",
    ways: WaysOut | None = None,
    engine: EngineChoice | None = None,
) -> AsyncIterator[Table]:
    """A worktree with these files, and hands on this rung."""
    if rung == "bubblewrap":
        require_bubblewrap()
    root = folder / "root"
    root.mkdir()
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    workspace = await SessionWorkspace.create(root, folder / "session")
    ways = WaysOut(folder / "data", lambda: 0) if ways is None else ways
    backend = open_backend(rung, folder / "runs", exposed=(ways.data_dir,), engine=engine)
    place = Place(str(root), str(workspace.worktree), {}, readable_roots())
    hands = Hands(backend, await backend.probe(), place, "trusted", anyio.Event(), ways=ways)

    async def show(_piece: bytes) -> None:
        """Not looked at here."""

    context = ToolContext(
        call_id="t1.c1", turn_id="t1", goal_revision=1, workspace=workspace, hands=hands, label=OWN_LABEL,
        python=sys.executable, python_is_own=True, show=show, redact=Redactor([SECRET]).redact_bytes,
        is_kept=is_sensitive, is_stopped=hands.stop.is_set,
    )  # fmt: skip
    try:
        yield Table(context, hands, itertools.count(1))
    finally:
        await backend.close()
        workspace.close()
