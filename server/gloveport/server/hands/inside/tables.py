"""The file reader for what the standard library reads: CSV, JSON and XML.

Purpose: rows of a table, or text, out of a file's bytes.
Invariant: at most the asked rows are answered, of them no more than is taken of an answer; what is left out is told.
Must never: be imported by the daemon, or guess without saying so.

Asked: `{"format", "first_row", "rows", "as_csv", "bytes_max"}`. Answers `{"table": name, "rows": [[cell]],
"first_row", "total_rows", "notes": [words]}`, with `"csv": base64` where asked, or `{"text", "notes"}`; a cell is text,
number, truth value or null.
"""

import base64
import csv
import datetime
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final
from xml.etree import ElementTree

from gloveport.server.hands.inside.frame import Answer, InputFault, serve

CELL_CHARACTERS_MAX: Final = 2_000
CELLS_MAX: Final = 1_000
"""So many cells of a row are answered."""
TEXT_CHARACTERS_MAX: Final = 200_000
"""So much text is answered, be it of a table or of a document; a model is shown less."""
FIELD_CHARACTERS_MAX: Final = 32 * 1024 * 1024
BYTES_SHOWN: Final = 64
SNIFF_CHARACTERS: Final = 64 * 1024
DELIMITERS: Final = ",;\t|"
_MARKS: Final = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


def decode(data: bytes) -> tuple[str, list[str]]:
    """The text of bytes, and what had to be guessed."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data.decode(name), [] if name == "utf-8-sig" else [f"read as {name}"]
    try:
        return data.decode("utf-8"), []
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace"), ["not UTF-8; read as Windows-1252, which is a guess"]


class Shown:
    """Rows that are answered, and what of them is not. `is_full`: there was no place for the last one."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self.is_full = False
        self._characters = self._cells_left_out = 0

    def add(self, row: Sequence[Any]) -> None:
        """Take a row as far as there is place, unless so much is taken already that there is none."""
        self.is_full = self.is_full or self._characters > TEXT_CHARACTERS_MAX
        if self.is_full:
            return
        kept: list[Any] = []
        for cell in row[:CELLS_MAX]:
            if self._characters > TEXT_CHARACTERS_MAX:
                break
            kept.append(_cut(cell))
            self._characters += len(kept[-1]) if isinstance(kept[-1], str) else 1
        self._cells_left_out += len(row) - len(kept)
        self.rows.append(kept)

    def notes(self, first: int) -> list[str]:
        """What is left out of rows that begin with number `first`."""
        cells = f"of long rows the first cells are shown; {self._cells_left_out} cells are left out"
        rows = f"rows from {first + len(self.rows)} on are left out, since these are long; ask for them apart"
        return [*([cells] if self._cells_left_out else []), *([rows] if self.is_full else [])]


def window(
    rows: Iterable[list[Any]],
    asked: dict[str, Any],
    name: str,
    notes: list[str],
    count: Callable[[], int] | None = None,
) -> Answer:
    """The asked rows of a table, how many there are, and the whole table as CSV where that is asked for.

    `count` tells how many there are without making each; then what comes after the asked ones is not read.
    """
    first, most = int(asked["first_row"]), int(asked["rows"])
    shown = Shown()
    whole = io.StringIO() if asked.get("as_csv") else None
    writer = None if whole is None else csv.writer(whole, lineterminator="\n")
    total = 0
    for total, row in enumerate(rows, 1):
        if first <= total < first + most:
            shown.add(row)
        if writer is not None and whole is not None:
            writer.writerow(["" if cell is None else cell for cell in row])
            if whole.tell() > int(asked["bytes_max"]):
                raise InputFault(f"as CSV it is larger than {asked['bytes_max']} bytes")
        elif count is not None and total >= first + most - 1:
            total = max(total, count())
            break
    notes = [*notes, *shown.notes(first)]
    told: Answer = {"table": name, "rows": shown.rows, "first_row": first, "total_rows": total, "notes": notes}
    if whole is not None:
        told["csv"] = base64.b64encode(whole.getvalue().encode()).decode("ascii")
    return told


def query_answer(name: str, columns: list[str], rows: Iterable[Sequence[Any]], most: int, notes: list[str]) -> Answer:
    """What a query found, the columns' names first; a row beyond `most` says that there are more. No row is read once
    there is no place for it.
    """
    shown = Shown()
    shown.add(columns)
    for number, row in enumerate(rows):
        if number == most:
            notes = [*notes, f"there are more than {most} rows; ask for fewer"]
            break
        shown.add([plain_cell(cell) for cell in row])
        if shown.is_full:
            break
    notes = [*notes, *shown.notes(0)]
    return {"table": name, "rows": shown.rows, "first_row": 0, "total_rows": None, "notes": notes}


def plain_cell(cell: Any) -> Any:
    """A cell as JSON knows it; moments are written as ISO 8601 has them, bytes as hexadecimal numbers."""
    if isinstance(cell, datetime.datetime | datetime.date | datetime.time):
        return cell.isoformat()
    if isinstance(cell, bytes):
        return f"0x{cell[:BYTES_SHOWN].hex()}{'…' if len(cell) > BYTES_SHOWN else ''}"
    return cell if cell is None or isinstance(cell, str | int | float | bool) else str(cell)


def text_answer(text: str, notes: list[str]) -> Answer:
    """Text, cut at a limit that is told."""
    if len(text) > TEXT_CHARACTERS_MAX:
        notes = [*notes, f"{len(text) - TEXT_CHARACTERS_MAX} characters at the end are left out"]
    return {"text": text[:TEXT_CHARACTERS_MAX], "notes": notes}


def _cut(cell: Any) -> Any:
    if isinstance(cell, str) and len(cell) > CELL_CHARACTERS_MAX:
        return f"{cell[:CELL_CHARACTERS_MAX]}[… {len(cell) - CELL_CHARACTERS_MAX} characters left out]"
    return cell


def read_csv(asked: dict[str, Any], data: bytes) -> Answer:
    """Rows of text; the delimiter is found by the first lines."""
    csv.field_size_limit(FIELD_CHARACTERS_MAX)
    text, notes = decode(data)
    try:
        dialect: Any = csv.Sniffer().sniff(text[:SNIFF_CHARACTERS], DELIMITERS)
    except csv.Error:
        dialect = csv.excel
    if dialect.delimiter != ",":
        notes.append(f"fields are parted by {dialect.delimiter!r}")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=dialect.delimiter)
    return window(rows, asked, "csv", notes)


def read_json(asked: dict[str, Any], data: bytes) -> Answer:
    """Rows where it is a list of objects, or lines of objects; else the text, laid out."""
    text, notes = decode(data)
    try:
        value = json.loads(text)
    except ValueError:
        value = [json.loads(line) for line in text.splitlines() if line.strip()]
        notes.append("one JSON value a line")
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        names = list(dict.fromkeys(itertools.chain.from_iterable(value)))
        rows: Iterator[list[Any]] = ([_plain(one.get(name)) for name in names] for one in value)
        return window(itertools.chain([names], rows), asked, "json", notes, lambda: len(value) + 1)
    return _laid_out(value, notes)


def _laid_out(value: Any, notes: list[str]) -> Answer:
    """The text of a value as far as it is shown: laying out takes far longer than reading, so no more is laid out."""
    pieces, size = [], 0
    for piece in json.JSONEncoder(ensure_ascii=False, indent=1).iterencode(value):
        pieces.append(piece)
        size += len(piece)
        if size > TEXT_CHARACTERS_MAX:
            notes = [*notes, f"what comes after {TEXT_CHARACTERS_MAX} characters is left out"]
            break
    return {"text": "".join(pieces)[:TEXT_CHARACTERS_MAX], "notes": notes}


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float | bool) else json.dumps(value)


def read_xml(asked: dict[str, Any], data: bytes) -> Answer:
    """A JUnit report as rows of its cases; any other document as its elements, indented. Entities are refused."""
    if b"<!ENTITY" in data.replace(b"\0", b""):
        raise InputFault("it declares entities, which are not read")
    root = ElementTree.fromstring(data)  # noqa: S314 - in a jail of its own, without entities
    if root.tag in ("testsuites", "testsuite"):
        return window(_cases(root), asked, "junit", ["results are those that the code under test reported"])
    return text_answer("\n".join(_lines(root)), [])


def _cases(root: ElementTree.Element) -> Iterator[list[Any]]:
    yield ["test", "result", "seconds", "message"]
    for case in root.iter("testcase"):
        bad = next((one for one in case if one.tag in ("failure", "error", "skipped")), None)
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        message = "" if bad is None else f"{bad.get('message') or ''} {(bad.text or '').strip()}".strip()
        yield [name, "passed" if bad is None else bad.tag, case.get("time"), message]


def _lines(root: ElementTree.Element) -> Iterator[str]:
    stack = [(root, 0)]
    while stack:
        element, depth = stack.pop()
        words = " ".join(f"{name}={value!r}" for name, value in element.items())
        text = (element.text or "").strip()
        yield f"{' ' * min(depth, 40)}{element.tag} {words} {text}".rstrip()
        stack += ((child, depth + 1) for child in reversed(list(element)))


def read(asked: dict[str, Any], data: bytes) -> Answer:
    """By the format that was asked for."""
    match asked["format"]:
        case "json":
            return read_json(asked, data)
        case "xml":
            return read_xml(asked, data)
        case _:
            return read_csv(asked, data)


def main() -> None:
    """Read one file."""
    serve(read)
