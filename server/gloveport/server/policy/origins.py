"""Where words come from: the sources of a label by their kinds, and what of a text that leaves was read before.

Purpose: tell a person who decides from what a call came, as data and not as prose.
Invariant: a kind says no more than the id it is read from; a character is told as read before only within so many in a
row that stand, in that order, in a text that the model had been shown.
Must never: decide, or say where a text was first written.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from gloveport.server.policy.display import escape_display
from gloveport.server.policy.labels import Integrity, Label

ORIGINS_MAX: Final = 16
"""So many sources of a label are named on a card; of the rest the number."""
RUN_CHARACTERS_MIN: Final = 16
RUN_DISTINCT_MIN: Final = 8
"""A run of fewer characters, or of fewer different ones, stands in many texts and tells nothing."""
READ_IN_MAX: Final = 4
"""So many texts are named in which parts of what leaves stand."""

_KINDS: Final = MappingProxyType(
    {
        "user": ("user", Integrity.USER),
        "gloveport": ("gloveport", Integrity.USER),
        "workspace": ("workspace", None),
        "secret": ("secret", None),
        "secret-like": ("secret_like", None),
        "not-looked-through": ("unseen", None),
        "http": ("http", Integrity.UNTRUSTED),
        "smtp": ("mail", Integrity.UNTRUSTED),
        "database": ("database", Integrity.UNTRUSTED),
        "unknown": ("unknown", Integrity.UNTRUSTED),
    }
)
"""What the first word of a source's id says: its kind, and its integrity where the kind has one."""
_ESCAPE: Final = re.compile(r'\\(?:(["\\/])|([bfnrt])|u([0-9a-fA-F]{4}))')
_NAMED_ESCAPES: Final = MappingProxyType({"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"})


@dataclass(frozen=True, slots=True)
class Told:
    """A text that the model was shown: a file it read, the result of another tool, or the user's message."""

    kind: Literal["file", "result", "message"]
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """A part of one line; `told` is the index of the text it also stands in."""

    text: str
    told: int | None


def origins_of(label: Label, *, workspace: Integrity) -> list[dict[str, Any]]:
    """The sources of a label, `{kind, name, integrity}` each, at most `ORIGINS_MAX`.

    `workspace` is the integrity of the project's own text; `integrity` is null where the source alone does not say it.
    """
    return [_origin(one, workspace) for one in label.provenance[:ORIGINS_MAX]]


def _origin(source: str, workspace: Integrity) -> dict[str, Any]:
    first, _, name = source.partition(":")
    kind, integrity = _KINDS.get(first, ("other", None))
    if kind == "workspace":
        integrity = workspace
    return {
        "kind": kind,
        "name": escape_display(source if kind == "other" else name),
        "integrity": None if integrity is None else integrity.name.lower(),
    }


def runs_of(body: str, told: Sequence[Told]) -> tuple[tuple[tuple[Run, ...], ...], tuple[Told, ...]]:
    """The lines of a text, each in runs, and the texts that the runs name. Put together, the runs are the text.

    Of JSON what a string says counts too, not only how it is spelled.
    """
    marks = _marks(body, told)
    used = tuple(dict.fromkeys(mark for mark in marks if mark is not None))[:READ_IN_MAX]
    at, lines = 0, []
    for line in body.split("\n"):
        lines.append(tuple(_line_runs(line, marks[at : at + len(line)], used)))
        at += len(line) + 1
    return tuple(lines), tuple(told[one] for one in used)


def _line_runs(line: str, marks: Sequence[int | None], used: Sequence[int]) -> Iterator[Run]:
    named = [used.index(mark) if mark in used else None for mark in marks]
    for way in (range(len(line)), range(len(line) - 1, -1, -1)):
        before = None
        for at in way:  # a run begins and ends with something to be seen
            if line[at].isspace() and named[at] != before:
                named[at] = None
            before = named[at]
    start = 0
    for at in range(1, len(line) + 1):
        if at == len(line) or named[at] != named[start]:
            yield Run(line[start:at], named[start])
            start = at


def _marks(body: str, told: Sequence[Told]) -> list[int | None]:
    """For each character the first text of which a run covers it."""
    marks: list[int | None] = [None] * len(body)
    spelled = (body, range(len(body) + 1))
    for text, places in (spelled, _said(body)) if "\\" in body else (spelled,):
        index = _index(text)
        for which, source in enumerate(told):
            for run in _found(source.text, index):
                for start in index[run]:
                    for at in range(places[start], places[start + RUN_CHARACTERS_MIN]):
                        marks[at] = which if marks[at] is None else marks[at]
    return marks


def _index(text: str) -> dict[str, list[int]]:
    """Where each run of the least length stands, of those within a line that tell something."""
    index: dict[str, list[int]] = {}
    for start in range(len(text) - RUN_CHARACTERS_MIN + 1):
        run = text[start : start + RUN_CHARACTERS_MIN]
        if "\n" not in run and len(set(run)) >= RUN_DISTINCT_MIN:
            index.setdefault(run, []).append(start)
    return index


def _found(text: str, index: dict[str, list[int]]) -> set[str]:
    runs = (text[start : start + RUN_CHARACTERS_MIN] for start in range(len(text) - RUN_CHARACTERS_MIN + 1))
    return {run for run in runs if run in index}


def _said(body: str) -> tuple[str, Sequence[int]]:
    """What the escapes of JSON strings say, and where each character of that stands in the text; one place more."""
    said: list[str] = []
    places: list[int] = []
    at = 0
    for found in _ESCAPE.finditer(body):
        said += body[at : found.start()]
        places += range(at, found.start() + 1)
        plain, named, code = found.groups()
        said.append(plain or _NAMED_ESCAPES.get(named or "") or chr(int(code, 16)))
        at = found.end()
    return "".join([*said, body[at:]]), [*places, *range(at, len(body) + 1)]
