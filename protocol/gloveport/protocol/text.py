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
