"""Other spellings of a known secret.

Purpose: the forms in which a value commonly turns up: escaped for JSON or a URL, in hexadecimal, in base64 at any of
    the three positions inside a longer text.
Invariant: every spelling is enough of the secret that seeing it is seeing the secret.
Must never: give a spelling so short that it matches by chance.
"""

import base64
import json
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

SPELLED_BYTES_MIN: Final = 8
"""Shorter values are known only as they are: their encodings would match by chance."""

SPELLED_BYTES_MAX: Final = 1024
"""Longer ones, too: nobody retypes them, and every spelling costs memory."""


def spell(value: bytes, bytes_max: int = SPELLED_BYTES_MAX) -> frozenset[bytes]:
    """All spellings of a value, itself included; none but itself where it is longer than `bytes_max`."""
    fits = SPELLED_BYTES_MIN <= len(value) <= bytes_max
    return frozenset({value, *_encoded(value)}) if fits else frozenset({value})


def _encoded(value: bytes) -> Iterator[bytes]:
    text = value.decode("utf-8", "surrogatepass")
    for ascii_only in (True, False):
        yield json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass")
    for spelled in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield spelled.encode()
        yield spelled.lower().encode()
    yield from _codes(value)


def spell_in_lines(value: bytes) -> frozenset[bytes]:
    """The spellings that programs break into lines, without the breaks; none for a short value."""
    return frozenset(_codes(value)) if len(value) >= SPELLED_BYTES_MIN else frozenset()


def _codes(value: bytes) -> Iterator[bytes]:
    """Hexadecimal and base64."""
    yield value.hex().encode()
    yield value.hex().upper().encode()
    for before in range(3):
        core = _base64_core(value, before)
        yield core
        yield core.translate(bytes.maketrans(b"+/", b"-_"))


def _base64_core(value: bytes, before: int) -> bytes:
    """The characters that do not depend on neighbours when `before` bytes of a group stand ahead of the value."""
    whole = base64.b64encode(bytes(before) + value)
    first = -(-before * 8 // 6)
    last = (before + len(value)) * 8 // 6
    return whole[first:last]
