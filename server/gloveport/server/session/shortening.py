"""What of a conversation can be shown shorter.

Purpose: choose which results of tools are shortened for a model with a smaller window, and shorten a text.
Invariant: calls and results stay paired; a chosen result becomes really shorter; equal histories give equal choices.
Must never: touch what the user or the model said, or drop a result.
"""

from collections.abc import Iterable
from typing import Final

from gloveport.protocol.journal.events import ShortenedResult
from gloveport.server.session.state import AssistantEntry, Entry, ResultEntry

KEPT_CHARS: Final = (4_000, 1_000, 200)
"""How many characters a shortened result keeps, level after level."""
NOTE_CHARS_MAX: Final = 160
"""A result is shortened only when it loses more than the note in its place is long."""


def shorten(text: str, kept_chars: int) -> str:
    """The text's head and tail, `kept_chars` of it together, with a note between that says how much is missing."""
    left_out = len(text) - kept_chars
    if left_out <= 0:
        return text
    head = kept_chars * 2 // 3
    tail = text[len(text) - (kept_chars - head) :]
    note = f"[{left_out} characters are left out here to fit your window; ask again for the part that you need]"
    return f"{text[:head]}\n{note}\n{tail}"


def shown_chars(entry: Entry) -> int:
    """About how many characters an entry takes in a request."""
    if isinstance(entry, ResultEntry):
        return _shown_of_result(entry)
    calls = entry.calls if isinstance(entry, AssistantEntry) else ()
    return len(entry.text) + sum(len(call.tool) + len(call.arguments_json) for call in calls)


def _shown_of_result(entry: ResultEntry) -> int:
    whole = len(entry.text)
    return whole if entry.kept_chars is None else min(whole, entry.kept_chars + NOTE_CHARS_MAX)


def plan_shortening(history: Iterable[Entry]) -> tuple[ShortenedResult, ...]:
    """The results to be shown shorter, at the mildest level that shortens any; empty when nothing can be."""
    results = [entry for entry in history if isinstance(entry, ResultEntry)]
    for kept in KEPT_CHARS:
        longer = [entry for entry in results if _shown_of_result(entry) > kept + NOTE_CHARS_MAX]
        if longer:
            return tuple(ShortenedResult(call_id=entry.call_id, kept_chars=kept) for entry in longer)
    return ()
