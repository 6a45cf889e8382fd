"""How a message that is typed while a turn runs is read.

Purpose: propose what the message means for the goal, by its words and its shape alone.
Invariant: a pure function of the text; the rule that spoke is named, so that it can be shown beside the proposal.
Must never: decide against the user, who may name the kind; or look at anything but the text.

The rules, the first that fits, on the text in lower case without the space around it:

1. *ask*: it begins with one of `ASKING`.
2. *replace*: it begins with one of `REPLACING`: another task takes the place of this one.
3. *correct*: it begins with one of `CORRECTING`: the direction is wrong.
4. *ask*: it is one line and ends with a question mark.
5. *supplement*: everything else. It stops nothing, so a wrong reading costs least.

A phrase fits at the beginning, where no letter of a Latin word follows it: `no` fits "No, the other one" and not
"Note the date". A question that begins with a correcting phrase ("don't you need the lock?") is a correction: to stop
work that was to go on is repaired by a word, work that was to stop is not.
"""

from dataclasses import dataclass
from typing import Final

from gloveport.protocol.journal.events.steering import SteeringKind

ASKING: Final = (
    "how far", "how long", "how is it going", "what are you doing", "what's the status", "status", "progress",
    "where are you", "进度", "做到哪", "现在到哪", "还要多久",
)  # fmt: skip
REPLACING: Final = (
    "forget", "never mind", "nevermind", "scrap", "instead", "new task", "drop that", "drop this", "leave that",
    "do this instead", "换成", "改成做", "算了", "不做了", "先别做", "新任务",
)  # fmt: skip
CORRECTING: Final = (
    "no", "not", "don't", "dont", "don’t", "do not", "wrong", "that's wrong", "that is wrong", "stop", "actually",
    "rather", "wait", "only", "just", "you should not", "never", "不", "别", "错", "只", "停", "等等",
)  # fmt: skip
_QUESTION_MARKS: Final = ("?", "？")


@dataclass(frozen=True, slots=True)
class Reading:
    """A proposed kind and the rule that proposes it, in words."""

    kind: SteeringKind
    rule: str


def read_message(text: str) -> Reading:
    """What a message means for the goal, as far as its words tell."""
    words = text.strip().lower()
    correcting = _first(CORRECTING, words)
    replacing = _first(REPLACING, words)
    asking = _first(ASKING, words)
    if asking is not None:
        return Reading("ask", f"it begins with “{asking}”")
    if replacing is not None:
        return Reading("replace", f"it begins with “{replacing}”")
    if correcting is not None:
        return Reading("correct", f"it begins with “{correcting}”")
    if words.endswith(_QUESTION_MARKS) and "\n" not in words:
        return Reading("ask", "it ends with a question mark")
    return Reading("supplement", "no word of it changes the task")


def _first(phrases: tuple[str, ...], words: str) -> str | None:
    return next((phrase for phrase in phrases if words.startswith(phrase) and _ends_there(phrase, words)), None)


def _ends_there(phrase: str, words: str) -> bool:
    """True if the phrase is not the beginning of a longer Latin word."""
    return not (phrase[-1].isascii() and words[len(phrase) :][:1].isalnum() and words[len(phrase)].isascii())
