"""Taking hunks into a text and out of it again.

Purpose: apply any subset of one diff's hunks to its base, or take any subset out of its result, exactly.
Invariant: base + all = result; result − all = base; order of the selection does not matter; other bytes stay.
Must never: guess a place: a hunk whose lines are not where it says is refused.
"""

from collections.abc import Iterable

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.hunks import Hunk
from gloveport.server.edit.lines import split_lines


def apply_hunks(base: bytes, hunks: Iterable[Hunk]) -> bytes:
    """`base` with the given hunks of its diff applied. Raises EditError `change.conflict` on a mismatch."""
    places = [(hunk.old_start, hunk.old_lines, hunk.new_lines) for hunk in _ordered(hunks)]
    return _spliced(base, places)


def revert_hunks(result: bytes, hunks: Iterable[Hunk]) -> bytes:
    """`result` with the given hunks of its diff taken out. Raises EditError `change.conflict` on a mismatch."""
    places = [(hunk.new_start, hunk.new_lines, hunk.old_lines) for hunk in _ordered(hunks)]
    return _spliced(result, places)


def _ordered(hunks: Iterable[Hunk]) -> list[Hunk]:
    return sorted({hunk.digest: hunk for hunk in hunks}.values(), key=lambda hunk: hunk.old_start)


def _spliced(data: bytes, places: list[tuple[int, tuple[bytes, ...], tuple[bytes, ...]]]) -> bytes:
    lines = split_lines(data)
    pieces: list[bytes] = []
    at = 0
    for start, expected, wanted in places:
        end = start + len(expected)
        if start < at or tuple(lines[start:end]) != expected:
            raise EditError(ErrorCode.CHANGE_CONFLICT, f"the text does not hold the hunk's lines at line {start + 1}")
        pieces.extend(lines[at:start])
        pieces.extend(wanted)
        at = end
    pieces.extend(lines[at:])
    return b"".join(pieces)
