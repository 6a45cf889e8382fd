"""Calls and their results in a folded history.

Purpose: find the calls of a history that have no result.
Invariant: a call counts as answered by a result that stands before the next message or answer.
Must never: mend a history; what the model is told instead is decided where it is told (`views.context`).
"""

from collections.abc import Iterable

from gloveport.server.session.state import AssistantEntry, CallEntry, Entry, ResultEntry


def orphans(history: Iterable[Entry]) -> tuple[CallEntry, ...]:
    """Calls that have no result before the next message or answer, or at the end."""
    found: list[CallEntry] = []
    open_calls: dict[str, CallEntry] = {}
    for entry in history:
        if isinstance(entry, ResultEntry):
            open_calls.pop(entry.call_id, None)
            continue
        found += open_calls.values()
        open_calls = {call.call_id: call for call in entry.calls} if isinstance(entry, AssistantEntry) else {}
    return (*found, *open_calls.values())
