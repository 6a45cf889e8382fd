"""What the answers so far suggest about the rules.

Purpose: from how often each rule asked and what became of it, say in words where a rule could be made to fit better.
Invariant: a suggestion is words for a person; it is made from counts alone and changes nothing.
Must never: loosen anything, or suggest that for what is asked each time by its nature.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

ASKED_MIN: Final = 10
"""Fewer answers than this say nothing."""
UNDONE_PERCENT_MAX: Final = 20
DENIED_PERCENT_MAX: Final = 50
RAN_LATER_PERCENT_MAX: Final = 20

LASTING: Final = frozenset({"builtin:execute.default", "kernel:trust-unset"})
"""Rules whose question a right that lasts may answer; all others are asked each time by their nature."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How often a rule (`source:id`) was a reason to ask, and how often that was allowed and denied."""

    rule_id: str
    asked: int
    allowed: int
    denied: int


def suggestions(rules: Iterable[Asked], accepted: int, undone: int, refused: int, ran_later: int) -> tuple[str, ...]:
    """What could be changed, strictest first. `accepted` and `undone` count hunks, `refused` and `ran_later` calls."""
    return (*_stricter(rules := tuple(rules), accepted, undone), *_milder(rules, refused, ran_later))


def _stricter(rules: tuple[Asked, ...], accepted: int, undone: int) -> Iterator[str]:
    if accepted >= ASKED_MIN and undone * 100 > UNDONE_PERCENT_MAX * accepted:
        yield f"{undone} of {accepted} accepted hunks were undone: look at each change before you accept it."
    for one in rules:
        if one.asked >= ASKED_MIN and one.denied * 100 > DENIED_PERCENT_MAX * one.asked:
            yield f"{one.rule_id} asked {one.asked} times and you denied {one.denied}: a rule of yours could refuse it."


def _milder(rules: tuple[Asked, ...], refused: int, ran_later: int) -> Iterator[str]:
    for one in rules:
        if one.rule_id in LASTING and one.asked >= ASKED_MIN and one.allowed == one.asked:
            words = "an answer for the session or the workspace would ask less often"
            yield f"{one.rule_id} asked {one.asked} times and you allowed each: {words}."
    if refused >= ASKED_MIN and ran_later * 100 > RAN_LATER_PERCENT_MAX * refused:
        yield f"{ran_later} of {refused} refused calls were allowed later: a narrower answer may fit at once."
