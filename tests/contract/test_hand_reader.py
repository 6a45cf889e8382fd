"""The file reader in its jail: what it reads, what it says of it, and what it does at its limits."""

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import openpyxl
from tests.kit.hands import SECRET, hand_table

from gloveport.sandbox.contract import ResultKind
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


DAMAGED = (
    ("a.xlsx", b"no workbook", "File is not a zip file"),
    ("a.pdf", b"%PDF-1.7\nnothing", "No result:"),
    ("a.json", b"{", "No result:"),
    ("a.xml", b'<!DOCTYPE a [<!ENTITY b "x">]><a>&b;</a>', "declares entities"),
    ("b.xml", '<!DOCTYPE a [<!ENTITY b "x">]><a>&b;</a>'.encode("utf-16"), "declares entities"),
)


async def test_a_damaged_file_is_told_as_one(tmp_path: Path) -> None:
    """Level 0: the input is at fault, and the words say so."""
    async with hand_table(tmp_path, {name: data for name, data, _ in DAMAGED}) as table:
        for name, _, words in DAMAGED:
            done = await table.use("read_document", path=name)
            assert done.outcome == "failed", done
            assert words in done.text


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
        done = await table.use("read_document", path="bomb.xlsx")
    assert done.outcome == "ok", done
    assert "file_reader_lean did it instead" in done.evidence, done
    assert "file_reader_lean did it instead" in done.text
    assert "[read with less precision, since the whole reader met a limit]" in done.text
    assert '["r1", 1.0, ' in done.text


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
