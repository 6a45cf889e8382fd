"""Text for a person who must see everything.

Purpose: show commands and paths whole, with nothing hidden, reordered or padded out of sight.
Invariant: two different texts never look the same; the result holds no control, format or bidi character.
Must never: cut; what is too long to be shown is refused elsewhere.
"""

import re
from collections.abc import Sequence
from typing import Final

from gloveport.server.policy.hidden import HIDDEN

SPACES_SHOWN_MAX = 8

_OPEN, _CLOSE = "⟨", "⟩"
_SAFE_WORD: Final = re.compile(r"[A-Za-z0-9_@%+:,./=-]+")
_PLAIN: Final = re.compile(r"[!-~]*(?: {1,8}[!-~]+)* {0,8}")
_SPACE_RUN: Final = re.compile(rf" {{{SPACES_SHOWN_MAX + 1},}}")


def escape_display(text: str) -> str:
    """The text with every control, format, bidi, combining, private or unusual space character as `⟨U+202E⟩`.

    Line breaks become `⟨LF⟩`, tabs `⟨TAB⟩`, runs of more than eight spaces `⟨200 spaces⟩`; `⟨` itself is escaped, so
    the form can be told from text that imitates it.
    """
    if _PLAIN.fullmatch(text):
        return text
    escaped = "".join(_shown(character) for character in text)
    return _SPACE_RUN.sub(lambda run: f"{_OPEN}{len(run.group(0))} spaces{_CLOSE}", escaped)


def hidden_characters(text: str) -> int:
    """How many characters of the text would not be seen as they are."""
    return sum(_shown(character) != character for character in text if character not in (_OPEN, _CLOSE))


def argv_text(argv: Sequence[str]) -> str:
    """The argv as one line that a POSIX shell would split into the same words; not escaped for display."""
    return " ".join(_quoted(word) for word in argv)


def command_display(argv: Sequence[str]) -> str:
    """The whole command for a card: quoted and escaped."""
    return escape_display(argv_text(argv))


def _quoted(word: str) -> str:
    if _SAFE_WORD.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"


def _shown(character: str) -> str:
    named = {"\n": "LF", "\r": "CR", "\t": "TAB", "\x00": "NUL", "\x1b": "ESC"}.get(character)
    if named is not None:
        return f"{_OPEN}{named}{_CLOSE}"
    if HIDDEN.match(character) is not None or character in (_OPEN, _CLOSE):
        return f"{_OPEN}U+{ord(character):04X}{_CLOSE}"
    return character
