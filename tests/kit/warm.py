"""Commands and daemons of `gloveport` from a process that has loaded the program once.

Purpose: most of the processor time of a short command, and of a daemon until it waits, is loading; where hundreds are
run, they are forks of one process that has done it.
Invariant: each is a process of its own that gets its words, environment, folder and pipes as if it were started, and
ends as Python ends; `/proc` shows the home it serves; the process that waits for words runs none, and ends when whoever
started it does.
Must never: serve a test of how the program begins, or of what its environment does while it is loaded.
"""

import atexit
import contextlib
import ctypes
import functools
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

import gloveport

REQUEST_BYTES_MAX: Final = 128 * 1024
TOLD_BYTES_MAX: Final = 32
COMMAND: Final = (
    "gloveport.server.cli.root",
    "gloveport.server.client.connect",
    "anyio._backends._asyncio",
    "gloveport.server.app.offline_views",
    "gloveport.server.app.replay",
)
"""What nearly every command loads sooner or later, and what those without a daemon read the log with."""
DAEMON: Final = (
    "gloveport.server.app.foreground",
    "gloveport.server.app.daemon",
    "gloveport.server.app.rooms",
    "gloveport.server.commands.working",
    "gloveport.sandbox.backends.bubblewrap",
    "gloveport.sandbox.backends.process",
    "gloveport.server.models.scripted",
    "tomllib",
)
"""What a daemon loads until its rooms are open, and for its first turn."""
HOME: Final = "GLOVEPORT_HOME"
HOME_BYTES_MAX: Final = 256
"""So much room for its home has a fork where `/proc` shows its environment."""


class WarmProcess:
    """One that was forked there; it is asked and ended as a `subprocess.Popen`."""

    def __init__(self, report: socket.socket) -> None:
        self._report = report
        self.pid = int(report.recv(TOLD_BYTES_MAX))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """How it ended (negative: the signal); None while it runs."""
        with contextlib.suppress(BlockingIOError):
            self._collect(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, once it has. Raises TimeoutExpired."""
        try:
            return self._collect(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0) from None

    def send_signal(self, number: int) -> None:
        """Signal it, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _collect(self, timeout: float | None) -> int:
        if self.returncode is None:
            self._report.settimeout(timeout)
            self.returncode = int(self._report.recv(TOLD_BYTES_MAX))
            self._report.close()
        return self.returncode


class WarmProgram:
    """The parent's side: the process that waits, and a socket to it."""

    def __init__(self, kind: str) -> None:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        roots = os.pathsep.join(os.path.dirname(root) for root in gloveport.__path__)
        with far:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__)), kind, str(far.fileno())],
                env={
                    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                    "PYTHONPATH": roots,
                    HOME: "-" * HOME_BYTES_MAX,
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # as a command's: what Python makes of it at its beginning depends on that
                stderr=subprocess.STDOUT,
                pass_fds=[far.fileno()],
            )
        self._control = near

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], cwd: Path, out: int, errors: int
    ) -> WarmProcess:
        """Start a command with these two descriptors to write to, and nothing to read."""
        asked = json.dumps({"words": list(words), "environment": dict(environment), "cwd": str(cwd)}).encode()
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with far, open(os.devnull, "rb") as nothing:
            socket.send_fds(self._control, [asked], [nothing.fileno(), out, errors, far.fileno()])
        return WarmProcess(near)

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], cwd: Path, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. Raises TimeoutExpired, after which it is killed."""
        out, errors = _Pipe(), _Pipe()
        process = self.start(words, environment, cwd, out.writer, errors.writer)
        out.close_writer()
        errors.close_writer()
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(words), timeout_s, out.read(), errors.read()) from None
        return subprocess.CompletedProcess(list(words), code, out.read(), errors.read())

    def close(self) -> None:
        """End the process that waits; what was forked from it goes on."""
        self._control.close()
        self._process.communicate()


class _Pipe:
    """What is written to one end, collected in a thread."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()
        self._found = b""
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        with os.fdopen(self._reader, "rb") as reader:
            self._found = reader.read()

    def close_writer(self) -> None:
        """The writers that remain are the command's."""
        os.close(self.writer)

    def read(self) -> str:
        """Everything, once nobody writes any more; newlines as text has them."""
        self._thread.join()
        return self._found.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


@functools.cache
def warm_program(kind: str = "command") -> WarmProgram:
    """The one of this test process, which has loaded what a `command` or a `daemon` does; it ends with the process."""
    program = WarmProgram(kind)
    atexit.register(program.close)
    return program


def serve(control: socket.socket) -> dict[str, object] | None:
    """Wait for words. Returns in a fork of its own with what was asked; None when nobody is there to ask any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        raw, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES_MAX, 4)
        if not raw:
            return None
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if _fork_and_tell(descriptors):
                asked: dict[str, object] = json.loads(raw)
                return asked
        for descriptor in descriptors:
            os.close(descriptor)


def _fork_and_tell(descriptors: list[int]) -> bool:
    """True in the process that is to be the command; the other one tells its id and its end, and is gone."""
    report = descriptors.pop()
    pid = os.fork()
    if pid == 0:
        os.close(report)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        return True
    for descriptor in (0, 1, 2, *descriptors):
        os.close(descriptor)
    with contextlib.suppress(BrokenPipeError):  # nobody is there any more to be told
        os.write(report, str(pid).encode())
        _, status = os.waitpid(pid, 0)
        os.write(report, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def load(kind: str) -> ModuleType:
    """The program, with what its commands, or its daemon, load."""
    program = import_module("gloveport.server.__main__")
    program._use_no_plugins()
    for name in DAEMON if kind == "daemon" else COMMAND:
        import_module(name)
    if kind == "daemon":
        build_daemon_shapes()
    gc.collect()
    gc.freeze()  # a fork that looked through it would copy it
    return program


def build_daemon_shapes() -> None:
    """The checkers of a daemon's messages, which are otherwise built at their first use."""
    from pydantic import BaseModel

    from gloveport.protocol.journal.events import REGISTRY
    from gloveport.protocol.wire.methods import METHODS, NOTIFICATIONS
    from gloveport.server.models.script_file import Script
    from gloveport.server.tools.registry import builtin_toolbox

    for method in METHODS.values():
        method.params.model_rebuild()
        method.result.model_rebuild()
    shapes: list[type[BaseModel]] = [*NOTIFICATIONS.values(), *REGISTRY.values(), Script]
    for shape in shapes:
        shape.model_rebuild()
    builtin_toolbox().specs()


def become(program: ModuleType, words: list[str], environment: dict[str, str], cwd: str) -> None:
    """Be the command; where the first word is a Python file, be that: it has the others, and what is loaded."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    _show_home(environment.get(HOME, ""))
    if words[0].endswith(".py"):
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")
        return
    sys.argv = [str(program.__file__), *words]
    sys.modules["__main__"] = program
    program.main()


def _show_home(home: str) -> None:
    """Let `/proc` show this home in place of the room that was left for it: what it shows is this process's own memory.

    What a fork leaves running is found by it (tests/kit/left_running.py).
    """
    begin, end = (int(word) for word in Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
    room = f"{HOME}={'-' * HOME_BYTES_MAX}".encode()
    at = ctypes.string_at(begin, end - begin).index(room)
    shown = f"{HOME}={home}".encode()
    if len(shown) > len(room):
        raise ValueError(f"no room for so long a home: {home}")
    ctypes.memmove(begin + at, shown.ljust(len(room), b"\0"), len(room))


if __name__ == "__main__":
    loaded = load(sys.argv[1])
    with socket.socket(fileno=int(sys.argv[2])) as listening:
        wanted = serve(listening)
    if wanted is not None:
        become(loaded, **wanted)  # type: ignore[arg-type]  # - the parent's own words
