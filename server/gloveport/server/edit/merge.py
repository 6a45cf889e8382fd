"""Two changes of one text brought together.

Purpose: merge what the user and the agent each made of a common base, or refuse.
Invariant: the merge is symmetric; every changed range of either side is in the result whole; the rest is
the base's.
Must never: choose between two different changes of the same or of adjoining lines.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.lines import same_units, split_lines
from gloveport.server.edit.matching import changed_ranges


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    lines: tuple[bytes, ...]


def merge_texts(base: bytes, ours: bytes, theirs: bytes, *, path: str) -> bytes:
    """Both changes in one text. Raises EditError `change.conflict` with the base's line where they meet."""
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    if not (same_units(base, ours) and same_units(base, theirs)):
        raise _conflict(path, 0)
    lines = split_lines(base)
    merged: list[bytes] = []
    at = 0
    for piece in _joined(_pieces(lines, split_lines(ours)), _pieces(lines, split_lines(theirs)), path):
        merged += lines[at : piece.start]
        merged += piece.lines
        at = piece.end
    return b"".join(merged + lines[at:])


def _pieces(base: list[bytes], changed: list[bytes]) -> list[_Piece]:
    return [
        _Piece(each.old_start, each.old_end, tuple(changed[each.new_start : each.new_end]))
        for each in changed_ranges(base, changed)
    ]


def _joined(ours: Sequence[_Piece], theirs: Sequence[_Piece], path: str) -> Iterator[_Piece]:
    """Pieces of both sides in order, equal ones once; refuses those that overlap or adjoin."""
    both = sorted({*ours, *theirs}, key=lambda piece: (piece.start, piece.end, piece.lines))
    from_one_side = (set(ours), set(theirs))
    last: _Piece | None = None
    for piece in both:
        if last is not None and piece.start <= last.end and not _same_side(last, piece, from_one_side):
            raise _conflict(path, piece.start)
        yield piece
        last = piece


def _same_side(one: _Piece, two: _Piece, sides: tuple[set[_Piece], set[_Piece]]) -> bool:
    return any(one in side and two in side for side in sides)


def _conflict(path: str, line: int) -> EditError:
    return EditError(
        ErrorCode.CHANGE_CONFLICT,
        f"{path}: both sides changed the text around line {line + 1}",
        path=path,
        line=line + 1,
    )
