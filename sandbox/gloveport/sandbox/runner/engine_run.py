"""The life of one run in a container of an engine.

Purpose: what the supervisor does for a tree of its own, done for a container: start, output, limits, end, verdict.
Invariant: the verdict stands on the engine's own state of the container and on our acts; when the end is written
nothing runs in the container, and its supervisor lives until it is removed.
Must never: write an end while the engine cannot say how the container ended; no end means lost.
"""

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gloveport.protocol.jail.replies import ExitKind, RunExit, RunState
from gloveport.protocol.jail.requests import EnginePlan, RunRequest
from gloveport.sandbox.runner import tree
from gloveport.sandbox.runner.engine_api import GONE, EngineError, EngineSocket, quote, remove_container
from gloveport.sandbox.runner.engine_memory import MemoryEar
from gloveport.sandbox.runner.limits import Watchdog
from gloveport.sandbox.runner.run import Run
from gloveport.sandbox.runner.spool import CHUNK_BYTES
from gloveport.sandbox.runner.verdict import SIGNALLED, Ending

AWAY_S: Final = 10.0
"""How long an engine may be away before its run counts as lost."""
ASK_AGAIN_S: Final = 0.25
ALARM_AGAIN_S: Final = 1.0
"""A run whose thresholds are only noted is sampled less often."""
DRAIN_S: Final = 5.0
"""How long output may still come after the container's end."""
KILL_ENGINE_AGAIN_S: Final = 2.0
KILLED_STATUS: Final = SIGNALLED + signal.SIGKILL
"""What engines report of a command that was killed, and of one that ended itself with this number."""
_FRAME_HEAD: Final = 8


class EngineWatch(Watchdog):
    """Samples a container's CPU time and memory by asking the engine; calls are counted by nobody there."""

    def __init__(self, request: RunRequest, engine: EngineSocket, name: str) -> None:
        super().__init__(request)
        self._engine, self._name = engine, name
        only_alarms = request.limits.cpu_s is None and (request.breaker is None or not request.breaker.ends)
        self._interval_s = ALARM_AGAIN_S if only_alarms else ASK_AGAIN_S
        self.cpu_s = 0.0
        self.next_at = None
        if request.limits.cpu_s is not None:
            self.next_at = time.monotonic()
        elif request.breaker is not None:
            self.next_at = time.monotonic() + self._interval_s

    def turn_to(self, engine: EngineSocket) -> None:
        """Ask by another way from here on."""
        self._engine = engine

    def check(self, now: float) -> Ending | None:
        """Ask if due and name the limit that was passed."""
        if self.next_at is None or now < self.next_at:
            return None
        resident = 0
        with contextlib.suppress(EngineError, OSError, KeyError, TypeError, ValueError):
            used = self._engine.call("GET", f"/containers/{self._name}/stats?stream=false&one-shot=true")
            self.cpu_s = used["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9
            self.peak_bytes = max(self.peak_bytes, int(used["memory_stats"].get("max_usage", 0)))
            resident = _own_bytes(used["memory_stats"].get("stats") or {})
        self.next_at = time.monotonic() + self._interval_s
        limit = self._limits.cpu_s
        if limit is not None and self.cpu_s >= limit:
            return Ending(ExitKind.TIMEOUT, f"CPU limit: {self.cpu_s:.1f} s used of {limit} s")
        return self._judge(self.cpu_s, resident)


def _own_bytes(told: Mapping[str, Any]) -> int:
    """Memory of processes by the kernel's own books, without files that it keeps in memory; 0 where nobody says."""
    return int(told.get("anon", told.get("total_rss", 0)))


class EngineRun(Run):
    """Mutable state of a run in a container."""

    def __init__(self, folder: Path, request: RunRequest, plan: EnginePlan, wake_fd: int) -> None:
        super().__init__(folder, request, wake_fd)
        self._plan, self._engine = plan, EngineSocket(plan.address)
        self._path = f"/containers/{plan.name}"
        self._watch = EngineWatch(request, self._engine, plan.name)
        self.watchdog = self._watch
        self._ear = MemoryEar(self._engine, plan.name)
        self._exec_id = ""
        self._stream: socket.socket | None = None
        self._waiting: socket.socket | None = None
        self._frames, self._told = b"", b""
        self._drained = False
        self._drain_until = 0.0
        self._ask_at: float | None = None
        self._away_since: float | None = None
        self.lost = False

    def perform(self) -> RunExit | None:
        """Run to the end of the container and describe it; None when the engine never came back."""
        self.signals = self._take_signals()
        failure = None
        try:
            self._start()
        except (OSError, EngineError, KeyError, TypeError) as error:
            failure = f"never started: {error}"
            self.childless = True
        self._write_status(RunState.RUNNING)
        if failure is None:
            self._loop()
        if self.lost:
            return None
        if failure is not None:
            self.tidy()  # it may have begun all the same: nothing of it is to live on
        kills = self._conclude() if failure is None else 0
        self._strip_set_id()
        return self._describe(failure, kills, None)

    def _start(self) -> None:
        has_memory_limit = self.limits.memory_bytes_max is not None
        if has_memory_limit:
            self._ear.listen()
        try:
            stream = self._start_inside() if self._plan.execute else None
        except EngineError:
            if self._exec_id:
                raise
            # The container that waited is gone; nothing was executed in it, so the run may be made anew.
            remove_container(self._plan)
            stream = None
        self._follow(stream or self._start_new())
        if has_memory_limit:
            self._ear.find_group()
            self._ear.follow(self.poller)
        self.began = self.last_output = time.monotonic()

    def _start_inside(self) -> socket.socket:
        filters = json.dumps({"container": [self._plan.name], "event": ["exec_die", "die"]})
        self._waiting, self._told = self._engine.open("GET", f"/events?filters={quote(filters)}")
        exec_id = self._engine.call("POST", f"{self._path}/exec", self._plan.execute)["Id"]
        start = json.dumps({"Detach": False, "Tty": False})
        self._exec_id = exec_id  # from here on the command may have begun
        stream, self._frames = self._engine.open("POST", f"/exec/{exec_id}/start", start)
        return stream

    def _start_new(self) -> socket.socket:
        self._engine.call("POST", f"/containers/create?name={self._plan.name}", self._plan.create)
        self._waiting, self._told = self._engine.open("POST", f"{self._path}/wait?condition=next-exit")
        attach = f"{self._path}/attach?stream=1&stdin=1&stdout=1&stderr=1"
        stream, self._frames = self._engine.open("POST", attach)
        self._engine.call("POST", f"{self._path}/start")
        return stream

    def _follow(self, stream: socket.socket) -> None:
        """Poll the container's streams and the engine's word about its end."""
        self._stream = stream
        self.output, self.stdin = stream.fileno(), os.dup(stream.fileno())
        self.status = -1
        waiting = self._waiting
        if waiting is not None:
            waiting.setblocking(False)
            self.poller.register(waiting.fileno(), select.POLLIN)
        stream.setblocking(False)
        self.poller.register(self.output, select.POLLIN)
        self.poller.register(self.stdin, select.POLLOUT)

    def _loop(self) -> None:
        while not self.lost and (self.main_status is None or not self._drained):
            for fd, event in self.poller.poll(self._pause_ms()):
                self._serve(fd, event)
            self._hold_limits()
            self._ask_state()
            if self.main_status is not None and time.monotonic() >= self._drain_until:
                self._drained = True
        self.childless = True

    def _serve(self, fd: int, event: int) -> None:
        if self._waiting is not None and fd == self._waiting.fileno():
            self._read_end(self._waiting)
        elif fd == self.output:
            self._read_output()
        elif not self._ear.is_from(fd):
            super()._serve(fd, event)

    def _reap(self) -> None:
        """No process of the run is a child of this one."""

    def _read_end(self, waiting: socket.socket) -> None:
        """The engine's answer: the exit status of the container, or the events of the command inside."""
        try:
            piece = waiting.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        self._told += piece
        status = self._status_told()
        if status is not None:
            self._take_end(status)
        if not piece or status is not None:
            self.poller.unregister(waiting.fileno())
            waiting.close()
            self._waiting = None
            self._ask_at = time.monotonic()

    def _status_told(self) -> int | None:
        for line in self._told.splitlines():
            try:
                word = json.loads(line)
                if not self._exec_id:
                    return int(word["StatusCode"])
                told = word["Actor"]["Attributes"]
                if word["Action"] == "die" or told.get("execID") == self._exec_id:
                    return int(told["exitCode"])
            except (ValueError, KeyError, TypeError):
                continue
        return None

    def _take_end(self, status: int) -> None:
        if self.main_status is None:
            self.main_status = status
            self._drain_until = time.monotonic() + DRAIN_S
            if self._exec_id:
                self._signal(signal.SIGKILL)

    def _ask_state(self) -> None:
        """Where the engine's word did not come, its state of the container is looked at again and again."""
        now = time.monotonic()
        if self.main_status is not None or self._ask_at is None or now < self._ask_at:
            return
        self._ask_at = now + ASK_AGAIN_S
        path = f"/exec/{self._exec_id}/json" if self._exec_id else f"{self._path}/json"
        try:
            seen: dict[str, Any] = self._engine.call("GET", path)
            self._away_since = None
            state = seen if self._exec_id else seen["State"]
            if not state["Running"]:
                self._take_end(int(state["ExitCode"] or 0))
        except EngineError as error:
            self.lost = error.status == GONE
        except (OSError, KeyError, TypeError, ValueError):
            self._away_since = self._away_since or now
            self.lost = now - self._away_since > AWAY_S

    def _read_output(self) -> bool:
        """Take what has come; False at the end or when nothing is there."""
        try:
            piece = os.read(self.output, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            piece = b""
        if not piece:
            with contextlib.suppress(KeyError):
                self.poller.unregister(self.output)
            self._drained = True
            self._ask_at = self._ask_at or time.monotonic()
            return False
        self._frames += piece
        self._take_frames()
        return True

    def _take_frames(self) -> None:
        """Each frame: stream number, three zeros, length, bytes."""
        while len(self._frames) >= _FRAME_HEAD:
            length = int.from_bytes(self._frames[4:_FRAME_HEAD], "big")
            if len(self._frames) < _FRAME_HEAD + length:
                return
            body = self._frames[_FRAME_HEAD : _FRAME_HEAD + length]
            self._frames = self._frames[_FRAME_HEAD + length :]
            for start in range(0, length, CHUNK_BYTES):
                self.spool.write(body[start : start + CHUNK_BYTES])
            self.last_output = time.monotonic()
            self._wake()

    def _feed_stdin(self) -> None:
        try:
            if self.stdin_left:
                self.stdin_left = self.stdin_left[os.write(self.stdin, self.stdin_left[:CHUNK_BYTES]) :]
        except BlockingIOError:
            return
        except OSError:
            self.stdin_left = self.stdin_left[:0]
        if not self.stdin_left:
            self.poller.unregister(self.stdin)
            os.close(self.stdin)
            if self._stream is not None:
                with contextlib.suppress(OSError):
                    self._stream.shutdown(socket.SHUT_WR)

    def _ask_tree(self) -> None:
        """TERM: the container's init hands it on; inside an idle container everything but its first process gets it."""
        if not self._exec_id:
            self._signal(signal.SIGTERM)
            return
        with contextlib.suppress(EngineError, OSError, KeyError, TypeError):
            body = json.dumps({"Cmd": ["sh", "-c", "kill -TERM -1"], "AttachStdout": False, "AttachStderr": False})
            told = self._engine.call("POST", f"{self._path}/exec", body)
            self._engine.call("POST", f"/exec/{told['Id']}/start", json.dumps({"Detach": True}))

    def _kill_tree(self) -> None:
        self._signal(signal.SIGKILL)
        self.kill_at = time.monotonic() + KILL_ENGINE_AGAIN_S

    def _signal(self, number: int) -> None:
        with contextlib.suppress(EngineError, OSError):
            self._engine.call("POST", f"{self._path}/kill?signal={number}")

    def _pause_ms(self) -> int:
        pause = super()._pause_ms()
        if self._ask_at is None:
            return pause
        return min(pause, max(0, int((self._ask_at - time.monotonic()) * 1000) + 1))

    def _processes(self) -> list[tree.Process]:
        """Those of the container's control group, where it is on this machine and known."""
        return tree.find_these(self._ear.pids())

    def _measure(self) -> tuple[float, int | None]:
        return self._watch.cpu_s, self._watch.peak_bytes or None

    def _conclude(self) -> int:
        """See the container dead; how many processes the kernel killed for its memory, as far as anybody says."""
        kills = 0
        with contextlib.suppress(EngineError, OSError, KeyError, TypeError):
            if self._exec_id:
                self._signal(signal.SIGKILL)
                self._engine.call("POST", f"{self._path}/wait?condition=not-running")
            kills = int(bool(self._engine.call("GET", f"{self._path}/json")["State"]["OOMKilled"]))
        unexplained = self.main_status == KILLED_STATUS and self.ending is None
        kills = max(kills, self._ear.count_kills(wait=unexplained and not kills))
        self._ear.close()
        return kills

    def tidy(self) -> None:
        """Remove the container: nothing runs in it any more, or it never began."""
        remove_container(self._plan)
