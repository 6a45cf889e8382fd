"""Runs that have a user id of their own where that can be had, and this program's where it cannot.

Purpose: what was found out about mounts by trial, and a lease that starts a run the plain way when the other fails.
Invariant: no run fails for want of a user of its own; what its lease tells names the id that it has.
Must never: start a command a second time that a first start may have begun.
"""

import os
import stat
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final

import anyio

from gloveport.sandbox.backends.execution import SupervisedExecution, is_supervised, read_own_status
from gloveport.sandbox.backends.supervised import PlanRun, RunFolders, SupervisedLease
from gloveport.sandbox.contract import Command
from gloveport.sandbox.profile import Profile

RETRY_S: Final = 60.0
"""What a trial refused is tried again after so long: the trial may have met a full table or a mount that is gone."""
TIDY_TRIES: Final = 1000
"""How often it is looked whether the supervisor of a start that failed has given back its groups and is gone."""
_TIDY_PAUSE_S: Final = 0.005
_FOR_OTHERS: Final = stat.S_IROTH | stat.S_IXOTH


class Trials:
    """What trials said: for good where they went well, else for a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed_at: dict[Hashable, float | None] = {}

    async def holds(self, key: Hashable, run: Callable[[], Awaitable[str | None]]) -> bool:
        """Whether it works, by `run`, which gives words about a failure.

        While the first trial of a thing goes on others are told that it works, while a later one does that it does not.
        """
        failed_at = self._failed_at.get(key)
        if key not in self._failed_at or (failed_at is not None and self._clock() - failed_at >= RETRY_S):
            self._failed_at[key], works = None if failed_at is None else self._clock(), False
            try:
                works = await run() is None
            finally:
                self.note(key, works=works)
        return self._failed_at[key] is None

    def note(self, key: Hashable, *, works: bool) -> None:
        """Remember what was found out elsewhere."""
        self._failed_at[key] = None if works else self._clock()


def identify_mount(path: str) -> tuple[int, int]:
    """The device and the mount that a path lies on: of one device one mount may map ids already, another not.

    Raises OSError.
    """
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
            fields = dict(line.split(":", 1) for line in file if ":" in line)
        return os.fstat(fd).st_dev, int(fields["mnt_id"])
    finally:
        os.close(fd)


def is_for_others(program: str, search: str) -> bool:
    """Whether anybody may start a program of this machine, also one that is not found or that a mount brings."""
    places = [program] if "/" in program else [os.path.join(folder, program) for folder in search.split(":") if folder]
    real = next((os.path.realpath(place) for place in places if os.path.isfile(place)), "")
    if not real.startswith("/usr/"):
        return True
    ways = (real[:at] for at in range(1, len(real)) if real[at] == "/")
    return _mode(real) & _FOR_OTHERS == _FOR_OTHERS and all(_mode(way) & stat.S_IXOTH for way in ways)


@dataclass(frozen=True, slots=True)
class Plain:
    """How a run is started under this program's own user id, and what is told of it then.

    `is_needed`: a command that is known not to start under another id.
    """

    plan: PlanRun
    context: Mapping[str, object]
    is_needed: Callable[[Command], bool]


class OwnUserLease(SupervisedLease):
    """Each run has a user of its own, until one cannot have it: that one and later ones have none."""

    def __init__(
        self,
        lease_id: str,
        profile: Profile,
        folders: RunFolders,
        plan: PlanRun,
        context: Mapping[str, object],
        plain: Plain,
    ) -> None:
        super().__init__(lease_id, profile, folders, plan, context)
        self._plain: Plain | None = plain

    async def start(self, command: Command) -> SupervisedExecution:
        """Start a command; once more the plain way where it never began for want of a user."""
        if self._plain is not None and self._plain.is_needed(command):
            self._give_up(self._plain)
        execution = await super().start(command)
        if self._plain is None or not await execution.lacks_user():
            return execution
        self._give_up(self._plain)
        await _wait_tidied(execution)
        self._executions.remove(execution)
        await self._folders.forget(command.run_id)
        return await super().start(command)

    def _give_up(self, plain: Plain) -> None:
        self._plan, self._context, self._plain = plain.plan, plain.context, None


async def _wait_tidied(execution: SupervisedExecution) -> None:
    """Until its supervisor is gone, which gives back control groups of the run's name."""
    for _ in range(TIDY_TRIES):
        if (status := read_own_status(execution.folder)) is None or not is_supervised(status):
            return
        await anyio.sleep(_TIDY_PAUSE_S)


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0
