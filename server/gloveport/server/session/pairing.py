"""A history in which each call has exactly one result.

Purpose: make any history one that a provider takes, whatever its log lost.
Invariant: a history that is whole comes back as it is; a call without a result gets one that says so, right after its
    answer; a result without its call is left out.
Must never: invent an outcome.
"""

from collections.abc import Iterator
from typing import Final

from gloveport.server.session.state import AssistantEntry, CallEntry, Entry, ResultEntry

INTERRUPTED_TEXT: Final = "Interrupted. Whether it took effect is unknown; it was not run again."


def paired(history: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """The history as a provider may be sent it."""
    return tuple(_paired(history))


def orphans(history: tuple[Entry, ...]) -> tuple[CallEntry, ...]:
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


def _paired(history: tuple[Entry, ...]) -> Iterator[Entry]:
    open_calls: dict[str, CallEntry] = {}
    for entry in history:
        if isinstance(entry, ResultEntry):
            if open_calls.pop(entry.call_id, None) is not None:
                yield entry
            continue
        yield from map(_missing, open_calls.values())
        open_calls = {call.call_id: call for call in entry.calls} if isinstance(entry, AssistantEntry) else {}
        yield entry
    yield from map(_missing, open_calls.values())


def _missing(call: CallEntry) -> ResultEntry:
    return ResultEntry(call.call_id, call.provider_call_id, INTERRUPTED_TEXT, is_error=True)
