"""A small process that forks one supervisor per run.

Purpose: a supervisor in about a millisecond and a megabyte, because the interpreter is already warm.
Invariant: it holds no state of any run; its death, or the daemon's, harms no supervisor.
Must never: run a command itself, or read a run folder before the fork.
"""

import contextlib
import gc
import os
import signal
import socket
from typing import Final

from gloveport.sandbox.runner import prctl, tree
from gloveport.sandbox.runner.supervise import supervise

MESSAGE_BYTES_MAX: Final = 8192


def serve(control_fd: int) -> None:
    """Take `run folder` messages with one wake-up descriptor each, until the other side closes."""
    control = socket.socket(fileno=os.dup(control_fd))
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    prctl.hide_from_peers()
    tree.read_boot_id()
    gc.disable()
    gc.freeze()
    while True:
        message, fds, _flags, _address = socket.recv_fds(control, MESSAGE_BYTES_MAX, 1)
        if not message:
            return
        for fd in fds:
            os.set_inheritable(fd, False)
        if len(fds) == 1:
            _fork_supervisor(control, os.fsdecode(message), fds[0])
        for fd in fds:
            os.close(fd)


def _fork_supervisor(control: socket.socket, run_dir: str, wake_fd: int) -> None:
    """Fork; a failed fork closes the wake-up descriptor, which the daemon reads as a failed start."""
    with contextlib.suppress(OSError):
        if os.fork() == 0:
            code = 1
            try:
                control.close()
                os.setsid()
                supervise(run_dir, wake_fd)
                code = 0
            finally:
                os._exit(code)
