"""Events at their places, and what a projection of them is.

Purpose: the one shape in which every projection is fed: an event with its number and its time.
Invariant: a projection is a function of the events it was given, in order; asking for its result changes nothing.
Must never: need the log as a whole, or refuse an event: what this version does not know is passed over.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from gloveport.protocol.journal.events import REGISTRY, EventBody, ModelTextDelta
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import SessionState

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Placed:
    """One event. `at`: UTC microseconds, shown and measured, never used for order. `body` is null for an event of a
    newer version, for an erased one, and for one whose type says enough to the projection (`by_name`).
    """

    seq: int
    at: int
    type: str
    body: EventBody | None
    erased: bool = False


class Projection(Protocol[R_co]):
    """A view of a session that is built event by event.

    `by_name`: types of which the projection needs no more than their name; nobody has to decode them. A type that this
    version does not know is in no such set.
    """

    by_name: ClassVar[frozenset[str]]

    def take(self, event: Placed) -> None:
        """Take one more event in."""

    def finish(self) -> R_co:
        """The view of everything taken so far; more may follow."""


P = TypeVar("P", bound=Projection[object])


def all_but(*read: type[EventBody]) -> frozenset[str]:
    """Every known type but those whose bodies are read."""
    return frozenset(REGISTRY) - {one.__name__ for one in read}


def project(projection: P, events: Iterable[Placed]) -> P:
    """The projection itself, after these events."""
    for event in events:
        projection.take(event)
    return projection


class Folded:
    """The session's state, fed event by event."""

    def __init__(self) -> None:
        self._state = SessionState()
        self._pieces: list[ModelTextDelta] = []

    def take(self, event: Placed) -> None:
        """Fold one more event; pieces of text that follow one another are folded at once."""
        if isinstance(event.body, ModelTextDelta):
            self._pieces.append(event.body)
        elif not event.erased:
            self._state = fold_event(self.state, event.body)

    @property
    def state(self) -> SessionState:
        """The fold of everything taken."""
        if self._pieces:
            whole = self._pieces[0].model_copy(update={"text": "".join(piece.text for piece in self._pieces)})
            self._pieces.clear()
            self._state = fold_event(self._state, whole)
        return self._state
