"""Two changes of one text brought together.

Purpose: merge what the user and the agent each made of a common base, or refuse; or let the user's side give way where
they said so.
Invariant: the merge is symmetric; every changed range of either side is in the result whole; the rest is
the base's.
Must never: choose between two different changes of the same or of adjoining lines, unless one of them was named as
it stands.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.hunks import Hunk, content_digest
from gloveport.server.edit.lines import same_units, split_lines
from gloveport.server.edit.matching import Range, changed_ranges
from gloveport.server.edit.shift import touching


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
    return _woven(lines, _pieces(lines, split_lines(ours)), _pieces(lines, split_lines(theirs)), path)


def met_digest(changes: Sequence[Range], user: Sequence[bytes], start: int, end: int) -> Sha256:
    """What the user made of the lines `start` up to and without `end` of the base, of what adjoins them, and where.

    `changes` lead from the base to the lines of `user`.
    """
    rows = (
        (f"{each.old_start} {each.old_end}".encode(), *user[each.new_start : each.new_end], b"")
        for each in touching(changes, start, end)
    )
    return content_digest(*(field for row in rows for field in row))


def take_hunks(base: bytes, hunks: Sequence[Hunk], user: bytes, shown: Mapping[Sha256, Sha256], *, path: str) -> bytes:
    """The user's text with hunks of the base taken; where `shown` names what the user has there, that gives way.

    `shown` has `met_digest` by the hunk's digest. Raises EditError `change.conflict` where the user has something else
    there by now, or where a hunk that is not named meets the user's change.
    """
    if not same_units(base, user):
        raise _conflict(path, 0)
    lines, theirs = split_lines(base), split_lines(user)
    changes = changed_ranges(lines, theirs)
    gone: set[Range] = set()
    for hunk in hunks:
        end = hunk.old_start + len(hunk.old_lines)
        if hunk.digest in shown:
            if met_digest(changes, theirs, hunk.old_start, end) != shown[hunk.digest]:
                raise _newer(path, hunk.old_start)
            gone.update(touching(changes, hunk.old_start, end))
    ours = [_Piece(each.old_start, each.old_start + len(each.old_lines), each.new_lines) for each in hunks]
    kept = [_piece(each, theirs) for each in changes if each not in gone]
    return _woven(lines, ours, kept, path)


def take_again(base: bytes, hunks: Sequence[Hunk], user: bytes, *, path: str) -> bytes:
    """The user's text with hunks taken that were taken in it before: what met them gave way then, and does again."""
    lines, theirs = split_lines(base), split_lines(user)
    changes = changed_ranges(lines, theirs)
    ends = {hunk.digest: (hunk.old_start, hunk.old_start + len(hunk.old_lines)) for hunk in hunks}
    shown = {digest: met_digest(changes, theirs, *place) for digest, place in ends.items()}
    return take_hunks(base, hunks, user, shown, path=path)


def _woven(lines: list[bytes], ours: Sequence[_Piece], theirs: Sequence[_Piece], path: str) -> bytes:
    merged: list[bytes] = []
    at = 0
    for piece in _joined(ours, theirs, path):
        merged += lines[at : piece.start]
        merged += piece.lines
        at = piece.end
    return b"".join(merged + lines[at:])


def _pieces(base: list[bytes], changed: list[bytes]) -> list[_Piece]:
    return [_piece(each, changed) for each in changed_ranges(base, changed)]


def _piece(change: Range, changed: list[bytes]) -> _Piece:
    return _Piece(change.old_start, change.old_end, tuple(changed[change.new_start : change.new_end]))


def _joined(ours: Sequence[_Piece], theirs: Sequence[_Piece], path: str) -> Iterator[_Piece]:
    """Pieces of both sides in order, equal ones once; refuses those that overlap or adjoin."""
    last: _Piece | None = None
    for piece in sorted({*ours, *theirs}, key=lambda piece: (piece.start, piece.end, piece.lines)):
        # Pieces of one side never adjoin: an equal line lies between them.
        if last is not None and piece.start <= last.end:
            raise _conflict(path, piece.start)
        yield piece
        last = piece


def _conflict(path: str, line: int) -> EditError:
    return EditError(
        ErrorCode.CHANGE_CONFLICT,
        f"{path}: both sides changed the text around line {line + 1}",
        path=path,
        line=line + 1,
    )


def _newer(path: str, line: int) -> EditError:
    return EditError(
        ErrorCode.CHANGE_CONFLICT,
        f"{path}: what you have around line {line + 1} is not what was shown",
        path=path,
        line=line + 1,
    )
