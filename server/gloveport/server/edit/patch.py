"""Changes as a patch for programs.

Purpose: write hunks byte for byte as `git apply` and `patch -p1` take them.
Invariant: applied to the base it gives the result; hunks whose surroundings touch stand together as one.
Must never: give a patch for what lines cannot say; then it gives nothing.
"""

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Final

from gloveport.server.edit.hunks import Hunk
from gloveport.server.edit.matching import changed_ranges
from gloveport.server.edit.neighbours import between, grouped

_NO_NEWLINE: Final = b"\n\\ No newline at end of file\n"
_ESCAPES: Final = MappingProxyType({0x22: '\\"', 0x5C: "\\\\", 0x09: "\\t", 0x0A: "\\n"})


def exact_patch(names: tuple[str, str], hunks: Sequence[Hunk], old_mode: str | None, new_mode: str | None) -> bytes:
    """The patch of one file with its names before and after; a mode is None where a side is absent.

    Empty where lines cannot say it.
    """
    if not all(_is_line(line) for hunk in hunks for line in _every_line(hunk)):
        return b""
    old, new = _quoted(f"a/{names[0]}"), _quoted(f"b/{names[1]}")
    head = [f"diff --git {old} {new}"]
    if old_mode is None:
        head.append(f"new file mode {new_mode}")
    elif new_mode is None:
        head.append(f"deleted file mode {old_mode}")
    elif old_mode != new_mode:
        head += [f"old mode {old_mode}", f"new mode {new_mode}"]
    if names[0] != names[1]:
        head += [f"rename from {_quoted(names[0])}", f"rename to {_quoted(names[1])}"]
    if hunks:
        head.append(f"--- {'/dev/null' if old_mode is None else _ended(old)}")
        head.append(f"+++ {'/dev/null' if new_mode is None else _ended(new)}")
    text = "".join(f"{line}\n" for line in head).encode()
    return text + b"".join(_group(group) for group in grouped(hunks))


def _every_line(hunk: Hunk) -> tuple[bytes, ...]:
    return (*hunk.context_before, *hunk.old_lines, *hunk.new_lines, *hunk.context_after)


def _is_line(line: bytes) -> bool:
    return b"\n" not in line[:-1]


def _group(group: Sequence[Hunk]) -> bytes:
    first = group[0]
    rows = [(b" ", line) for line in first.context_before]
    for hunk, after in zip(group, (*group[1:], None), strict=True):
        rows += _rows(hunk)
        rows += [(b" ", line) for line in (hunk.context_after if after is None else between(hunk, after))]
    sides = []
    for start, mark in ((first.old_start, b"+"), (first.new_start, b"-")):
        size = sum(kind != mark for kind, _ in rows)
        sides.append(f"{start - len(first.context_before) + (1 if size else 0)},{size}")
    header = f"@@ -{sides[0]} +{sides[1]} @@\n".encode()
    return header + b"".join(_printed(kind, line) for kind, line in rows)


def _rows(hunk: Hunk) -> Iterator[tuple[bytes, bytes]]:
    done = 0
    for place in changed_ranges(hunk.old_lines, hunk.new_lines):
        yield from ((b" ", line) for line in hunk.old_lines[done : place.old_start])
        yield from ((b"-", line) for line in hunk.old_lines[place.old_start : place.old_end])
        yield from ((b"+", line) for line in hunk.new_lines[place.new_start : place.new_end])
        done = place.old_end
    yield from ((b" ", line) for line in hunk.old_lines[done:])


def _printed(kind: bytes, line: bytes) -> bytes:
    return kind + line if line.endswith(b"\n") else kind + line + _NO_NEWLINE


def _ended(name: str) -> str:
    """A name with a space ends with a tab, so that no program takes a part of it for a date."""
    return f"{name}\t" if " " in name and not name.startswith('"') else name


def _quoted(name: str) -> str:
    if name.isprintable() and not set(name) & {'"', "\\"}:
        return name
    raw = name.encode("utf-8", "surrogateescape")
    return '"' + "".join(_ESCAPES.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in raw) + '"'
