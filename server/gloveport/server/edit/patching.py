"""Patches of whatever form, put on a file's lines exactly.

Purpose: find the lines that each block of a patch quotes, and make the file that it asks for.
Invariant: lines that a block quotes as context, and all outside the blocks, are the file's own bytes afterwards.
Must never: accept a place whose lines are not those quoted, or choose between two places.

A patch's lines have no endings: a quoted line matches either ending, and a new one takes its neighbour's. Where the
patch quotes lines of a CRLF file with their carriage returns, it speaks of endings itself, and is taken literally.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.lines import line_ending, split_lines
from gloveport.server.edit.replace import (
    CANDIDATES_MAX,
    check_form,
    editable_form,
    encoded,
    encoding_error,
    from_utf8,
    snippet_of,
    to_utf8,
)

BLOCKS_MAX: Final = 10_000
BOM_CHAR: Final = "\ufeff"
LOOK_ALIKE_SHARE: Final = 0.5
"""A place with this share of the quoted lines may be the one that was meant."""
LOOK_ALIKE_REACH: Final = 3
"""How many lines a patch's own line numbers may be off and still mean the place there."""
SEARCH_STEPS_MAX: Final = 5_000_000
"""Comparisons of lines for one patch; a patch that asks for more is refused."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a patch, without its ending. `ends` is False where the patch says that no newline follows."""

    mark: Literal[" ", "-", "+"]
    text: str
    ends: bool = True


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that stand together. `anchors` are lines above it, outermost first; `old_start` is the line (from 1) at
    which the patch says that it begins; `at_end`: it ends where the file ends."""

    rows: tuple[Row, ...]
    anchors: tuple[str, ...] = ()
    old_start: int | None = None
    at_end: bool = False

    @property
    def old(self) -> tuple[Row, ...]:
        """The lines that must be there."""
        return tuple(row for row in self.rows if row.mark != "+")


@dataclass(frozen=True, slots=True)
class PatchFile:
    """What a patch does with one file. `text` is the content of an added one; `runnable` None: as it is."""

    kind: Literal["update", "add", "delete"]
    path: str
    moved_to: str | None = None
    blocks: tuple[Block, ...] = ()
    text: str = ""
    runnable: bool | None = None


def apply_blocks(data: bytes, blocks: Sequence[Block], *, path: str) -> bytes:
    """The bytes of `path` with all blocks applied.

    Raises EditError: `edit.no_match` and `edit.ambiguous` (with candidates), `edit.encoding`, `tool.arguments`.
    """
    if len(blocks) > BLOCKS_MAX:
        raise EditError(ErrorCode.TOOL_ARGUMENTS, f"{path}: more than {BLOCKS_MAX} blocks in one patch", path=path)
    form = editable_form(data, "".join(row.text for block in blocks for row in block.rows), path)
    body = to_utf8(data, form)
    first = [_without_mark(block, path) if form.bom else block for block in blocks[:1]]
    patched = _Patched(split_lines(body), path)
    for number, block in enumerate([*first, *blocks[1:]], 1):
        patched.add(block, f"block {number} of {len(blocks)}" if len(blocks) > 1 else "the patch")
    text = patched.joined()
    if first and first[0] is not blocks[0] and all(row.mark == "-" for row in first[0].rows):
        # The mark was quoted, and goes with all the rest or not at all.
        if not text:
            return b""
        raise _mark_lost(path)
    result = from_utf8(text, form)
    check_form(form, result, path)
    return result


def _without_mark(block: Block, path: str) -> Block:
    """A block that quotes the first line with the file's byte order mark, without it: the mark is no part of a line."""
    first = next((at for at, row in enumerate(block.rows) if row.mark != "+"), None)
    if first is None or not block.rows[first].text.startswith(BOM_CHAR):
        return block
    new = next((row for row in block.rows if row.mark != "-"), None)
    if new is not None and not new.text.startswith(BOM_CHAR):
        raise _mark_lost(path)
    end = next((at for at, row in enumerate(block.rows) if row.mark == " "), len(block.rows)) + 1
    head = tuple(replace(row, text=row.text.removeprefix(BOM_CHAR)) for row in block.rows[:end])
    return replace(block, rows=head + block.rows[end:])


def _mark_lost(path: str) -> EditError:
    return encoding_error(path, "the patch would take its byte order mark away")


class _Patched:
    """A file's lines while blocks are found in them, from top to bottom."""

    def __init__(self, lines: list[bytes], path: str) -> None:
        self.lines = lines
        self.path = path
        self.bare = [line.removesuffix(line_ending(line)) for line in lines]
        self.out: list[bytes] = []
        self.done = 0
        self.steps_left = SEARCH_STEPS_MAX
        self.end_told: bool | None = None
        self.ends_new = False

    def add(self, block: Block, name: str) -> None:
        """Find the block's place below the one before, and put it there."""
        start = self._place(block, name)
        self.out += self.lines[self.done : start]
        self.done = start + len(block.old)
        self._rows(block, start)

    def joined(self) -> bytes:
        """The whole text: each line but the last has an ending; the last as it was, or as the patch says."""
        last_is_new = self.done == len(self.lines) and self.ends_new
        out = self.out + self.lines[self.done :]
        fresh = next((end for line in reversed(self.lines) if (end := line_ending(line))), b"\n")
        out = [line if line_ending(line) else line + fresh for line in out[:-1]] + out[-1:]
        if out and self.end_told:
            out[-1] += b"" if line_ending(out[-1]) else fresh
        elif out and self.end_told is None and last_is_new and self.lines and not line_ending(self.lines[-1]):
            out[-1] = out[-1].removesuffix(line_ending(out[-1]))
        return b"".join(out)

    def _rows(self, block: Block, start: int) -> None:
        literal = any(self._is_literal(row, start + at) for at, row in enumerate(block.old))
        at = start
        ending = self._ending_near(start)
        for row in block.rows:
            if row.mark == "+":
                self.out.append(self._new(row, ending, literal=literal))
                continue
            if row.mark == " ":
                self.out.append(self.lines[at])
            ending = line_ending(self.lines[at]) or ending
            at += 1
        self.ends_new = next((row.mark == "+" for row in reversed(block.rows) if row.mark != "-"), False)
        if at == len(self.lines) and any(not row.ends for row in block.rows):
            last = next((row for row in reversed(block.rows) if row.mark != "-"), None)
            self.end_told = last is None or last.ends

    def _new(self, row: Row, ending: bytes, *, literal: bool) -> bytes:
        text = encoded(row.text, self.path)
        if not row.ends:
            return text
        if literal:
            return text + b"\n"
        return (text.removesuffix(b"\r") if ending == b"\r\n" else text) + ending

    def _is_literal(self, row: Row, at: int) -> bool:
        return row.text.endswith("\r") and line_ending(self.lines[at]) == b"\r\n"

    def _ending_near(self, start: int) -> bytes:
        """The ending of the line at a place, else of the nearest above it."""
        around = (*self.lines[start : start + 1], *reversed(self.lines[max(0, start - 2) : start]))
        return next((end for line in around if (end := line_ending(line))), b"\n")

    def _place(self, block: Block, name: str) -> int:
        low, high = self._scope(block, name)
        old = block.old
        if not old:
            return self._insertion(block, low, name)
        found = self._matches(old, low, high)
        if block.at_end:
            found = [at for at in found if at + len(old) == len(self.lines)]
        if block.old_start is not None:
            return self._near(block, found, name)
        if len(found) == 1:
            return found[0]
        raise self._refused(found, old, name)

    def _scope(self, block: Block, name: str) -> tuple[int, int]:
        """The lines in which the block may lie: below its anchors, as far as what they open goes."""
        low, high = self.done, len(self.lines)
        for anchor in block.anchors:
            wanted = encoded(anchor, self.path).strip()
            found = [at for at in range(low, high) if self.bare[at].strip() == wanted]
            self._spend(high - low)
            if len(found) != 1:
                raise self._refused(found, (Row(" ", anchor),), f"{name}: the line after @@")
            low, high = found[0] + 1, self._end_of(found[0], high)
        return low, high

    def _end_of(self, at: int, high: int) -> int:
        """The first line below that is indented no deeper than the line at `at`."""
        depth = _depth(self.bare[at])
        return next(
            (row for row in range(at + 1, high) if self.bare[row].strip() and _depth(self.bare[row]) <= depth), high
        )

    def _insertion(self, block: Block, low: int, name: str) -> int:
        if block.at_end or not self.lines:
            return len(self.lines)
        if block.anchors:
            return low
        raise EditError(
            ErrorCode.EDIT_AMBIGUOUS,
            f"{self.path}: {name} only adds lines and quotes none, so it has no place",
            path=self.path,
            candidates=[],
        )

    def _near(self, block: Block, found: list[int], name: str) -> int:
        """The place that the patch names; another only if it is the only one and nothing like it lies there."""
        old, named = block.old, (block.old_start or 1) - 1
        if named in found:
            return named
        around = range(max(named - LOOK_ALIKE_REACH, self.done), named + LOOK_ALIKE_REACH + 1)
        if len(found) == 1 and not any(at != found[0] and self._is_like(old, at) for at in around):
            return found[0]
        raise self._refused(found, old, f"{name}, at line {named + 1},")

    def _matches(self, old: Sequence[Row], low: int, high: int) -> list[int]:
        texts = [encoded(row.text, self.path) for row in old]
        self._spend(high - low)
        return [at for at in range(low, high - len(old) + 1) if self._fits(old, texts, at)]

    def _fits(self, old: Sequence[Row], texts: Sequence[bytes], at: int) -> bool:
        for offset, (row, text) in enumerate(zip(old, texts, strict=True)):
            if not self._equals(text, at + offset):
                self._spend(offset)
                return False
            if not row.ends and (at + offset + 1 != len(self.lines) or line_ending(self.lines[-1])):
                return False
        self._spend(len(old))
        return True

    def _equals(self, text: bytes, at: int) -> bool:
        return text == self.bare[at] or (text.endswith(b"\r") and text + b"\n" == self.lines[at])

    def _is_like(self, old: Sequence[Row], at: int) -> bool:
        """True when a good part of the quoted lines stand there, leading and trailing blanks aside."""
        here = [line.strip() for line in self.bare[at : at + len(old)]]
        quoted = [encoded(row.text, self.path).strip() for row in old]
        same = sum(one == two and bool(one) for one, two in zip(quoted, here, strict=False))
        return same >= max(1, LOOK_ALIKE_SHARE * sum(map(bool, quoted)))

    def _spend(self, steps: int) -> None:
        self.steps_left -= steps
        if self.steps_left < 0:
            words = f"{self.path}: the patch needs more than {SEARCH_STEPS_MAX} comparisons; send it in parts"
            raise EditError(ErrorCode.LIMIT, words, path=self.path)

    def _refused(self, found: list[int], old: Sequence[Row], name: str) -> EditError:
        code = ErrorCode.EDIT_AMBIGUOUS if len(found) > 1 else ErrorCode.EDIT_NO_MATCH
        words = {0: "does not occur as it is quoted", 1: "occurs at another line than it names"}
        why = words.get(len(found), f"occurs {len(found)} times")
        places = found or self._alike(old)
        return EditError(
            code,
            f"{self.path}: {name} {why}",
            path=self.path,
            candidates=[{"line": at + 1, "text": snippet_of(self.lines[at])} for at in places[:CANDIDATES_MAX]],
        )

    def _alike(self, old: Sequence[Row]) -> list[int]:
        """Where the first quoted line that says anything stands, blanks aside, or a good part of the lines do."""
        key = next(((at, text) for at, row in enumerate(old) if (text := encoded(row.text, self.path).strip())), None)
        if key is None:
            return []
        offset, text = key
        first = [at - offset for at, line in enumerate(self.bare) if line.strip() == text and at >= offset]
        return sorted(first, key=lambda at: not self._is_like(old, at))


def _depth(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" \t"))
