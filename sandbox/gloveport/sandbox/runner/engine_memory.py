"""What tells that a container was killed at its memory limit, beside the engine's own flag.

Purpose: engines miss the kernel's word on a busy machine; it is listened to here, in the container's control group,
and in the engine's own events.
Invariant: a count above 0 means that the kernel killed in this very container; a group is believed only where its name
holds the container's id, so that a process of another machine is never taken for the container.
Must never: take a full group, or the number 137, for a kill.
"""

import contextlib
import json
import os
import select
import socket
import time
from pathlib import Path
from typing import Final

from gloveport.sandbox.runner.engine_api import EngineError, EngineSocket, quote

GROUPS_ROOT: Final = Path("/sys/fs/cgroup")
LATE_S: Final = 1.0
"""How long after an end that nobody explained the kernel's or the engine's word may still come."""
LOOK_AGAIN_S: Final = 0.01
_READ_BYTES: Final = 64 * 1024
_EVENT_BYTES_MAX: Final = 256 * 1024


class MemoryEar:
    """Listens from a container's start to its end. `open` costs one call to the engine; `close` lets go."""

    def __init__(self, engine: EngineSocket, name: str, root: Path = GROUPS_ROOT) -> None:
        self._engine, self._name, self._root = engine, name, root
        self._group: _FirstGroup | _SecondGroup | None = None
        self._events: socket.socket | None = None
        self._told = b""

    def listen(self) -> None:
        """Follow the engine's events; to be called before the container starts."""
        filters = json.dumps({"container": [self._name], "event": ["oom"]}, separators=(",", ":"))
        with contextlib.suppress(EngineError, OSError):
            self._events, self._told = self._engine.open("GET", f"/events?filters={quote(filters)}")
            self._events.setblocking(False)

    def find_group(self) -> None:
        """Follow the control group of the container that was started; without one the events are left."""
        with contextlib.suppress(EngineError, OSError, KeyError, TypeError, ValueError):
            seen = self._engine.call("GET", f"/containers/{self._name}/json")
            self._group = _open_group(self._root, int(seen["State"]["Pid"]), str(seen["Id"]))

    def follow(self, poller: select.poll) -> None:
        """Have the run woken by the kernel's word; its group may be gone soon after."""
        if self._group is not None:
            poller.register(self._group.fileno(), self._group.wakes)

    def is_from(self, fd: int) -> bool:
        """Take the kernel's word if it came by this descriptor."""
        if self._group is None or fd != self._group.fileno():
            return False
        self._group.count()
        return True

    def pids(self) -> list[int]:
        """The processes of the container's own group, as this machine knows them; none where that is not found."""
        if self._group is None:
            self.find_group()
        if self._group is None:
            return []
        with contextlib.suppress(OSError, ValueError):
            return [int(line) for line in (self._group.folder / "cgroup.procs").read_bytes().splitlines()]
        return []

    def count_kills(self, *, wait: bool) -> int:
        """Processes that the kernel killed, as far as anybody says; with `wait` a late word is waited for."""
        until = time.monotonic() + (LATE_S if wait else 0.0)
        while True:
            told = self._read_events()
            seen = 0 if self._group is None else self._group.count()
            left = until - time.monotonic()
            if told or seen or left <= 0:
                return max(told, seen)
            if self._events is None and self._group is None:
                return 0
            time.sleep(min(left, LOOK_AGAIN_S))

    def close(self) -> None:
        """Let go of what was followed."""
        if self._events is not None:
            self._events.close()
            self._events = None
        if self._group is not None:
            self._group.close()
            self._group = None

    def _read_events(self) -> int:
        while self._events is not None and len(self._told) < _EVENT_BYTES_MAX:
            try:
                piece = self._events.recv(_READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            if not piece:
                self._events.close()
                self._events = None
            self._told += piece
        found = 0
        for line in self._told.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                found += json.loads(line)["Action"] == "oom"
        return found


class _FirstGroup:
    """A group of version 1: the kernel signals each shortage it kills for, and once when the group is removed."""

    wakes = select.POLLIN

    def __init__(self, folder: Path) -> None:
        self.folder, self._signals, self._kills = folder, 0, 0
        control = os.open(folder / "memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            try:
                (folder / "cgroup.event_control").write_text(f"{self._fd} {control}", encoding="ascii")
            except OSError:
                os.close(self._fd)
                raise
        finally:
            os.close(control)

    def fileno(self) -> int:
        return self._fd

    def count(self) -> int:
        with contextlib.suppress(BlockingIOError):
            self._signals += os.eventfd_read(self._fd)
        with contextlib.suppress(OSError):
            self._kills = max(self._kills, _count_in((self.folder / "memory.oom_control").read_bytes()))
        # Once the group is gone: the signals, but the one for its removal.
        self._kills = max(self._kills, self._signals - 1)
        return self._kills

    def close(self) -> None:
        os.close(self._fd)


class _SecondGroup:
    """A group of version 2: its count can be read as long as it is there, and the kernel tells of each change."""

    wakes = select.POLLPRI

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._fd = os.open(folder / "memory.events", os.O_RDONLY | os.O_CLOEXEC)
        self._kills = 0

    def fileno(self) -> int:
        return self._fd

    def count(self) -> int:
        with contextlib.suppress(OSError):
            self._kills = max(self._kills, _count_in(os.pread(self._fd, _READ_BYTES, 0)))
        return self._kills

    def close(self) -> None:
        os.close(self._fd)


def _count_in(words: bytes) -> int:
    found = [line.split()[1] for line in words.splitlines() if line.startswith(b"oom_kill ")]
    return int(found[0]) if found and found[0].isdigit() else 0


def _open_group(root: Path, pid: int, container: str) -> _FirstGroup | _SecondGroup | None:
    """The memory group of the process, if it is that container's. Raises `OSError`."""
    if pid <= 0 or not container:
        return None
    for line in Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines():
        _number, controllers, path = line.split(":", 2)
        if container not in path:
            continue
        if "memory" in controllers.split(","):
            return _FirstGroup(root / "memory" / path.lstrip("/"))
        if not controllers and (root / path.lstrip("/") / "memory.events").exists():
            return _SecondGroup(root / path.lstrip("/"))
    return None
