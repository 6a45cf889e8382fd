"""Where the parts of a JSON text lie.

Purpose: the places of an object's members and an array's elements, so that one can be changed and no other touched.
Invariant: a text that is read is strict JSON; a key stands once; places are indices of characters.
Must never: write JSON, or take a text that only begins well.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

_BLANK: Final = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Span:
    """A value: `[start, end)` in the text, and what it says."""

    start: int
    end: int
    value: Any


def _no_number(_text: str) -> None:
    raise ValueError("not a JSON number")


# Numbers are not looked at, so that none is too long to be read.
_DECODER: Final = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_no_number)


def whole(text: str) -> Span:
    """The one value of a text. Raises ValueError."""
    span = _value(text, 0)
    if skip_blank(text, span.end) != len(text):
        raise ValueError("something follows the value")
    return span


def members(text: str, start: int) -> dict[str, Span]:
    """The members of the object that begins at `start`. Raises ValueError, also for a key that stands twice."""
    found: dict[str, Span] = {}
    at = skip_blank(text, start + 1)
    while text[at] != "}":
        key = _value(text, at)
        value = _value(text, _after(text, key.end, ":"))
        if key.value in found:
            raise ValueError(f"the key {key.value!r} stands twice")
        found[key.value] = value
        at = _next(text, value.end)
    return found


def elements(text: str, start: int) -> list[Span]:
    """The elements of the array that begins at `start`. Raises ValueError."""
    found = []
    at = skip_blank(text, start + 1)
    while text[at] != "]":
        found.append(_value(text, at))
        at = _next(text, found[-1].end)
    return found


def skip_blank(text: str, at: int) -> int:
    """The index of the first character from `at` on that is no blank."""
    match = _BLANK.match(text, at)
    return at if match is None else match.end()


def _value(text: str, at: int) -> Span:
    start = skip_blank(text, at)
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return Span(start, end, value)


def _after(text: str, at: int, mark: str) -> int:
    at = skip_blank(text, at)
    if text[at : at + 1] != mark:
        raise ValueError(f"{mark!r} is missing at {at}")
    return at + 1


def _next(text: str, at: int) -> int:
    """Behind the comma that follows, or at the closing bracket."""
    at = skip_blank(text, at)
    return skip_blank(text, at + 1) if text[at : at + 1] == "," else at
