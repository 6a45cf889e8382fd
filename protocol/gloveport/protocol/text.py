"""Lengths and pieces of text as editors count them.

Purpose: UTF-16 code units, the unit of every offset on the wire.
Invariant: a code point is never split; lone surrogates are replaced before they can reach a stored string.
Must never: normalise or otherwise change text.
"""

import re
from typing import Final

GO_ON: Final = "[gloveport: the connection broke; this is no message of the user. Go on from where you were.]"
"""What the model is told behind an answer that broke off and is asked for again, so that roles still take turns.
Whoever writes the conversation and whoever plays a script know it by these words."""


def counted(number: int, noun: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def utf16_length(text: str) -> int:
    """Number of UTF-16 code units of `text`."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_index(text: str, offset: int) -> int | None:
    """The index in `text` that lies `offset` UTF-16 units from its start; null inside a code point or beyond."""
    if text.isascii():
        return offset if 0 <= offset <= len(text) else None
    units = 0
    for index, char in enumerate(text):
        if units >= offset:
            return index if units == offset else None
        units += 2 if char > "\uffff" else 1
    return len(text) if units == offset else None


def scrub_surrogates(text: str) -> str:
    """`text` with lone surrogates replaced by U+FFFD, so that it can be encoded as UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def printable(text: str) -> str:
    """`text` without what could act on a terminal or hide in it: all of `UNSEEN` becomes an escape."""
    if text.isascii() and text.isprintable():
        return text
    return UNSEEN.sub(escape_of, text)


def escape_of(found: re.Match[str]) -> str:
    """The escape of one matched character."""
    code = ord(found.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


UNSEEN: Final = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0e\ufeff\ufff0-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
    "]"
    "|(?<![\u203c-\u3299\U0001f000-\U0001faff])\ufe0f"
)
"""The one table of characters that are not seen, or that act: no text from outside is shown with one of them.

In order: control characters but tab and newline; signs without a shape; signs of no width, direction marks, line ends
that programs disagree on; halves, private ones, selectors; tags. U+FE0F stays where it makes a sign a coloured one.

Emoji that are joined by U+200D are shown in their parts: what cannot be seen cannot be judged.
"""
