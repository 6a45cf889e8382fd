"""A disk that refuses: strace makes chosen system calls of a running daemon fail.

Purpose: attach to a real daemon, let the n-th fitting call and some after it fail with ENOSPC or EIO, and let go.
Invariant: the daemon is the shipped one and knows nothing of it; what failed is read from strace's own record.
Must never: outlive its `with` block.
"""

import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tests.kit.power.replay import CALLS

Errno = Literal["ENOSPC", "EIO"]
GROUPS: Final[dict[str, str]] = {
    "write": "write,pwrite64,writev",
    "sync": "fsync,fdatasync",
    "open": "openat",
    "rename": "rename,renameat,renameat2",
    "make": "mkdir,mkdirat",
    "cut": "ftruncate",
    "remove": "unlink,unlinkat",
}
_ATTACH_S: Final = 20.0
_LASTING: Final = (1, 2, 1_000_000)
_OFTEN: Final = {
    ("write", ""): 30,
    ("sync", ""): 8,
    ("write", "journal log"): 40,
    ("sync", "journal log"): 20,
    ("write", "acknowledged"): 20,
    ("write", "audit log"): 5,
    ("sync", "audit log"): 5,
    ("rename", "audit checkpoint"): 5,
    ("write", "content store"): 6,
    ("sync", "content store"): 4,
    ("rename", "user's folder"): 6,
    ("sync", "user's folder"): 4,
    ("open", "user's folder"): 8,
}
"""How often the workload makes a call, for those that it makes more than twice (each thread counts for itself)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Which calls fail: of a group, on files of a place (empty: on any file), from the n-th on, so many in a row."""

    group: str
    place: str
    error: Errno
    first: int
    count: int

    @property
    def words(self) -> str:
        """How to ask for it again."""
        return f"{self.group}:{self.place}:{self.error}:{self.first}:{self.count}"

    @classmethod
    def of(cls, words: str) -> "Refusal":
        """The refusal that `words` name."""
        group, place, error, first, count = words.split(":")
        found = cls(group, place, "ENOSPC" if error == "ENOSPC" else "EIO", int(first), int(count))
        assert found.words == words
        return found


PLACES: Final[dict[str, tuple[str, ...]]] = {
    "": ("write", "sync"),
    "journal log": ("write", "sync"),
    "acknowledged": ("write", "open"),
    "audit log": ("write", "sync"),
    "audit checkpoint": ("write", "sync", "open", "rename"),
    "content store": ("write", "sync"),
    "workspace record": ("write", "sync", "open", "rename"),
    "worktree": ("open", "rename", "make", "remove"),
    "user's folder": ("open", "rename", "make", "remove", "sync"),
    "run folders": ("make", "open"),
    "blobs": ("open",),
}
"""Where a refusal may be aimed, and what is done there."""


def paths_of(place: str, home: Path, project: Path, session_id: str) -> list[Path]:
    """The paths that a place's calls name."""
    session = home / "sessions" / session_id
    worktree = session / "worktree"
    known = {
        "journal log": [home / "journal.db-wal"],
        "acknowledged": [home / "journal.acknowledged", home / "journal.acknowledged.part"],
        "audit log": [home / "audit.jsonl"],
        "audit checkpoint": [home / "audit.jsonl.checkpoint", home / "audit.jsonl.checkpoint.part"],
        "content store": [
            folder / name for folder in (session, home / "contents") for name in ("objects.pack", "objects.index")
        ],
        "workspace record": [session / "workspace.json.new", session / "workspace.json"],
        "worktree": [worktree, worktree / "src", worktree / "new", worktree / "new/deep"],
        "user's folder": [project, project / "src", project / "new", project / "new/deep"],
        "run folders": [home / "runs/bubblewrap"],
        "blobs": [home / "blobs"],
    }
    return known.get(place, [])


def choose(seed: int) -> Refusal:
    """A refusal by its seed alone."""
    chance = random.Random(seed)
    place = chance.choice(sorted(PLACES))
    group = chance.choice(PLACES[place])
    first = chance.randint(1, _OFTEN.get((group, place), 2))
    error: Errno = chance.choice(("ENOSPC", "EIO"))
    return Refusal(group, place, error, first, chance.choice(_LASTING))


@contextmanager
def refusing(pid: int, refusal: Refusal, paths: list[Path], trace: Path) -> Iterator[None]:
    """While the block runs, the disk refuses; then the fault is gone."""
    calls = GROUPS[refusal.group]
    last = "+" if refusal.count == _LASTING[-1] else f"..{refusal.first + refusal.count - 1}"
    inject = f"inject={calls}:error={refusal.error}:when={refusal.first}{last}"
    aimed = [word for path in paths for word in ("-P", str(path))]
    command = ["strace", "-f", "-y", "-xx", "-s", "65536", "-o", str(trace), "-e", f"trace={','.join(CALLS)}"]
    with subprocess.Popen([*command, "-e", inject, *aimed, "-p", str(pid)], stderr=subprocess.DEVNULL) as tracer:
        try:
            _wait_attached(pid, tracer)
            yield
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(timeout=_ATTACH_S)


def _wait_attached(pid: int, tracer: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _ATTACH_S
    mark = f"TracerPid:\t{tracer.pid}\n"
    while time.monotonic() < deadline:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        if all(mark in (task / "status").read_text() for task in tasks):
            return
        if tracer.poll() is not None:
            break
        time.sleep(0.01)
    raise AssertionError("strace could not attach")
