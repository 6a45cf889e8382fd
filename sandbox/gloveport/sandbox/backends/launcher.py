"""The daemon's side of the fork server.

Purpose: start it late, hand it run folders, start it anew when it is gone.
Invariant: at most one fork server per launcher; its only inherited descriptor is its control socket.
Must never: pass it the daemon's environment, terminal or open files.
"""

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Final

import gloveport.protocol.jail as jail_dialect
import gloveport.sandbox.runner as runner
from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.contract import SandboxError

_ENVIRONMENT: Final = MappingProxyType({"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
CLOSE_WAIT_S: Final = 5.0


class Launcher:
    """Owns the fork server process; close it or let the daemon's end close it."""

    def __init__(self, *, own_users: bool = False) -> None:
        """`own_users`: its runs have user ids of their own, so that a spare takes one before it is needed."""
        self._own_users = own_users
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def launch(self, folder: Path, wake_fd: int) -> None:
        """Have a supervisor forked for the run folder. Raises `SandboxError` when that is impossible."""
        for _ in range(2):  # a fork server that was killed since is replaced once
            control = self._control or self._start()
            try:
                socket.send_fds(control, [os.fsencode(folder)], [wake_fd])
            except (BrokenPipeError, ConnectionError):
                self.close()
            else:
                return
        raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, "The supervisor's fork server does not stay alive.")

    def close(self) -> None:
        """Let the fork server end; running supervisors go on."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(CLOSE_WAIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        roots = [str(Path(str(module.__file__)).parents[3]) for module in (runner, jail_dialect)]
        entry = Path(str(runner.__file__)).with_name("__main__.py")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(entry), "users" if self._own_users else "user", *roots],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            words = f"The supervisor could not be started: {error.strerror}."
            raise SandboxError(ErrorCode.SANDBOX_UNAVAILABLE, words) from error
        finally:
            theirs.close()
        self._control = ours
        return ours

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()
