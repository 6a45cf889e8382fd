"""What a restart found in one session.

Purpose: findings as plain values, between the looking, the telling and the deciding.
Invariant: null means that there was nothing to look at, or that nothing can be said.
Must never: hold what is to be done about them.
"""

from dataclasses import dataclass

from gloveport.server.turn.inputs import CallReconciled, RequestInterrupted


@dataclass(frozen=True, slots=True)
class Card:
    """A card that waits: whether it still says what would be done; None when that cannot be told now."""

    approval_id: str
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Drift:
    """What the user changed meanwhile: the first paths, and how many; `failure` is why nobody could look."""

    paths: tuple[str, ...]
    total: int
    failure: str


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that was found."""

    request: RequestInterrupted | None = None
    calls: tuple[CallReconciled, ...] = ()
    cards: tuple[Card, ...] = ()
    drift: Drift | None = None
