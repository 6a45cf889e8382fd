"""What in a result looks like an injection.

Purpose: point at hidden characters and at text that speaks to an agent, so that a person can look.
Invariant: time is linear in the text; a hint is shown and decides nothing; no hint proves nothing.
Must never: be the only thing between a text and an effect, or write anything that is remembered.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from gloveport.server.policy.display import escape_display

HintKind = Literal["hidden_characters", "instruction_like"]
HINTS_MAX: Final = 8
EXCERPT_CHARACTERS_MAX: Final = 160
LINE_CHARACTERS_LOOKED_AT: Final = 4_000

# Results reach this room with what hides in them escaped: tags, marks of no width, direction marks, soft hyphens.
_HIDDEN: Final = re.compile(
    r"\\U000e[0-9a-f]{4}|\\u(?:200[b-f]|202[a-e]|206[0-9a-f]|feff|061c|180e|115f|1160|3164)|\\xad", re.ASCII
)
_SPEAKS: Final = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|earlier|all|your|the user)\b"
    r"|\b(?:you must|you should|you are|you will) now\b"
    r"|\b(?:system|developer) (?:prompt|message|instruction)s?\b"
    r"|\b(?:do not|don't|never) (?:tell|inform|mention|show|ask)\b.{0,30}\b(?:user|anyone|human)\b"
    r"|\b(?:ai|coding|language) (?:agent|assistant|model)s?\b.{0,60}\b(?:must|should|please|run|execute|send|read)\b"
    r"|<\s*/?\s*(?:system|instructions?|important|assistant)\s*>"
    r"|\b(?:send|upload|post|exfiltrate|forward)\b.{0,60}(?:\b(?:api[ _-]?keys?|credentials?|secrets?|tokens?)|\.env)\b"
    r"|\bbefore (?:you )?(?:continu|proceed|answer)\w*\b.{0,60}\b(?:run|execute|read|fetch|send|call)\b",
    re.IGNORECASE | re.ASCII,
)


_WORDS: Final = (
    "ignore", "disregard", "forget", "override", " now", "prompt", "message", "instruction", "do not ", "never ",
    "don't ", "agent", "assistant", "model", "<", "send", "upload", "post", "exfiltrate", "forward", "before ",
)  # fmt: skip
"""Without one of these no line speaks so: looking for them costs a fraction of the patterns."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One place: its line from 1, and an excerpt with nothing hidden in it."""

    kind: HintKind
    line: int
    excerpt: str


def suspicions(text: str) -> tuple[tuple[Suspicion, ...], int]:
    """What looks like an injection in a result, at most `HINTS_MAX` of it, and how much more there is."""
    found = list(_found(text))
    return tuple(found[:HINTS_MAX]), max(0, len(found) - HINTS_MAX)


def _found(text: str) -> Iterator[Suspicion]:
    for number, whole in enumerate(text.split("\n"), 1):
        line = whole[:LINE_CHARACTERS_LOOKED_AT]
        hidden = _HIDDEN.search(line) if "\\" in line else None
        if hidden is not None:
            yield Suspicion("hidden_characters", number, _excerpt(line, hidden.start()))
        plain = _HIDDEN.sub("", line) if hidden is not None else line
        low = plain.lower()
        speaks = _SPEAKS.search(plain) if any(word in low for word in _WORDS) else None
        if speaks is not None:
            yield Suspicion("instruction_like", number, _excerpt(speaks.group(0), 0))


def _excerpt(line: str, at: int) -> str:
    start = max(0, at - EXCERPT_CHARACTERS_MAX // 4)
    return escape_display(line[start : start + EXCERPT_CHARACTERS_MAX])
