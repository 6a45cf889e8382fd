"""vitest and jest themselves, from the package index, run a suite by run_tests in a jail and a container, test by test.

Purpose: their reports are read as these programs print them, not as they were once recorded.
Invariant: what is fetched lies in a cache beside the tree and is shown to the jail as installed dependencies are.
"""

import dataclasses
import os
import shutil
from pathlib import Path

import pytest
from tests.kit.require import require, require_bubblewrap
from tests.realworld.test_third_party import run_npm
from tests.unit.test_tools import bench, use

from gloveport.server.engine.hands import Hands
from gloveport.server.workspace.layers import make_layers

VERSIONS = {"vitest": "3.2.7", "jest": "30.5.2"}
HEAD = {"vitest": "import { test, expect, describe } from 'vitest';\n", "jest": ""}
SUITE = """
test('adds', () => expect(1 + 1).toBe(2));
describe('outer', () => { test('breaks', () => expect(1).toBe(2)); });
test.skip('later', () => {});
"""
BROKEN = "throw new Error('not to be loaded');\n"


def installed(framework: str) -> Path:
    """The folder of the runner's packages, fetched once."""
    npm = shutil.which("npm")
    require(npm is not None, "npm is not installed")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "gloveport-tests" / f"{framework}-{VERSIONS[framework]}"
    if not (folder / "node_modules" / framework / "package.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text("{}")
        named = f"{framework}@{VERSIONS[framework]}"
        run_npm([str(npm), "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", named], folder)
    return folder / "node_modules"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rung", ["bubblewrap", "docker"])
@pytest.mark.parametrize("framework", sorted(VERSIONS))
async def test_a_real_runner_reports_each_test(framework: str, rung: str, tmp_path: Path) -> None:
    """What passes, fails, is skipped, and a file that cannot be loaded; found by the workspace's own package.json."""
    if rung == "bubblewrap":
        require_bubblewrap()
    require(shutil.which("node", path="/usr/local/bin:/usr/bin:/bin") is not None, "node is not installed")
    packages = installed(framework)
    async with bench(tmp_path, rung=rung) as context:
        root = context.workspace.root
        shutil.copytree(packages, root / "node_modules", symlinks=True)
        (context.workspace.worktree / "node_modules").mkdir()  # as a snapshot of such a folder leaves it
        layers = make_layers(tmp_path / "session", root, ("node_modules",))
        hands = context.hands
        assert isinstance(hands, Hands)
        hands.place = dataclasses.replace(hands.place, dependency_folders=layers)
        files = {
            "package.json": f'{{"devDependencies": {{"{framework}": "*"}}}}',
            "calc.test.js": HEAD[framework] + SUITE,
            "broken.test.js": HEAD[framework] + BROKEN,
        }
        for name, text in files.items():
            await context.workspace.write(name, text.encode())
        done = await use(context, "run_tests")
    assert done.facts, done.text
    (fact,) = done.facts
    assert (fact.framework, done.outcome) == (framework, "failed")
    assert (fact.passed, fact.failed, fact.errors, fact.skipped) == (1, 1, 1, 1), fact
    words = {case.status: case.name for case in fact.cases}
    assert "adds" in words["passed"]
    assert "breaks" in words["failed"]
    assert "broken.test.js" in words["error"]
