"""Where a hunk stands.

Purpose: one table of states and of what moves a hunk from one to another; every view shows a state of it.
Invariant: total: a fact that the table does not name for a state leaves it there; only what waits can be decided.
Must never: be told of a hunk by its place: a hunk is its digest, and other content is another hunk.
"""

from collections.abc import Mapping
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final


@unique
class HunkState(StrEnum):
    """`pending` waits; `conflicted` waits, and the user changed the same lines meanwhile.

    `superseded`: the agent changed its content before it was decided, or took it back. `undone`: the decision on it was
    taken back and it is proposed no more.
    """

    pending = "pending"
    conflicted = "conflicted"
    accepted = "accepted"
    rejected = "rejected"
    superseded = "superseded"
    undone = "undone"


@unique
class HunkFact(StrEnum):
    """What befalls a hunk. `replaced`: its change is proposed without it, or not at all."""

    proposed = "proposed"
    met = "met"
    parted = "parted"
    accepted = "accepted"
    rejected = "rejected"
    replaced = "replaced"
    undone = "undone"


_S, _F = HunkState, HunkFact
_WAITING: Final = (_S.pending, _S.conflicted)
_DECIDED: Final = (_S.accepted, _S.rejected)
TABLE: Final[Mapping[tuple[HunkState, HunkFact], HunkState]] = MappingProxyType(
    {
        **{(state, _F.proposed): _S.pending for state in _S},
        (_S.pending, _F.met): _S.conflicted,
        (_S.conflicted, _F.parted): _S.pending,
        **{(state, _F.accepted): _S.accepted for state in _WAITING},
        **{(state, _F.rejected): _S.rejected for state in _WAITING},
        **{(state, _F.replaced): _S.superseded for state in _WAITING},
        **{(state, _F.undone): _S.undone for state in _DECIDED},
        # A decision that was taken back is done again without the hunk being proposed in between.
        (_S.undone, _F.accepted): _S.accepted,
        (_S.undone, _F.rejected): _S.rejected,
    }
)
"""A conflicted hunk is accepted only with the name of what the user has there, which gives way."""


def next_state(state: HunkState, fact: HunkFact) -> HunkState:
    """Where a hunk stands after a fact."""
    return TABLE.get((state, fact), state)


def shown_state(*, meets: bool) -> HunkState:
    """Where a hunk that waits stands, beside what the user has now."""
    return next_state(HunkState.pending, HunkFact.met if meets else HunkFact.parted)
