"""Commands of `gloveport` from a process that has loaded the program once.

Purpose: most of the processor time of a short command is loading; where hundreds are run, they are forks of one
process that has done it.
Invariant: each command is a process of its own that gets its words, environment, folder and pipes as if it were
started, and ends as Python ends; the process that waits for words runs none, and ends when whoever started it does.
Must never: serve a test of how the program begins, or of what its environment does while it is loaded.
"""

import atexit
import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

import gloveport

REQUEST_BYTES_MAX: Final = 128 * 1024
LOADED: Final = ("gloveport.server.cli.root", "gloveport.server.client.connect", "anyio._backends._asyncio")
"""What nearly every command loads sooner or later."""


class WarmProgram:
    """The parent's side: the process that waits, and a socket to it."""

    def __init__(self) -> None:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        roots = os.pathsep.join(os.path.dirname(root) for root in gloveport.__path__)
        with far:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(Path(__file__)), str(far.fileno())],
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "PYTHONPATH": roots},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # as a command's: what Python makes of it at its beginning depends on that
                stderr=subprocess.STDOUT,
                pass_fds=[far.fileno()],
            )
        self._control = near

    def run(
        self, words: Sequence[str], environment: Mapping[str, str], cwd: Path, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. Raises TimeoutExpired, after which it is killed."""
        near, far = socket.socketpair()
        out, errors = _Pipe(), _Pipe()
        asked = json.dumps({"words": list(words), "environment": dict(environment), "cwd": str(cwd)}).encode()
        with near, far, open(os.devnull, "rb") as nothing:
            socket.send_fds(self._control, [asked], [nothing.fileno(), out.writer, errors.writer, far.fileno()])
            far.close()
            out.close_writer()
            errors.close_writer()
            near.settimeout(timeout_s)
            with near.makefile("r", encoding="ascii") as told:
                pid = int(told.readline())
                try:
                    code = int(told.readline())
                except TimeoutError:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(list(words), timeout_s, out.read(), errors.read()) from None
        return subprocess.CompletedProcess(list(words), code, out.read(), errors.read())

    def close(self) -> None:
        """End the process that waits; commands that still run go on."""
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
def warm_program() -> WarmProgram:
    """The one of this test process; it ends with the process."""
    program = WarmProgram()
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
    os.write(report, f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    os.write(report, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def load() -> ModuleType:
    """The program, with what its commands load."""
    from importlib import import_module

    program = import_module("gloveport.server.__main__")
    program._use_no_plugins()
    for name in LOADED:
        import_module(name)
    return program


def become(program: ModuleType, words: list[str], environment: dict[str, str], cwd: str) -> None:
    """Be the command."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [str(program.__file__), *words]
    sys.modules["__main__"] = program
    program.main()


if __name__ == "__main__":
    loaded = load()
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        wanted = serve(listening)
    if wanted is not None:
        become(loaded, **wanted)  # type: ignore[arg-type]  # - the parent's own words
