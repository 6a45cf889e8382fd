"""A small process that keeps one spare supervisor forked ahead of the next run.

Purpose: a supervisor at once and in about a megabyte, because it is forked and warm before it is needed.
Invariant: it holds no state of any run; its death, or the daemon's, harms no supervisor.
Must never: run a command itself, or read a run folder.
"""

import contextlib
import gc
import os
import signal
import socket
from typing import Final

from gloveport.protocol.jail.replies import ExitKind, RunExit, RunState, RunStatus, encode_exit, encode_status
from gloveport.protocol.jail.requests import RunLimits, RunRequest, decode_request, encode_request
from gloveport.sandbox.runner import prctl, tree, users
from gloveport.sandbox.runner.supervise import supervise

MESSAGE_BYTES_MAX: Final = 8192
_TAKEN, _OVER = b"t", b"o"


def serve(control_fd: int, *, own_users: bool) -> None:
    """Keep one spare waiting for the next `run folder` message, until the other side closes.

    With `own_users` a spare takes the id of its run's user before there is a run.
    """
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
    while _keep_spare(control, own_users=own_users):
        pass


def _keep_spare(control: socket.socket, *, own_users: bool) -> bool:
    """Fork a spare; returns when it has taken a run or died, False when there is nothing more to wait for."""
    told, tell = os.pipe()
    if os.fork() == 0:
        os.close(told)
        code = 1
        try:
            _await_run(control, tell, own_users=own_users)
            code = 0
        finally:
            os._exit(code)
    os.close(tell)
    word = os.read(told, 1)
    os.close(told)
    return word != _OVER


def _await_run(control: socket.socket, tell: int, *, own_users: bool) -> None:
    """In the spare: warm up, wait for a run, supervise it. A spare outlives a killed fork server by one run."""
    os.setsid()
    _warm_up()
    user = None
    if own_users:
        with contextlib.suppress(OSError):  # a run that needs one tries again, and says why it has none
            user = users.take_user()
    message, fds, _flags, _address = socket.recv_fds(control, MESSAGE_BYTES_MAX, 1)
    for fd in fds:
        os.set_inheritable(fd, False)
    with contextlib.suppress(BrokenPipeError):
        os.write(tell, _TAKEN if message else _OVER)
    os.close(tell)
    control.close()
    if message and len(fds) == 1:
        supervise(os.fsdecode(message), fds[0], user)


def _warm_up() -> None:
    """Touch what a run will touch: after a fork each page costs its first write, better now than then."""
    limits = RunLimits(1.0, None, None, None, None, None, None, 1, 1024, 0.0)
    request = RunRequest("warm", ("true",), "/", (("PATH", "/"),), b"", (b"",), 1, limits, None)
    decode_request(encode_request(request))
    me = os.getpid()
    encode_status(RunStatus("warm", RunState.RUNNING, tree.read_boot_id(), me, tree.read_start_ticks(me) or 0, 0, 0))
    encode_exit(RunExit(ExitKind.OK, 0, None, "", 0.0, 0.0, None, 0))
