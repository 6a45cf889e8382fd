"""The file reader for Excel workbooks (.xlsx, .xlsm).

Purpose: rows of one sheet, values as they were last computed; macros and links are never followed.
Invariant: the workbook is read sheet by sheet, row by row; rows after the asked ones are counted and not made.
Must never: be imported by the daemon.
"""

import io
import re
from collections.abc import Iterator
from typing import Any, Final
from xml.etree import ElementTree

import openpyxl
import openpyxl.reader.excel as reader
from openpyxl.worksheet._read_only import ReadOnlyWorksheet

from gloveport.server.hands.inside.frame import Answer, InputFault, serve
from gloveport.server.hands.inside.tables import plain_cell, window

CHUNK_BYTES: Final = 256 * 1024
SHEETS_MAX: Final = 200
NAME_CHARACTERS_MAX: Final = 200
_MARK: Final = re.compile(
    rb"<(?=/?[rs]|[!?]|/?[A-Za-z_][\w.-]*:)(?:(?P<other>!|\?(?!xml\s))|(?P<end>/)?(?P<prefix>[A-Za-z_][\w.-]*:)?(?P<name>row|sheetData)"
    rb"(?=[\s/>])(?P<told>(?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*)>)"
)
"""Where rows begin, the part of a sheet that holds them, and what makes marks alone no proof: such a sheet is read."""
_NUMBER: Final = re.compile(rb"\sr\s*=\s*[\"']([0-9]{1,9})[\"']")
_TWO_BYTES: Final = (b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<")
_MAIN: Final = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def read(asked: dict[str, Any], data: bytes) -> Answer:
    """The asked rows of the asked sheet, or of the first one; a formula counts as the value that was kept with it."""
    _quicken()
    book: Any = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    names = list(book.sheetnames)
    wanted = asked.get("sheet") or (names[0] if names else "")
    if wanted not in names:
        raise InputFault(f"there is no sheet {wanted!r}; there are: {', '.join(names)}")
    sheet = book[wanted]
    told = window(_rows(sheet), asked, wanted, [], lambda: _count_rows(sheet))
    more = [f"{len(names) - SHEETS_MAX} more sheets are left out"] if len(names) > SHEETS_MAX else []
    named = [name[:NAME_CHARACTERS_MAX] for name in names[:SHEETS_MAX]]
    return {**told, "tables": named, "notes": [*told["notes"], *more]}


def _quicken() -> None:
    """Two steps that the library takes at loading, each over a whole part of the file, done in less time or not."""
    library: Any = reader
    library.read_string_table = read_strings
    worksheet: Any = ReadOnlyWorksheet
    worksheet._get_size = lambda _sheet: None  # what the file says of its size may be wrong, and is not asked for


def read_strings(file: Any) -> list[str]:
    """The texts that cells share, as the library would have them: runs joined, without what says how it is spoken."""
    strings = []
    events = ElementTree.iterparse(file, ("end",))  # noqa: S314 - in a jail of its own
    for _event, element in events:
        if element.tag == f"{_MAIN}si":
            texts = [element.find(f"{_MAIN}t"), *(run.find(f"{_MAIN}t") for run in element.iterfind(f"{_MAIN}r"))]
            joined = "".join(one.text or "" for one in texts if one is not None)
            strings.append(joined.replace("x005F_", ""))
            element.clear()
    return strings


def _rows(sheet: Any) -> Iterator[list[Any]]:
    sheet.reset_dimensions()  # rows beyond what it says would be lost
    for row in sheet.iter_rows(values_only=True):
        yield [plain_cell(cell) for cell in row]


def _count_rows(sheet: Any) -> int:
    """The number of the last row: by the marks of rows alone, or, where these could be something else, by reading."""
    with sheet._get_source() as file:
        total = _count_marks(file)
    return sum(1 for _row in _rows(sheet)) if total is None else total


def _count_marks(file: Any) -> int | None:
    """The number of the last row, by its mark in the part that holds rows; None where marks alone do not tell it."""
    number, total, rest = 0, 0, b""
    prefix: bytes | None = None
    inside = False
    while chunk := file.read(CHUNK_BYTES):
        if not rest and chunk.startswith(_TWO_BYTES):
            return None
        text = rest + chunk
        cut, begin = max(text.rfind(b"<"), 0), 0
        for mark in _MARK.finditer(text, 0, cut):
            if mark["other"]:
                return None
            if mark["name"] == b"sheetData":
                if mark["end"] or mark["told"].endswith(b"/"):
                    return None if text.find(b"xmlns", begin, mark.start()) >= 0 else total
                prefix, inside, begin = mark["prefix"], True, mark.end()
            elif inside and not mark["end"]:
                if mark["prefix"] != prefix:
                    return None
                told = _NUMBER.search(mark["told"])
                number = int(told[1]) if told else number + 1
                total = max(total, number)
        if inside and text.find(b"xmlns", begin, cut) >= 0:
            return None
        rest = text[cut:]
    return None


def main() -> None:
    """Read one sheet."""
    serve(read)
