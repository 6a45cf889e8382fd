"""A run as the daemon sees it: the files of its folder and a wake-up.

Purpose: one way to follow a run, whether this daemon started it or found it after a crash.
Invariant: what is told comes from the run folder; a supervisor that is gone without `exit.json` means lost.
Must never: signal a process whose pid and start time do not match the recorded ones, or one of the run that this
folder is a copy of.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from gloveport.protocol.jail.replies import RunExit, RunStatus
from gloveport.protocol.jail.requests import RunRequest
from gloveport.sandbox.contract import Result, ResultKind
from gloveport.sandbox.runner import engine_api, groups, rundir, tree
from gloveport.sandbox.runner.spool import CHUNK_BYTES, SpoolReader
from gloveport.sandbox.runner.users import NOT_HAD

POLL_S: Final = 0.05
"""How often a found-again run is looked at; one of our own wakes us."""
RUN_MARK: Final = "GLOVEPORT_RUN"
"""Environment entry, random per run, by which a rung without namespaces finds what a dead supervisor left."""
STOP_SLACK_S: Final = 3.0
"""How long past its grace a supervisor may take before it is killed with its tree."""


class SupervisedExecution:
    """Follows one run folder. Call in the event loop that will await it."""

    def __init__(self, folder: Path, request: RunRequest, wake_fd: int | None) -> None:
        self._folder, self._request = folder, request
        self._wake_fd = wake_fd
        self._changed = anyio.Event()
        self._result: Result | None = None
        if wake_fd is not None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(wake_fd, self._on_wake)

    @property
    def run_id(self) -> str:
        """The caller's id of this run."""
        return self._request.run_id

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self._folder

    @property
    def is_of_this_boot(self) -> bool:
        """False when the machine went down since it began."""
        status = rundir.read_status(self._folder)
        return status is None or status.boot_id == tree.read_boot_id()

    def is_over(self) -> bool:
        """Whether the end is known or the supervisor is gone."""
        return self._result is not None or self._ended() is not None

    async def wait_started(self) -> bool:
        """Wait until the supervisor has written its identity; False when it died before."""
        while rundir.read_status(self._folder) is None:
            if self._wake_fd is None:
                return False
            await self._wait_change()
        return True

    async def output(self) -> AsyncIterator[bytes]:
        """Chunks from the first byte on; ends with the tree."""
        reader = SpoolReader(self._folder, self._request.limits.output_bytes_max)
        while True:
            over = self.is_over()
            while chunk := reader.read_new():
                yield chunk
            if over:
                return
            await self._wait_change()

    async def result(self) -> Result:
        """Wait for the end."""
        while self._result is None:
            end = self._ended()
            if end is None:
                await self._wait_change()
            else:
                self._result = self._read_result(end)
                self._close()
        return self._result

    async def stop(self) -> None:
        """End the tree, the supervisor's way first."""
        status = read_own_status(self._folder)
        if status is not None and is_supervised(status) and rundir.read_exit(self._folder) is None:
            tree.send_signal(status.supervisor_pid, status.supervisor_start_ticks, signal.SIGTERM)
            with anyio.move_on_after(self._request.limits.grace_s + STOP_SLACK_S):
                await self.result()
                return
        if status is not None and rundir.read_exit(self._folder) is None:
            await anyio.to_thread.run_sync(kill_run, status, self._request)
        await self.result()

    async def lacks_user(self) -> bool:
        """Whether nothing was started because no user id of its own could be had, or a mount does not map it."""
        status = read_own_status(self._folder)
        return status is not None and not status.main_pid and f" {NOT_HAD}: " in (await self.result()).evidence

    async def discard(self) -> None:
        """Forget the run and its folder; the run must be over."""
        await self.result()
        await anyio.to_thread.run_sync(self._clear_groups)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _clear_groups(self) -> None:
        """Remove what a supervisor which died could not give back; a living one does it itself."""
        status = rundir.read_status(self._folder)
        is_left = status is None or not is_supervised(status)
        if is_left and rundir.is_original(self._folder):
            give_back(self._request, is_over=rundir.read_exit(self._folder) is not None)

    def detach(self) -> None:
        """Stop following; the run goes on."""
        self._close()

    def _on_wake(self) -> None:
        try:
            alive = bool(self._wake_fd is not None and os.read(self._wake_fd, CHUNK_BYTES))
        except BlockingIOError:
            alive = True
        if not alive:
            self._close()
        self._changed.set()
        self._changed = anyio.Event()

    def _close(self) -> None:
        if self._wake_fd is not None:
            self._loop.remove_reader(self._wake_fd)
            os.close(self._wake_fd)
            self._wake_fd = None

    async def _wait_change(self) -> None:
        if self._wake_fd is not None:
            await self._changed.wait()
        else:
            await anyio.sleep(POLL_S)

    def _ended(self) -> RunExit | str | None:
        """The end, words for a lost run, or None while it goes on."""
        if (end := rundir.read_exit(self._folder)) is not None:
            return end
        status = rundir.read_status(self._folder)
        if status is None:
            return None if self._wake_fd is not None else "the supervisor left no trace of the run"
        if not rundir.is_original(self._folder):
            return "the run belongs to the data directory of which this one is a copy"
        if is_supervised(status):
            return None
        # It may have written the end between our two looks.
        return rundir.read_exit(self._folder) or "the supervisor is gone and left no end of the run"

    def _read_result(self, end: RunExit | str) -> Result:
        reader = SpoolReader(self._folder, self._request.limits.output_bytes_max)
        try:
            output, total, truncated = reader.read_kept()
        except OSError:
            output, total, truncated = b"", 0, False
        if isinstance(end, str):
            return Result(ResultKind.LOST, None, None, end, 0.0, 0.0, None, output, total, truncated)
        return Result(
            ResultKind(end.kind.value), end.exit_code, end.signal, end.evidence, end.wall_s, end.cpu_s,
            end.memory_peak_bytes, output, total, truncated,
            tuple((words, int(times)) for words, times in end.denied if times.isdecimal()), end.alarms, end.dump,
        )  # fmt: skip


def read_own_status(folder: Path) -> RunStatus | None:
    """The status of a run whose processes are ours to end; None for a copy of its folder."""
    return rundir.read_status(folder) if rundir.is_original(folder) else None


def is_supervised(status: RunStatus) -> bool:
    """Whether the recorded supervisor still lives, in this boot."""
    return status.boot_id == tree.read_boot_id() and tree.is_alive(status.supervisor_pid, status.supervisor_start_ticks)


def kill_run(status: RunStatus, request: RunRequest) -> bool:
    """KILL what a recorded run left: descendants of supervisor and main process, these two, and what bears its mark."""
    if status.boot_id != tree.read_boot_id():
        return False
    found = False
    for pid, ticks in (
        (status.supervisor_pid, status.supervisor_start_ticks),
        (status.main_pid, status.main_start_ticks),
    ):
        if tree.is_alive(pid, ticks):
            below = tree.find_descendants(pid)
            with contextlib.suppress(OSError):
                tree.send_signal(pid, ticks, signal.SIGKILL)
            tree.kill_all(below, signal.SIGKILL)
            found = True
    if request.engine is not None:
        found = _remove_container(request) or found
    mark = dict(request.environment).get(RUN_MARK)
    return (mark is not None and tree.kill_marked(f"{RUN_MARK}={mark}".encode()) > 0) or found


def give_back(request: RunRequest, *, is_over: bool) -> None:
    """Remove control groups and container of a run whose supervisor is gone; with its end written only groups may be
    left, for the container went before."""
    if request.cgroup is not None:
        groups.remove_groups(request.cgroup)
    if request.engine is not None and not is_over:
        _remove_container(request)


def _remove_container(request: RunRequest) -> bool:
    """Kill and remove a run's container, here or on another machine; False when none was found."""
    if request.engine is None:
        return False
    if request.remote is None:
        return engine_api.remove_container(request.engine)
    from gloveport.sandbox.runner.remote_cargo import remove_lost

    return remove_lost(request)
