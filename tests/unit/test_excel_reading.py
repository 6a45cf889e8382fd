"""A workbook is read row by row: what comes after the asked rows is counted and never made."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from openpyxl.reader import strings as library

from gloveport.server.hands.inside import excel, tables

ROWS = 5_000
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def workbook(*changes: tuple[str, Any], rows: int = 3) -> bytes:
    """A workbook of one sheet with these cells set beside its plain rows."""
    book = openpyxl.Workbook()
    for number in range(rows):
        book.active.append([f"text {number}", number, number / 4])
    for place, value in changes:
        book.active[place] = value
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def edited(data: bytes, name: str, old: bytes, new: bytes) -> bytes:
    """The same with one part of the file changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(out, "w") as changed:
        for one in given.namelist():
            content = given.read(one)
            assert one != name or old in content
            changed.writestr(one, content.replace(old, new) if one == name else content)
    return out.getvalue()


def test_rows_after_the_asked_ones_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def counted(cell: Any) -> Any:
        nonlocal made
        made += 1
        return tables.plain_cell(cell)

    monkeypatch.setattr(excel, "plain_cell", counted)
    told = excel.read({"first_row": 3, "rows": 2}, workbook(rows=ROWS))
    assert told["rows"] == [["text 2", 2, 0.5], ["text 3", 3, 0.75]]
    assert told["total_rows"] == ROWS
    assert made == 3 * 4


SHEET = "xl/worksheets/sheet1.xml"
FILES = {
    "plain": workbook(),
    "a gap": workbook(("B40", "far")),
    "nothing": workbook(rows=0),
    "rows without numbers": edited(workbook(), SHEET, b'<row r="2">', b"<row>"),
    "names with a prefix": edited(
        edited(workbook(rows=7), SHEET, b"<row ", f'<s:row xmlns:s="{MAIN}" '.encode()), SHEET, b"</row>", b"</s:row>"
    ),
    "it says too little": edited(workbook(rows=9), SHEET, b'<dimension ref="A1:C9"', b'<dimension ref="A1:A2"'),
    "wide characters": edited(workbook(rows=4), SHEET, b"<sheetData>", b"<!-- \xc3\xa4 --><sheetData>"),
    "a control": edited(
        workbook(rows=4), SHEET, b"</sheetData>", f'</sheetData><a:row xmlns:a="{DRAWING}">9</a:row>'.encode()
    ),
    "a drawing's rows within": edited(
        workbook(rows=4), SHEET, b"<v>", f'<extLst xmlns:a="{DRAWING}"><a:row/></extLst><v>'.encode()
    ),
    "a comment before": edited(workbook(rows=4), SHEET, b"<sheetData>", b'<!-- <sheetData><row r="99"> --><sheetData>'),
    "a comment within": edited(workbook(rows=4), SHEET, b"</row>", b'<!-- <row r="99"> --></row>'),
    "a comment behind": edited(workbook(rows=4), SHEET, b"</sheetData>", b'</sheetData><!-- <row r="99"> -->'),
    "text as it stands": edited(
        workbook(rows=4), SHEET, b"</row>", b'<c t="inlineStr"><is><t><![CDATA[<row r="99">]]></t></is></c></row>'
    ),
    "an instruction": edited(workbook(rows=4), SHEET, b"</row>", b'<?do <row r="99"> ?></row>'),
    "signs in values": edited(workbook(rows=4), SHEET, b'<row r="4"', b'<row x="a>b" r = "6"'),
    "rows out of order": edited(workbook(rows=4), SHEET, b'<row r="4"', b'<row r="2"'),
}


@pytest.mark.parametrize("name", FILES)
def test_the_count_is_what_reading_all_of_it_gives(name: str) -> None:
    """Whatever was asked for."""
    whole = excel.read({"first_row": 1, "rows": 100_000}, FILES[name])
    assert whole["total_rows"] == len(whole["rows"])
    for first in (1, 2, len(whole["rows"]), len(whole["rows"]) + 5):
        part = excel.read({"first_row": max(first, 1), "rows": 1}, FILES[name])
        assert part["total_rows"] == whole["total_rows"]
        assert part["rows"] == whole["rows"][max(first, 1) - 1 : max(first, 1)]


def test_a_sheet_of_two_bytes_a_character_is_counted_too() -> None:
    text = zipfile.ZipFile(io.BytesIO(workbook(rows=6))).read(SHEET).decode()
    head, _, rest = text.partition("?>")
    wide = ('<?xml version="1.0" encoding="UTF-16"?>' + (rest or head)).encode("utf-16")
    data = edited(workbook(rows=6), SHEET, text.encode(), wide)
    assert excel.read({"first_row": 1, "rows": 2}, data)["total_rows"] == 6


def test_shared_texts_are_those_that_the_library_reads() -> None:
    """Runs, what says how it is spoken, marks of characters, white space, nothing."""
    texts = (
        '<t>word</t><rPh sb="0" eb="2"><t>spoken</t></rPh><phoneticPr fontId="1"/>', "<t/>", "",
        "<r><t>a</t></r><r><rPr><b/></rPr><t>b</t></r>", '<t xml:space="preserve"> ä😀 </t>', "<t>_x005F_y_x000D_</t>",
    )  # fmt: skip
    content = f'<sst xmlns="{MAIN}">{"".join(f"<si>{text}</si>" for text in texts)}</sst>'.encode()
    read = excel.read_strings(io.BytesIO(content))
    assert read == library.read_string_table(io.BytesIO(content))
    assert read[:4] == ["word", "", "", "ab"]


def test_json_is_laid_out_as_far_as_it_is_shown(tmp_path: Path) -> None:
    """A large value of no table; the text is the beginning of what the whole would be."""
    value = {"values": [{"n": number, "text": "ä" * 10} for number in range(100_000)]}
    told = tables.read_json({"first_row": 1, "rows": 5}, json.dumps(value).encode())
    shown = json.dumps(value, ensure_ascii=False, indent=1)[: tables.TEXT_CHARACTERS_MAX]
    assert told == {"text": shown, "notes": ["what comes after 200000 characters is left out"]}
    small = tables.read_json({"first_row": 1, "rows": 5}, b'{"a": [1]}')
    assert small == {"text": json.dumps({"a": [1]}, indent=1), "notes": []}
