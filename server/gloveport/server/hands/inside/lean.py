"""The substitute of the file reader: less precise, in bounded memory.

Purpose: the first rows or words of a file that the whole reader could not read within its limits.
Invariant: the file is read from its beginning up to a bound; what is not told is said to be left out.
Must never: be imported by the daemon.
"""

import csv
import io
import itertools
import re
import zipfile
from collections.abc import Iterator
from typing import Any, Final
from xml.etree import ElementTree

from gloveport.server.hands.inside.frame import Answer, InputFault, serve
from gloveport.server.hands.inside.tables import FIELD_CHARACTERS_MAX, TEXT_CHARACTERS_MAX, Shown, decode

ROWS_MAX: Final = 200
HEAD_BYTES: Final = 1024 * 1024
STRINGS_MAX: Final = 20_000
ELEMENTS_MAX: Final = 200_000
_WORDS: Final = re.compile(rb"\(((?:[^()\\]|\\.){2,400})\)\s*Tj")
REDUCED: Final = "read with less precision, since the whole reader met a limit"


def read(asked: dict[str, Any], data: bytes) -> Answer:
    """Rows or text of the beginning."""
    match asked["format"]:
        case "csv":
            csv.field_size_limit(FIELD_CHARACTERS_MAX)
            text, notes = decode(data[:HEAD_BYTES])
            rows = list(itertools.islice(csv.reader(io.StringIO(text, newline="")), ROWS_MAX))
            return _table("csv", rows, [*notes, "its delimiter is taken for a comma", "its rows were not counted"])
        case "excel":
            return _workbook(data)
        case "pdf":
            found = b" ".join(_WORDS.findall(data))[:TEXT_CHARACTERS_MAX].decode("latin-1")
            return {"text": found, "notes": [REDUCED, "only text that is not packed; order and pages are lost"]}
        case _:
            text, notes = decode(data[:HEAD_BYTES])
            return {
                "text": text[:TEXT_CHARACTERS_MAX],
                "notes": [REDUCED, *notes, "the beginning as it stands, unread"],
            }


def _table(name: str, rows: list[list[Any]], notes: list[str]) -> Answer:
    shown = Shown()
    for row in rows:
        shown.add(row)
    notes = [REDUCED, *notes, *shown.notes(1)]
    return {"table": name, "rows": shown.rows, "first_row": 1, "total_rows": None, "notes": notes}


def _workbook(data: bytes) -> Answer:
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        sheets = sorted(name for name in packed.namelist() if re.fullmatch(r"xl/worksheets/sheet\d+\.xml", name))
        if not sheets:
            raise InputFault("it holds no sheet")
        strings: list[str] = []
        if "xl/sharedStrings.xml" in packed.namelist():
            with packed.open("xl/sharedStrings.xml") as file:
                strings = list(itertools.islice(_strings(file), STRINGS_MAX))
        with packed.open(sheets[0]) as file:
            rows = list(itertools.islice(_rows(file, strings), ROWS_MAX))
    notes = [
        "the first sheet alone",
        "dates are numbers of days",
        "empty cells are left out",
        "its rows were not counted",
    ]
    return _table(sheets[0], rows, notes)


def _ended(file: Any) -> Iterator[ElementTree.Element]:
    """Elements as they end, each emptied after its use."""
    events = ElementTree.iterparse(file, ("end",))  # noqa: S314 - in a jail of its own
    for _event, element in itertools.islice(events, ELEMENTS_MAX):
        yield element


def _strings(file: Any) -> Iterator[str]:
    for element in _ended(file):
        if element.tag.endswith("}si"):
            yield "".join(part.text or "" for part in element.iter() if part.tag.endswith("}t"))
            element.clear()


def _rows(file: Any, strings: list[str]) -> Iterator[list[Any]]:
    for element in _ended(file):
        if element.tag.endswith("}row"):
            yield [_cell(cell, strings) for cell in element if cell.tag.endswith("}c")]
            element.clear()


def _cell(cell: ElementTree.Element, strings: list[str]) -> Any:
    text = "".join(part.text or "" for part in cell.iter() if part.tag.endswith(("}v", "}t")))
    if cell.get("t") == "s":
        number = int(text) if text.isdecimal() else len(strings)
        return strings[number] if number < len(strings) else "[text left out]"
    try:
        return float(text) if cell.get("t") in (None, "n") and text else text
    except ValueError:
        return text


def main() -> None:
    """Read the beginning."""
    serve(read)
