"""The file reader for Excel workbooks (.xlsx, .xlsm).

Purpose: rows of one sheet, values as they were last computed; macros and links are never followed.
Invariant: the workbook is read sheet by sheet, row by row.
Must never: be imported by the daemon.
"""

import io
from collections.abc import Iterator
from typing import Any

import openpyxl

from gloveport.server.hands.inside.frame import Answer, InputFault, serve
from gloveport.server.hands.inside.tables import plain_cell, window


def read(asked: dict[str, Any], data: bytes) -> Answer:
    """The asked rows of the asked sheet, or of the first one; a formula counts as the value that was kept with it."""
    book: Any = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    names = list(book.sheetnames)
    wanted = asked.get("sheet") or (names[0] if names else "")
    if wanted not in names:
        raise InputFault(f"there is no sheet {wanted!r}; there are: {', '.join(names)}")
    told = window(_rows(book[wanted]), asked, wanted, [])
    return {**told, "tables": names}


def _rows(sheet: Any) -> Iterator[list[Any]]:
    sheet.reset_dimensions()  # what the file says of its size may be wrong, and rows beyond it would be lost
    for row in sheet.iter_rows(values_only=True):
        yield [plain_cell(cell) for cell in row]


def main() -> None:
    """Read one sheet."""
    serve(read)
