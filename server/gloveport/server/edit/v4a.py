"""Patches in the V4A form (`*** Begin Patch` … `*** End Patch`).

Purpose: read the form into plain data, strictly.
Invariant: every line of the text is accounted for, or the whole patch is refused with the line's number.
Must never: look at a file, or drop a line that it does not understand.

    *** Begin Patch
    *** Update File: src/a.py
    *** Move to: src/b.py
    @@ class Stack:
    @@     def pop(self):
    -        return self.items[0]
    +        return self.items.pop()
    *** End of File
    *** Add File: notes.txt
    +a line
    *** Delete File: old.txt
    *** End Patch
"""

from collections.abc import Sequence
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.patching import Block, PatchFile, Row

_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_UPDATE: Final = "*** Update File: "
_ADD: Final = "*** Add File: "
_DELETE: Final = "*** Delete File: "
_MOVE: Final = "*** Move to: "
_AT_END: Final = "*** End of File"
_HINT: Final = "A patch begins with *** Begin Patch; see the tool's description for its form."


def parse_v4a(text: str) -> tuple[PatchFile, ...]:
    """What the patch does, file by file. Raises EditError `tool.arguments` with the number of the wrong line."""
    lines = text.removesuffix("\n").split("\n")
    if lines[0].rstrip() != _BEGIN or lines[-1].rstrip() != _END or len(lines) < 3:
        raise _wrong(1, f"a patch begins with {_BEGIN!r} and ends with {_END!r}")
    reader = _Reader(lines, 1, len(lines) - 1)
    files = []
    while not reader.done:
        files.append(_file(reader))
    return tuple(files)


class _Reader:
    """The lines between begin and end, one after the other."""

    def __init__(self, lines: Sequence[str], at: int, end: int) -> None:
        self.lines, self.at, self.end = lines, at, end

    @property
    def done(self) -> bool:
        """True when no line is left."""
        return self.at >= self.end

    @property
    def line(self) -> str:
        """The line that comes next; empty when none does."""
        return "" if self.done else self.lines[self.at]

    def after(self, head: str) -> str | None:
        """What follows `head` on the next line, which is then taken; None when it does not begin so."""
        if self.done or not self.line.startswith(head):
            return None
        rest = self.line[len(head) :].strip()
        self.at += 1
        return rest


def _file(reader: _Reader) -> PatchFile:
    if (path := reader.after(_ADD)) is not None:
        return PatchFile("add", _named(path, reader), text=_added(reader))
    if (path := reader.after(_DELETE)) is not None:
        return PatchFile("delete", _named(path, reader))
    if (path := reader.after(_UPDATE)) is None:
        raise _wrong(reader.at + 1, f"expected {_UPDATE!r}, {_ADD!r} or {_DELETE!r}")
    path = _named(path, reader)
    moved_to = reader.after(_MOVE)
    blocks = []
    while not reader.done and not reader.line.startswith((_UPDATE, _ADD, _DELETE)):
        blocks.append(_block(reader))
    if not blocks and moved_to is None:
        raise _wrong(reader.at, f"nothing is said of {path}")
    return PatchFile("update", path, None if moved_to is None else _named(moved_to, reader), tuple(blocks))


def _named(path: str, reader: _Reader) -> str:
    if not path:
        raise _wrong(reader.at, "a path is missing")
    return path


def _added(reader: _Reader) -> str:
    kept = []
    while reader.line.startswith("+"):
        kept.append(reader.line[1:] + "\n")
        reader.at += 1
    return "".join(kept)


def _block(reader: _Reader) -> Block:
    begun = reader.at + 1
    anchors = []
    while reader.line == "@@" or reader.line.startswith("@@ "):
        if anchor := reader.line[2:].strip():
            anchors.append(anchor)
        reader.at += 1
    rows: list[Row] = []
    while not reader.done and not reader.line.startswith(("@@", "*** ")):
        rows.append(_row(reader))
    at_end = reader.after(_AT_END) is not None
    if not any(row.mark != " " for row in rows):
        raise _wrong(begun, "this block changes nothing, or is none")
    return Block(tuple(rows), tuple(anchors), None, at_end)


def _row(reader: _Reader) -> Row:
    line = reader.line
    reader.at += 1
    # An empty line of context often comes without its blank.
    match line[:1]:
        case "" | " ":
            return Row(" ", line[1:])
        case "-":
            return Row("-", line[1:])
        case "+":
            return Row("+", line[1:])
        case _:
            raise _wrong(reader.at, "a line of a block begins with a blank, - or +")


def _wrong(line: int, words: str) -> EditError:
    return EditError(ErrorCode.TOOL_ARGUMENTS, f"line {line} of the patch: {words}", hint=_HINT, line=line)
