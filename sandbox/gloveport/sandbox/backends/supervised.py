"""What the process and bubblewrap rungs share: run folders, leases, attach and reap.

Purpose: everything between a checked profile and a supervisor, the same for every local rung.
Invariant: a run folder belongs to one lease; its name is on disk before its run begins, and it is removed only when
    its run is over.
Must never: know how a rung isolates; that is the `plan_run` a rung gives.
"""

import contextlib
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.jail.codec import JailFormatError
from gloveport.protocol.jail.requests import RunLimits, RunRequest
from gloveport.sandbox.backends.collect import collect_files
from gloveport.sandbox.backends.execution import (
    SupervisedExecution,
    give_back,
    is_supervised,
    kill_run,
    read_own_status,
)
from gloveport.sandbox.backends.launcher import Launcher
from gloveport.sandbox.backends.view import find_bendable, find_written
from gloveport.sandbox.contract import Command, ResultKind, SandboxError
from gloveport.sandbox.profile import Profile, is_below
from gloveport.sandbox.runner import rundir
from gloveport.sandbox.runner.spool import COUNT_FILE

RUNS_MAX: Final = 4096
ARGUMENT_BYTES_MAX: Final = 1024 * 1024
START_S: Final = 30.0
"""How long a supervisor may take to start its command."""
SCRATCH: Final = "scratch"
"""Folder for temporary files inside a run folder, on a rung that has no view of its own."""

TRIAL_WORDS_MAX: Final = 300
DISK_HINT: Final = "Free space on the data disk or mend it, then ask again."

PlanRun = Callable[[Command, Path], RunRequest]
"""From a command and its run folder to the whole request."""


class RunFolders:
    """All runs of one folder: start, find again, forget, reap."""

    def __init__(self, runs_dir: Path, *, scratch: bool = False, own_users: bool = False) -> None:
        self._dir, self._scratch = runs_dir, scratch
        self._launcher = Launcher(own_users=own_users)
        self._followed: dict[str, SupervisedExecution] = {}
        self._written: dict[str, frozenset[str]] = {}
        """What each run that was started here may write, by real path, until it is forgotten."""
        self._own: set[str] = set()
        """Runs that this program begins or has begun: from before their folder is there until they are forgotten."""

    async def start(self, command: Command, plan: PlanRun) -> SupervisedExecution:
        """Write the request, have a supervisor forked, wait until its identity is on disk."""
        check_command(command)
        folder = self._dir / command.run_id
        is_new = not folder.exists()
        self._own.add(command.run_id)
        try:
            return await self._start(command, folder, plan)
        except SandboxError:
            if is_new and not folder.exists():
                self._own.discard(command.run_id)
                self._written.pop(command.run_id, None)
            raise

    async def _start(self, command: Command, folder: Path, plan: PlanRun) -> SupervisedExecution:
        request = self._make(folder, command, plan)
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(sync_names, self._dir)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            words = f"The run's folder cannot be written ({error.strerror}); nothing was started."
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, words, hint=DISK_HINT) from error
        execution = await self._launch(folder, request)
        if execution is None and not was_begun(folder):
            # The fork server died with the message in its hands; nothing was started, so asking again is safe.
            self._launcher.close()
            execution = await self._launch(folder, request)
        if execution is None:
            shutil.rmtree(folder, ignore_errors=True)
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, "The supervisor ended before the run began.")
        self._followed[command.run_id] = execution
        return execution

    def _make(self, folder: Path, command: Command, plan: PlanRun) -> RunRequest:
        """The run's folder with its request; nothing is left of it where that fails."""
        try:
            self._dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            request = plan(command, folder)
            rundir.write_request(folder, request)
            if self._scratch:
                (folder / SCRATCH).mkdir(mode=0o700)
        except FileExistsError as error:
            words = f"A run with the id {command.run_id!r} exists already."
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="Attach to it or forget it.") from error
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            words = f"The run's folder cannot be written ({error.strerror}); nothing was started."
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, words, hint=DISK_HINT) from error
        return request

    async def _launch(self, folder: Path, request: RunRequest) -> SupervisedExecution | None:
        """Hand the folder over and wait for the supervisor's identity; None when it ended before it had one."""
        wake_read, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        execution = SupervisedExecution(folder, request, wake_read)
        try:
            self._launcher.launch(folder, wake_write)
        except SandboxError:
            execution.detach()
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            os.close(wake_write)
        # Not to be cancelled: a run that may have begun is never let go of without its identity.
        with anyio.move_on_after(START_S, shield=True):
            if await execution.wait_started():
                return execution
            execution.detach()
            return None
        execution.detach()
        raise SandboxError(ErrorCode.SANDBOX_LOST, f"The run did not report within {START_S:g} s; it may have begun.")

    def note_written(self, run_id: str, folders: frozenset[str]) -> None:
        """Remember what a run may write, before it begins."""
        self._written[run_id] = folders

    def check_unbent(self, run_id: str, bendable: frozenset[str]) -> None:
        """Refuse a start whose mount targets a living run could replace by links between our look and the mount."""
        for other, written in self._written.items():
            execution = self._followed.get(other)
            if other == run_id or (execution is not None and execution.is_over()):
                continue
            if any(is_below(one, two) or is_below(two, one) for one in bendable for two in written):
                words = f"The run {other!r} can still write where something is to be mounted."
                raise SandboxError(ErrorCode.SANDBOX_REFUSED, words, hint="Wait for its end, then start again.")

    def attach(self, run_id: str) -> SupervisedExecution | None:
        """Find a run by its folder."""
        if (known := self._followed.get(run_id)) is not None:
            return known
        folder = self._dir / run_id
        if not rundir.is_run_id(run_id) or not folder.is_dir():
            return None
        try:
            request = rundir.read_request(folder)
        except (OSError, JailFormatError):
            return None
        execution = SupervisedExecution(folder, request, None)
        self._followed[run_id] = execution
        return execution

    async def forget(self, run_id: str) -> None:
        """Remove the folder of a run that is over; a live one is refused."""
        execution = self.attach(run_id)
        if execution is None:
            return
        if not execution.is_over():
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, f"The run {run_id!r} goes on; stop it first.")
        await execution.discard()
        self._followed.pop(run_id, None)
        self._written.pop(run_id, None)
        self._own.discard(run_id)

    def reap(self) -> tuple[str, ...]:
        """Kill every unattached run that still lives, by recorded identity; returns their ids.

        Folders of runs that ended stay: they are evidence until `forget`.
        """
        reaped = []
        for folder in self._folders():
            status = read_own_status(folder)
            if self.is_ours(folder.name) or status is None or rundir.read_exit(folder) is not None:
                continue
            try:
                request = rundir.read_request(folder)
            except (OSError, JailFormatError):
                continue
            if kill_run(status, request):
                reaped.append(folder.name)
            give_back(request, is_over=False)
        return tuple(reaped)

    def sweep(self, keep: frozenset[str]) -> tuple[str, ...]:
        """Remove the folder of every run that is over and that nobody follows or keeps; returns their ids."""
        swept = []
        for folder in self._folders():
            status = read_own_status(folder)
            if self.is_ours(folder.name) or folder.name in keep:
                continue
            if status is not None and rundir.read_exit(folder) is None and is_supervised(status):
                continue
            with contextlib.suppress(OSError, JailFormatError):
                request = rundir.read_request(folder)
                if rundir.is_original(folder):
                    give_back(request, is_over=rundir.read_exit(folder) is not None)
            shutil.rmtree(folder, ignore_errors=True)
            swept.append(folder.name)
        return tuple(swept)

    def is_ours(self, run_id: str) -> bool:
        """True for runs that this program follows, and for those that it is just beginning."""
        return run_id in self._followed or run_id in self._own

    def close(self) -> None:
        """Stop following and let the fork server end; runs go on."""
        for execution in self._followed.values():
            execution.detach()
        self._followed.clear()
        self._launcher.close()

    def _folders(self) -> list[Path]:
        if not self._dir.is_dir():
            return []
        return sorted(path for path in self._dir.iterdir() if path.is_dir() and not path.is_symlink())[:RUNS_MAX]


class SupervisedLease:
    """A lease whose commands run under supervisors."""

    def __init__(
        self, lease_id: str, profile: Profile, folders: RunFolders, plan: PlanRun, context: Mapping[str, object]
    ) -> None:
        self._lease_id, self._profile = lease_id, profile
        self._folders, self._plan, self._context = folders, plan, context
        self._executions: list[SupervisedExecution] = []
        self._released = False

    @property
    def lease_id(self) -> str:
        """The caller's id."""
        return self._lease_id

    @property
    def security_context(self) -> Mapping[str, object]:
        """The values in force."""
        return self._context

    async def start(self, command: Command) -> SupervisedExecution:
        """Start a command in this jail."""
        if self._released:
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, "This lease was released.", hint="Prepare a new one.")
        self._folders.check_unbent(command.run_id, find_bendable(self._profile))
        self._folders.note_written(command.run_id, find_written(self._profile))
        execution = await self._folders.start(command, self._plan)
        self._executions.append(execution)
        return execution

    async def collect(self, globs: tuple[str, ...]) -> Mapping[str, bytes]:
        """Matching files of the writable mounts; refuses while something runs."""
        if any(not execution.is_over() for execution in self._executions):
            raise SandboxError(ErrorCode.SANDBOX_REFUSED, "Files are collected when the run is over, not before.")
        return collect_files(self._profile, globs)

    async def release(self) -> None:
        """Stop what runs and remove its folders."""
        self._released = True
        for execution in self._executions:
            await execution.stop()
            await self._folders.forget(execution.run_id)
        self._executions.clear()


class SupervisedRung(ABC):
    """The half of a backend that does not depend on how it isolates."""

    takes_images = False

    def __init__(self, folders: RunFolders) -> None:
        self.folders = folders

    @property
    def host(self) -> str:
        """Runs stay on this machine."""
        return ""

    @abstractmethod
    async def prepare(self, profile: Profile, lease_id: str) -> SupervisedLease:
        """Make a lease; each rung its own way."""

    async def find_image(self, reference: str) -> str:
        """A rung that shows this machine's programs takes no image."""
        return ""

    async def attach(self, run_id: str) -> SupervisedExecution | None:
        """Find a run of an earlier daemon by its folder."""
        return self.folders.attach(run_id)

    async def forget(self, run_id: str) -> None:
        """Remove the folder of a run that has ended."""
        await self.folders.forget(run_id)

    async def reap(self) -> tuple[str, ...]:
        """Kill every run of an earlier daemon that was not attached."""
        return self.folders.reap()

    async def sweep(self, keep: frozenset[str]) -> tuple[str, ...]:
        """Remove what ended runs of an earlier daemon left, but those of `keep` and those attached."""
        return self.folders.sweep(keep)

    async def close(self) -> None:
        """Let go of the fork server; runs go on."""
        self.folders.close()

    async def try_run(self, profile: Profile, argv: tuple[str, ...] = ("true",)) -> str | None:
        """Run `true`, or another command, in the profile; words about what went wrong, or None."""
        run_id = f"trial-{secrets.token_hex(8)}"
        try:
            lease = await self.prepare(profile, run_id)
            try:
                execution = await lease.start(Command(argv, run_id))
                result = await execution.result()
            finally:
                await lease.release()
        except SandboxError as error:
            return error.message
        if result.kind is ResultKind.OK:
            return None
        said = result.output.decode("utf-8", "replace").strip()[-TRIAL_WORDS_MAX:]
        return f"A trial run failed: {said or result.evidence}"


def sync_names(folder: Path) -> None:
    """Make the names in a folder outlast the machine: where no run folder is found, no run was begun."""
    for one in (folder, folder.parent):
        fd = os.open(one, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def was_begun(folder: Path) -> bool:
    """Whether a supervisor came as far as to open the run's output, which is before it starts anything."""
    return (folder / COUNT_FILE).exists()


def check_command(command: Command) -> None:
    """Refuse a command that cannot be run as given."""
    if not rundir.is_run_id(command.run_id):
        raise SandboxError(ErrorCode.SANDBOX_REFUSED, f"Not usable as a run id: {command.run_id!r}.")
    if not command.argv or any("\0" in part for part in command.argv):
        raise SandboxError(ErrorCode.SANDBOX_REFUSED, "A command needs a program and no NUL in its arguments.")
    if sum(len(os.fsencode(part)) for part in command.argv) > ARGUMENT_BYTES_MAX:
        raise SandboxError(ErrorCode.SANDBOX_REFUSED, "The arguments are too long.")


def plan_limits(profile: Profile, user_processes_max: int | None) -> RunLimits:
    """The supervisor's share of a profile's limits."""
    limits = profile.limits
    return RunLimits(
        wall_s=limits.wall_s,
        idle_s=limits.idle_s,
        cpu_s=limits.cpu_s,
        memory_bytes_max=limits.memory_bytes_max,
        processes_max=limits.processes_max,
        user_processes_max=user_processes_max,
        file_bytes_max=limits.file_bytes_max,
        open_files_max=limits.open_files_max,
        output_bytes_max=limits.output_bytes_max,
        grace_s=profile.grace_s,
    )
