"""The real daemon, counted: what the proof starts in the place of `gloveport daemon`.

Purpose: put the counting proxies (and, for a negative control, one fault) around the shipped code, then run its main.
    `cold` is one daemon in a process of its own; `serve` loads everything once and forks a daemon for each line it is
    given, which saves each of a thousand daemons the time of loading.
Invariant: without an aim and without a fault it is the shipped daemon, from its main on.
Must never: be reachable from the product, or run anything of a daemon in the process that forks.
"""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from tests.kit.proof.counting import count_everything
from tests.kit.proof.progress import FAULT, Meter
from tests.kit.warm import load


def kill_runs() -> None:
    """SIGKILL for every supervisor that a run folder names: nothing of the daemon's tree outlives it."""
    from gloveport.sandbox.runner import rundir

    for folder in Path(os.environ["GLOVEPORT_HOME"]).glob("runs/*/*"):
        status = rundir.read_status(folder)
        if status is not None and rundir.read_exit(folder) is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(status.supervisor_pid, signal.SIGKILL)


def run(meter: Meter) -> int:
    """The daemon of this process's environment; its exit code."""
    from gloveport.server.app.foreground import run_daemon

    meter.begin(os.environ)
    if fault := os.environ.get(FAULT):
        from tests.kit.proof.faults import FAULTS  # late: it loads what is to be counted

        FAULTS[fault]()
    return run_daemon()


def counted() -> Meter:
    """The proxies, around everything that a daemon of this process will load."""
    meter = Meter(kill_runs)
    count_everything(meter)
    return meter


def serve() -> None:
    """A daemon for each line of standard input: `{"environment", "folder", "log"}`; its pid is the answer.

    The daemon is a child of nobody here: whoever started this process and adopts orphans may wait for it.
    """
    meter = counted()
    load("daemon")
    for line in sys.stdin:
        told, tell = os.pipe()
        between = os.fork()
        if between == 0:
            daemon = os.fork()
            if daemon:
                os.write(tell, f"{daemon}\n".encode())
                os._exit(0)
            os.close(told)
            os.close(tell)
            become(json.loads(line))
            code = 1
            try:
                code = run(meter)
            finally:
                os._exit(code)
        os.close(tell)
        os.waitpid(between, 0)
        with os.fdopen(told) as answer:
            print(answer.readline().strip(), flush=True)


def become(wanted: dict[str, object]) -> None:
    """In the forked daemon: a session, an environment, a folder and a log of its own."""
    os.setsid()
    environment = wanted["environment"]
    os.environ.clear()
    if isinstance(environment, dict):
        os.environ.update(environment)
    os.chdir(str(wanted["folder"]))
    log = os.open(str(wanted["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, fd in enumerate((null, log, log)):
        os.dup2(fd, number)
    os.close(log)
    os.close(null)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        sys.exit(run(counted()))
