"""Containers made ahead of their runs.

Purpose: a run that finds one waiting starts in the time of an exec.
Invariant: a container that waits is unused, was made from the very body that its run would be made from, of the very
folders that are there, and serves one run; nothing of it stays when the daemon closes, and it ends by itself where
nobody ends it.
Must never: be made for a profile with covered files: a file that is replaced meanwhile would lose its cover.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

import anyio
import anyio.to_thread

from gloveport.protocol.jail.requests import EnginePlan
from gloveport.sandbox.backends.docker_plan import POOL_LABEL
from gloveport.sandbox.backends.pool import Idle, PoolBooks
from gloveport.sandbox.profile import Access, Profile
from gloveport.sandbox.runner import tree
from gloveport.sandbox.runner.engine_api import EngineError, EngineSocket, remove_container

IDLE_S: Final = 600.0
"""How long one may wait for its run."""
SLACK_S: Final = 60.0
"""How much longer than its run's limits it lasts."""


class WarmContainers:
    """The idle containers of one engine, for this daemon."""

    def __init__(self, address: str, places: int) -> None:
        self._address, self._places = address, places
        self._books = PoolBooks(places)
        self._makings: set[asyncio.Task[None]] = set()
        self._is_open = True

    def take(self, profile: Profile, body: str) -> str | None:
        """The name of a container for this run, or None; in its place another one is begun."""
        if not self._may_wait(profile):
            return None
        session, key, now = _session_of(profile), _key_of(body), time.monotonic()
        taken = self._books.take(session, key, now + _lasts_s(profile), now)
        if self._is_open and self._books.wants(session, key, now):
            task = asyncio.get_running_loop().create_task(self.make(profile, body))
            self._makings.add(task)
            task.add_done_callback(self._makings.discard)
        return None if taken is None else taken.name

    async def make(self, profile: Profile, body: str) -> None:
        """Make one ready. An engine that refuses leaves everything as it is: the run makes its own."""
        if not self._may_wait(profile):
            return
        lasts_s = _lasts_s(profile) + IDLE_S
        name = f"gloveport-warm-{secrets.token_hex(8)}"
        idle = Idle(name, _key_of(body), _session_of(profile), time.monotonic() + lasts_s)
        if await anyio.to_thread.run_sync(self._begin, name, _rest(body, lasts_s)):
            for gone in self._books.put(idle, time.monotonic()):
                await self._remove(gone.name)
        else:
            await self._remove(name)

    async def settle(self) -> None:
        """Wait until what is being made is there."""
        while self._makings:
            await asyncio.wait(tuple(self._makings))

    async def close(self) -> None:
        """Remove every container that waits."""
        self._is_open = False
        await self.settle()
        for idle in self._books.clear():
            await self._remove(idle.name)

    def _may_wait(self, profile: Profile) -> bool:
        return self._places > 0 and not profile.covered and profile.way_out is None

    def _begin(self, name: str, body: str) -> bool:
        engine = EngineSocket(self._address)
        try:
            engine.call("POST", f"/containers/create?name={name}", body)
            engine.call("POST", f"/containers/{name}/start")
        except (EngineError, OSError):
            return False
        return True

    async def _remove(self, name: str) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(remove_container, EnginePlan(self._address, name, "", ""))


def plan_inside(name: str, address: str, body: str) -> EnginePlan:
    """How a run's command is executed in a container that waits; `body` is what it is made from if that is gone."""
    whole = json.loads(body)
    kept = ("Cmd", "Env", "WorkingDir", "User", "AttachStdin", "AttachStdout", "AttachStderr", "Tty")
    return EnginePlan(address, name, body, json.dumps({field: whole[field] for field in kept}))


def name_daemon() -> str:
    """This very process, for the label of what it keeps ready."""
    return f"{tree.read_boot_id()} {os.getpid()} {tree.read_start_ticks(os.getpid())}"


def is_daemon_alive(name: str) -> bool:
    """Whether the daemon of a label still runs."""
    boot, _, process = name.partition(" ")
    with contextlib.suppress(ValueError):
        pid, ticks = (int(part) for part in process.split(" "))
        return boot == tree.read_boot_id() and tree.is_alive(pid, ticks)
    return False


def _rest(body: str, lasts_s: float) -> str:
    """The body with a first process that waits; what is left behind inside dies with it."""
    whole: dict[str, Any] = json.loads(body)
    owner = {name: value for name, value in whole["Labels"].items() if name.endswith(".owner")}
    whole |= {"Cmd": ["sleep", str(int(lasts_s))], "OpenStdin": False, "StdinOnce": False, "AttachStdin": False}
    whole["Labels"] = {**owner, POOL_LABEL: name_daemon()}
    whole["HostConfig"]["Init"] = False
    return json.dumps(whole)


def _key_of(body: str) -> str:
    """What a container is made for: everything but the command, its labels and its init; and which folders these are.

    A folder that was replaced by another of its name is another one: a container that waits still shows the old.
    """
    whole: Mapping[str, Any] = json.loads(body)
    kept = {name: value for name, value in whole.items() if name not in ("Cmd", "Labels")}
    sources = [_identify(mount["Source"]) for mount in whole["HostConfig"]["Mounts"]]
    return hashlib.sha256(json.dumps([kept, sources], sort_keys=True).encode()).hexdigest()


def _identify(source: str) -> list[int]:
    try:
        found = os.stat(source)
    except OSError:
        return []
    return [found.st_dev, found.st_ino]


def _session_of(profile: Profile) -> str:
    """A session is known by the folders that only its runs may write."""
    return "\n".join(mount.source for mount in profile.mounts if mount.access is Access.READ_WRITE)


def _lasts_s(profile: Profile) -> float:
    return profile.limits.wall_s + profile.grace_s + SLACK_S
