"""Whole-file writing, the write tool's core.

Purpose: turn a model's complete text into bytes that keep the byte order mark and the line endings of the file.
Invariant: a line whose text does not change keeps its bytes; the final newline is as the text has it.
Must never: write over a file whose bytes cannot all be shown as text.
"""

from collections import Counter

from gloveport.server.edit.lines import Encoding, line_ending, sniff_form, split_lines
from gloveport.server.edit.matching import changed_ranges
from gloveport.server.edit.patching import BOM_CHAR
from gloveport.server.edit.replace import check_form, encoding_error, from_utf8, to_utf8


def rewrite_text(existing: bytes | None, text: str, *, path: str) -> bytes:
    r"""Bytes of `path` after writing `text` over `existing` (None: a new file).

    A text that itself holds `\r\n` decides its endings alone. Raises EditError `edit.encoding`.
    """
    try:
        wanted = text.removeprefix(BOM_CHAR).encode() if existing else text.encode()
    except UnicodeEncodeError:
        raise encoding_error(path, "the text holds half a surrogate pair") from None
    if not existing:
        return wanted
    form = sniff_form(existing)
    if form.encoding is Encoding.BINARY:
        raise encoding_error(path, "the file is not text; delete it first to write another in its place")
    if form.encoding is Encoding.LEGACY:
        raise encoding_error(path, "the file is not UTF-8; writing all of it would lose letters")
    if b"\r\n" not in wanted:
        wanted = _with_endings(split_lines(to_utf8(existing, form)), wanted)
    result = from_utf8(wanted, form)
    check_form(form, result, path)
    return result


def _with_endings(old_lines: list[bytes], wanted: bytes) -> bytes:
    new_lines = wanted.split(b"\n")
    breaks = len(new_lines) - 1
    endings = [line_ending(line) for line in old_lines]
    counts = Counter(ending for ending in endings if ending)
    if len(counts) <= 1:
        # One ending in the whole file needs no matching of lines.
        return next(iter(counts), b"\n").join(new_lines)
    kept = _kept_endings([line.rstrip(b"\r\n") for line in old_lines], new_lines, endings)
    chosen: list[bytes] = []
    for index in range(breaks):
        before = chosen[-1] if chosen else counts.most_common(1)[0][0]
        chosen.append(kept.get(index) or before)
    return b"".join(line + brk for line, brk in zip(new_lines, [*chosen, b""], strict=True))


def _kept_endings(old: list[bytes], new: list[bytes], endings: list[bytes]) -> dict[int, bytes]:
    """Ending of each new line that is an old line unchanged, by the new line's index."""
    kept: dict[int, bytes] = {}
    old_at = new_at = 0
    for place in changed_ranges(old, new):
        kept.update(zip(range(new_at, place.new_start), endings[old_at : place.old_start], strict=False))
        old_at, new_at = place.old_end, place.new_end
    kept.update(zip(range(new_at, len(new)), endings[old_at:], strict=False))
    return kept
