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
from gloveport.server.edit.replace import replace_exact
from gloveport.server.edit.rewrite import rewrite_text

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
        quoted, wanted = _unique(lines, piece, old, data)
        data = replace_exact(data, quoted, wanted, path=path).result
    return data


def write_whole(old: bytes, new: bytes, _: Sequence[Piece], path: str, chance: random.Random) -> bytes:
    """The whole text, with the line ends a model writes."""
    return rewrite_text(old, as_seen(new) if chance.random() < 0.7 else text_of(new), path=path)


def _unique(lines: Sequence[bytes], piece: Piece, old: bytes, data: bytes) -> tuple[str, str]:
    """The piece's old and new text, with lines around it until it occurs once, before and after other edits."""
    start, end = piece.start, piece.start + len(piece.old)
    before: list[bytes] = []
    after: list[bytes] = []
    for _ in range(AROUND_MAX):
        quoted = as_seen(b"".join([*before, *piece.old, *after]))
        wanted = as_seen(b"".join([*before, *piece.new, *after]))
        if quoted and seen_times(old, quoted) == 1 and seen_times(data, quoted) == 1:
            return quoted, wanted
        if start == 0 and end == len(lines):
            break
        if start > 0:
            start -= 1
            before.insert(0, lines[start])
        if end < len(lines):
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


FORMATS: Final[Mapping[str, Format]] = MappingProxyType({"replace": replace_pieces, "write": write_whole})
