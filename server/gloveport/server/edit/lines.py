"""Bytes as lines and the form of a text.

Purpose: cut bytes into lines with their exact endings, and tell text that can be edited from bytes that cannot.
Invariant: `b"".join(split_lines(data)) == data` for every input.
Must never: decode lossily, or treat a lone carriage return as the end of a line.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

UTF8_BOM: Final = b"\xef\xbb\xbf"
UTF16_LE_BOM: Final = b"\xff\xfe"
UTF16_BE_BOM: Final = b"\xfe\xff"
UTF16_GUESS_BYTES_MIN: Final = 8
"""A shorter text is not taken for UTF-16 without a byte order mark."""
_UTF32_LE_BOM: Final = b"\xff\xfe\x00\x00"
_CONTROL: Final = re.compile("[\\x00-\\x08\\x0e-\\x1f\\x7f\\ufffe\\uffff]")


class Encoding(StrEnum):
    """What the bytes of a file are."""

    UTF8 = "utf-8"
    UTF16_LE = "utf-16-le"
    UTF16_BE = "utf-16-be"
    LEGACY = "legacy"
    """Text without NUL that is not UTF-8; its letters are unknown, its ASCII bytes are not."""
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class TextForm:
    """Encoding of some bytes and the byte order mark they begin with (may be empty)."""

    encoding: Encoding
    bom: bytes = b""

    @property
    def editable(self) -> bool:
        """True when a model's text can be put into the file without loss."""
        return self.encoding not in (Encoding.LEGACY, Encoding.BINARY)

    @property
    def words(self) -> str:
        """The form for people."""
        return f"{self.encoding.value} {'with' if self.bom else 'without'} byte order mark"


def sniff_form(data: bytes) -> TextForm:
    """Tell the encoding of `data`; a wrong or torn UTF-16 text is binary."""
    order = utf16_order(data)
    if order is not None:
        bom = data[:2] if data[:2] in (UTF16_LE_BOM, UTF16_BE_BOM) else b""
        data = data[len(bom) :]
        return TextForm(order, bom) if _decodes(data, order.value) else TextForm(Encoding.BINARY)
    if b"\0" in data:
        return TextForm(Encoding.BINARY)
    bom = UTF8_BOM if data.startswith(UTF8_BOM) else b""
    return TextForm(Encoding.UTF8, bom) if _decodes(data, "utf-8") else TextForm(Encoding.LEGACY)


def split_lines(data: bytes) -> list[bytes]:
    r"""Lines with their endings (`\n` or `\r\n`; UTF-16 by its code units); the last may have none."""
    order = utf16_order(data)
    if order is not None:
        return _split_units(data, b"\n\0" if order is Encoding.UTF16_LE else b"\0\n")
    pieces = data.split(b"\n")
    last = pieces.pop()
    lines = [piece + b"\n" for piece in pieces]
    if last:
        lines.append(last)
    return lines


def line_ending(line: bytes) -> bytes:
    r"""The ending of one line of single-byte units: `\r\n`, `\n` or nothing."""
    if line.endswith(b"\r\n"):
        return b"\r\n"
    return b"\n" if line.endswith(b"\n") else b""


def same_units(first: bytes, second: bytes) -> bool:
    """True when both inputs are cut into lines by the same rule, so that their lines may be mixed."""
    return utf16_order(first) == utf16_order(second)


def utf16_order(data: bytes) -> Encoding | None:
    """The byte order of a UTF-16 text, by its mark, or without one where the bytes can be nothing else; else None.

    Without a mark: whole units, at least half of them of the first 256 characters, no control characters, no half pair.
    """
    if data.startswith(_UTF32_LE_BOM):
        return None
    if data.startswith(UTF16_LE_BOM):
        return Encoding.UTF16_LE
    if data.startswith(UTF16_BE_BOM):
        return Encoding.UTF16_BE
    if len(data) < UTF16_GUESS_BYTES_MIN or len(data) % 2 or b"\0" not in data:
        return None
    for order, high in ((Encoding.UTF16_LE, data[1::2]), (Encoding.UTF16_BE, data[::2])):
        if high.count(0) * 4 >= len(data) and _is_plain(data, order):
            return order
    return None


def _is_plain(data: bytes, order: Encoding) -> bool:
    try:
        return _CONTROL.search(data.decode(order.value)) is None
    except UnicodeDecodeError:
        return False


def _split_units(data: bytes, newline: bytes) -> list[bytes]:
    lines = []
    start = at = 0
    while (at := data.find(newline, at)) >= 0:
        if at % 2:
            at += 1
            continue
        lines.append(data[start : at + 2])
        start = at = at + 2
    if start < len(data):
        lines.append(data[start:])
    return lines


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
