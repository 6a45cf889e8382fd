"""A command at a terminal.

Purpose: run a program with a pseudo-terminal of its own, type into it and read what it shows.
Invariant: the terminal controls the program, so that a typed Ctrl-C is an interrupt; it is ended with the block.
Must never: sleep; it waits for output.
"""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

WAIT_S = 60.0
# Takes the terminal as its controlling one, then becomes the command; a test run in the background ignores interrupts.
_TAKE = (
    "import fcntl, os, signal, sys, termios; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)


class Terminal:
    """One running command."""

    def __init__(self, process: subprocess.Popen[bytes], side: int) -> None:
        self.process = process
        self.text = ""
        self._side = side
        self._seen = 0

    def type(self, text: str) -> None:
        """Type; the user's Enter is a carriage return or line feed, Ctrl-C is \\x03, Ctrl-D is \\x04."""
        os.write(self._side, text.encode())

    def wait_for(self, words: str) -> str:
        """Read until `words` are shown after what was waited for last; what was shown until then."""
        deadline = time.monotonic() + WAIT_S
        while (at := self.text.find(words, self._seen)) < 0:
            if not self._read(deadline):
                raise AssertionError(f"{words!r} was not shown: {self.text[-2000:]!r}")
        began, self._seen = self._seen, at + len(words)
        return self.text[began : self._seen]

    def end(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + WAIT_S
        while self._read(deadline):
            pass
        return self.process.wait(timeout=WAIT_S)

    def _read(self, deadline: float) -> bool:
        if not select.select([self._side], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise AssertionError(f"nothing more was shown: {self.text[-2000:]!r}")
        try:
            chunk = os.read(self._side, 65536)
        except OSError:  # the other side is closed
            return False
        self.text += chunk.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(chunk)


@contextmanager
def terminal(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, *, columns: int = 100
) -> Iterator[Terminal]:
    """The command, running at a terminal of so many columns."""
    side, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    names = {key: value for key, value in environment.items() if key != "COLUMNS"} | {"TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _TAKE, *command],
        stdin=other, stdout=other, stderr=other, env=names, cwd=folder, start_new_session=True,
    )  # fmt: skip
    os.close(other)
    try:
        yield Terminal(process, side)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=WAIT_S)
        os.close(side)
