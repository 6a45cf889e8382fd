"""Changes as text for people.

Purpose: show hunks as unified diff text in which every byte that matters can be seen.
Invariant: the rows of a hunk hold each of its lines once, in order; nothing in them can steer a terminal.
Must never: be parsed back into an edit; the hunk itself is the edit.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from gloveport.server.edit.hunks import Hunk
from gloveport.server.edit.lines import UTF16_BE_BOM, UTF16_LE_BOM, utf16_order
from gloveport.server.edit.matching import changed_ranges
from gloveport.server.edit.neighbours import between, grouped

LINE_CHARS_MAX: Final = 2_000
NO_NEWLINE: Final = "\\ No newline at end of file"
CR_MARK: Final = "␍"


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One shown line: kind, 1-based numbers in base and result (None where it is absent), escaped text."""

    kind: Literal[" ", "-", "+"]
    old_number: int | None
    new_number: int | None
    text: str
    ends: bool = True
    """False when the line has no newline."""


def diff_rows(hunk: Hunk) -> tuple[DiffRow, ...]:
    """Rows of one hunk with its context; equal lines inside the hunk are shown as context."""
    every = (*hunk.context_before, *hunk.old_lines, *hunk.new_lines, *hunk.context_after)
    show = _Shower(mixed=len({_ending(line) for line in every} - {b""}) > 1, wide=_wide(every))
    rows: list[DiffRow] = []
    old_at, new_at = hunk.old_start - len(hunk.context_before), hunk.new_start - len(hunk.context_before)

    def equal(lines: Sequence[bytes]) -> None:
        nonlocal old_at, new_at
        for line in lines:
            old_at, new_at = old_at + 1, new_at + 1
            rows.append(show.row(" ", old_at, new_at, line))

    equal(hunk.context_before)
    done = 0
    for place in changed_ranges(hunk.old_lines, hunk.new_lines):
        equal(hunk.old_lines[done : place.old_start])
        for line in hunk.old_lines[place.old_start : place.old_end]:
            old_at += 1
            rows.append(show.row("-", old_at, None, line))
        for line in hunk.new_lines[place.new_start : place.new_end]:
            new_at += 1
            rows.append(show.row("+", None, new_at, line))
        done = place.old_end
    equal(hunk.old_lines[done:])
    equal(hunk.context_after)
    return tuple(rows)


def unified_diff(names: tuple[str | None, str | None], hunks: Sequence[Hunk], *, joined: bool = False) -> str:
    """Unified diff text of one file, from its name before to its name after (None: absent); empty without hunks.

    `joined`: hunks whose contexts touch stand under one header, where nobody decides on one of them.
    """
    if not hunks:
        return ""
    parts = [
        f"{mark} {'/dev/null' if name is None else f'{side}/{visible(name)}'}"
        for mark, side, name in zip(("---", "+++"), "ab", names, strict=True)
    ]
    for group in grouped(hunks) if joined else ([hunk] for hunk in hunks):
        rows = [row for hunk in _apart(group) for row in diff_rows(hunk)]
        parts.append(_header(group[0], rows))
        for row in rows:
            parts.append(row.kind + row.text)
            if not row.ends:
                parts.append(NO_NEWLINE)
    return "\n".join(parts) + "\n"


def visible(text: str) -> str:
    """`text` with control, bidirectional and other invisible characters written as escapes; tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(char) for char in text)


def _escaped(char: str) -> str:
    if char == "\t" or char.isprintable():
        return char
    if char == "\r":
        return CR_MARK
    if unicodedata.category(char) == "Zs":
        return char
    return f"\\u{{{ord(char):x}}}"


def _apart(group: Sequence[Hunk]) -> Iterator[Hunk]:
    """The hunks of a group, each line between two of them in the first one's context alone."""
    for hunk, before, after in zip(group, (None, *group), (*group[1:], None), strict=False):
        yield replace(
            hunk,
            context_before=hunk.context_before if before is None else (),
            context_after=hunk.context_after if after is None else tuple(between(hunk, after)),
        )


def _header(first: Hunk, rows: Sequence[DiffRow]) -> str:
    sides = []
    for start, other in ((first.old_start, "+"), (first.new_start, "-")):
        size = sum(row.kind != other for row in rows)
        sides.append(f"{start - len(first.context_before) + (1 if size else 0)},{size}")
    return f"@@ -{sides[0]} +{sides[1]} @@"


def _ending(line: bytes) -> bytes:
    if line.endswith((b"\r\n", b"\r\0\n\0", b"\0\r\0\n")):
        return b"\r\n"
    return b"\n" if line.endswith((b"\n", b"\n\0")) else b""


def _wide(lines: Sequence[bytes]) -> str | None:
    """The two-byte encoding of the lines when they can be nothing else, else None."""
    for line in lines:
        if line.startswith(UTF16_LE_BOM) or line.endswith(b"\n\0"):
            return "utf-16-le"
        if line.startswith(UTF16_BE_BOM) or line.endswith(b"\0\n"):
            return "utf-16-be"
    order = utf16_order(b"".join(lines))
    return None if order is None else order.value


@dataclass(frozen=True, slots=True)
class _Shower:
    mixed: bool
    wide: str | None

    def row(self, kind: Literal[" ", "-", "+"], old: int | None, new: int | None, line: bytes) -> DiffRow:
        text = line.decode(self.wide or "utf-8", "backslashreplace")
        body = text.removesuffix("\n")
        if not self.mixed and len(body) < len(text):
            body = body.removesuffix("\r")
        if len(body) > LINE_CHARS_MAX:
            body = body[:LINE_CHARS_MAX] + f"… ({len(line)} bytes)"
        return DiffRow(kind, old, new, visible(body), text.endswith("\n"))
