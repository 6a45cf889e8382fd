"""A fair line before something of which only so much may be used at once.

Purpose: decide who is next: whoever has least under way, among those whoever came first; nobody is passed over for
    ever.
Invariant: never more under way than allowed; never a free place while somebody waits; a ticket is admitted once.
Must never: know what the tickets are for.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

WAITING_MAX: Final = 1_000
"""Tickets that may wait; one more is refused."""
PASSED_OVER_MAX: Final = 16
"""How many later tickets may be admitted before one that waits."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One wish of an owner (a session); `passed` counts later ones that were admitted before it."""

    name: str
    owner: str
    passed: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """Who is under way and who waits, in the order of their coming."""

    places: int
    active: tuple[Ticket, ...] = ()
    waiting: tuple[Ticket, ...] = ()


@dataclass(frozen=True, slots=True)
class Joined:
    """Somebody wants a place."""

    name: str
    owner: str


@dataclass(frozen=True, slots=True)
class Left:
    """A ticket gives its place, or its wish, back."""

    name: str


def step(line: Line, given: Joined | Left) -> tuple[Line, tuple[str, ...]]:
    """The line after the input, and the tickets it admits, in order. A ticket that joins a full line is not kept."""
    match given:
        case Joined(name, owner):
            if len(line.waiting) >= WAITING_MAX:
                return line, ()
            line = replace(line, waiting=(*line.waiting, Ticket(name, owner)))
        case Left(name):
            active = tuple(ticket for ticket in line.active if ticket.name != name)
            waiting = tuple(ticket for ticket in line.waiting if ticket.name != name)
            line = replace(line, active=active, waiting=waiting)
    admitted: list[str] = []
    while line.waiting and len(line.active) < line.places:
        line, ticket = _admit(line)
        admitted.append(ticket.name)
    return line, tuple(admitted)


def is_waiting(line: Line, name: str) -> bool:
    """Whether the ticket waits."""
    return any(ticket.name == name for ticket in line.waiting)


def _admit(line: Line) -> tuple[Line, Ticket]:
    under_way = Counter(ticket.owner for ticket in line.active)
    overdue = [at for at, ticket in enumerate(line.waiting) if ticket.passed >= PASSED_OVER_MAX]
    chosen = overdue[0] if overdue else min(range(len(line.waiting)), key=lambda at: under_way[line.waiting[at].owner])
    ticket = line.waiting[chosen]
    before = tuple(replace(one, passed=one.passed + 1) for one in line.waiting[:chosen])
    return replace(line, active=(*line.active, ticket), waiting=(*before, *line.waiting[chosen + 1 :])), ticket
