"""The working sheet of one step.

Purpose: collect events while folding them, so that the rest of the step sees what it has already decided.
Invariant: `state` is always the fold of the state at the start and `events`.
Must never: outlive the step.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.errors import ERRORS, ErrorCode, GloveportError
from gloveport.protocol.journal.events import EventBody
from gloveport.protocol.journal.events.base import storable_body
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import SessionState, Turn
from gloveport.server.turn.effects import Effect


class TurnError(GloveportError):
    """The machine refuses an input: the session is not where the sender thinks it is. Nothing changed."""


SEALED_HINT: Final = "It can be read and exported (gloveport export). Start a new session to go on."


def read_only_refusal(state: SessionState) -> TurnError:
    """What is said to whoever would change a session on which nothing can be built."""
    hint = SEALED_HINT if state.sealed else ERRORS[ErrorCode.SESSION_READ_ONLY].hint
    return TurnError(ErrorCode.SESSION_READ_ONLY, state.read_only_words, hint=hint)


@dataclass(frozen=True, slots=True)
class Step:
    """What a step decided: the events to append in one transaction, the effects to perform after, the new state."""

    events: tuple[EventBody, ...]
    effects: tuple[Effect, ...]
    state: SessionState


class Draft:
    """Collects the events and effects of one step."""

    def __init__(self, state: SessionState) -> None:
        self.state = state
        self._events: list[EventBody] = []
        self._effects: list[Effect] = []

    def emit(self, *bodies: EventBody) -> None:
        """Decide these facts; what is folded is what can be stored."""
        for body in map(storable_body, bodies):
            self._events.append(body)
            self.state = fold_event(self.state, body)

    def emit_all(self, bodies: Iterable[EventBody]) -> None:
        """Decide these facts, in order."""
        self.emit(*bodies)

    def need(self, effect: Effect) -> None:
        """Ask for this effect once the facts are on disk."""
        self._effects.append(effect)

    @property
    def turn(self) -> Turn:
        """The running turn. Raises TurnError when there is none."""
        if self.state.turn is None:
            raise TurnError(ErrorCode.TURN_MISMATCH, "no turn is running in this session")
        return self.state.turn

    def done(self) -> Step:
        """The step's result."""
        return Step(tuple(self._events), tuple(self._effects), self.state)
