"""Lengths and pieces of text as editors count them.

Purpose: UTF-16 code units, the unit of every offset on the wire.
Invariant: a code point is never split; lone surrogates are replaced before they can reach a stored string.
Must never: normalise or otherwise change text.
"""


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
    """`text` without what could act on a terminal: control characters but newline and tab, and direction marks."""
    return "".join(char if char in "\n\t" or _is_harmless(char) else f"\\u{ord(char):04x}" for char in text)


def _is_harmless(char: str) -> bool:
    is_control = char < " " or "\x7f" <= char <= "\x9f" or "\ud800" <= char <= "\udfff"
    return not is_control and char not in _DIRECTION_MARKS


_DIRECTION_MARKS = frozenset(
    "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
)
