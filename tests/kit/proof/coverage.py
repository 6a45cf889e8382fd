"""Which kills are wanted, and which happened.

Purpose: the table of kills by effect and phase, and the aims that fill its emptiest cells.
Invariant: a kill counts for the point that the daemon itself noted last; every choice follows from the seed.
Must never: count an aim that was missed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Final

from tests.kit.proof.progress import ANY, ERASURE, HOUSE, PHASES, RECOVERY, RULES, SYSCALL, TOLD, Aim
from tests.kit.proof.workload import JOBS

CELL_MIN: Final = 10
KILLS_PER_LIFE: Final = 8
TREE_SHARE: Final = 0.1
ANY_SHARE: Final = 0.1
SYSCALL_SHARE: Final = 0.04
SYSCALLS_MAX: Final = 120
DIRECT_SHARE: Final = 0.4
"""Lives that die nowhere before their target."""
SEEDS_LOOKED_AT: Final = 200
CHANCE: Final = 0.8
"""About how often a life comes to its next aim."""
COLD_SHARE: Final = 0.1
"""Lives whose daemons are started as processes of their own; the others are forked from a loaded one."""
ROWS: Final = (
    "CallModel", "StopModel", "JudgeCall", "RunTool/read_only", "RunTool/idempotent", "RunTool/fingerprinted",
    "RunTool/probeable", "StopTool", "AttachTool", "ApplyChanges/accept", "ApplyChanges/reject", "ApplyChanges/undo",
    RECOVERY, HOUSE, ERASURE, TOLD, RULES,
)  # fmt: skip
_ALL: Final = frozenset(PHASES)
_BETWEEN: Final = frozenset({"intended", "due", "performing", "performed", "outcome"})
_BETWEEN_ROWS: Final = frozenset(row for row in ROWS if row.startswith(("RunTool", "StopTool", "AttachTool")))
UNREACHABLE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "RunTool/opaque": "no tool of this version is opaque",
        f"{RECOVERY}|intent": "recovery is begun by a start, not by an event",
        f"{RECOVERY}|intended": "recovery is begun by a start, not by an event",
        f"{RECOVERY}|due": "recovery is begun by a start, not by an event",
        f"{HOUSE}|intent": "no effect: starting, opening, answering",
        f"{HOUSE}|intended": "no effect: starting, opening, answering",
        f"{HOUSE}|due": "no effect: starting, opening, answering",
        f"{HOUSE}|performed": "no effect: starting, opening, answering",
        **{
            f"{row}|{phase}": "it is written in one transaction, and nothing is to be done after it"
            for row in (ERASURE, TOLD, RULES)
            for phase in ("intent", "intended", "due")
        },
        f"{ERASURE}|performed": "its transaction is part of what is performed",
        f"{TOLD}|performing": "a word of the user's is written and nothing else",
        f"{RULES}|performing": "a word of the user's is written and nothing else",
    }
)
CONTROLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "effect_before_intent": "RunTool/probeable|intent",
        "ack_before_commit": "CallModel|intent",
        "dropped_grant_use": "RunTool/probeable|intended",
        "running_runs_again": "RunTool/probeable|performing",
        "erased_before_fact": "EraseText|outcome",
    }
)
"""Where each negative control's fault shows; its lives aim there."""
_ATTACHED_AFTER: Final = "RunTool/probeable|performing"


def cells(*, between: bool) -> tuple[str, ...]:
    """The cells that are wanted; `between`: those from the commit of an intent to the commit of its outcome."""
    rows = [row for row in ROWS if row in _BETWEEN_ROWS] if between else ROWS
    phases = [phase for phase in PHASES if phase in (_BETWEEN if between else _ALL)]
    return tuple(cell for row in rows for phase in phases if (cell := f"{row}|{phase}") not in UNREACHABLE)


@dataclass(frozen=True, slots=True)
class Course:
    """The aims of one life."""

    job: str
    aims: tuple[Aim, ...]
    cold: bool = False


@dataclass
class Table:
    """Kills by cell; `traces` are the points of each job without a kill."""

    traces: Mapping[str, Sequence[tuple[str, ...]]]
    between: bool = False
    fault: str = ""
    hits: Counter[str] = field(default_factory=Counter)
    rows: tuple[str, ...] = ()
    """Where not empty: the rows alone whose cells are filled."""

    def __post_init__(self) -> None:
        every = cells(between=self.between)
        self.wanted = tuple(cell for cell in every if not self.rows or cell.split("|")[0] in self.rows)
        """The cells to fill."""
        self._cells = frozenset(self.wanted)

    def count(self, labels: Iterable[str]) -> None:
        """A daemon died at a point."""
        self.hits.update(labels)

    def empty(self) -> tuple[str, ...]:
        """Cells with fewer kills than wanted."""
        return tuple(cell for cell in self.wanted if self.hits[cell] < CELL_MIN)

    def target(self, seed: int) -> str:
        """The cell that the life of a seed aims at first."""
        return self.wanted[seed % len(self.wanted)]

    def next_seed(self, seed: int) -> int:
        """The seed, of the next ones, whose course goes through cells that need kills most, or where the fault shows.

        The choice follows from the table; the course of the seed that is chosen does not.
        """
        if self.fault:
            cell = CONTROLS[self.fault]
            return next(n for n in range(seed, seed + len(self.wanted)) if self.target(n) == cell)
        least = min(self.hits[cell] for cell in self.wanted)
        bound = CELL_MIN if least < CELL_MIN else least + CELL_MIN
        return max(range(seed, seed + SEEDS_LOOKED_AT), key=lambda n: (self._worth(n, bound), -n))

    def _worth(self, seed: int, bound: int) -> float:
        """How much of what is missing the course of a seed may bring; each aim may miss, and then the later ones do."""
        worth, chance, met = 0.0, 1.0, Counter[str]()
        for aim in self.course(seed).aims:
            missing = max(0, bound - self.hits[aim.label] - met[aim.label]) if aim.label in self._cells else 0
            worth += chance * missing**2
            met[aim.label] += 1
            chance *= CHANCE
        return worth

    def course(self, seed: int, most: int = KILLS_PER_LIFE) -> Course:
        """The aims of a life: its target, and other cells of the same job on the way."""
        random, cell = Random(seed), self.target(seed)
        jobs = [job.name for job in JOBS if any(cell in labels for labels in self.traces[job.name])]
        if not jobs:  # only a restart reaches it
            return Course("runs", self._after_restart(random, cell, most), random.random() < COLD_SHARE)
        job = random.choice(jobs)
        return Course(job, self._along(random, self.traces[job], cell, most), random.random() < COLD_SHARE)

    def _after_restart(self, random: Random, cell: str, most: int) -> tuple[Aim, ...]:
        """Die in a running command, then at the cell in the daemon that finds it; and again."""
        steps = sum(1 for labels in self.traces["runs"] if _ATTACHED_AFTER in labels)
        first = Aim(_ATTACHED_AFTER, random.randint(max(1, steps // 8), max(1, steps // 4)))
        last = 3 if cell.endswith("performing") else 1
        return (first, *(Aim(cell, random.randint(1, last)) for _ in range(most - 1)))

    def _along(self, random: Random, trace: Sequence[tuple[str, ...]], cell: str, most: int) -> tuple[Aim, ...]:
        """Points of the trace in order, the cell among them; each is aimed at from the one before it."""
        wanted = self._cells
        places: dict[str, list[int]] = {}
        for n, labels in enumerate(trace):
            for label in wanted.intersection(labels):
                places.setdefault(label, []).append(n)
        others = sorted(places)
        labels_of = {random.choice(places[cell]): cell}
        for label in random.choices(others, k=random.randint(1, most - 1)):
            labels_of.setdefault(random.choice(places[label]), label)
        if random.random() < DIRECT_SHARE:  # what dies before the target may keep its life from coming there
            target = next(place for place, label in labels_of.items() if label == cell)
            labels_of = {place: label for place, label in labels_of.items() if place >= target}
        aims, last = [], -1
        for place in sorted(labels_of):
            label = labels_of[place]
            n = sum(1 for labels in trace[last + 1 : place + 1] if label in labels)
            if not self.between and label != cell and random.random() < ANY_SHARE:
                label, n = ANY, place - last
            aims.append(Aim(label, max(1, n), random.random() < TREE_SHARE))
            if label != cell and not self.between and random.random() < SYSCALL_SHARE:
                aims[-1] = Aim(SYSCALL, random.randint(1, SYSCALLS_MAX))
            last = place
        return tuple(aims)

    def lines(self) -> list[str]:
        """The table for people."""
        phases = [phase for phase in PHASES if not self.between or phase in _BETWEEN]
        rows = [row for row in ROWS if not self.between or row in _BETWEEN_ROWS]
        out = [f"{'kills':24}" + "".join(f"{phase:>12}" for phase in phases)]
        for row in rows:
            values = ["-" if f"{row}|{phase}" in UNREACHABLE else str(self.hits[f"{row}|{phase}"]) for phase in phases]
            out.append(f"{row:24}" + "".join(f"{value:>12}" for value in values))
        calls = {cell.split("/")[1]: n for cell, n in self.hits.items() if cell.startswith(SYSCALL)}
        out.append("system calls: " + (", ".join(f"{name} {n}" for name, n in sorted(calls.items())) or "none"))
        out += [f"- {cell}: {reason}" for cell, reason in UNREACHABLE.items()]
        return out
