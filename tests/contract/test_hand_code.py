"""The execution hands: code on named files in a scratch folder, and nothing else."""

from pathlib import Path

from tests.kit.hands import SECRET, hand_table
from tests.kit.require import require

from gloveport.server.tools.contract import RESULT_CHARACTERS_MAX
from gloveport.server.tools.handwork import AGAIN_AFTER_CRASH

SUMS = """
import csv, json, collections
sums = collections.Counter()
for row in csv.DictReader(open("data/sales.csv")):
    sums[row["region"]] += float(row["amount"])
print(json.dumps(sums))
json.dump(sums, open("sums.json", "w"))
"""
CSV = b"region,amount\nnorth,3\nsouth,4.5\nnorth,1\n"
LOOK = """
import os, socket, sys
def tried(call):
    try:
        return repr(call())
    except OSError as error:
        return type(error).__name__
print(sorted(os.listdir(".")), os.path.exists(ROOT), tried(lambda: socket.create_connection(("192.0.2.1", 80), 1)))
print(tried(lambda: open("data/sales.csv", "a")), sorted(name for name in os.environ if "KEY" in name))
"""


async def test_code_computes_over_the_named_inputs(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"data/sales.csv": CSV, "other.txt": b"x"}) as table:
        done = await table.use("run_python", code=SUMS, inputs=["data/sales.csv"], outputs=["sums.json", "none.txt"])
        assert done.outcome == "ok", done
        assert done.text.splitlines() == [
            '{"north": 4.0, "south": 4.5}', "[exit code 0]", "[written: sums.json]", "[not written by it: none.txt]",
        ]  # fmt: skip
        assert await table.read("sums.json") == b'{"north": 4.0, "south": 4.5}'
        assert table.planned is not None
        kinds = [(one.kind, one.target.partition(" ")[0]) for one in table.planned.effects]
        assert kinds == [
            ("execute", "run_python"),
            ("read", "data/sales.csv"),
            ("write", "sums.json"),
            ("write", "none.txt"),
        ]
        assert table.planned.argv == ("python", "-c", SUMS)


async def test_code_may_open_as_many_files_as_a_large_import_does(tmp_path: Path) -> None:
    """A plotting library alone opens a thousand within one second; that is no program gone wrong."""
    code = "for _ in range(3_000):\n    open('/dev/null').close()\nprint('all opened')"
    async with hand_table(tmp_path, {"a": b""}) as table:
        done = await table.use("run_python", code=code)
    assert (done.outcome, done.text.splitlines()[0]) == ("ok", "all opened"), done


async def test_code_sees_its_inputs_and_nothing_else(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"data/sales.csv": CSV, "other.txt": b"x"}) as table:
        worktree = repr(str(table.context.workspace.worktree))
        done = await table.use("run_python", code=LOOK.replace("ROOT", worktree), inputs=["data/sales.csv"])
    first, second = done.text.splitlines()[:2]
    assert first.startswith("['data'] False"), done
    assert first.endswith("Error"), done
    assert second.endswith(" []"), done


async def test_code_that_fails_is_told_and_its_files_are_left(tmp_path: Path) -> None:
    code = f"open('a.txt', 'w').write('x')\nprint('{SECRET}')\nraise SystemExit(3)"
    async with hand_table(tmp_path, {"b": b""}) as table:
        done = await table.use("run_python", code=code, outputs=["a.txt"])
        assert (done.outcome, done.exit_code) == ("failed", 3), done
        assert SECRET not in done.text
        assert await table.context.workspace.digest("a.txt") is None


async def test_an_output_is_a_file_and_no_link(tmp_path: Path) -> None:
    code = "import os\nos.symlink('/etc/passwd', 'a.txt')\nos.mkfifo('b.txt')\nos.mkdir('c.txt')\n"
    async with hand_table(tmp_path, {"x": b""}) as table:
        done = await table.use("run_python", code=code, outputs=["a.txt", "b.txt", "c.txt"])
    assert "[not written by it: a.txt, b.txt, c.txt]" in done.text, done


async def test_c12_a_flood_ends_up_as_its_beginning_and_a_count(tmp_path: Path) -> None:
    async with hand_table(tmp_path, {"x": b""}) as table:
        flood = await table.use("run_python", code="for _ in range(300000): print('x' * 100)")
        line = await table.use("run_python", code="print('y' * 50_000_000)")
    assert flood.outcome == line.outcome == "ok", flood
    assert "more bytes were printed" in flood.text
    assert "more bytes were printed" in line.text
    assert len(flood.text) < RESULT_CHARACTERS_MAX + 1_000


async def test_c11_memory_ends_the_hand_alone_and_nothing_is_started_again(tmp_path: Path) -> None:
    code = "a = bytearray(600 * 1024 * 1024)\nfor i in range(0, len(a), 4096): a[i] = 1"
    async with hand_table(tmp_path, {"x": b""}) as table:
        hungry = await table.use("run_python", code=code)
    assert hungry.outcome in ("oom", "killed"), hungry
    assert "It used more than it was given." in hungry.evidence, hungry
    assert hungry.text.startswith("No result: "), hungry
    assert '"exit_code"' not in hungry.text, hungry
    assert AGAIN_AFTER_CRASH not in hungry.evidence


async def test_c14_what_code_prints_steers_no_terminal(tmp_path: Path) -> None:
    code = r"print('\x1b[2J\x1b]0;title\x07\x1b]52;c;aGk=\x07seen\u202e')"
    async with hand_table(tmp_path, {"a.csv": b"\x1b[2J,\x1b]0;t\x07x\n"}) as table:
        printed = await table.use("run_python", code=code)
        read = await table.use("read_document", path="a.csv")
    for text in (printed.text, read.text):
        assert not set(text) & {"\x1b", "\x07", "\u202e"}, text
    assert "seen" in printed.text


async def test_javascript_computes_too(tmp_path: Path) -> None:
    require(
        Path("/usr/bin/node").exists() or Path("/usr/local/bin/node").exists(),
        "node is not among the machine's programs",
    )
    code = """
const fs = require('fs'); const rows = fs.readFileSync('a.csv', 'utf8').trim().split('\\n').slice(1);
const sum = rows.reduce((all, row) => all + Number(row.split(',')[1]), 0);
fs.writeFileSync('sum.txt', String(sum)); console.log(sum, process.cwd() !== '/');
"""
    async with hand_table(tmp_path, {"a.csv": CSV}) as table:
        done = await table.use("run_javascript", code=code, inputs=["a.csv"], outputs=["sum.txt"])
        assert done.outcome == "ok", done
        assert done.text.splitlines()[0] == "8.5 true"
        assert await table.read("sum.txt") == b"8.5"
