"""Notebooks (`.ipynb`): changed cell by cell, not as text.

Purpose: replace the source of one cell, put a cell in, take one out; and say on which lines each cell stands.
Invariant: the bytes of every other cell, of outputs and of metadata are the same afterwards; the result is read again.
Must never: write the JSON of a cell anew that is not the one meant.
"""

import json
import re
from bisect import bisect_left
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.json_spans import Span, elements, members, whole
from gloveport.server.edit.lines import Encoding, TextForm
from gloveport.server.edit.replace import (
    CANDIDATES_MAX,
    SNIPPET_CHARS_MAX,
    editable_form,
    encoded,
    encoding_error,
    from_utf8,
    to_utf8,
)

SUFFIX: Final = ".ipynb"
CellType = Literal["code", "markdown", "raw"]
Action = Literal["replace", "insert", "delete"]
_ID_CHARS: Final = 8
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_ESCAPED: Final = re.compile(r"\\u[0-9a-fA-F]{4}")
_IDS_SINCE: Final = (4, 5)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its place in the text and that of its members."""

    span: Span
    parts: dict[str, Span]

    @property
    def cell_id(self) -> str | None:
        """Its id, where it has one."""
        found = self.span.value.get("id")
        return found if isinstance(found, str) else None

    @property
    def source(self) -> str:
        """Its text."""
        found = self.span.value.get("source", "")
        return "".join(map(str, found)) if isinstance(found, list) else str(found)

    def rest(self, text: str) -> dict[str, str]:
        """Everything but the source, as it is written."""
        return {name: text[part.start : part.end] for name, part in self.parts.items() if name != "source"}


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook's text and its cells."""

    text: str
    form: TextForm
    cells: tuple[Cell, ...]
    array: Span
    top: dict[str, Span]


def read_notebook(data: bytes, *, path: str) -> Notebook:
    """The cells of a notebook. Raises EditError `edit.encoding` when the bytes are none."""
    form = editable_form(data, "", path)
    if form.encoding is not Encoding.UTF8:
        raise encoding_error(path, "a notebook is UTF-8")
    text = to_utf8(data, form).decode()
    try:
        top = members(text, _object(whole(text)).start)
        array = top["cells"]
        if not isinstance(array.value, list):
            raise ValueError("its cells are no list")
        cells = tuple(Cell(span, members(text, _object(span).start)) for span in elements(text, array.start))
    except (ValueError, KeyError) as error:
        raise encoding_error(path, f"it is no notebook that can be read: {error}") from None
    return Notebook(text, form, cells, array, top)


def edit_cell(
    data: bytes,
    action: Action,
    number: int,
    *,
    path: str,
    source: str = "",
    cell_type: CellType = "code",
    cell_id: str = "",
) -> bytes:
    """The notebook with one cell changed. `number` counts from 1; an inserted cell gets it, and pushes the rest down.

    With `cell_id` the cell of this number must have it. Raises EditError `edit.no_match`, `edit.encoding`.
    """
    notebook = read_notebook(data, path=path)
    encoded(source, path)
    last = len(notebook.cells) + (1 if action == "insert" else 0)
    if not 1 <= number <= last:
        raise _no_cell(notebook, path, f"there is no cell {number}; cells are numbered from 1 to {last}")
    if cell_id and action != "insert" and notebook.cells[number - 1].cell_id != cell_id:
        raise _no_cell(notebook, path, f"cell {number} does not have the id {cell_id!r}")
    if action == "replace":
        text = _replaced(notebook, number - 1, source, path)
    elif action == "insert":
        text = _inserted(notebook, number - 1, source, cell_type)
    else:
        text = _deleted(notebook, number - 1)
    result = from_utf8(text.encode(), notebook.form)
    _check(notebook, read_notebook(result, path=path), action, number - 1, source)
    return result


@dataclass(frozen=True, slots=True)
class Layout:
    """On which lines the cells of a notebook begin, the line behind the last one, and its keys in their order."""

    starts: tuple[int, ...]
    end: int
    keys: tuple[str, ...]


def cell_layout(data: bytes, *, path: str) -> Layout:
    """Where the cells stand. Raises EditError."""
    notebook = read_notebook(data, path=path)
    breaks = [match.start() for match in re.finditer("\n", notebook.text)]
    starts = tuple(bisect_left(breaks, cell.span.start) for cell in notebook.cells)
    end = bisect_left(breaks, notebook.cells[-1].span.end - 1) + 1 if notebook.cells else 0
    return Layout(starts, end, tuple(notebook.top))


def _object(span: Span) -> Span:
    if not isinstance(span.value, dict):
        raise ValueError("an object is expected")
    return span


def _no_cell(notebook: Notebook, path: str, words: str) -> EditError:
    candidates = [
        {"line": number, "text": f"cell {number} ({cell.cell_id or 'no id'}): {cell.source[:SNIPPET_CHARS_MAX]!r}"}
        for number, cell in enumerate(notebook.cells[:CANDIDATES_MAX], 1)
    ]
    return EditError(
        ErrorCode.EDIT_NO_MATCH, f"{path}: {words}", hint="Name a cell by its number.", path=path, candidates=candidates
    )


def _replaced(notebook: Notebook, at: int, source: str, path: str) -> str:
    part = notebook.cells[at].parts.get("source")
    if part is None or not isinstance(part.value, str | list):
        raise encoding_error(path, f"cell {at + 1} has no source that can be replaced")
    wanted = _dumped(notebook, source) if isinstance(part.value, str) else _list(notebook, part, source)
    return notebook.text[: part.start] + wanted + notebook.text[part.end :]


def _list(notebook: Notebook, part: Span, source: str) -> str:
    """The lines of a source as the list that stands there is written."""
    lines = [_dumped(notebook, line) for line in _LINE.findall(source)]
    outer = _indent(notebook.text, part.start)
    if not lines:
        return "[]"
    if "\n" not in notebook.text[part.start : part.end] and (part.value or outer is None):
        return f"[{', '.join(lines)}]"
    inner = _gap(notebook.text, elements(notebook.text, part.start)[0].start) if part.value else ""
    if not inner:
        inner = f"{_newline(notebook.text)}{outer or ''}{_unit(notebook)}"
    return f"[{inner}{f',{inner}'.join(lines)}{_newline(notebook.text)}{outer or ''}]"


def _inserted(notebook: Notebook, at: int, source: str, cell_type: CellType) -> str:
    text, cells = notebook.text, notebook.cells
    outer = _indent(text, cells[0].span.start if cells else notebook.array.start)
    unit = _unit(notebook)
    if outer is not None and not cells:
        outer += unit
    fresh = _cell(notebook, source, cell_type, at, None if outer is None else unit, outer or "")
    if at < len(cells):
        start = cells[at].span.start
        return f"{text[:start]}{fresh},{_gap(text, start)}{text[start:]}"
    if cells:
        last = cells[-1].span
        return f"{text[: last.end]},{_gap(text, last.start)}{fresh}{text[last.end :]}"
    around = ("", "") if outer is None else (_newline(text) + outer, _newline(text) + outer.removesuffix(unit))
    return f"{text[: notebook.array.start]}[{around[0]}{fresh}{around[1]}]{text[notebook.array.end :]}"


def _deleted(notebook: Notebook, at: int) -> str:
    text, cells = notebook.text, notebook.cells
    if at + 1 < len(cells):
        return text[: cells[at].span.start] + text[cells[at + 1].span.start :]
    if at:
        return text[: cells[at - 1].span.end] + text[cells[at].span.end :]
    return f"{text[: notebook.array.start]}[]{text[notebook.array.end :]}"


def _cell(notebook: Notebook, source: str, cell_type: CellType, at: int, indent: str | None, outer: str) -> str:
    cell: dict[str, Any] = {"cell_type": cell_type, "metadata": {}, "source": _LINE.findall(source)}
    if cell_type == "code":
        cell |= {"execution_count": None, "outputs": []}
    if _has_ids(notebook):
        cell["id"] = _fresh_id(notebook, source, at)
    text = json.dumps(cell, indent=indent, sort_keys=True, ensure_ascii=_is_ascii(notebook))
    return text if indent is None else text.replace("\n", _newline(notebook.text) + outer)


def _has_ids(notebook: Notebook) -> bool:
    if notebook.cells:
        return any(cell.cell_id is not None for cell in notebook.cells)
    versions = [
        notebook.text[part.start : part.end]
        for name in ("nbformat", "nbformat_minor")
        if (part := notebook.top.get(name))
    ]
    return len(versions) == 2 and all(map(str.isdecimal, versions)) and tuple(map(int, versions)) >= _IDS_SINCE


def _fresh_id(notebook: Notebook, source: str, at: int) -> str:
    taken = {cell.cell_id for cell in notebook.cells}
    salt = 0
    while True:
        name = sha256(f"{at}\0{salt}\0{source}\0{notebook.text}".encode()).hexdigest()[:_ID_CHARS]
        if name not in taken:
            return name
        salt += 1


def _dumped(notebook: Notebook, text: str) -> str:
    return json.dumps(text, ensure_ascii=_is_ascii(notebook))


def _is_ascii(notebook: Notebook) -> bool:
    """True when the notebook writes other letters as escapes."""
    return notebook.text.isascii() and _ESCAPED.search(notebook.text) is not None


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _gap(text: str, start: int) -> str:
    """The blanks before a place."""
    head = text[:start]
    return head[len(head.rstrip(" \t\r\n")) :]


def _indent(text: str, start: int) -> str | None:
    """The blanks at the beginning of a place's line; None where the text has no lines."""
    if "\n" not in text.strip():
        return None
    line = text[text.rfind("\n", 0, start) + 1 : start]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(notebook: Notebook) -> str:
    """One step of indentation."""
    return _indent(notebook.text, next(iter(notebook.top.values())).start) or " "


def _check(before: Notebook, after: Notebook, action: Action, at: int, source: str) -> None:
    """Read back: the other cells and all around them are what they were, and the cell is what was asked for."""
    old = [before.text[cell.span.start : cell.span.end] for cell in before.cells]
    new = [after.text[cell.span.start : cell.span.end] for cell in after.cells]
    if action != "insert":
        del old[at]
    kept = True
    if action != "delete":
        kept = after.cells[at].source == source
        del new[at]
    if action == "replace":
        kept = kept and before.cells[at].rest(before.text) == after.cells[at].rest(after.text)
    edges = [(each.text[: each.array.start], each.text[each.array.end :]) for each in (before, after)]
    if old != new or edges[0] != edges[1] or not kept:
        raise EditError(ErrorCode.INTERNAL, "the notebook would not be what was asked for; nothing was changed")
