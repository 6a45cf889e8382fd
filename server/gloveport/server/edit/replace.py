"""Exact-string replacement, the edit tool's core.

Purpose: replace one quoted text that occurs exactly once, or refuse with candidates.
Invariant: bytes outside the replaced text, and lines inside it that do not change, are identical afterwards.
Must never: accept an inexact match, decode lossily, or write text of another encoding into a file.

A model sees and sends lines that end in `\\n`; the file may end them otherwise. The quoted text matches either
ending, and new lines take the ending of the lines around them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.lines import Encoding, TextForm, line_ending, sniff_form, split_lines

CANDIDATES_MAX: Final = 8
SNIPPET_CHARS_MAX: Final = 120
QUOTE_CHARS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Replacement:
    """What an edit makes of a file: its new bytes, both hashes, and the 1-based lines where it took place."""

    result: bytes
    base_hash: Sha256
    result_hash: Sha256
    lines: tuple[int, ...]


def replace_exact(data: bytes, old: str, new: str, *, path: str, replace_all: bool = False) -> Replacement:
    """Replace `old` by `new` in the bytes of `path`.

    Raises EditError: `edit.no_match` (with lines that look alike), `edit.ambiguous` (with every place found),
    `edit.encoding` when the file is not text or the new text does not fit its encoding.
    """
    form = editable_form(data, old + new, path)
    body = to_utf8(data, form)
    quoted = encoded(old, path).replace(b"\r\n", b"\n")
    wanted = encoded(new, path).replace(b"\r\n", b"\n")
    if not quoted or quoted == wanted or len(old) > QUOTE_CHARS_MAX:
        raise EditError(
            ErrorCode.EDIT_NO_MATCH,
            f"{path}: the quoted text is empty, too long, or equal to the new text",
            path=path,
            candidates=[],
        )
    spans = _find(body, quoted)
    _check_found(body, quoted, spans, replace_all=replace_all, path=path)
    if form.encoding is Encoding.LEGACY:
        _check_letters(body, spans, path)
    result = from_utf8(_spliced(body, spans, quoted, wanted), form)
    check_form(form, result, path)
    lines = tuple(body.count(b"\n", 0, start) + 1 for start, _ in spans)
    return Replacement(result, hash_of(data), hash_of(result), lines)


@dataclass(frozen=True, slots=True)
class Quote:
    """One replacement: a text that occurs once (or, with `every`, at least once) and what comes in its place."""

    old: str
    new: str
    every: bool = False


def replace_many(data: bytes, quotes: Sequence[Quote], *, path: str) -> bytes:
    """The bytes of `path` with all replacements made, each on what the ones before left; or a refusal of all.

    Raises EditError like `replace_exact`, naming the replacement.
    """
    for number, quote in enumerate(quotes, 1):
        try:
            data = replace_exact(data, quote.old, quote.new, path=path, replace_all=quote.every).result
        except EditError as error:
            if len(quotes) == 1:
                raise
            words = error.message.removeprefix(f"{path}: ")
            refusal = EditError(error.code, f"{path}: edit {number} of {len(quotes)}: {words}", hint=error.hint)
            refusal.data = error.data
            raise refusal from None
    return data


def hash_of(data: bytes) -> Sha256:
    """SHA-256 of raw bytes in lower-case hexadecimal."""
    return Sha256(sha256(data).hexdigest())


def to_utf8(data: bytes, form: TextForm) -> bytes:
    """The text without its byte order mark, as UTF-8 (legacy bytes as they are)."""
    body = data[len(form.bom) :]
    if form.encoding in (Encoding.UTF16_LE, Encoding.UTF16_BE):
        return body.decode(form.encoding.value).encode()
    return body


def from_utf8(body: bytes, form: TextForm) -> bytes:
    """Exact inverse of `to_utf8`."""
    if form.encoding in (Encoding.UTF16_LE, Encoding.UTF16_BE):
        return form.bom + body.decode().encode(form.encoding.value)
    return form.bom + body


def encoding_error(path: str, why: str) -> EditError:
    """The refusal of an edit that could not keep the file's encoding."""
    return EditError(ErrorCode.EDIT_ENCODING, f"{path}: {why}", path=path)


def check_form(form: TextForm, result: bytes, path: str) -> None:
    """Raise `edit.encoding` when an edit would make a text of another encoding or byte order mark."""
    found = sniff_form(result)
    if found != form and form.encoding is not Encoding.LEGACY and (result or form.bom):
        raise encoding_error(path, f"the edit would turn it from {form.words} into {found.words}")
    if form.bom and result.startswith(form.bom * 2):
        raise encoding_error(path, "its byte order mark would be there twice")


def editable_form(data: bytes, text: str, path: str) -> TextForm:
    """How the text of a file is kept, given that `text` can be put into it. Raises EditError `edit.encoding`."""
    form = sniff_form(data)
    if form.encoding is Encoding.BINARY:
        raise encoding_error(path, "the file is not text")
    if form.encoding is Encoding.LEGACY and not text.isascii():
        raise encoding_error(path, "the file is not UTF-8; only ASCII text can be edited in it")
    if "\0" in text:
        raise encoding_error(path, "the text holds a NUL character")
    return form


def encoded(text: str, path: str) -> bytes:
    """UTF-8 of a text. Raises EditError `edit.encoding` for half a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise encoding_error(path, "the text holds half a surrogate pair") from None


def _find(body: bytes, quoted: bytes) -> list[tuple[int, int]]:
    """Every place where `quoted` occurs, overlapping ones too; each newline matches either ending."""
    pattern = re.compile(rb"\r?\n".join(re.escape(piece) for piece in quoted.split(b"\n")))
    spans = []
    at = 0
    while (match := pattern.search(body, at)) is not None:
        spans.append(match.span())
        # A quote that begins with a newline would be found again behind its own carriage return.
        at = match.start() + (2 if body.startswith(b"\r\n", match.start()) else 1)
    return spans


def _check_found(body: bytes, quoted: bytes, spans: list[tuple[int, int]], *, replace_all: bool, path: str) -> None:
    if not spans:
        raise EditError(
            ErrorCode.EDIT_NO_MATCH,
            f"{path}: the quoted text does not occur",
            path=path,
            candidates=_look_alikes(body, quoted),
        )
    overlapping = any(later[0] < earlier[1] for earlier, later in pairwise(spans))
    if len(spans) > 1 and (overlapping or not replace_all):
        raise EditError(
            ErrorCode.EDIT_AMBIGUOUS,
            f"{path}: the quoted text occurs {len(spans)} times",
            path=path,
            candidates=[_candidate(body, start) for start, _ in spans[:CANDIDATES_MAX]],
        )


def _check_letters(body: bytes, spans: list[tuple[int, int]], path: str) -> None:
    # In GBK, Shift-JIS or Big5 the second byte of a letter may look like ASCII.
    for start, _ in spans:
        if start and body[start - 1] >= 0x80 and 0x30 <= body[start] <= 0x7E:
            raise encoding_error(path, "the place follows a byte of unknown encoding; quote from further left")


def _spliced(body: bytes, spans: list[tuple[int, int]], quoted: bytes, wanted: bytes) -> bytes:
    pieces = []
    at = 0
    for start, end in spans:
        pieces.append(body[at:start])
        pieces.append(_with_endings(body, start, end, quoted, wanted))
        at = end
    pieces.append(body[at:])
    return b"".join(pieces)


def _with_endings(body: bytes, start: int, end: int, quoted: bytes, wanted: bytes) -> bytes:
    """`wanted` with the endings of the unchanged lines around its middle, and a neighbour's for new lines."""
    endings = [line_ending(line) for line in split_lines(body[start:end])]
    old_lines, new_lines = quoted.split(b"\n"), wanted.split(b"\n")
    old_breaks, new_breaks = len(old_lines) - 1, len(new_lines) - 1
    head = _common(old_lines[:-1], new_lines[:-1])
    tail = min(_common(old_lines[:0:-1], new_lines[:0:-1]), old_breaks - head, new_breaks - head)
    fresh = endings[max(head - 1, 0)] or _neighbour(body, start, end)
    middle = [fresh] * (new_breaks - head - tail)
    chosen = endings[:head] + middle + endings[old_breaks - tail : old_breaks]
    return b"".join(line + brk for line, brk in zip(new_lines, [*chosen, b""], strict=True))


def _common(first: list[bytes], second: list[bytes]) -> int:
    count = 0
    for one, two in zip(first, second, strict=False):
        if one != two:
            break
        count += 1
    return count


def _neighbour(body: bytes, start: int, end: int) -> bytes:
    """Ending of the line that holds the place, else of the line before it, else `\\n`."""
    after = body.find(b"\n", end)
    at = after if after >= 0 else body.rfind(b"\n", 0, start)
    if at < 0:
        return b"\n"
    return b"\r\n" if at and body[at - 1] == 0x0D else b"\n"


def _candidate(body: bytes, start: int) -> dict[str, object]:
    begin = body.rfind(b"\n", 0, start) + 1
    return {"line": body.count(b"\n", 0, start) + 1, "text": snippet_of(body[begin : begin + 4096])}


def _look_alikes(body: bytes, quoted: bytes) -> list[dict[str, object]]:
    key = next((line.strip() for line in quoted.split(b"\n") if line.strip()), b"")
    if not key:
        return []
    found: list[dict[str, object]] = []
    for number, line in enumerate(split_lines(body), 1):
        if key in line or line.strip() == key:
            found.append({"line": number, "text": snippet_of(line)})
            if len(found) == CANDIDATES_MAX:
                break
    return found


def snippet_of(line: bytes) -> str:
    """A line as a short text to show."""
    return line.partition(b"\n")[0].rstrip(b"\r").decode("utf-8", "replace")[:SNIPPET_CHARS_MAX]
