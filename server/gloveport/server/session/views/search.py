"""Words that were said in a session.

Purpose: the messages and answers of a session in which every word that is looked for occurs.
Invariant: what is found, and the piece of it that is shown, is of the redacted text alone: a search tells no secret,
    and not whether one is there.
Must never: hold more than the newest hits.
"""

import unicodedata
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from gloveport.protocol.journal import events as ev
from gloveport.server.session.views.placed import Placed, all_but

HITS_KEPT_MAX: Final = 5
"""Of so many of the newest messages the words are shown; more are counted."""
SHOWN_CHARS: Final = 160
"""So much of a message is shown around the first word that was found."""
BEFORE_CHARS: Final = 40
"""So much of that stands before the word, at most."""

_SPELT_MAX: Final = 4
"""So many characters at most are one in the form in which texts are compared."""

Who = Literal["you", "agent"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A message in which the words are. `at`: UTC microseconds; `words`: one line of it, redacted."""

    item_id: str
    at: int
    who: Who
    words: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """The words, in the form in which texts are compared."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "Wanted":
        """The words of a typed text; none, if it is only space."""
        return cls(tuple(_folded(text).split()))

    def are_in(self, text: str) -> bool:
        """Whether each of them occurs, in whatever order and case, accents in whatever spelling."""
        folded = _folded(text)
        return all(word in folded for word in self.words)

    def piece_of(self, text: str) -> str:
        """One line around the first of them that occurs."""
        line = " ".join(text.split())
        found = (at for word in self.words if (at := _place(line, word)) >= 0)
        begin = max(0, min(found, default=0) - BEFORE_CHARS)
        piece = line[begin : begin + SHOWN_CHARS]
        return f"{'…' if begin else ''}{piece}{'…' if begin + SHOWN_CHARS < len(line) else ''}"


def _folded(text: str) -> str:
    """The form in which texts are compared: it may be longer or shorter."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _place(line: str, word: str) -> int:
    """Where a folded word begins in a line as it stands; -1 where it does not occur."""
    if line.isascii():
        return line.casefold().find(word)
    step = SHOWN_CHARS + _SPELT_MAX * len(word)
    for begin in range(0, len(line), step):
        piece = line[begin : begin + 2 * step]
        at = _folded(piece).find(word)
        if at >= 0:
            return begin + _unfolded(piece, at)
    return -1


def _unfolded(piece: str, at: int) -> int:
    """The character of a short piece that became, or is part of, the one at `at` when it was folded."""
    return bisect_right(range(1, len(piece)), at, key=lambda length: len(_folded(piece[:length])))


class SearchProjection:
    """Looks at what was said; holds the newest hits."""

    by_name: ClassVar[frozenset[str]] = all_but(ev.UserMessageAdded, ev.ModelResponseReceived)

    def __init__(self, wanted: Wanted, redact: Callable[[str], str]) -> None:
        self._wanted, self._redact = wanted, redact
        self._hits: deque[Hit] = deque(maxlen=HITS_KEPT_MAX)
        self.found = 0
        """In how many messages the words are."""

    def take(self, event: Placed) -> None:
        """Take one more event in."""
        body = event.body
        if isinstance(body, ev.UserMessageAdded):
            self._look(f"message/{body.message_id}", event.at, "you", body.text)
        elif isinstance(body, ev.ModelResponseReceived):
            self._look(f"answer/{body.request_id}", event.at, "agent", body.text)

    def _look(self, item_id: str, at: int, who: Who, text: str) -> None:
        if not self._wanted.are_in(text):
            return  # redaction takes words away and adds its own mark alone, and costs more than this look
        shown = self._redact(text)
        if self._wanted.are_in(shown):
            self.found += 1
            self._hits.append(Hit(item_id, at, who, self._wanted.piece_of(shown)))

    def finish(self) -> tuple[Hit, ...]:
        """The newest hits, newest first."""
        return tuple(reversed(self._hits))
