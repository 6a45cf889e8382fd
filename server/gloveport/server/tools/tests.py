"""run_tests: the workspace's tests, test by test.

Purpose: run their framework in the sandbox and turn its report into facts.
Invariant: the outcome is the process's own end; the report only names the tests, and without a whole one no run is a
    good one.
Must never: trust a report that the run's end contradicts, or install anything.
"""

import json
import posixpath
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, Literal

from pydantic import Field

from gloveport.protocol.journal.events import TestRunFinished
from gloveport.protocol.journal.events.tool import FileFingerprint, TestCase
from gloveport.sandbox.contract import Result, ResultKind
from gloveport.server.tools.contract import (
    Arguments,
    Found,
    Performed,
    RunRequest,
    ToolContext,
    ToolPlan,
    bounded,
    effect,
)
from gloveport.server.tools.files import RelativePath
from gloveport.server.tools.output import clean_output
from gloveport.server.tools.programs import (
    SENDS_ANYTHING,
    Network,
    Reads,
    hidden_files,
    hidden_words,
    how_it_ended,
    judged_places,
    network_effects,
    own_repository,
    performed,
    repository_words,
    secrets_named,
)
from gloveport.server.tools.pytest_probe import CASES_MAX, MESSAGE_CHARACTERS_MAX, PROBE, REPORT_BYTES_MAX
from gloveport.server.tools.suite_reports import NAME_CHARACTERS_MAX, READERS, make_report
from gloveport.server.tools.suite_runners import Framework, Runner, find_framework, plan_runner
from gloveport.server.tools.unittest_probe import PROBE as UNITTEST_PROBE

WALL_S_DEFAULT: Final = 300.0
WALL_S_MAX: Final = 1_800.0
PATHS_MAX: Final = 100
FAILURES_TOLD_MAX: Final = 30
COUNT_MAX: Final = 10**12
JSON_FRAMEWORKS: Final = ("vitest", "jest", "go")
_STATUSES: Final = ("passed", "failed", "error", "skipped")
PYTEST: Final = "pytest"
_NO_REPORT: Final = "the tests' process did not come to the end at which it says what passed"
_WHO_SAYS: Final = "the results are those that the code under test reported"
# No cache and no byte code: a test run leaves nothing in the worktree by itself.
ENVIRONMENT: Final = (("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONUNBUFFERED", "1"))
# In the daemon's own interpreter the plugins are the daemon's, not the workspace's.
NO_PLUGINS: Final = (("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"),)


class RunTestsArguments(Arguments):
    """Arguments of run_tests."""

    paths: list[RelativePath] = Field(
        default_factory=list, max_length=PATHS_MAX, description="Test files or ids such as tests/test_x.py::test_y"
    )
    framework: Literal["auto", "pytest", "unittest", "node", "vitest", "jest", "go", "cargo"] = Field(
        default="auto", description="The test runner; auto goes by the named files and the workspace's own"
    )
    timeout_s: float = Field(default=WALL_S_DEFAULT, gt=0, le=WALL_S_MAX, description="Time limit in seconds")
    reads: Reads
    network: Network


def _marker(call_id: str) -> str:
    return f"gloveport-tests-{sha256(call_id.encode()).hexdigest()[:24]} "


def _python_runner(framework: Framework, arguments: RunTestsArguments, context: ToolContext) -> Runner:
    """pytest or unittest, each with a program of ours that reports at the end."""
    limits = (str(CASES_MAX), str(MESSAGE_CHARACTERS_MAX), str(REPORT_BYTES_MAX))
    options = ("-q", "--no-header", "-p", "no:cacheprovider", "--color=no") if framework == PYTEST else ()
    probe = PROBE if framework == PYTEST else UNITTEST_PROBE
    environment = ENVIRONMENT if context.python_is_own else (*ENVIRONMENT, *NO_PLUGINS)
    if context.hands.root != str(context.workspace.root):
        # An editable install names the user's own folder: where the copy lies elsewhere, it has to come first.
        copy = context.hands.root
        environment = (*environment, ("PYTHONPATH", f"{copy}/src:{copy}"))
    argv = (context.python, "-c", probe, _marker(context.call_id), *limits, *options, "--", *arguments.paths)
    return Runner(argv, environment)


class RunTests:
    """run_tests"""

    name = "run_tests"
    description = (
        "Run the workspace's tests in the sandbox with its own runner (pytest, unittest, node, vitest, jest, go, "
        "cargo); each test's result is reported."
    )
    arguments = RunTestsArguments

    async def plan(self, arguments: RunTestsArguments, context: ToolContext) -> ToolPlan:
        """Executes the tests."""
        framework = await find_framework(arguments.framework, arguments.paths, context)
        argv: tuple[str, ...] = (framework, *arguments.paths)
        if framework in READERS:
            words = plan_runner(framework, arguments.paths).argv
            argv = (posixpath.basename(words[0]), *words[1:])
        what = " ".join(arguments.paths) or "all tests"
        files = (path.partition("::")[0] for path in arguments.paths)
        reads = await secrets_named((*files, *arguments.reads), context)
        reaches = network_effects(arguments.network, context)
        return ToolPlan(
            title=f"Run {what} with {framework}",
            effects=(effect("execute", f"{framework} {' '.join(arguments.paths)}".strip()), *reads, *reaches),
            recovery="probeable",
            stop_class="killable",
            executor=f"sandbox:{context.hands.name}",
            label=context.label,
            argv=argv,
            test_class=framework,
            sends=SENDS_ANYTHING if reaches else "",
        )

    async def perform(self, arguments: RunTestsArguments, context: ToolContext) -> Performed:
        """Run them to the end."""
        framework = await find_framework(arguments.framework, arguments.paths, context)
        if framework in READERS:
            runner = plan_runner(framework, arguments.paths)
        else:
            runner = _python_runner(framework, arguments, context)
        hidden = await hidden_files(context)
        repository = await own_repository(context)
        request = RunRequest(
            context.call_id, runner.argv, arguments.timeout_s, hidden,
            environment=runner.environment, places=judged_places(context), shown=runner.shown, repository=repository,
        )  # fmt: skip
        more = hidden_words(hidden) + repository_words(repository, runner.argv)
        async with _without_report(context) as show:
            result = await context.hands.run(request, show)
        return _told(result, context, more, framework)

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Look for the run by its name."""
        return await context.hands.look(context.call_id)

    async def attach(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Performed:
        """Wait for the run that is there."""
        async with _without_report(context) as show:
            result = await context.hands.attach(context.call_id, show)
        framework = await find_framework(arguments.framework, arguments.paths, context)
        return _told(result, context, framework=framework)


@asynccontextmanager
async def _without_report(context: ToolContext) -> AsyncIterator[Callable[[bytes], Awaitable[None]]]:
    """Show output as it comes, up to the report."""
    marker = b"\n" + _marker(context.call_id).encode()
    held, reached = bytearray(), False

    async def show(piece: bytes) -> None:
        nonlocal reached
        if reached:
            return
        held.extend(piece)
        found = held.find(marker)
        reached = found >= 0
        ready = bytes(held[:found] if reached else held[: max(0, len(held) - len(marker))])
        del held[: len(ready)]
        if ready:
            await context.show(ready)

    yield show
    if held and not reached:
        await context.show(bytes(held))


def split_report(output: bytes, call_id: str) -> tuple[bytes, dict[str, Any] | None]:
    """The program's output without the report, and the report; null when there is no whole one."""
    before, marker, after = output.rpartition(b"\n" + _marker(call_id).encode())
    if not marker:
        return output, None
    line, _, rest = after.partition(b"\n")
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return before + b"\n" + rest, None
    return before + b"\n" + rest, report if isinstance(report, dict) else None


def _count(value: Any) -> int:
    """A number of the report. Raises ValueError: it comes from the code under test and may be anything."""
    if type(value) is not int or not 0 <= value <= COUNT_MAX:
        raise ValueError("not a count")
    return value


def _check_counts(counts: Any, cases: Any, left_out: Any) -> None:
    """Raise ValueError where a report contradicts itself: what it counts and what it lists."""
    listed = Counter(str(status) for _, status, _, _ in cases)
    told = {status: _count(counts[status]) for status in _STATUSES}
    if len(cases) > CASES_MAX or sum(told.values()) != len(cases) + _count(left_out):
        raise ValueError("the number of tests is not the number that is counted")
    if any(listed[status] > told[status] for status in _STATUSES):
        raise ValueError("more tests are listed than counted")


def _read_report(framework: str, output: bytes, result: Result, call_id: str) -> tuple[bytes, Mapping[str, Any] | None]:
    """The output without what is for us, and the report of single tests; None where there is no whole one."""
    if framework not in READERS:
        return split_report(output, call_id)
    text = output.decode("utf-8", "replace")
    try:
        cases = None if result.truncated else READERS[framework](text)
        report = None if cases is None else make_report(cases, result.exit_code)
    except (ValueError, TypeError, RecursionError):
        return output, None
    if report is None or framework not in JSON_FRAMEWORKS:
        return output, report
    return "\n".join(line for line in text.splitlines() if not line.startswith("{")).encode(), report


def _fact(report: Mapping[str, Any], context: ToolContext, framework: str = PYTEST) -> TestRunFinished | None:
    try:
        counts, cases = report["counts"], report["cases"]
        _check_counts(counts, cases, report["left_out"])
        return TestRunFinished(
            turn_id=context.turn_id,
            goal_revision=context.goal_revision,
            call_id=context.call_id,
            framework=framework,
            passed=_count(counts["passed"]),
            failed=_count(counts["failed"]),
            errors=_count(counts["error"]),
            skipped=_count(counts["skipped"]),
            cases=tuple(
                TestCase(
                    name=clean_output(_in_workspace(name, context)[:NAME_CHARACTERS_MAX].encode("utf-8", "replace")),
                    status=status,
                    duration_us=_count(took),
                    message=clean_output(
                        _in_workspace(message, context)[:MESSAGE_CHARACTERS_MAX].encode("utf-8", "replace")
                    ),
                )
                for name, status, took, message in cases
            ),
            cases_left_out=_count(report["left_out"]),
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def _in_workspace(words: object, context: ToolContext) -> str:
    """What a runner says, with files of the workspace as the model names them."""
    return str(words).replace(f"{context.hands.root}/", "")


def _summary(fact: TestRunFinished) -> str:
    bad = [case for case in fact.cases if case.status in ("failed", "error")][:FAILURES_TOLD_MAX]
    lines = [f"{fact.passed} passed, {fact.failed} failed, {fact.errors} errors, {fact.skipped} skipped"]
    lines += [f"{case.status}: {case.name}: {case.message}".splitlines()[0] for case in bad]
    return "\n".join(lines)


def _told(result: Result, context: ToolContext, more: str = "", framework: str = PYTEST) -> Performed:
    output, report = _read_report(framework, context.redact(result.output), result, context.call_id)
    # A report that names another end than the process had was not written at that end.
    agrees = report is not None and result.exit_code is not None and report.get("exit") == result.exit_code
    fact = _fact(report, context, framework) if report is not None and agrees else None
    shown = clean_output(output).strip("\n")
    if fact is None:
        text = f"{shown}\n[{how_it_ended(result)}; no report of single tests: {_NO_REPORT}]"
        ended = performed(result, bounded(text.lstrip("\n")) + more, context)
    else:
        text = f"{_summary(fact)}\n\n{shown}\n[{how_it_ended(result)}; {_WHO_SAYS}]"
        ended = performed(result, bounded(text) + more, context)
    # A run that ended well without a whole report, or with one that names failures or no test, is not believed.
    contradicted = fact is None or bool(fact.failed or fact.errors) or not (fact.passed or fact.skipped)
    doubted = result.kind is ResultKind.OK and contradicted
    return replace(
        ended,
        outcome="failed" if doubted else ended.outcome,
        evidence=f"{ended.evidence}; not believed: {_NO_REPORT}" if doubted else ended.evidence,
        output=output,
        facts=() if fact is None else (fact,),
    )
