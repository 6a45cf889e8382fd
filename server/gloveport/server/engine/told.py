"""What the model had been shown when it made a call.

Purpose: the texts in which parts of what a call sends may stand, for its card.
Invariant: a function of the session's state; what came after the answer with the call is not among them; bounded.
Must never: read a file: what lies there now is not what was read.
"""

import json
from collections.abc import Iterator
from itertools import dropwhile
from typing import Final

from gloveport.server.policy.origins import Told
from gloveport.server.session.state import AssistantEntry, CallEntry, Entry, ResultEntry, SessionState, UserEntry

TOLD_ENTRIES_MAX: Final = 256
"""So many entries of the conversation are looked through, the newest ones."""
TOLD_CHARACTERS_MAX: Final = 512 * 1024
READS: Final = "read_file"
NAME_CHARACTERS_MAX: Final = 200


def told_before(state: SessionState, call_id: str) -> tuple[Told, ...]:
    """The texts shown before a call was made: results, the newest first, then the user's messages."""
    newest = tuple(reversed(state.history[-TOLD_ENTRIES_MAX:]))
    calls = {one.call_id: one for entry in newest if isinstance(entry, AssistantEntry) for one in entry.calls}
    before = tuple(dropwhile(lambda entry: not _makes(entry, call_id), newest)) if call_id in calls else newest
    results = (_result(one, calls.get(one.call_id)) for one in before if isinstance(one, ResultEntry))
    messages = (Told("message", "", one.text) for one in before if isinstance(one, UserEntry))
    return tuple(_bounded((*results, *messages)))


def _makes(entry: Entry, call_id: str) -> bool:
    return isinstance(entry, AssistantEntry) and any(one.call_id == call_id for one in entry.calls)


def _result(entry: ResultEntry, call: CallEntry | None) -> Told:
    if call is None:
        return Told("result", "", entry.text)
    path = _path_of(call.arguments_json) if call.tool == READS else None
    return Told("result", call.tool, entry.text) if path is None else Told("file", path, entry.text)


def _path_of(arguments_json: str) -> str | None:
    try:
        arguments = json.loads(arguments_json)
    except ValueError:
        return None
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return path[:NAME_CHARACTERS_MAX] if isinstance(path, str) else None


def _bounded(told: tuple[Told, ...]) -> Iterator[Told]:
    left = TOLD_CHARACTERS_MAX
    for one in told:
        left -= len(one.text)
        if left < 0:
            return
        yield one
