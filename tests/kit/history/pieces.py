"""Git's own patch of a commit, cut into the pieces that a model would send.

Purpose: read the text sections of a patch: where each piece lies, what goes, what comes, what stays around it.
Invariant: sections come in the order of git's list of changed paths; lines keep their exact bytes.
Must never: look at our own hunks: what is played comes from git alone.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_PLACE: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Piece:
    """One hunk of git's: `start` is the 0-based line of the old text; rows are (mark, line with its ending)."""

    start: int
    rows: tuple[tuple[bytes, bytes], ...]

    @property
    def old(self) -> list[bytes]:
        """Lines of the old side, context included."""
        return [line for mark, line in self.rows if mark != b"+"]

    @property
    def new(self) -> list[bytes]:
        """Lines of the new side, context included."""
        return [line for mark, line in self.rows if mark != b"-"]


def sections(patch: bytes) -> list[tuple[Piece, ...]]:
    """The pieces of each file section, in order; empty for a section without text."""
    found: list[tuple[Piece, ...]] = []
    lines = patch.split(b"\n")
    at = 0
    while at < len(lines):
        if not lines[at].startswith(b"diff --git "):
            at += 1
            continue
        at += 1
        pieces: list[Piece] = []
        while at < len(lines) and not lines[at].startswith(b"diff --git "):
            match = _PLACE.match(lines[at])
            at += 1
            if match is None:
                continue
            piece, at = _piece(lines, at, match)
            pieces.append(piece)
        found.append(tuple(pieces))
    return found


def _piece(lines: Sequence[bytes], at: int, match: "re.Match[bytes]") -> tuple[Piece, int]:
    old_left, new_left = (int(match[number]) if match[number] is not None else 1 for number in (2, 4))
    start = int(match[1]) - (1 if old_left else 0)
    rows: list[tuple[bytes, bytes]] = []
    while old_left or new_left:
        mark, body = lines[at][:1], lines[at][1:]
        at += 1
        old_left -= mark != b"+"
        new_left -= mark != b"-"
        ended = not (at < len(lines) and lines[at].startswith(b"\\ "))
        rows.append((mark, body + b"\n" if ended else body))
        at += not ended
    return Piece(start, tuple(rows)), at


def zero_patch(path: str, places: Sequence[tuple[int, Sequence[bytes], Sequence[bytes]]]) -> bytes:
    """A patch without context for `git apply --unidiff-zero`: (0-based line, what goes, what comes), ordered."""
    name = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    out = [b"diff --git %s %s\n--- %s\n+++ %s\n" % (*name, *name)]
    moved = 0
    for start, gone, come in places:
        old_at = start + (1 if gone else 0)
        new_at = start + moved + (1 if come else 0)
        out.append(b"@@ -%d,%d +%d,%d @@\n" % (old_at, len(gone), new_at, len(come)))
        out.extend(_rows(b"-", gone))
        out.extend(_rows(b"+", come))
        moved += len(come) - len(gone)
    return b"".join(out)


def _rows(mark: bytes, lines: Sequence[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield mark + line if line.endswith(b"\n") else mark + line + b"\n\\ No newline at end of file\n"


def _quoted(name: str) -> bytes:
    raw = name.encode("utf-8", "surrogateescape")
    safe = all(byte > 0x20 and byte < 0x7F and byte not in b'"\\' for byte in raw)
    if safe:
        return raw
    return b'"' + b"".join(b"%c" % byte if 0x20 <= byte < 0x7F and byte not in b'"\\' else b"\\%03o" % byte
                           for byte in raw) + b'"'  # fmt: skip
