"""A commit's change of one file as calls of the edit tools.

Purpose: from git's pieces to the arguments a model would send, in every format that the edit room takes.
Invariant: a format gives bytes or refuses with a typed error; it is never corrected here.
Must never: hand a tool what a model could not know (raw endings, bytes that are not text).
"""

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tests.kit.history.pieces import Piece

from gloveport.server.edit.lines import split_lines
from gloveport.server.edit.patching import apply_blocks
from gloveport.server.edit.replace import Quote, replace_exact, replace_many
from gloveport.server.edit.rewrite import rewrite_text
from gloveport.server.edit.v4a import parse_v4a
from gloveport.server.tools.unified import parse_unified

AROUND_MAX: Final = 40
Format = Callable[[bytes, bytes, Sequence[Piece], str, random.Random], bytes]


class NotSayableError(Exception):
    """The format has no words for this change (bytes that are no text, no place that is unique)."""


def replace_pieces(old: bytes, _: bytes, pieces: Sequence[Piece], path: str, chance: random.Random) -> bytes:
    """Each piece as one exact replacement, in any order, quoted with as much around it as makes it unique."""
    lines = split_lines(old)
    order = list(pieces)
    chance.shuffle(order)
    data = old
    for piece in order:
        quoted, wanted = _unique(lines, piece, pieces, old, data)
        data = replace_exact(data, quoted, wanted, path=path).result
    return data


def replace_at_once(old: bytes, _: bytes, pieces: Sequence[Piece], path: str, chance: random.Random) -> bytes:
    """All pieces as replacements of one call, each quoted so that it is unique in the file as it was."""
    lines = split_lines(old)
    quotes = [Quote(*_unique(lines, piece, pieces, old, old)) for piece in pieces]
    chance.shuffle(quotes)
    return replace_many(old, quotes, path=path)


def patch_v4a(old: bytes, new: bytes, pieces: Sequence[Piece], path: str, _: random.Random) -> bytes:
    """A patch without line numbers; it has no words for a last newline that comes or goes."""
    if old.endswith(b"\n") != new.endswith(b"\n"):
        raise NotSayableError("the last newline")
    lines = split_lines(old)
    text = ["*** Begin Patch", f"*** Update File: {path}"]
    for piece in pieces:
        before, after = _around(lines, piece, pieces, old, old)
        rows = [(b" ", line) for line in before] + [*piece.rows] + [(b" ", line) for line in after]
        text += ["@@", *(mark.decode() + as_seen(line).removesuffix("\n") for mark, line in rows)]
    (file,) = parse_v4a("\n".join([*text, "*** End Patch", ""]))
    return apply_blocks(old, file.blocks, path=path)


def patch_unified(old: bytes, _: bytes, pieces: Sequence[Piece], path: str, chance: random.Random) -> bytes:
    """A unified diff, with git's line numbers or, as models write them, with wrong ones."""
    drift = chance.choice((0, 0, 0, 3, 200))
    text = [f"--- a/{path}", f"+++ b/{path}"]
    moved = 0
    for piece in pieces:
        sizes = len(piece.old), len(piece.new)
        start = piece.start + drift + (1 if sizes[0] else 0)
        text.append(f"@@ -{start},{sizes[0]} +{start + moved},{sizes[1]} @@")
        moved += sizes[1] - sizes[0]
        for mark, line in piece.rows:
            text.append(mark.decode() + as_seen(line).removesuffix("\n"))
            if not line.endswith(b"\n"):
                text.append("\\ No newline at end of file")
    (file,) = parse_unified("\n".join(text) + "\n")
    return apply_blocks(old, file.blocks, path=path)


def write_whole(old: bytes, new: bytes, _: Sequence[Piece], path: str, chance: random.Random) -> bytes:
    """The whole text, with the line ends a model writes."""
    return rewrite_text(old, as_seen(new) if chance.random() < 0.7 else text_of(new), path=path)


def _unique(lines: Sequence[bytes], piece: Piece, pieces: Sequence[Piece], old: bytes, data: bytes) -> tuple[str, str]:
    """The piece's old and new text, with lines around it until it occurs once, before and after other edits."""
    before, after = _around(lines, piece, pieces, old, data)
    return as_seen(b"".join([*before, *piece.old, *after])), as_seen(b"".join([*before, *piece.new, *after]))


def _around(
    lines: Sequence[bytes], piece: Piece, pieces: Sequence[Piece], old: bytes, data: bytes
) -> tuple[list[bytes], list[bytes]]:
    """Lines before and after a piece with which it occurs once, none of them of another piece, which may change them.

    Raises NotSayableError.
    """
    start, end = piece.start, piece.start + len(piece.old)
    first = max((each.start + len(each.old) for each in pieces if each.start < piece.start), default=0)
    last = min((each.start for each in pieces if each.start > piece.start), default=len(lines))
    before: list[bytes] = []
    after: list[bytes] = []
    for _ in range(AROUND_MAX):
        quoted = as_seen(b"".join([*before, *piece.old, *after]))
        if quoted and seen_times(old, quoted) == 1 and seen_times(data, quoted) == 1:
            return before, after
        if start <= first and end >= last:
            break
        if start > first:
            start -= 1
            before.insert(0, lines[start])
        if end < last:
            after.append(lines[end])
            end += 1
    raise NotSayableError("no unique place")


def as_seen(data: bytes) -> str:
    """Text as a model is shown it and sends it: lines end in a line feed, no byte order mark begins it."""
    return text_of(data).removeprefix("\ufeff").replace("\r\n", "\n")


def text_of(data: bytes) -> str:
    """Text of some bytes. Raises NotSayableError when they are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise NotSayableError("not UTF-8") from None


def seen_times(data: bytes, quoted: str) -> int:
    """How often a quoted text occurs, whatever the line ends are."""
    return data.replace(b"\r\n", b"\n").count(quoted.encode())


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "replace": replace_pieces,
        "replace at once": replace_at_once,
        "v4a patch": patch_v4a,
        "unified diff": patch_unified,
        "write": write_whole,
    }
)
