"""The file reader in its jail: what it reads, what it says of it, and what it does at its limits."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import openpyxl
import pytest
from tests.kit.hands import SECRET, hand_table

from gloveport.protocol.errors import GloveportError
from gloveport.sandbox.contract import ResultKind
from gloveport.sandbox.monitor import thresholds
from gloveport.server.hands.libraries import find_library
from gloveport.server.hands.request import start_of
from gloveport.server.tools.handwork import request_of, show_nothing

CSV = "region,amount\nnorth,3\nsouth,4.5\n"


def workbook(rows: int = 3) -> bytes:
    """A small workbook with two sheets."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Sales"
    sheet.append(["region", "amount", "sum"])
    for number in range(rows):
        sheet.append([f"r{number}", number, f"=B{number + 2}*2"])
    book.create_sheet("Empty")
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


async def test_a_csv_file_is_read_in_a_jail(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"a.csv": CSV.encode()}) as table:
        done = await table.use("read_document", path="a.csv")
    assert done.outcome == "ok", done
    assert done.text.splitlines() == [
        "csv: rows 1 to 3 of 3", '["region", "amount"]', '["north", "3"]', '["south", "4.5"]',
    ]  # fmt: skip
    assert table.planned is not None
    assert [(one.kind, one.target) for one in table.planned.effects] == [("read", "a.csv")]
    assert table.planned.executor == "sandbox:bubblewrap"


AB = '["a", "b"]'
JUNIT = (
    b'<testsuites><testsuite><testcase classname="t" name="a" time="0.1"/><testcase classname="t" name="b">'
    b'<failure message="no">trace</failure></testcase></testsuite></testsuites>'
)
FILES = {
    "semi.csv": (b"a;b\n1;2\n", ["csv: rows 1 to 2 of 2", "[fields are parted by ';']", AB, '["1", "2"]']),
    "marked.csv": (b"\xef\xbb\xbfa,b\n1,2\n", ["csv: rows 1 to 2 of 2", AB, '["1", "2"]']),
    "wide.csv": ("a,b\n1,ä\n".encode("utf-16"), ["csv: rows 1 to 2 of 2", "[read as utf-16]", AB, '["1", "ä"]']),
    "old.csv": (
        "a,b\n1,ä\n".encode("cp1252"),
        ["csv: rows 1 to 2 of 2", "[not UTF-8; read as Windows-1252, which is a guess]", AB, '["1", "ä"]'],
    ),
    "quoted.csv": (b'a,b\n"x, ""y""","1\n2"\n', ["csv: rows 1 to 2 of 2", AB, '["x, \\"y\\"", "1\\n2"]']),
    "empty.csv": (b"", ["csv: no rows of 0"]),
    "a.json": (
        b'[{"a": 1, "b": null}, {"b": [1], "c": true}]',
        ["json: rows 1 to 3 of 3", '["a", "b", "c"]', "[1, null, null]", '[null, "[1]", true]'],
    ),
    "a.jsonl": (
        b'{"a": 1}\n{"a": 2}\n',
        ["json: rows 1 to 3 of 3", "[one JSON value a line]", '["a"]', "[1]", "[2]"],
    ),
    "b.json": (b'{"a": {"b": 1}}', ["{", ' "a": {', '  "b": 1', " }", "}"]),
    "r.xml": (
        JUNIT,
        [
            "junit: rows 1 to 3 of 3",
            "[results are those that the code under test reported]",
            '["test", "result", "seconds", "message"]',
            '["t::a", "passed", "0.1", ""]',
            '["t::b", "failure", null, "no trace"]',
        ],
    ),
}


async def test_what_is_read_of_a_file(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {name: data for name, (data, _) in FILES.items()}) as table:
        for name, (_, lines) in FILES.items():
            done = await table.use("read_document", path=name)
            assert done.outcome == "ok", done
            assert done.text.splitlines() == lines, name


def rezipped(part: str, before: bytes, after: bytes) -> bytes:
    """A workbook in which one part is changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed, zipfile.ZipFile(io.BytesIO(workbook())) as book:
        for name in book.namelist():
            data = book.read(name)
            packed.writestr(name, data.replace(before, after, 1) if name == part else data)
    return out.getvalue()


SHEET, LINKS = "xl/worksheets/sheet1.xml", "xl/_rels/workbook.xml.rels"
OUTSIDE = (
    b"<Relationship Id='rId99' Type='http://schemas.openxmlformats.org/officeDocument/2006/relationships/externalLink' "
    b"Target='file:///etc/passwd' TargetMode='External'/></Relationships>"
)
MANY_SHEETS = b"".join(
    b"<sheet name='s%d' sheetId='%d' r:id='rId1' xmlns:r='http://schemas.openxmlformats.org/officeDocument/2006/"
    b"relationships'/>" % (number, number + 10) for number in range(300)
) + b"</sheets>"  # fmt: skip


def long_ones() -> dict[str, tuple[bytes, str]]:
    """Files whose rows, cells or names are more than an answer takes, and files that lead elsewhere; what is told."""
    return {
        "columns.csv": (b"," * 1_500_000, "[of long rows the first cells are shown; 1499001 cells are left out]"),
        "long.csv": (
            (",".join(["x" * 100] * 60) + "\n").encode() * 300,
            "csv: rows 1 to 34 of 300\n[of long rows the first cells are shown; 39 cells are left out]\n"
            "[rows from 35 on are left out, since these are long; ask for them apart]",
        ),
        "signs.csv": (
            (",".join(["\U0001f600" * 2_000] * 900) + "\n").encode(),
            "[of long rows the first cells are shown; 799 cells are left out]",
        ),
        "cell.csv": (b"a," + b"y" * 300_000 + b"\n1,2\n", "298000 characters left out"),
        "keys.json": (
            json.dumps([{f"k{number}": 1} for number in range(1_200)]).encode(),
            "[of long rows the first cells are shown;",
        ),
        "deep.json": (b"[" * 200_000, "No result: RecursionError"),
        "far.xlsx": (
            rezipped(SHEET, b"</sheetData>", b"<row r='999999999'><c r='ZZZ9'><v>1</v></c></row></sheetData>"),
            "Sales: rows 1 to 1000 of 999999999",
        ),
        "outside.xlsx": (rezipped(LINKS, b"</Relationships>", OUTSIDE), "Sales: rows 1 to 4 of 4"),
        "above.xlsx": (rezipped(LINKS, b"worksheets/sheet1.xml", b"../../../etc/passwd"), "no rows of 0"),
        "sheets.xlsx": (rezipped("xl/workbook.xml", b"</sheets>", MANY_SHEETS), "[102 more sheets are left out]"),
        "cycle.pdf": (pdf("x").replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]"), "No result: PdfReadError"),
        "count.pdf": (pdf("words").replace(b"/Count 1 ", b"/Count 9 "), "words"),
    }


async def test_what_is_longer_than_an_answer_is_cut_and_told(tmp_path: Path) -> None:
    """No file makes a reader say nothing at all, and none leads it elsewhere."""
    files = long_ones()
    async with hand_table(tmp_path, {name: data for name, (data, _) in files.items()}) as table:
        for name, (_, words) in files.items():
            done = await table.use("read_document", path=name, rows=1_000)
            assert words in done.text, (name, done.text[:500], done.evidence)
            assert "root:" not in done.text


async def test_rows_in_parts(tmp_path: Path) -> None:
    rows = "".join(f"{number},x\n" for number in range(1, 3001))
    async with hand_table(tmp_path, {"a.csv": rows.encode()}) as table:
        done = await table.use("read_document", path="a.csv", first_row=2999, rows=10)
    assert done.text.splitlines() == ["csv: rows 2999 to 3000 of 3000", '["2999", "x"]', '["3000", "x"]']


async def test_a_workbook_is_read_with_its_own_library_alone(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"sales.xlsx": workbook()}) as table:
        done = await table.use("read_document", path="sales.xlsx")
        other = await table.use("read_document", path="sales.xlsx", sheet="None")
    assert done.outcome == "ok", done
    assert done.text.splitlines() == [
        "Sales: rows 1 to 4 of 4", "sheets: Sales, Empty", '["region", "amount", "sum"]',
        '["r0", 0, null]', '["r1", 1, null]', '["r2", 2, null]',
    ]  # fmt: skip
    assert other.outcome == "failed"
    assert "there is no sheet 'None'; there are: Sales, Empty" in other.text


async def test_a_table_is_saved_whole_as_csv(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"sales.xlsx": workbook(), "a.pdf": b"%PDF-"}) as table:
        done = await table.use("read_document", path="sales.xlsx", rows=1, save_as="out/sales.csv")
        assert done.outcome == "ok", done
        assert done.text.splitlines()[0] == "[out/sales.csv written, 36 bytes]"
        assert await table.read("out/sales.csv") == b"region,amount,sum\nr0,0,\nr1,1,\nr2,2,\n"
    assert table.planned is not None
    assert [(one.kind, one.target) for one in table.planned.effects][-1] == ("write", "out/sales.csv")


LAUGHS = b"<!DOCTYPE a [<!ENTITY b0 'ha'>" + b"".join(
    b"<!ENTITY b%d '%s'>" % (at, b"&b%d;" % (at - 1) * 10) for at in range(1, 12)
) + b"]><testsuites><testsuite name='a'><testcase name='&b11;'/></testsuite></testsuites>"  # fmt: skip
DAMAGED = (
    ("a.xlsx", b"no workbook", "File is not a zip file"),
    ("a.pdf", b"%PDF-1.7\nnothing", "No result:"),
    ("a.json", b"{", "No result:"),
    ("a.xml", b'<!DOCTYPE a [<!ENTITY b "x">]><a>&b;</a>', "declares entities"),
    ("laughs.xml", LAUGHS, "declares entities"),
    ("report.junit.xml", LAUGHS, "declares entities"),
    ("outside.xml", b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "declares entities"),
    ("b.xml", '<!DOCTYPE a [<!ENTITY b "x">]><a>&b;</a>'.encode("utf-16"), "declares entities"),
)


async def test_a_damaged_file_is_told_as_one(tmp_path: Path) -> None:
    """Level 0: the input is at fault, and the words say so."""
    async with hand_table(tmp_path, {name: data for name, data, _ in DAMAGED}) as table:
        for name, _, words in DAMAGED:
            done = await table.use("read_document", path=name)
            assert done.outcome == "failed", done
            assert words in done.text


def pdf(*pages: str) -> bytes:
    """A document with these pages, each one line of text."""
    count = len(pages)
    kids = b" ".join(b"%d 0 R" % (4 + 2 * at) for at in range(count))
    bodies = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        drawn = b"BT /F1 12 Tf 20 100 Td (%s) Tj ET" % text.encode() if text else b""
        words = b"/Parent 2 0 R /Resources << /Font << /F1 3 0 R >> >> /MediaBox [0 0 200 200]"
        bodies.append(b"<< /Type /Page %s /Contents %d 0 R >>" % (words, 5 + 2 * at))
        bodies.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn))
    made, places = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(bodies) + 1
    table = b"xref\n0 %d\n0000000000 65535 f \n%s" % (size, rows)
    return made + table + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(made))


async def test_the_pages_of_a_pdf_are_read_in_a_jail(tmp_path: Path) -> None:
    files = {"a.pdf": pdf("first words", "second words", "third words"), "empty.pdf": pdf("")}
    async with hand_table(tmp_path, files) as table:
        whole = await table.use("read_document", path="a.pdf")
        one = await table.use("read_document", path="a.pdf", first_row=2, rows=1)
        empty = await table.use("read_document", path="empty.pdf")
    assert whole.outcome == "ok", whole
    assert [whole.text.count(word) for word in ("first words", "second words", "third words")] == [1, 1, 1]
    assert "[page 3 of 3]" in whole.text
    assert "second words" in one.text
    assert "first words" not in one.text
    assert "[page 2 of 3]" in one.text
    assert "its pages hold no text, only pictures" in empty.text


async def test_what_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A report of 100 MB goes to no hand, not even to the large one."""
    async with hand_table(tmp_path, {"a.xml": b"<a/>"}) as table:
        with (table.context.workspace.worktree / "a.xml").open("r+b") as file:
            file.truncate(100 * 1024 * 1024)
        for large in (False, True):
            with pytest.raises(GloveportError, match="the limit is"):
                await table.use("read_document", path="a.xml", large=large)


async def test_a_secret_in_a_file_is_not_told(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"a.csv": f"key,{SECRET}\n".encode()}) as table:
        done = await table.use("read_document", path="a.csv")
    assert SECRET not in done.text


def heavy_workbook() -> bytes:
    """A small file with so many rows in it that reading them all takes too long."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed, zipfile.ZipFile(io.BytesIO(workbook())) as book:
        for name in book.namelist():
            data = book.read(name)
            if name == "xl/worksheets/sheet1.xml":
                data = data.replace(b"</sheetData>", b"<row><c><v>1</v></c></row>" * 2_000_000 + b"</sheetData>")
            packed.writestr(name, data)
    return out.getvalue()


async def test_a_workbook_that_is_too_much_is_read_by_the_substitute(tmp_path: Path) -> None:
    """Level 3: a limit ends the reader, the lean one answers, and both are told."""
    async with hand_table(tmp_path, {"bomb.xlsx": heavy_workbook()}) as table:
        done = await table.use("read_document", path="bomb.xlsx", first_row=1_900_000)
    assert done.outcome == "ok", done
    assert "file_reader_lean did it instead" in done.evidence, done
    assert "file_reader_lean did it instead" in done.text
    assert "[read with less precision, since the whole reader met a limit]" in done.text
    assert '["r1", 1.0, ' in done.text


@pytest.mark.parametrize("large", [False, True])
async def test_no_reader_comes_near_the_calls_that_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """Measured: at most 519 opened files in all (a workbook), so that no machine is too fast for the limit of 1,000."""
    near = replace(thresholds.SMALL, calls_per_s_max=thresholds.SMALL.calls_per_s_max * 7 // 10)
    monkeypatch.setattr(thresholds, "thresholds_of", lambda _profile: near)
    files = {"a.csv": CSV.encode(), "a.xlsx": workbook(), "a.pdf": pdf("words"), "a.xml": JUNIT, "a.json": b"[1]"}
    async with hand_table(tmp_path, files) as table:
        for name in files:
            done = await table.use("read_document", path=name, large=large)
            assert done.outcome == "ok", done
            assert "breaker" not in done.evidence, done


async def test_the_jail_of_a_reader_holds_nothing_else(tmp_path: Path) -> None:
    """What a hostile parser could look at: no worktree, no network, no other library, no daemon's environment."""
    look = """
import importlib.util, json, os, socket, sys
sys.path[:0] = sys.argv[3:]
def tried(call):
    try:
        return repr(call())
    except OSError as error:
        return type(error).__name__
print(json.dumps({
    "root": os.path.exists(sys.argv[1]), "worktree": os.path.exists(sys.argv[2]),
    "has": [name for name in ("openpyxl", "pypdf", "pydantic", "anyio") if importlib.util.find_spec(name)],
    "daemon": importlib.util.find_spec("gloveport.server.app") is not None,
    "net": tried(lambda: socket.create_connection(("192.0.2.1", 80), 1)),
    "write": [path for path in ("/", "/usr", *sys.argv[3:]) if os.access(path, os.W_OK)],
    "environment": sorted(os.environ),
}))
"""
    async with hand_table(tmp_path, {"a.csv": b"a"}) as table:
        started = start_of("excel", {}, b"", find_library("openpyxl"))
        workspace = table.context.workspace
        argv = ("-c", look, str(workspace.root), str(workspace.worktree), *started.argv[3:])
        request = request_of("file_reader", started, table.context)
        result = await table.hands.run(replace(request, argv=argv), show_nothing)
    assert result.kind is ResultKind.OK, result
    told = json.loads(result.output)
    assert (told["root"], told["worktree"], told["has"], told["daemon"]) == (False, False, ["openpyxl"], False)
    assert told["net"].endswith("Error"), told
    assert [path for path in told["write"] if not path.startswith("/tmp/")] == []  # its own scratch ends with it
    assert set(told["environment"]) <= {"PATH", "LANG", "HOME", "TMPDIR", "PWD", "LC_CTYPE"}


async def test_hands_work_on_the_rung_without_a_view(tmp_path: Path) -> None:
    """Where the folder is trusted and the user chose a plain process: the same answers, with that rung's own claims."""
    async with hand_table(tmp_path, {"sales.xlsx": workbook()}, rung="process") as table:
        read = await table.use("read_document", path="sales.xlsx", save_as="sales.csv")
        summed = await table.use("run_python", code="print(len(open('sales.csv').read()))", inputs=["sales.csv"])
    assert read.outcome == "ok", read
    assert summed.text.splitlines()[0] == "36", summed
