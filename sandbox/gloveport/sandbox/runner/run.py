"""One run of a program of this machine, as the process that holds it sees it.

Purpose: start the command, keep its output, hold its limits, end its whole tree, describe how it ended.
Invariant: the end is described after the last process of the tree is dead and reaped.
Must never: wait for the daemon, or end before its tree.
"""

import contextlib
import os
import resource
import select
import signal
import socket
import time
from pathlib import Path
from typing import Final

from gloveport.protocol.jail.replies import ExitKind, RunExit, RunState, RunStatus
from gloveport.protocol.jail.requests import RunRequest
from gloveport.sandbox.runner import groups, rundir, tree
from gloveport.sandbox.runner.bounds import Bounds
from gloveport.sandbox.runner.breaker import dump
from gloveport.sandbox.runner.child import ChildPipes, StartFailed, start_child
from gloveport.sandbox.runner.limits import Watchdog
from gloveport.sandbox.runner.setid import strip_set_id
from gloveport.sandbox.runner.spool import CHUNK_BYTES, SpoolWriter
from gloveport.sandbox.runner.users import NOT_HAD, OwnUser, take_user
from gloveport.sandbox.runner.verdict import Ending, Seen, decide_verdict
from gloveport.sandbox.runner.watching import Watch

KILL_AGAIN_S: Final = 0.02
"""Pause between two rounds of KILL while some process of the tree still shows."""
STATUS_BYTES_MAX: Final = 64 * 1024
UNSTARTED: Final = -signal.SIGKILL
STOPPED: Final = "stopped on request"


def _take_user() -> OwnUser:
    try:
        return take_user()
    except OSError as error:
        raise StartFailed(f"{NOT_HAD}: {error.strerror}") from error


class Run:
    """Mutable state of the one run of this process."""

    def __init__(self, folder: Path, request: RunRequest, wake_fd: int, user: OwnUser | None = None) -> None:
        self.folder, self.request, self.wake_fd, self.user = folder, request, wake_fd, user
        self.limits = request.limits
        self.began = self.last_output = time.monotonic()
        self.spool = SpoolWriter(folder, self.limits.output_bytes_max)
        self.watch, self._watch_end = self._make_watch()
        self.watchdog = Watchdog(request, self.watch)
        self.bounds = Bounds(request.bounds)
        self.dump = ""
        self.poller = select.poll()
        self.stdin_left = memoryview(request.stdin)
        self.wrapper_words = b""
        self.main_pid = 0
        self.main_status: int | None = None
        self.childless = False
        self.ending: Ending | None = None
        self.kill_at: float | None = None

    def perform(self) -> RunExit | None:
        """Run to the end of the tree and describe it; None when its end cannot be known."""
        self.signals = self._take_signals()
        plan, failure, kills, peak = self.request.cgroup, None, 0, None
        try:
            if plan is not None:
                groups.make_groups(plan)
            self._start()
        except (OSError, StartFailed) as error:
            failure = f"never started: {error}"
            self.childless = True
        self._write_status(RunState.RUNNING)
        if failure is None:
            self._loop()
            self.watchdog.look_back()
            self._strip_set_id()
        if plan is not None:
            kills, peak = groups.count_memory_kills(plan), groups.read_peak_bytes(plan)
        return self._describe(failure, kills, peak)

    def _strip_set_id(self) -> None:
        """Where the filter saw such a bit, or there is none that could have seen it."""
        if self.watch is not None and not self.watch.saw_set_id:
            return
        self.watchdog.alarms += strip_set_id(self.request.written).words()

    def _take_signals(self) -> int:
        """A pipe that becomes readable on SIGCHLD (a child changed) and SIGTERM (the daemon says stop)."""
        read_fd, write_fd = os.pipe()
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, lambda _number, _frame: None)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.poller.register(read_fd, select.POLLIN)
        return read_fd

    def _make_watch(self) -> tuple[Watch | None, socket.socket | None]:
        if self.request.watch is None:
            return None, None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return Watch(self.request.watch, ours), theirs

    def _start(self) -> None:
        stdin_read, self.stdin = os.pipe()
        self.output, output_write = os.pipe()
        self.status, status_write = os.pipe()
        wrapped = self.request.wrapper_depth > 0
        end = self._watch_end
        watch_fd = None if end is None else end.fileno()
        pipes = ChildPipes(stdin_read, output_write, status_write if wrapped else None, watch_fd)
        try:
            if self.request.user is not None and self.user is None:
                self.user = _take_user()
            self.main_pid = start_child(self.request, pipes, self.user)
        finally:
            for fd in (stdin_read, output_write, status_write):
                os.close(fd)
            if end is not None:
                end.close()
        for fd in (self.stdin, self.output, self.status):
            os.set_blocking(fd, False)
        self.poller.register(self.output, select.POLLIN)
        self.poller.register(self.status, select.POLLIN)
        self.poller.register(self.stdin, select.POLLOUT)
        if self.watch is not None:
            self.poller.register(self.watch.channel_fd, select.POLLIN)

    def _write_status(self, state: RunState) -> None:
        me = os.getpid()
        ticks = tree.read_start_ticks
        main_ticks = (ticks(self.main_pid) or 0) if self.main_pid else 0
        status = RunStatus(
            self.request.run_id, state, tree.read_boot_id(), me, ticks(me) or 0, self.main_pid, main_ticks
        )
        rundir.write_status(self.folder, status)
        self._wake()

    def _loop(self) -> None:
        while self.main_status is None or not self.childless:
            for fd, event in self.poller.poll(self._pause_ms()):
                self._serve(fd, event)
            self._hold_limits()
        while self._read_output():
            pass
        with contextlib.suppress(OSError):  # a wrapper's last words may arrive together with its end
            self.wrapper_words += os.read(self.status, STATUS_BYTES_MAX)

    def _serve(self, fd: int, event: int) -> None:
        if fd == self.signals:
            if signal.SIGTERM in os.read(fd, CHUNK_BYTES):
                self._end(Ending(ExitKind.KILLED, STOPPED))
            self._reap()
        elif fd == self.output:
            self._read_output()
        elif fd == self.status:
            words = os.read(fd, CHUNK_BYTES)
            self.wrapper_words = (self.wrapper_words + words)[:STATUS_BYTES_MAX]
            if not words:
                self.poller.unregister(fd)
        elif self.watch is not None and fd in (self.watch.channel_fd, self.watch.listener):
            self._serve_watch(self.watch, fd, event)
        else:
            self._feed_stdin()

    def _serve_watch(self, watch: Watch, fd: int, event: int) -> None:
        if fd == watch.channel_fd:
            self.poller.unregister(fd)
            if (listener := watch.take_listener()) is not None:
                self.poller.register(listener, select.POLLIN)
        elif not event & select.POLLIN or not watch.serve():  # a hang-up: nobody under the filter is left
            self.poller.unregister(fd)
            watch.close()

    def _read_output(self) -> bool:
        """Take one chunk; False at the end or when nothing is there."""
        try:
            chunk = os.read(self.output, CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            with contextlib.suppress(KeyError):
                self.poller.unregister(self.output)
            return False
        self.last_output = time.monotonic()
        self.spool.write(chunk)
        self._wake()
        return True

    def _feed_stdin(self) -> None:
        try:
            if self.stdin_left:
                self.stdin_left = self.stdin_left[os.write(self.stdin, self.stdin_left[:CHUNK_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.stdin_left = self.stdin_left[:0]
        if not self.stdin_left:
            self.poller.unregister(self.stdin)
            os.close(self.stdin)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.main_pid:
                    self.main_status = os.waitstatus_to_exitcode(status)
                    self._kill_leftovers()
        self.childless = True

    def _kill_leftovers(self) -> None:
        """The command is over; whatever it left behind is not to live on. A wrapper's init dies by itself first."""
        if self.ending is None:
            pause = KILL_AGAIN_S if self.request.wrapper_depth else 0.0
            self.kill_at = time.monotonic() + pause

    def _hold_limits(self) -> None:
        now = time.monotonic()
        going = self.ending is None and self.main_status is None
        if going and (ending := self._time_ending(now) or self.watchdog.check(now) or self.bounds.check(now)):
            self._end(ending)
        if self.kill_at is not None and now >= self.kill_at and not self.childless:
            self._kill_tree()

    def _time_ending(self, now: float) -> Ending | None:
        limits = self.limits
        if now - self.began >= limits.wall_s:
            return Ending(ExitKind.TIMEOUT, f"wall limit of {limits.wall_s:g} s")
        if limits.idle_s is not None and now - self.last_output >= limits.idle_s:
            return Ending(ExitKind.TIMEOUT, f"idle limit: no output for {limits.idle_s:g} s")
        return None

    def _end(self, ending: Ending) -> None:
        """Write down what it is doing, TERM, KILL after the grace; memory that runs over is killed at once."""
        if self.ending is not None:
            return
        self.ending = ending
        if ending.kind is not ExitKind.KILLED or ending.evidence != STOPPED:
            self.dump = dump(self._processes(), self.request.wrapper_depth)
        now = time.monotonic()
        if ending.at_once:
            self.kill_at = now
            return
        self._ask_tree()
        self.kill_at = now + self.limits.grace_s

    def _processes(self) -> list[tree.Process]:
        """What lives of the run."""
        return tree.find_descendants(os.getpid())

    def _ask_tree(self) -> None:
        """TERM to every process of the command."""
        tree.kill_all(tree.find_descendants(os.getpid()), signal.SIGTERM, self.request.wrapper_depth)

    def _kill_tree(self) -> None:
        tree.kill_all(tree.find_descendants(os.getpid()), signal.SIGKILL)
        self.kill_at = time.monotonic() + KILL_AGAIN_S
        self._reap()

    def tidy(self) -> None:
        """Give back what the run was held by; its processes are dead and its end is told."""
        if self.request.cgroup is not None:
            groups.remove_groups(self.request.cgroup)

    def _measure(self) -> tuple[float, int | None]:
        """CPU seconds of the tree, and its highest memory use as far as it was sampled."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime, max(self.watchdog.peak_bytes, usage.ru_maxrss * 1024)

    def _pause_ms(self) -> int:
        now = time.monotonic()
        moments = [] if self.kill_at is None else [self.kill_at]
        if self.ending is None and self.main_status is None:
            moments.append(self.began + self.limits.wall_s)
            if self.limits.idle_s is not None:
                moments.append(self.last_output + self.limits.idle_s)
            moments += [at for at in (self.watchdog.next_at, self.bounds.next_at) if at is not None]
        if not moments:
            moments.append(now + KILL_AGAIN_S)
        return max(0, int((min(moments) - now) * 1000) + 1)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # a full pipe already wakes, a closed one has nobody to wake
            os.write(self.wake_fd, b".")

    def _describe(self, failure: str | None, kills: int, peak: int | None) -> RunExit:
        cpu_s, sampled = self._measure()
        denied = () if self.watch is None else self.watch.denied()
        verdict = decide_verdict(
            Seen(
                wait_status=UNSTARTED if self.main_status is None else self.main_status,
                ending=self.ending if failure is None else Ending(ExitKind.FAILED, failure),
                memory_kills=kills,
                memory_bytes_max=self.limits.memory_bytes_max,
                cpu_s=cpu_s,
                cpu_s_max=self.limits.cpu_s,
                wrapped=self.request.wrapper_depth > 0,
                wrapper_reported=b'"exit-code"' in self.wrapper_words,
                denied=denied[0][0] if denied else "",
                denied_decides=self.request.breaker is not None and self.request.breaker.ends,
                by_engine=self.request.engine is not None,
            )
        )
        return RunExit(
            kind=verdict.kind,
            exit_code=None if self.main_status is None else verdict.exit_code,
            signal=None if self.main_status is None else verdict.signal,
            evidence=verdict.evidence,
            wall_s=time.monotonic() - self.began,
            cpu_s=cpu_s,
            memory_peak_bytes=peak if peak is not None else sampled,
            output_bytes_total=self.spool.total,
            denied=denied,
            alarms=tuple(self.watchdog.alarms),
            dump=self.dump,
        )
