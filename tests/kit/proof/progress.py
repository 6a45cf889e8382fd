"""Progress of a daemon, counted inside it, and the point at which it is to die.

Purpose: name every point the daemon passes as `effect|phase`, note it outside, and kill the daemon at the aimed one.
Invariant: the note of a point is written before the kill; the kill is SIGKILL of the daemon's own process group, so
    the supervisors of its runs (which lead groups of their own) go on, unless the aim says that they die too.
Must never: be part of the product; the launcher of the tests puts it around the shipped code.

Phases of an effect, in order: `intent` (staged, before COMMIT), `intended` (committed, not acknowledged), `due`
(acknowledged, not begun), `performing` (at any step inside), `performed` (done, the outcome not handed to the journal),
`outcome` (staged), `recorded` (committed, not acknowledged).
"""

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final

AIM: Final = "GLOVEPORT_PROOF_AIM"
"""Environment entry: `label n [tree]`, or absent for a daemon that lives."""
NOTES: Final = "GLOVEPORT_PROOF_NOTES"
"""Environment entry: the file that takes a line for each point."""
FAULT: Final = "GLOVEPORT_PROOF_FAULT"
"""Environment entry: the name of a negative control's fault, or empty."""
PHASES: Final = ("intent", "intended", "due", "performing", "performed", "outcome", "recorded")
ANY: Final = "any"
SYSCALL: Final = "syscall"
"""The n-th system call that changes or sends something, of any one thread, whatever the effect: a tracer kills."""
HOUSE: Final = "House"
"""What happens outside every effect: starting, opening, answering clients."""
RECOVERY: Final = "Recovery"
ERASURE: Final = "EraseText"
TOLD: Final = "TellOutcome"
RULES: Final = "SetRules"

current: ContextVar[str] = ContextVar("effect", default=HOUSE)


@dataclass(frozen=True, slots=True)
class Aim:
    """Die at the `n`-th point of a label; `tree`: supervisors of runs die as well."""

    label: str
    n: int
    tree: bool = False

    def encode(self) -> str:
        """As the environment carries it."""
        return f"{self.label} {self.n}{' tree' if self.tree else ''}"

    @classmethod
    def decode(cls, text: str) -> "Aim":
        """The aim of an environment entry."""
        label, n, *rest = text.split(" ")
        return cls(label, int(n), bool(rest))


class Meter:
    """Counts points; the one changing thing of a counted daemon."""

    def __init__(self, kill_runs: Callable[[], None]) -> None:
        self._aim: Aim | None = None
        self._notes: int | None = None
        self._kill_runs = kill_runs
        self._counts: Counter[str] = Counter()
        self.writing: list[frozenset[str]] = []
        """What the appends under way are about."""

    def begin(self, environment: Mapping[str, str]) -> None:
        """Count from here on, as the environment asks."""
        wanted = environment.get(AIM)
        self._aim = Aim.decode(wanted) if wanted else None
        self._notes = os.open(environment[NOTES], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def hit(self, *labels: str) -> None:
        """A point was reached; it may be about several effects."""
        if not labels or self._notes is None:
            return
        os.write(self._notes, (" ".join(labels) + "\n").encode())
        aim = self._aim
        if aim is None:
            return
        for label in (*labels, ANY):
            self._counts[label] += 1
            if label == aim.label and self._counts[label] == aim.n:
                self._die(aim)

    def inside(self) -> None:
        """A step inside whatever is performed here and now."""
        self.hit(f"{current.get()}|performing")

    def committing(self, phases: tuple[str, str]) -> None:
        """The journal is at a COMMIT: `phases` are those of intents and of outcomes."""
        self.hit(*sorted(_labels(self.writing, phases)) or [f"{HOUSE}|{phases[1]}"])

    def _die(self, aim: Aim) -> None:
        if aim.tree:
            self._kill_runs()
        os.killpg(0, signal.SIGKILL)
        signal.pause()


def _labels(writing: Iterable[frozenset[str]], phases: tuple[str, str]) -> set[str]:
    kinds = {"intent": phases[0], "outcome": phases[1]}
    return {f"{effect}|{kinds[kind]}" for marks in writing for effect, kind in (mark.split("|") for mark in marks)}


def read_notes(path: Path) -> list[tuple[str, ...]]:
    """The points that a daemon passed; a kill may cut the last line."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return [tuple(line.split(" ")) for line in text.split("\n")[:-1] if line]


_WRITING_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_FILE_EVENTS: Final = frozenset(
    {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
)


def count_file_steps(meter: Meter) -> None:
    """Every change of a file by this process is a step of the effect on whose behalf it is made."""

    def step(event: str, arguments: tuple[object, ...]) -> None:
        if event in _FILE_EVENTS or (event == "open" and _writes(arguments)):
            meter.inside()

    sys.addaudithook(step)


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2] if len(arguments) > 2 else 0
    return isinstance(flags, int) and bool(flags & _WRITING_FLAGS)
