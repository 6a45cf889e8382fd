"""How the daemons of the proof come to be: forked from a loaded process, or started cold.

Purpose: one handle for both, and the two ways to get one.
Invariant: the daemon leads a session and a process group of its own; this process may wait for it.
Must never: be used in a process that does not adopt orphans (`become_subreaper` first).
"""

import ctypes
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import gloveport

SUBREAPER: Final = 36
TREE: Final = Path(__file__).resolve().parents[3]
ENTRY: Final = (sys.executable, "-P", "-m", "tests.kit.proof.launcher")


def become_subreaper() -> None:
    """Orphans of the daemons become children of this process, so that none is overlooked."""
    if ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


TRACED: Final = (
    "pwrite64", "fsync", "fdatasync", "ftruncate", "rename", "renameat", "renameat2", "unlink", "unlinkat", "mkdir",
    "rmdir", "link", "linkat", "symlink", "symlinkat", "sendto", "sendmsg",
)  # fmt: skip


def tracer(n: int, trace: Path) -> tuple[str, ...]:
    """The words before a command that is to die at its `n`-th traced call; what it starts is let go of, unharmed."""
    calls = ",".join(TRACED)
    inject = f"inject={calls}:signal=KILL:when={n}"
    return ("strace", "-f", "-b", "execve", "-qq", "-o", str(trace), "-e", f"trace={calls}", "-e", inject)


def last_call(trace: Path) -> str:
    """The call at which a traced daemon died."""
    names = [found[1] for line in trace.read_text().splitlines() if (found := _CALL.search(line)) is not None]
    return names[-1] if names else "none"


def search_path() -> str:
    """Where the product and the tests are found."""
    return os.pathsep.join([*(os.path.dirname(root) for root in gloveport.__path__), str(TREE)])


_CALL: Final = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)")


@dataclass
class Child:
    """A daemon by its pid; `code` once it has ended (negative: the signal)."""

    pid: int
    code: int | None = None

    def poll(self) -> int | None:
        """How it ended; None while it runs."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code


def start_cold(environment: Mapping[str, str], folder: Path, log: Path, prefix: tuple[str, ...] = ()) -> Child:
    """A process of its own; `prefix` are words before its command (a tracer)."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            [*prefix, *ENTRY], env=dict(environment), stdout=file, stderr=file, cwd=folder, start_new_session=True
        )
    process.returncode = 0  # it is waited for by its pid alone
    return Child(process.pid)


class Nursery:
    """The loaded process that daemons are forked from; end it with `close`."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [*ENTRY, "serve"],
            env={
                "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                "PYTHONPATH": search_path(),
                "PYDANTIC_DISABLE_PLUGINS": "__all__",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, environment: Mapping[str, str], folder: Path, log: Path) -> Child:
        """A forked daemon."""
        wanted = {"environment": dict(environment), "folder": str(folder), "log": str(log)}
        if self.process.stdin is None or self.process.stdout is None:
            raise AssertionError("the nursery has pipes")
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()
        return Child(int(self.process.stdout.readline()))

    def close(self) -> None:
        """End it; the daemons are nobody's business here."""
        self.process.communicate()
