"""One real suite for each test runner that this machine has, run by run_tests in a jail and in a container."""

import json
import shutil
from pathlib import Path

import pytest
from tests.kit.require import require, require_bubblewrap
from tests.kit.sandboxes import on_rungs
from tests.unit.test_tools import TOOLS, bench, use

from gloveport.server.tools.contract import parse
from gloveport.server.tools.suite_runners import plan_runner

SUITES: dict[str, dict[str, str]] = {
    "pytest": {
        "test_calc.py": "import pytest\n\ndef test_adds():\n    assert 1 + 1 == 2\n\n"
        "def test_breaks():\n    assert 1 == 2\n\n@pytest.mark.skip\ndef test_later():\n    pass\n"
    },
    "unittest": {
        "test_calc.py": "import unittest\n\nclass Calc(unittest.TestCase):\n    def test_adds(self):\n"
        "        self.assertEqual(1 + 1, 2)\n    def test_breaks(self):\n        self.assertEqual(1, 2, 'no')\n"
        "    @unittest.skip('later')\n    def test_later(self):\n        pass\n"
    },
    "node": {
        "package.json": '{"type": "module"}',
        "calc.test.js": "import test from 'node:test';\nimport assert from 'node:assert';\n"
        "test('adds', () => assert.equal(1 + 1, 2));\n"
        "test('outer', async (t) => { await t.test('breaks', () => assert.equal(1, 2)); });\n"
        "test('later', {skip: true}, () => {});\n",
    },
    "go": {
        "go.mod": "module example.org/calc\n\ngo 1.19\n",
        "calc_test.go": 'package calc\n\nimport "testing"\n\nfunc TestAdds(t *testing.T) {}\n'
        'func TestBreaks(t *testing.T) { t.Error("no") }\nfunc TestLater(t *testing.T) { t.Skip() }\n',
    },
    "cargo": {
        "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
        "src/lib.rs": "/// ```\n/// assert_eq!(calc::one(), 1);\n/// ```\npub fn one() -> u32 { 1 }\n\n#[cfg(test)]\n"
        "mod tests {\n    #[test]\n    fn adds() { assert_eq!(super::one(), 1); }\n"
        "    #[test]\n    fn breaks() { assert_eq!(super::one(), 2); }\n"
        "    #[test]\n    #[ignore]\n    fn later() {}\n}\n",
    },
}  # fmt: skip
PLACES = {
    "pytest": "test_calc.py:7: assert 1 == 2", "unittest": "test_calc.py:7: 1 != 2 : no", "node": "calc.test.js:4:",
    "go": "calc_test.go:6: no", "cargo": "src/lib.rs:11:",
}  # fmt: skip
"""Where the failing test stands, and what it says."""
PROGRAMS = {"pytest": "python3", "unittest": "python3", "node": "node", "go": "go", "cargo": "cargo"}


@pytest.mark.parametrize("rung", on_rungs("bubblewrap", "docker"))
@pytest.mark.parametrize("framework", SUITES)
async def test_a_real_suite_of_each_runner(framework: str, rung: str, tmp_path: Path) -> None:
    """What passes, fails and is skipped, by name; found by the workspace's own files where they say it."""
    if rung == "bubblewrap":
        require_bubblewrap()
    require(shutil.which(PROGRAMS[framework]) is not None, f"{PROGRAMS[framework]} is not installed")
    async with bench(tmp_path, rung=rung) as context:
        for name, text in SUITES[framework].items():
            await context.workspace.write(name, text.encode())
        wanted = {"framework": framework} if framework == "unittest" else {}
        done = await use(context, "run_tests", **wanted)
        (fact,) = done.facts
    assert (fact.framework, done.outcome) == (framework, "failed")
    assert fact.passed == (2 if framework == "cargo" else 1)  # cargo's example in the documentation is a test, too
    assert (fact.failed, fact.errors, fact.skipped) == (1, 0, 1)
    (bad,) = [case for case in fact.cases if case.status == "failed"]
    assert "breaks" in bad.name.lower()
    assert PLACES[framework] in bad.message
    assert bad.message.startswith(PLACES[framework]) == (framework != "go")  # which tells its own line before
    tells_no_time = framework in ("cargo", "go")  # or in hundredths of a second
    assert tells_no_time or any(case.duration_us for case in fact.cases)
    assert "reported" in done.text


@pytest.mark.parametrize(
    ("files", "paths", "framework"),
    [
        ({"setup.cfg": ""}, [], "pytest"),
        ({}, [], "pytest"),
        ({"package.json": "{}"}, [], "node"),
        ({"package.json": json.dumps({"devDependencies": {"vitest": "1"}})}, [], "vitest"),
        ({"package.json": json.dumps({"devDependencies": {"jest": "1"}})}, [], "jest"),
        ({"package.json": "{", "setup.py": ""}, [], "pytest"),
        ({"package.json": "[1]"}, ["a.test.js"], "node"),
        ({"setup.py": "", "a.js": ""}, ["a.js"], "node"),
    ],
)
async def test_the_runner_is_found_by_files(
    files: dict[str, str], paths: list[str], framework: str, tmp_path: Path
) -> None:
    """By what is named, then by what the workspace holds."""
    async with bench(tmp_path) as context:
        for name, text in files.items():
            await context.workspace.write(name, text.encode())
        tool = TOOLS.find("run_tests")
        plan = await tool.plan(parse(tool.arguments, json.dumps({"paths": paths})), context)
    assert plan.test_class == framework
    assert plan_runner("node", ["a.js"]).argv[-1] == "a.js"
