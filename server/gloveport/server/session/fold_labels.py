"""Labels in the fold: what the session has read, what it wrote, what was released.

Purpose: join recorded labels, keep the label of every file that the session's calls wrote, and follow releases.
Invariant: a label only rises, also of a file that was written twice or whose proposal is gone; a release that was used
is open no more.
Must never: lower a label, or keep one for a file that is no more than the workspace's own text.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import reduce
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.journal.events import (
    ChangeProposed,
    CopyUnseen,
    EventBody,
    ReleaseIssued,
    ReleaseUsed,
    TextErased,
)
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.server.policy.labels import PROVENANCE_IDS_MAX
from gloveport.server.session.evolve import evolve
from gloveport.server.session.series import Series
from gloveport.server.session.state import (
    USER_LABEL,
    AssistantEntry,
    Entry,
    ResultEntry,
    SessionState,
    Unknown,
)

_UNTRUSTED: Final = 2
_ERASED: Final = "erased:"
UNSEEN_KEPT_MAX: Final = 5


def join_labels(left: LabelRecord, right: LabelRecord) -> LabelRecord:
    """The label of something made from both: least integrity, common readers, all provenance up to its limit."""
    if left.readers is None:
        readers = right.readers
    elif right.readers is None:
        readers = left.readers
    else:
        readers = tuple(sorted(set(left.readers) & set(right.readers)))
    provenance = tuple(sorted({*left.provenance, *right.provenance})[:PROVENANCE_IDS_MAX])
    return LabelRecord(integrity=max(left.integrity, right.integrity), readers=readers, provenance=provenance)


def join_all_labels(*labels: LabelRecord | None) -> LabelRecord:
    """The label of something made from all of them; those that are null say nothing."""
    return reduce(join_labels, (label for label in labels if label is not None), USER_LABEL)


def erased_source(source: str) -> str:
    """What stands for a source whose name was erased: the same for the same one, and nobody reads it there."""
    return _ERASED + sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def with_erased(label: LabelRecord, erased: Container[str]) -> LabelRecord:
    """The label with an `erased_source` for each source that has one in `erased`; its rank is the same."""
    named = {source: erased_source(source) for source in label.provenance}
    sources = {other if other in erased else source for source, other in named.items()}
    return label.model_copy(update={"provenance": tuple(sorted(sources))})


def says_more(label: LabelRecord) -> bool:
    """True for a label that a file of a workspace does not have by itself: untrusted, or not for everybody."""
    return label.integrity >= _UNTRUSTED or label.readers is not None


def with_written(state: SessionState, body: ChangeProposed) -> SessionState:
    """The state, with the label of what the change puts at its path; a rename brings the old name's along."""
    old = state.file_labels.get(body.renamed_from) if body.renamed_from is not None else None
    label = join_all_labels(body.label, state.file_labels.get(body.path), old)
    if not says_more(label) or state.file_labels.get(body.path) == label:
        return state
    return evolve(state, file_labels=MappingProxyType({**state.file_labels, body.path: label}))


def _issued(state: SessionState, body: ReleaseIssued) -> SessionState:
    return evolve(state, releases=MappingProxyType({**state.releases, body.grant_id: body}))


def _used(state: SessionState, body: ReleaseUsed) -> SessionState:
    release = state.releases.get(body.grant_id)
    left = {name: one for name, one in state.releases.items() if name != body.grant_id}
    state = evolve(state, releases=MappingProxyType(left))
    if state.turn is None or release is None:
        return state
    calls = tuple(evolve(call, release=release) if call.call_id == body.call_id else call for call in state.turn.calls)
    return evolve(state, turn=evolve(state.turn, calls=calls))


def _unseen(state: SessionState, body: CopyUnseen) -> SessionState:
    others = (path for path in state.unseen if path not in body.paths)
    return evolve(state, unseen=(*body.paths, *others)[:UNSEEN_KEPT_MAX])


def _erased(state: SessionState, body: TextErased) -> SessionState:
    """What still holds of what was erased; a call whose result is gone is told, in its place, with how it ended."""
    erased = {source for source in body.label.provenance if source.startswith(_ERASED)}
    files = {path: with_erased(label, erased) for path, label in state.file_labels.items()}
    label = join_labels(with_erased(state.label, erased), body.label)
    state = evolve(state, label=label, file_labels=MappingProxyType(files), unanswered_look="")
    if body.unknowns is not None:
        state = evolve(state, unknowns=tuple(Unknown(one.call_id, one.tool) for one in body.unknowns))
    if body.overflows is not None:
        state = evolve(state, overflows=body.overflows)
    told = {entry.call_id for entry in state.history if isinstance(entry, ResultEntry)} if body.calls else set()
    ends = {one.call_id: one.outcome for one in body.calls if one.call_id not in told}
    return evolve(state, history=Series(_with_ends(state.history, ends))) if ends else state


def erased_result(outcome: str) -> str:
    """What stands in the place of a result that was erased."""
    return f"[The user had the result of this call erased from the record. It had ended: {outcome}.]"


def _with_ends(history: Iterable[Entry], ends: Mapping[str, str]) -> Iterator[Entry]:
    for entry in history:
        yield entry
        for call in entry.calls if isinstance(entry, AssistantEntry) else ():
            if (outcome := ends.get(call.call_id)) is not None:
                words = erased_result(outcome)
                yield ResultEntry(call.call_id, call.provider_call_id, words, is_error=outcome != "ok")


LABEL_HANDLERS: Final[Mapping[type[EventBody], Callable[[SessionState, Any], SessionState]]] = MappingProxyType(
    {ReleaseIssued: _issued, ReleaseUsed: _used, TextErased: _erased, CopyUnseen: _unseen}
)
