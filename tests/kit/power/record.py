"""Recording a real daemon: every file operation of it and of its children, and every word that left it.

Purpose: run a daemon under strace through some lives, and give back the disk, the steps and what was promised when.
Invariant: the daemon is the shipped one, unchanged; the recording is checked against the real folder before it is used.
Must never: be used when a call could not be followed.
"""

import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.kit.daemon import START_S, Daemon
from tests.kit.power.disk import Disk
from tests.kit.power.replay import CALLS, Replayer
from tests.kit.power.strace import Call, Ended, parse

from gloveport.server.journal.lease import read_owner

STRING_BYTES_MAX = 64 * 1024 * 1024
LAUNCHER = Path(__file__).with_name("launcher.py")
SHARED_USER = "shared_user"


class World:
    """A folder that holds a daemon's home, a user's project and a model's script, at one path for good."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gpw-", dir="/tmp"))
        self.home, self.project, self.model = (self.folder / name for name in ("home", "project", "model"))
        self.home.mkdir(mode=0o700)
        self.project.mkdir()
        self.model.mkdir()

    def remove(self) -> None:
        """Nothing stays."""
        shutil.rmtree(self.folder, ignore_errors=True)


class FaultyDaemon(Daemon):
    """A daemon with what the launcher knows by these names."""

    def __init__(self, home: Path, names: tuple[str, ...]) -> None:
        super().__init__(home, loads_itself=True)
        self._names = names

    def command(self, program: tuple[str, ...]) -> list[str]:
        """The launcher in place of the program."""
        return [sys.executable, "-P", str(LAUNCHER), *self._names]


class TracedDaemon(Daemon):
    """A daemon under strace. `faults` name what the launcher breaks (negative controls)."""

    def __init__(self, home: Path, trace: Path, faults: tuple[str, ...] = ()) -> None:
        super().__init__(home, loads_itself=True)
        self._trace = trace
        self._faults = faults
        self.traces: list[Path] = []

    def command(self, program: tuple[str, ...]) -> list[str]:
        """strace, then the daemon."""
        file = self._trace.with_name(f"{self._trace.name}.{len(self.traces)}")
        self.traces.append(file)
        own = super().command(program)
        own = [own[0], "-P", str(LAUNCHER), SHARED_USER, *self._faults]
        tracer = ["strace", "-f", "-y", "-xx", "-s", str(STRING_BYTES_MAX), "--decode-pids=pidns"]
        return [*tracer, "-e", f"trace={','.join(CALLS)}", "-e", "signal=none", "-o", str(file), "--", *own]

    def _end(self, number: int) -> int:
        """A signal for the daemon itself; the tracer ends with the last process it traces."""
        process, self.process = self.process, None
        if process is None:
            return 0
        owner = read_owner(self.home)
        if owner is not None and owner.pid > 0:
            with contextlib.suppress(ProcessLookupError):
                os.kill(owner.pid, number)
        else:
            process.send_signal(signal.SIGKILL)
        return process.wait(timeout=START_S)


def replayed(world: World, disk: Disk, traces: list[Path], folder: Path) -> tuple[Replayer, list[Call]]:
    """Follow all traces on one disk; also the calls that spoke to clients."""
    replayer = Replayer(disk, str(folder))
    spoken: list[Call] = []
    line = 1
    for trace in traces:
        with trace.open(encoding="ascii", errors="replace") as lines:
            calls: list[Call | Ended] = list(parse(lines, line))
        replayer.run(calls)
        spoken += [call for call in calls if isinstance(call, Call) and call.name in _SPOKEN and call.succeeded]
        with trace.open("rb") as data:
            line += sum(1 for _ in data)
    return replayer, spoken


_SPOKEN = frozenset({"sendto", "sendmsg", "recvfrom", "recvmsg"})
Watch = Callable[[], None]
