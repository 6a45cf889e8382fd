"""The tools over a real worktree and the memory rung."""

import dataclasses
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.engines import shared_engine
from tests.kit.sandboxes import ENGINE_RUNGS

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.sandbox.backends.select import open_backend
from gloveport.sandbox.contract import Claim, Result, ResultKind
from gloveport.server.app.resources import readable_roots
from gloveport.server.engine.hands import Hands, Place
from gloveport.server.policy.protected import is_sensitive
from gloveport.server.secrets.detect import Redactor
from gloveport.server.tools import tests as tests_tool
from gloveport.server.tools.contract import (
    OWN_LABEL,
    RESULT_CHARACTERS_MAX,
    ToolContext,
    ToolError,
    ToolPlan,
    bounded,
    parse,
)
from gloveport.server.tools.files import READ_LINES_MAX
from gloveport.server.tools.programs import hidden_files, named_files
from gloveport.server.tools.registry import builtin_toolbox
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.limits import DEFAULT_LIMITS

TOOLS = builtin_toolbox()
SECRET = "correct-horse-battery-staple"


@asynccontextmanager
async def bench(folder: Path, *, rung: str = "memory", **files: str) -> AsyncIterator[ToolContext]:
    """A context over a fresh worktree with these files (`__` in a name is a dot), programs run on this rung."""
    root = folder / "root"
    root.mkdir()
    for name, text in files.items():
        (root / name.replace("__", ".")).write_bytes(text.encode())
    workspace = await SessionWorkspace.create(root, folder / "session")
    engine = shared_engine().choice if rung in ENGINE_RUNGS else None
    backend = open_backend(rung, folder / "runs", engine=engine)
    place = Place(str(root), str(workspace.worktree), {}, readable_roots())
    hands = Hands(backend, await backend.probe(), place, "trusted", anyio.Event())

    async def show(_piece: bytes) -> None:
        """Not looked at here."""

    yield ToolContext(
        call_id="t1.c1",
        turn_id="t1",
        goal_revision=1,
        workspace=workspace,
        hands=hands,
        label=OWN_LABEL,
        python=sys.executable,
        python_is_own=True,
        show=show,
        redact=Redactor([SECRET]).redact_bytes,
        is_kept=is_sensitive,
        is_stopped=hands.stop.is_set,
    )
    await backend.close()
    workspace.close()


async def use(context: ToolContext, name: str, **arguments: Any) -> Any:
    """Plan and perform a call."""
    tool = TOOLS.find(name)
    parsed = parse(tool.arguments, json.dumps(arguments))
    return await tool.perform(parsed, judged(context, await tool.plan(parsed, context)))


def judged(context: ToolContext, plan: ToolPlan) -> ToolContext:
    """The context of a call that was planned like this and allowed."""
    return dataclasses.replace(context, fingerprint=plan.fingerprint, planned=plan.effects)


async def refusal(context: ToolContext, name: str, **arguments: Any) -> ErrorCode:
    """The code with which a call is refused."""
    with pytest.raises(GloveportError) as caught:
        await use(context, name, **arguments)
    assert caught.value.message
    return caught.value.code


async def test_reading_in_parts(tmp_path: Path) -> None:
    """Lines as they are, the rest announced; an empty file, a file without a last newline, a binary one."""
    text = "".join(f"line {number}\n" for number in range(1, 3001))
    async with bench(tmp_path, long=text, empty="", open_="a\nb", odd="a\x00\x1b[2Jb\n", win="a\r\nb\r\n") as context:
        assert (await use(context, "read_file", path="long")).text.endswith(f"[lines 1 to {READ_LINES_MAX} of 3001]")
        part = await use(context, "read_file", path="long", start_line=2999, lines=2)
        assert part.text == "line 2999\nline 3000\n[lines 2999 to 3000 of 3001]"
        assert (await use(context, "read_file", path="empty")).text == ""
        assert (await use(context, "read_file", path="open_")).text == "a\nb"
        assert (await use(context, "read_file", path="odd")).text.startswith("[8 bytes that are no text")
        assert (await use(context, "read_file", path="win")).text == "a\nb\n"
        beyond = await use(context, "read_file", path="empty", start_line=50)
        assert "of 1" in beyond.text
        assert await refusal(context, "read_file", path="none") is ErrorCode.FILE_MISSING
        for outside in ("../x", "/etc/passwd", "a/../../x"):
            assert await refusal(context, "read_file", path=outside) is not ErrorCode.INTERNAL
        assert await refusal(context, "read_file", path="a\0b") is not ErrorCode.INTERNAL


async def test_looking_hides_secrets_before_it_cuts(tmp_path: Path) -> None:
    """A known value is gone also where a cut would fall into it."""
    filler = "x" * (RESULT_CHARACTERS_MAX // 2 - 5)
    long = "y" * 3_990 + SECRET
    async with bench(tmp_path, a=f"{filler}{SECRET}{filler}{filler}\n", b=f"{long}\n") as context:
        for name in ("a", "b"):
            for found in (await use(context, "read_file", path=name), await use(context, "search", pattern="x|y")):
                assert SECRET[:5] not in found.text


async def test_listing_and_searching(tmp_path: Path) -> None:
    """Patterns, no hit, a wrong expression."""
    async with bench(tmp_path, a__py="import x\n", b__txt="import y\n") as context:
        assert (await use(context, "list_files", pattern="*.py")).text == "a.py"
        assert (await use(context, "list_files", pattern="*.c")).text == "no file matches"
        assert (await use(context, "search", pattern="^import")).text == "a.py:1: import x\nb.txt:1: import y"
        assert (await use(context, "search", pattern="import", path="*.txt")).text == "b.txt:1: import y"
        assert (await use(context, "search", pattern="absent")).text == "no line matches"
        assert await refusal(context, "search", pattern="(") is not ErrorCode.INTERNAL


async def test_changing_files(tmp_path: Path) -> None:
    """Edit, create, rewrite, delete; what cannot be done is refused and changes nothing."""
    async with bench(tmp_path, a="one\ntwo\ntwo\n") as context:
        read = context.workspace.read
        assert await refusal(context, "edit_file", path="a", old="two", new="x") is not ErrorCode.INTERNAL
        assert await refusal(context, "edit_file", path="a", old="three", new="x") is not ErrorCode.INTERNAL
        await use(context, "edit_file", path="a", old="one\n", new="1\n")
        assert await read("a") == b"1\ntwo\ntwo\n"
        await use(context, "write_file", path="deep/er/b", content="new\n")
        assert await read("deep/er/b") == b"new\n"
        await use(context, "delete_file", path="a")
        assert await refusal(context, "delete_file", path="a") is ErrorCode.FILE_MISSING
        assert await refusal(context, "write_file", path=".git/config", content="x") is not ErrorCode.INTERNAL


async def test_an_edit_is_of_what_was_planned(tmp_path: Path) -> None:
    """The file changed between plan and run: refused, also where the result would be the same bytes."""
    async with bench(tmp_path, a="one\n") as context:
        for name, arguments, meanwhile in (
            ("edit_file", {"path": "a", "old": "one", "new": "two"}, b"one one\n"),
            ("write_file", {"path": "a", "content": "whole\n"}, b"other\n"),
            ("write_file", {"path": "new", "content": "whole\n"}, b"was not there\n"),
            ("delete_file", {"path": "a"}, b"other\n"),
        ):
            tool = TOOLS.find(name)
            path = str(arguments["path"])
            parsed = parse(tool.arguments, json.dumps(arguments))
            plan = await tool.plan(parsed, context)
            await context.workspace.write(path, meanwhile)
            with pytest.raises(GloveportError):
                await tool.perform(parsed, judged(context, plan))
            assert await context.workspace.read(path) == meanwhile
            await context.workspace.write("a", b"one\n")


@pytest.mark.parametrize("bent", [".env", "b"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "link"}),
        ("read_file", {"path": "folder/a"}),
        ("edit_file", {"path": "link", "old": "one", "new": "two"}),
        ("write_file", {"path": "link", "content": "whole"}),
        ("write_file", {"path": "folder/new", "content": "whole"}),
        ("delete_file", {"path": "folder/a"}),
    ],
)
async def test_a_path_leads_where_it_led_when_it_was_judged(
    tmp_path: Path, name: str, arguments: dict[str, str], bent: str
) -> None:
    """A link on the way was bent after the answer, even to a file with the very same bytes: refused."""
    async with bench(tmp_path, a="one\n", b="one\n", __env="K=1\n") as context:
        tree = context.workspace.worktree
        for folder in ("first", "other"):
            (tree / folder).mkdir()
            (tree / folder / "a").write_text("one\n")
        (tree / "link").symlink_to("a")
        (tree / "folder").symlink_to("first")
        tool, parsed = TOOLS.find(name), parse(TOOLS.find(name).arguments, json.dumps(arguments))
        plan = await tool.plan(parsed, context)
        assert arguments["path"] in {one.target for one in plan.effects}
        assert {"a", "first/a", "first/new"} & {one.target for one in plan.effects}
        for link, target in (("link", bent), ("folder", "other")):
            (tree / link).unlink()
            (tree / link).symlink_to(target)
        with pytest.raises(GloveportError) as caught:
            await tool.perform(parsed, judged(context, plan))
        assert caught.value.code is ErrorCode.CHANGE_CONFLICT
        assert not (tree / "other/new").exists()
        assert {(tree / name).read_text() for name in ("a", "b", "other/a")} == {"one\n"}


async def test_what_was_not_judged_is_not_done(tmp_path: Path) -> None:
    """A tool that is run without what its plan declared does nothing."""
    async with bench(tmp_path, a="one\n") as context:
        for name, arguments in (("read_file", {}), ("write_file", {"content": "x"}), ("delete_file", {})):
            parsed = parse(TOOLS.find(name).arguments, json.dumps({"path": "a", **arguments}))
            with pytest.raises(GloveportError):
                await TOOLS.find(name).perform(parsed, context)
        assert await context.workspace.read("a") == b"one\n"


async def test_a_path_too_deep_to_be_proposed_is_refused(tmp_path: Path) -> None:
    """Said before anything is written, by name of the limit; the deepest that is proposed can be written."""
    async with bench(tmp_path) as context:
        deep = "d/" * DEFAULT_LIMITS.depth_max
        assert await refusal(context, "write_file", path=f"{deep}d/x", content="x") is ErrorCode.LIMIT
        assert await refusal(context, "write_file", path="d/" * 1_500 + "x", content="x") is ErrorCode.LIMIT
        assert not list(context.workspace.worktree.iterdir())
        await use(context, "write_file", path=f"{deep}x", content="x")
        assert [one.path for one in await context.workspace.proposals()] == [f"{deep}x"]


async def test_reconciling_a_change(tmp_path: Path) -> None:
    """The three findings, and what is told when it is there already."""
    async with bench(tmp_path, a="one\n") as context:
        for name, arguments, after, words in (
            ("edit_file", {"path": "a", "old": "one", "new": "two"}, b"two\n", "a written"),
            ("delete_file", {"path": "a"}, None, "a deleted"),
        ):
            tool = TOOLS.find(name)
            parsed = parse(tool.arguments, json.dumps(arguments))
            marks = (await tool.plan(parsed, context)).fingerprint
            assert (await tool.reconcile(parsed, marks, context)).finding == "not_started"
            await context.workspace.write("a", b"three\n")
            assert (await tool.reconcile(parsed, marks, context)).finding == "unknown"
            if after is None:
                await context.workspace.delete("a")
            else:
                await context.workspace.write("a", after)
            assert (await tool.reconcile(parsed, marks, context)).finding == "succeeded"
            assert (await tool.attach(parsed, marks, context)).text == words
            await context.workspace.write("a", b"one\n")


async def test_reconciling_a_change_of_two_files(tmp_path: Path) -> None:
    """All as intended, or all as before: what was done by half is put back; with a content of its own it is unknown."""
    async with bench(tmp_path, a="one\n", b="one\n") as context:
        tool = TOOLS.find("edit_file")
        marks = []
        for path in ("a", "b"):
            parsed = parse(tool.arguments, json.dumps({"path": path, "old": "one", "new": "two"}))
            marks += (await tool.plan(parsed, context)).fingerprint
        found = []
        for state in ((b"one\n", b"one\n"), (b"two\n", b"one\n"), (b"two\n", b"two\n"), (b"two\n", b"six\n")):
            for path, data in zip(("a", "b"), state, strict=True):
                await context.workspace.write(path, data)
            found.append((await tool.reconcile(parsed, tuple(marks), context)).finding)
            if found[-1] == "not_started":
                assert await context.workspace.read("a") == await context.workspace.read("b") == b"one\n"
        assert found == ["not_started", "not_started", "succeeded", "unknown"]


async def test_c08_c12_running_programs(tmp_path: Path) -> None:
    """Ends, output, limits; a flood is cut and counted (C12); what was printed before a time limit is kept (C08)."""
    async with bench(tmp_path) as context:

        async def run(number: int, *argv: str, **more: Any) -> Any:
            return await use(dataclasses.replace(context, call_id=f"t1.c{number}"), "run_command", argv=argv, **more)

        ok = await run(1, "echo", "hello")
        assert (ok.outcome, ok.exit_code, ok.text.splitlines()[0]) == ("ok", 0, "hello")
        assert (await run(2, "exit", "3")).outcome == "failed"
        late = await run(3, "say", "first words", "30", timeout_s=0.2)
        assert late.outcome == "timeout"
        assert "first words" in late.text
        flood = await run(4, "flood", "3000000")
        assert flood.output_bytes > 3_000_000
        assert len(flood.text) < RESULT_CHARACTERS_MAX + 200
        assert flood.text.rstrip().splitlines()[-3] == "end"
        assert (await run(8, "")).outcome == "failed"
        for argv in ([], ["a\0b"], ["x"] * 300):
            with pytest.raises(GloveportError):
                await use(dataclasses.replace(context, call_id="t1.c9"), "run_command", argv=argv)
        plan = await TOOLS.find("run_command").plan(
            parse(TOOLS.find("run_command").arguments, json.dumps({"argv": ["echo", "\x1b[2J\u202e"]})), context
        )
        assert "\x1b" not in plan.title
        assert "\u202e" not in plan.title


@pytest.mark.parametrize(
    ("more", "asked", "hidden"),
    [
        ({"argv": ["cat", "a.txt"]}, set(), {".env", "certs/k.pem", "certs/deep/l.pem"}),
        ({"argv": ["cat", ".env"]}, {".env"}, {"certs/k.pem", "certs/deep/l.pem"}),
        ({"argv": ["cat", "ROOT/.env"]}, {".env"}, {"certs/k.pem", "certs/deep/l.pem"}),
        ({"argv": ["cat", "notes"]}, {".env", "notes"}, {"certs/k.pem", "certs/deep/l.pem"}),
        ({"argv": ["make"], "reads": ["certs"]}, {"certs/k.pem", "certs/deep/l.pem"}, {".env"}),
        ({"argv": ["ls", "certs/deep"]}, {"certs/deep/l.pem"}, {".env", "certs/k.pem"}),
        ({"argv": ["ls", "cert"], "reads": ["nothing"]}, set(), {".env", "certs/k.pem", "certs/deep/l.pem"}),
    ],
)
async def test_what_a_program_may_read_is_what_its_call_named(
    tmp_path: Path, more: dict[str, Any], asked: set[str], hidden: set[str]
) -> None:
    """In a jail: each kept file that is named, also by a folder, its full path or a link, is a reading of its own; all
    others are hidden, and without a judgement all are."""
    async with bench(tmp_path, a__txt="x", __env="K=1") as context:
        tree = context.workspace.worktree
        (tree / "certs/deep").mkdir(parents=True)
        (tree / "certs/k.pem").write_text("one")
        (tree / "certs/deep/l.pem").write_text("two")
        (tree / "notes").symlink_to(".env")
        available = await context.hands.backend.probe()
        jail = dataclasses.replace(available, holds=available.holds | {Claim.FILESYSTEM_VIEW})
        context = dataclasses.replace(context, hands=dataclasses.replace(context.hands, available=jail))
        raw = json.dumps(more).replace("ROOT", context.hands.root)
        plan = await TOOLS.find("run_command").plan(parse(TOOLS.find("run_command").arguments, raw), context)
        assert {one.target for one in plan.effects if one.kind == "read"} == asked
        assert set(await hidden_files(judged(context, plan))) == hidden
        assert set(await hidden_files(context)) == {".env", "certs/k.pem", "certs/deep/l.pem"}


def test_words_that_may_name_files() -> None:
    """Options and absolute paths are left out, each word once, bounded."""
    assert named_files(("python", "-m", "./a.py", "a.py", "/etc/x", "")) == ("python", "a.py")
    assert len(named_files(tuple(str(number) for number in range(500)))) == 64


@pytest.mark.parametrize("raw", ["{}", "[]", '{"path": 1}', '{"path": "a", "extra": 1}', '{"path": ""}', "null", "{"])
def test_wrong_arguments_name_what_is_wrong(raw: str) -> None:
    """Strict: nothing is guessed."""
    with pytest.raises(ToolError) as caught:
        parse(TOOLS.find("read_file").arguments, raw)
    assert caught.value.code is ErrorCode.TOOL_ARGUMENTS


def test_the_toolbox_is_the_same_each_time() -> None:
    """Order and text of the specifications never change; each has a description and an object for its parameters."""
    assert repr(TOOLS.specs()) == repr(builtin_toolbox().specs())
    assert all(spec.description and spec.parameters["type"] == "object" for spec in TOOLS.specs())
    with pytest.raises(ToolError):
        TOOLS.find("rm")


@given(st.text(max_size=100), st.integers(0, 3))
def test_bounded_keeps_both_ends(text: str, times: int) -> None:
    """Never longer than the limit and its note."""
    long = text * (times * 1000)
    cut = bounded(long)
    assert cut == long or (len(cut) < RESULT_CHARACTERS_MAX + 60 and cut[:100] == long[:100] and cut[-9:] == long[-9:])


# ---- reports of tests: written by the code under test, so anything may be in them ----


def result(output: bytes, exit_code: int | None, kind: ResultKind | None = None) -> Result:
    """The end of a run."""
    kind = kind or (ResultKind.OK if exit_code == 0 else ResultKind.FAILED)
    return Result(kind, exit_code, None, "ended", 1.0, 1.0, None, output, len(output), False)


def report(exit_code: int = 0, **more: Any) -> dict[str, Any]:
    """An ordinary report; the tests are those that are counted."""
    counts = more.get("counts", {"passed": 1, "failed": 0, "error": 0, "skipped": 0})
    tests = [status for status, number in counts.items() for _ in range(min(number, 200))]
    cases = [[f"test_a.py::test_{at}", status, 1000, ""] for at, status in enumerate(tests)]
    plain: dict[str, Any] = {"exit": exit_code, "counts": counts, "cases": cases, "left_out": 0}
    return plain | more


def printed(*reports: Any) -> bytes:
    """A program's output with these reports."""
    marker = tests_tool._marker("t1.c1")
    return b"before\n" + b"".join(f"\n{marker}{json.dumps(one)}\n".encode() for one in reports) + b"after\n"


async def told(tmp_path: Path, ended: Result) -> Any:
    """What comes of an ended run."""
    async with bench(tmp_path) as context:
        return tests_tool._told(ended, context)


async def test_an_ordinary_report(tmp_path: Path) -> None:
    """Counts, cases, and the output without the report."""
    done = await told(tmp_path, result(printed(report()), 0))
    assert (done.outcome, done.facts[0].passed, done.facts[0].cases[0].name) == ("ok", 1, "test_a.py::test_0")
    assert "gloveport-tests" not in done.text
    assert b"before" in done.output
    assert b"after" in done.output


async def test_the_last_report_counts_and_a_marker_of_the_tests_own_does_not(tmp_path: Path) -> None:
    """The code under test prints the marker before the probe does."""
    fake = report(counts={"passed": 99, "failed": 0, "error": 0, "skipped": 0})
    real = report(1, counts={"passed": 0, "failed": 1, "error": 0, "skipped": 0})
    done = await told(tmp_path, result(printed(fake, real), 1))
    assert (done.outcome, done.facts[0].failed) == ("failed", 1)


@pytest.mark.parametrize(
    ("told_exit", "exit_code", "kind"),
    [(0, 1, None), (1, 0, None), (0, None, ResultKind.TIMEOUT), (0, None, ResultKind.OOM), (0, 137, ResultKind.KILLED)],
)
async def test_a_report_that_the_end_contradicts_is_not_believed(
    tmp_path: Path, told_exit: int, exit_code: int | None, kind: ResultKind | None
) -> None:
    """Green words of a process that ended otherwise make no fact."""
    done = await told(tmp_path, result(printed(report(told_exit)), exit_code, kind))
    assert done.facts == ()
    assert "no report" in done.text
    assert done.outcome != "ok"


@pytest.mark.parametrize(
    "wrong",
    [
        {"counts": {"passed": 99, "failed": 0, "error": 0, "skipped": 0}, "cases": [["t::ok", "passed", 1, ""]]},
        {"cases": [["t::bad", "failed", 1, ""]]},
        {"left_out": 3},
        {"counts": {"passed": 0, "failed": 0, "error": 0, "skipped": 0}},
    ],
)
async def test_a_report_that_contradicts_itself_is_no_success(tmp_path: Path, wrong: dict[str, Any]) -> None:
    """Counts and listed tests that do not fit, or no test at all, behind exit code 0."""
    done = await told(tmp_path, result(printed(report(0, **wrong)), 0))
    assert done.outcome == "failed"


async def test_a_good_end_without_a_report_is_no_success(tmp_path: Path) -> None:
    """The code under test ended the process itself: what passed is not known, and it is said so."""
    done = await told(tmp_path, result(b"all fine\n", 0))
    assert (done.outcome, done.facts) == ("failed", ())
    assert "no report" in done.text
    assert "not believed" in done.evidence


async def test_a_report_is_said_to_be_the_codes_own(tmp_path: Path) -> None:
    """Numbers come from the code under test, and whoever reads them is told."""
    assert "code under test reported" in (await told(tmp_path, result(printed(report()), 0))).text


async def test_a_good_end_with_failures_is_no_success(tmp_path: Path) -> None:
    """Exit code 0 and a failed test in the report."""
    bad = report(0, counts={"passed": 0, "failed": 1, "error": 0, "skipped": 0})
    assert (await told(tmp_path, result(printed(bad), 0))).outcome == "failed"


HOSTILE = [
    b"",
    b"{",
    b"[" * 100_000,
    b'{"exit": 0}',
    b"null",
    b'{"exit": 0, "counts": [], "cases": {}, "left_out": 0}',
    json.dumps(report(cases="text")).encode(),
    json.dumps(report(cases=[["n", "green", 1, ""]])).encode(),
    json.dumps(report(cases=[["n", "passed", float("inf"), ""]])).encode(),
    json.dumps(report(cases=[["n", "passed", float("nan"), ""]])).encode(),
    json.dumps(report(cases=[["n", "passed", -1, ""]])).encode(),
    json.dumps(report(left_out=10**30)).encode(),
    json.dumps(report(counts={"passed": True, "failed": 0, "error": 0, "skipped": 0})).encode(),
    json.dumps(report(counts={"passed": 10**400, "failed": 0, "error": 0, "skipped": 0})).encode(),
]


@pytest.mark.parametrize("line", HOSTILE)
async def test_hostile_reports_make_no_fact_and_no_fault(tmp_path: Path, line: bytes) -> None:
    """Whatever is in the line: an outcome by the process's end."""
    marker = tests_tool._marker("t1.c1").encode()
    done = await told(tmp_path, result(b"x\n" + marker + line + b"\n", 0))
    assert (done.outcome, done.facts) == ("failed", ())


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(
            ["exit", "counts", "cases", "left_out", "passed", "failed", "error", "skipped"]), inner, max_size=5),
        max_leaves=20,
    )
)  # fmt: skip
def test_any_json_is_no_fault(value: Any) -> None:
    """Property form of the above."""
    marker = tests_tool._marker("t1.c1").encode()
    _, found = tests_tool.split_report(b"x\n" + marker + json.dumps(value).encode() + b"\n", "t1.c1")
    if found is not None:
        tests_tool._fact(found, _BARE)


class _Bare:
    turn_id, call_id, goal_revision = "t", "c", 1


_BARE: Any = _Bare()


async def test_c14_names_and_messages_of_tests_are_made_safe(tmp_path: Path) -> None:
    """C14: terminal commands, half characters and secrets in what a test calls itself or says."""
    cases = [["t::\x1b[2J\ud800x", "failed", 1, f"\x1b]52;c;x\x07key {SECRET}"]]
    bad = report(1, counts={"passed": 0, "failed": 1, "error": 0, "skipped": 0}, cases=cases)
    done = await told(tmp_path, result(printed(bad), 1))
    case = done.facts[0].cases[0]
    assert "\x1b" not in case.name + case.message + done.text
    assert SECRET not in case.message + done.text + done.output.decode()
