"""Unified diffs, as `diff -u` and `git diff` write them.

Purpose: read a diff into plain data: the one door to the library that parses it.
Invariant: every line of the text belongs to a header or to a hunk of the right length, or the diff is refused.
Must never: look at a file, or pass over a change that it cannot make (bytes, links, submodules).
"""

import io
import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Final

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.patching import Block, PatchFile, Row
from gloveport.server.tools.contract import ToolError

_HEADERS: Final = re.compile(
    r"(diff --git |index |--- |\+\+\+ |(new|deleted) file mode |(old|new) mode |(dis)?similarity index |"
    r"(rename|copy) (from|to) |@@ -)"
)
_HINT: Final = "Send a whole unified diff with right line counts, or use apply_patch, which needs none."
_ABSENT: Final = "/dev/null"
_PLAIN_MODES: Final = frozenset({None, "100644", "100755"})
_ESCAPES: Final = MappingProxyType({"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"})
_ESCAPED: Final = re.compile(r"\\([0-7]{3}|.)")


def parse_unified(text: str) -> tuple[PatchFile, ...]:
    """What the diff does, file by file. Raises ToolError `tool.arguments`."""
    body = text if text.endswith("\n") else f"{text}\n"
    try:
        patches = PatchSet(io.StringIO(body))
    except (UnidiffParseError, AssertionError) as error:
        raise _wrong(str(error).strip()) from None
    _check_whole(body, patches)
    files = tuple(_file(each) for each in patches)
    if not files:
        raise _wrong("it names no file")
    return files


def _check_whole(text: str, patches: Any) -> None:
    """Each line is a header, empty, or a line of a hunk."""
    taken = {line.diff_line_no for file in patches for hunk in file for line in hunk}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        outside = number not in taken and not line.startswith("\\ ")
        if outside and line.strip() and not _HEADERS.match(line):
            raise _wrong(f"line {number} belongs to no hunk and no header: {line[:60]!r}")


def _file(patched: Any) -> PatchFile:
    if patched.is_binary_file:
        raise _wrong(f"{patched.path} is binary; a diff of lines cannot say it")
    modes = {patched.source_mode, patched.target_mode}
    if not modes <= _PLAIN_MODES:
        raise _wrong(f"{patched.path} is a link or a repository of its own; a diff cannot make it here")
    old, new = _names(patched)
    runnable = None if patched.target_mode == patched.source_mode else patched.target_mode == "100755"
    blocks = tuple(_block(hunk) for hunk in patched)
    if old is None:
        rows = [row for block in blocks for row in block.rows]
        if new is None or any(row.mark != "+" for row in rows):
            raise _wrong(f"{new or patched.path}: a new file has added lines alone")
        return PatchFile("add", new, text="".join(_whole(row) for row in rows), runnable=runnable)
    if new is None:
        return PatchFile("delete", old, blocks=blocks)
    if not blocks and old == new and runnable is None:
        raise _wrong(f"nothing is said of {old}")
    return PatchFile("update", old, None if new == old else new, blocks, runnable=runnable)


def _names(patched: Any) -> tuple[str | None, str | None]:
    """The paths before and after; None where there is none."""
    told = {}
    for line in patched.patch_info or ():
        for head in ("rename from ", "rename to "):
            if line.startswith(head):
                told[head] = _unquoted(line[len(head) :].rstrip("\n"))
        if line.startswith("copy from "):
            raise _wrong(f"{patched.path} is copied; add it as a new file")
    names = [_unquoted(each) for each in (patched.source_file, patched.target_file)]
    has_prefixes = names[0].startswith(("a/", _ABSENT)) and names[1].startswith(("b/", _ABSENT))
    old, new = (None if name == _ABSENT else name[2:] if has_prefixes else name for name in names)
    return told.get("rename from ", old), told.get("rename to ", new)


def _block(hunk: Any) -> Block:
    rows: list[Row] = []
    for line in hunk:
        if line.line_type == "\\":
            if not rows:
                raise _wrong("a marker of a missing newline follows no line")
            rows[-1] = Row(rows[-1].mark, rows[-1].text, ends=False)
        elif line.line_type in (" ", "-", "+"):
            rows.append(Row(line.line_type, line.value.removesuffix("\n")))
    # A hunk without old lines names the line after which it stands.
    has_old = any(row.mark != "+" for row in rows)
    return Block(tuple(rows), old_start=hunk.source_start if has_old else None, at_end=False)


def _whole(row: Row) -> str:
    return row.text + ("\n" if row.ends else "")


def _unquoted(name: str) -> str:
    """A path as git quotes it when it holds unusual characters."""
    if not (name.startswith('"') and name.endswith('"') and len(name) > 1):
        return name
    try:
        return b"".join(_pieces(name[1:-1])).decode()
    except UnicodeDecodeError:
        raise _wrong(f"{name} is no UTF-8 path") from None


def _pieces(quoted: str) -> Iterator[bytes]:
    at = 0
    for match in _ESCAPED.finditer(quoted):
        yield quoted[at : match.start()].encode()
        code = match[1]
        yield bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _ESCAPES.get(code, code).encode()
        at = match.end()
    yield quoted[at:].encode()


def _wrong(words: str) -> ToolError:
    return ToolError(ErrorCode.TOOL_ARGUMENTS, f"not a diff that can be applied: {words}", hint=_HINT)
