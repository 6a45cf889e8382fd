"""The text of an open document, kept equal to what the editor shows.

Purpose: apply the content changes of `textDocument/didChange`.
Invariant: lines end at LF, CR LF or CR and nowhere else; a position past its line or the text means its end.
Must never: normalise line ends, split a code point, or guess at a change that is no change.
"""

import re
from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gloveport.protocol.text import scrub_surrogates, utf16_index, utf16_length

_LINE_END: Final = re.compile(r"\r\n|\n|\r")


class SyncModel(BaseModel):
    """A tolerant reader of an editor's words."""

    model_config = ConfigDict(
        alias_generator=to_camel, frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True
    )


class Position(SyncModel):
    """Zero-based line and UTF-16 offset."""

    line: int = Field(ge=0)
    character: int = Field(ge=0)


class Range(SyncModel):
    """From `start` up to and without `end`."""

    start: Position
    end: Position


class Change(SyncModel):
    """New text for a range, or without one for the whole document."""

    text: str
    range: Range | None = None


def apply_changes(text: str, changes: Sequence[Change]) -> str:
    """`text` after the changes, each of which speaks of the text left by the one before it."""
    for change in changes:
        new = scrub_surrogates(change.text)
        if change.range is None:
            text = new
            continue
        start, end = (_offset(text, position) for position in (change.range.start, change.range.end))
        text = text[: min(start, end)] + new + text[max(start, end) :]
    return text


def _offset(text: str, position: Position) -> int:
    """Index in `text`; between the halves of a pair it is the pair's start."""
    start = 0
    for _ in range(position.line):
        found = _LINE_END.search(text, start)
        if found is None:
            return len(text)
        start = found.end()
    found = _LINE_END.search(text, start)
    line = text[start : found.start() if found is not None else len(text)]
    if position.character >= utf16_length(line):
        return start + len(line)
    index = utf16_index(line, position.character)
    if index is None:
        index = utf16_index(line, position.character - 1)
    return start + (index if index is not None else len(line))
