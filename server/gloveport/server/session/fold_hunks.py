"""The fold of hunks.

Purpose: what is pending, and where hunks ended that are pending no more.
Invariant: a hunk is pending or among the ended, and both only until the append ends that tells a decision; its state is
what the table of the edit room says; of more than `ENDED_KEPT_MAX` the first ended go.
Must never: know what the user has now: whether a pending hunk is in conflict is asked when it is shown.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.journal.events import (
    ArtifactSuspected,
    ChangeProposed,
    ChangeWithdrawn,
    EventBody,
    HunkDecided,
    HunkRecord,
)
from gloveport.server.edit.hunk_states import HunkFact, HunkState, next_state
from gloveport.server.session.evolve import evolve
from gloveport.server.session.fold_labels import with_written
from gloveport.server.session.state import EndedHunk, SessionState

ENDED_KEPT_MAX: Final = 500
_DECISIONS: Final = MappingProxyType(
    {"accepted": HunkFact.accepted, "rejected": HunkFact.rejected, "undone": HunkFact.undone}
)


def _ended(state: SessionState, hunks: Iterable[EndedHunk], fact: HunkFact) -> Mapping[str, EndedHunk]:
    """The ended hunks after a fact on these, which are given as if they waited."""
    kept = dict(state.ended_hunks)
    for hunk in hunks:
        before = kept.pop(hunk.digest, hunk)
        after = next_state(before.state, fact)
        if after is not HunkState.pending:
            kept[hunk.digest] = EndedHunk(hunk.digest, before.hunk_id, before.change_id, before.path, after)
    for digest in list(kept)[: max(0, len(kept) - ENDED_KEPT_MAX)]:
        del kept[digest]
    return MappingProxyType(kept)


def _waiting(change: ChangeProposed, hunks: Iterable[HunkRecord]) -> list[EndedHunk]:
    return [EndedHunk(hunk.digest, hunk.hunk_id, change.change_id, change.path, HunkState.pending) for hunk in hunks]


def _proposed(state: SessionState, body: ChangeProposed) -> SessionState:
    before, now = state.changes.get(body.change_id), {hunk.digest for hunk in body.hunks}
    gone = [] if before is None else [hunk for hunk in before.hunks if hunk.digest not in now]
    back = [hunk for hunk in body.hunks if hunk.digest in state.ended_hunks]
    if gone and before is not None:
        state = evolve(state, ended_hunks=_ended(state, _waiting(before, gone), HunkFact.replaced))
    if back:
        state = evolve(state, ended_hunks=_ended(state, _waiting(body, back), HunkFact.proposed))
    return with_written(evolve(state, changes=MappingProxyType({**state.changes, body.change_id: body})), body)


def _withdrawn(state: SessionState, body: ChangeWithdrawn) -> SessionState:
    before = state.changes.get(body.change_id)
    if before is None:
        return state
    left = MappingProxyType({name: one for name, one in state.changes.items() if name != body.change_id})
    if body.change_id in state.suspected:
        told = {name: one for name, one in state.suspected.items() if name != body.change_id}
        state = evolve(state, suspected=MappingProxyType(told))
    ended = _ended(state, _waiting(before, before.hunks), _DECISIONS.get(body.reason, HunkFact.replaced))
    return evolve(state, changes=left, ended_hunks=ended)


def _suspected(state: SessionState, body: ArtifactSuspected) -> SessionState:
    if body.change_id not in state.changes:
        return state
    return evolve(state, suspected=MappingProxyType({**state.suspected, body.change_id: body}))


def _decided(state: SessionState, body: HunkDecided) -> SessionState:
    names = zip(body.digests, body.hunk_ids, strict=False)
    hunks = [EndedHunk(digest, hunk_id, body.change_id, body.path, HunkState.pending) for digest, hunk_id in names]
    return evolve(state, ended_hunks=_ended(state, hunks, _DECISIONS[body.decision])) if hunks else state


HUNK_HANDLERS: Final[Mapping[type[EventBody], Callable[[SessionState, Any], SessionState]]] = MappingProxyType(
    {
        ChangeProposed: _proposed,
        ChangeWithdrawn: _withdrawn,
        HunkDecided: _decided,
        ArtifactSuspected: _suspected,
    }
)
