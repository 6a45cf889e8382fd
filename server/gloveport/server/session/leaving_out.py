"""Which events may be left out of a record without changing what its session does.

Purpose: choose, of the events that are to be erased, those whose absence changes nothing that acts.
Invariant: what waits, what is allowed, what is limited and what is not known yet folds the same without the chosen
events, but for messages and grants that go whole, with every event that tells of them.
Must never: take out half of what is known of a message, or loosen anything.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

from gloveport.protocol.journal.events import (
    ErasedCall,
    EventBody,
    GrantIssued,
    ModelTextDelta,
    PlanUpdated,
    SteeringDecided,
    ToolExecutionFinished,
    ToolExecutionProgress,
    UserMessageAdded,
    UserMessageEdited,
    UserMessageQueued,
    UserMessageUnqueued,
)
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import AssistantEntry, ResultEntry, SessionState

Bodies = Mapping[int, EventBody]
"""What a session's log holds, by seq, in its order."""

OF_A_MESSAGE: Final = (UserMessageQueued, UserMessageEdited, SteeringDecided, UserMessageAdded, UserMessageUnqueued)
"""What is known of one message stands in these: one of them alone would bring it back, or deliver another text."""
PIECES: Final = (ModelTextDelta, ToolExecutionProgress)
"""They change nothing of a session at rest but its history."""
_TELLS_ONLY: Final = frozenset({"history", "user_messages", "plan", "counted"})
"""The newest count says how much of the history was counted: it is read with it."""
_KEPT_BY_THE_FACT: Final = frozenset({"label", "unanswered_look", "unknowns", "overflows"})
"""What the fact that says what was erased puts back (`TextErased`)."""
ACTING: Final = tuple(one.name for one in fields(SessionState) if one.name not in _TELLS_ONLY | _KEPT_BY_THE_FACT)
"""Fields that must be the same, but for what goes whole."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is erased, and what is kept since the session would do something else without it; sorted.

    `calls` are those that the model is still told of, and whose results are among what is erased.
    """

    seqs: tuple[int, ...]
    kept: tuple[int, ...]
    calls: tuple[ErasedCall, ...]


def fold_without(bodies: Bodies, out: Collection[int]) -> SessionState:
    """The state of a session at rest without these events; of its history, pieces of an answer are missing."""
    state = SessionState()
    for seq, body in bodies.items():
        if seq not in out and not isinstance(body, PIECES):
            state = fold_event(state, body)
    return state


def choose(bodies: Bodies, wanted: Collection[int]) -> Choice:
    """Of a session at rest: what of `wanted` may go. Whatever tells of the same message goes, or stays, with it."""
    today = fold_without(bodies, ())
    groups = _groups(bodies, wanted)

    def is_same(out: frozenset[int]) -> bool:
        return _acting(fold_without(bodies, out)) == _acting(today, [bodies[seq] for seq in out])

    gone = _largest(frozenset(), groups, is_same)
    every = frozenset().union(*groups)
    return Choice(tuple(sorted(gone)), tuple(sorted(every - gone)), _ends(bodies, today, fold_without(bodies, gone)))


def _ends(bodies: Bodies, today: SessionState, left: SessionState) -> tuple[ErasedCall, ...]:
    """How calls ended that have a result today and none in what is left, though the call is in it."""
    ends = {body.call_id: body.outcome for body in bodies.values() if isinstance(body, ToolExecutionFinished)}
    lost = _results(today) - _results(left)
    entries = (entry for entry in left.history if isinstance(entry, AssistantEntry))
    calls = (call.call_id for entry in entries for call in entry.calls)
    return tuple(ErasedCall(call_id=name, outcome=ends[name]) for name in calls if name in lost and name in ends)


def _results(state: SessionState) -> set[str]:
    return {entry.call_id for entry in state.history if isinstance(entry, ResultEntry)}


def _groups(bodies: Bodies, wanted: Collection[int]) -> tuple[frozenset[int], ...]:
    """What goes together: all of one message, all plans with the newest, any other event by itself."""
    messages: dict[str, set[int]] = {}
    for seq, body in bodies.items():
        if isinstance(body, OF_A_MESSAGE):
            messages.setdefault(body.message_id, set()).add(seq)
    of_messages = tuple(frozenset(seqs) for seqs in messages.values() if not seqs.isdisjoint(wanted))
    plans = _plans(bodies, wanted)
    alone = sorted(set(wanted).difference(plans, *messages.values()))
    return (*of_messages, *((plans,) if plans else ()), *(frozenset((seq,)) for seq in alone))


def _plans(bodies: Bodies, wanted: Collection[int]) -> frozenset[int]:
    """With the newest plan every older one goes, which would be shown as today's without it."""
    plans = frozenset(seq for seq, body in bodies.items() if isinstance(body, PlanUpdated))
    return plans if plans and max(plans) in wanted else frozenset()


def _largest(
    gone: frozenset[int], groups: Sequence[frozenset[int]], is_same: Callable[[frozenset[int]], bool]
) -> frozenset[int]:
    """`gone`, and of the groups what may go with it: all at once where that works, else half by half."""
    all_of_them = gone.union(*groups)
    if is_same(all_of_them):
        return all_of_them
    if len(groups) <= 1:
        return gone
    half = len(groups) // 2
    return _largest(_largest(gone, groups[:half], is_same), groups[half:], is_same)


def _acting(state: SessionState, gone: Iterable[EventBody] = ()) -> dict[str, object]:
    """What acts of a state, without the messages and grants that `gone` holds whole."""
    bodies = tuple(gone)
    messages = {body.message_id for body in bodies if isinstance(body, OF_A_MESSAGE)}
    grants = {body.grant_id for body in bodies if isinstance(body, GrantIssued)}
    values: dict[str, object] = {name: getattr(state, name) for name in ACTING}
    values["queue"] = tuple(one for one in state.queue if one.message_id not in messages)
    values["steering"] = tuple(one for one in state.steering if one.message_id not in messages)
    values["grants"] = {name: one for name, one in state.grants.items() if name not in grants}
    values["grant_uses"] = {name: uses for name, uses in state.grant_uses.items() if name not in grants}
    return values
