"""Answers of requests that say a text which is erased.

Purpose: find the answers that say it in words, and give them without it.
Invariant: the same request is still answered in the same shape, so that it is not done twice.
Must never: change an id, a place or a fixed word of an answer.
"""

import json
from typing import Any, Final

import anyio.to_thread

from gloveport.server.engine.erase_search import Search
from gloveport.server.journal.answers import Answer
from gloveport.server.journal.store import Journal

ERASED: Final = "[erased]"
"""What stands for the text where something has to stand."""
_WORDS: Final = frozenset({"conditions", "justification", "sentence", "text", "words"})
"""Fields of results that hold sentences, of which no client takes anything but to show it."""


async def answers_without(journal: Journal, search: Search) -> tuple[Answer, ...]:
    """The answers of any request whose words hold the text, as they are to be kept."""
    found: list[Answer] = []
    after = 0
    while rows := await journal.answers(after):
        after = rows[-1][0]
        found += await anyio.to_thread.run_sync(_replaced, rows, search)
    return tuple(found)


def _replaced(rows: tuple[Answer, ...], search: Search) -> list[Answer]:
    found: list[Answer] = []
    for number, result in rows:
        if search.in_bytes(result):
            recorded = json.loads(result)
            kept = _without(recorded, search, is_words=False)
            if kept != recorded:
                found.append((number, json.dumps(kept).encode()))
    return found


def _without(value: Any, search: Search, *, is_words: bool) -> Any:
    if isinstance(value, dict):
        return {key: _without(part, search, is_words=key in _WORDS) for key, part in value.items()}
    if isinstance(value, list):
        return [_without(part, search, is_words=is_words) for part in value]
    return ERASED if is_words and isinstance(value, str) and search.in_text(value) else value
