"""Hunks: the pieces of a change that a user decides on one by one.

Purpose: cut the difference of two byte strings into hunks that can be taken in any subset and order.
Invariant: applying all hunks to the base gives the result; a hunk's digest depends on its own lines and context
only, so that taking one hunk leaves the digests of the others valid.
Must never: lose or normalise a byte, or take longer than the limits of `matching` allow.
"""

from collections import Counter
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from gloveport.protocol.ids import HunkId, Sha256
from gloveport.server.edit.cells import cell_ranges
from gloveport.server.edit.lines import same_units, split_lines
from gloveport.server.edit.matching import Range, changed_ranges

CONTEXT_LINES: Final = 3
DIFF_LINES_MAX: Final = 400_000
"""Above this number of lines on one side the changed middle becomes one hunk."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """`old_lines` at line `old_start` of the base became `new_lines` at line `new_start` of the result.

    Line numbers count from 0; lines hold their endings; either side may be empty, never both.
    """

    hunk_id: HunkId
    digest: Sha256
    old_start: int
    old_lines: tuple[bytes, ...]
    new_start: int
    new_lines: tuple[bytes, ...]
    context_before: tuple[bytes, ...]
    context_after: tuple[bytes, ...]


def diff_hunks(base: bytes, result: bytes, path: str, context: int = CONTEXT_LINES) -> tuple[Hunk, ...]:
    """Ordered hunks from `base` to `result`.

    Changes with fewer than `context` equal lines between them form one hunk: so no hunk's context can hold a line
    that another hunk changes.
    """
    if base == result:
        return ()
    old, new = split_lines(base), split_lines(result)
    if not same_units(base, result):
        ranges = [Range(0, len(old), 0, len(new))]
    elif max(len(old), len(new)) > DIFF_LINES_MAX:
        ranges = [_middle(old, new)]
    else:
        cells = cell_ranges(base, result, old, new, path)
        ranges = _merged(changed_ranges(old, new) if cells is None else cells, context)
    seen: Counter[bytes] = Counter()
    return tuple(_hunk(path, old, new, each, context, seen) for each in ranges)


def content_digest(*fields: bytes) -> Sha256:
    """SHA-256 over length-prefixed fields, so that no two different lists share a digest."""
    total = sha256()
    for each in fields:
        total.update(len(each).to_bytes(8, "big"))
        total.update(each)
    return Sha256(total.hexdigest())


def _middle(old: list[bytes], new: list[bytes]) -> Range:
    size = min(len(old), len(new))
    head = 0
    while head < size and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < size - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return Range(head, len(old) - tail, head, len(new) - tail)


def _merged(ranges: list[Range], context: int) -> list[Range]:
    merged: list[Range] = []
    for each in ranges:
        if merged and each.old_start - merged[-1].old_end < context:
            last = merged[-1]
            merged[-1] = Range(last.old_start, each.old_end, last.new_start, each.new_end)
        else:
            merged.append(each)
    return merged


def _hunk(path: str, old: list[bytes], new: list[bytes], place: Range, context: int, seen: Counter[bytes]) -> Hunk:
    removed = tuple(old[place.old_start : place.old_end])
    added = tuple(new[place.new_start : place.new_end])
    before = tuple(old[max(0, place.old_start - context) : place.old_start])
    after = tuple(old[place.old_end : place.old_end + context])
    body = content_digest(*(_packed(part) for part in (removed, added, before, after))).encode()
    ordinal = seen[body]
    seen[body] += 1
    digest = content_digest(path.encode("utf-8", "surrogateescape"), body, str(ordinal).encode())
    return Hunk(
        HunkId(f"hunk-{digest[:24]}"),
        digest,
        place.old_start,
        removed,
        place.new_start,
        added,
        before,
        after,
    )


def _packed(lines: tuple[bytes, ...]) -> bytes:
    return b"".join(len(line).to_bytes(8, "big") + line for line in lines)
