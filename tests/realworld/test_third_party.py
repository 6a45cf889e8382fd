"""Suites of third-party packages give the same results in bubblewrap and in a container as outside, test by test."""

import hashlib
import json
import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.kit.require import require
from tests.kit.sandboxes import PROJECT, open_rig
from tests.realworld.package import fetch, unpack

from gloveport.sandbox.interpreter import find_interpreter
from gloveport.sandbox.profile import Limits
from gloveport.server.tools.pytest_probe import PROBE
from gloveport.server.tools.suite_reports import read_tap
from gloveport.server.tools.tests import split_report

HERE = Path(__file__).resolve().parent
PACKAGES = tomllib.loads((HERE / "suites.toml").read_text(encoding="utf-8"))["package"]
CALL = "t1.c1"
LIMITS = Limits(wall_s=300.0, output_bytes_max=4 * 1024 * 1024)
RUN_S = 300


def prepare(package: dict[str, Any], folder: Path) -> Path:
    """The package's own files, checked by hash, with what its tests need beside it."""
    if package["language"] == "python":
        archive = fetch(folder / "fetched", package["name"], package["version"], package["sha256"])
        return unpack(archive, folder / "root")
    npm = shutil.which("npm")
    require(npm is not None, "npm is not installed")
    (folder / "fetched").mkdir()
    named = f"{package['name']}@{package['version']}"
    run_npm([str(npm), "pack", "--silent", named], folder / "fetched")
    (archive,) = (folder / "fetched").glob("*.tgz")
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == package["sha256"], "not what was pinned"
    root = unpack(archive, folder / "root")
    # Beside the package, whose own list of what its developers use is longer than what its tests need.
    beside = folder / "needs"
    beside.mkdir()
    options = ["--silent", "--ignore-scripts", "--no-audit", "--no-fund"]
    run_npm([str(npm), "install", *options, *package["needs"]], beside)
    (beside / "node_modules").rename(root / "node_modules")
    return root


def run_npm(argv: list[str], folder: Path) -> None:
    """Run the package manager, or skip (fail where all is required) where the index does not answer."""
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=RUN_S, check=False)
    require(done.returncode == 0, f"the package index did not answer: {done.stderr[-300:]}")


def words(package: dict[str, Any], root: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """How its tests are run, and with which environment."""
    if package["language"] == "javascript":
        return ("node", "--test", "--test-reporter=tap", *package["tests"]), {}
    from gloveport.server.tools.tests import _marker

    limits = ("20000", "400", "3000000")
    options = ("-q", "--no-header", "-p", "no:cacheprovider", "--color=no", "--", *package["tests"])
    environment = {
        "PYTHONPATH": os.path.normpath(f"{root}/{package['path']}"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    argv = (find_interpreter(packages=True).path, "-c", PROBE, _marker(CALL), *limits, *options)
    return argv, environment


def results(package: dict[str, Any], output: bytes) -> dict[str, str]:
    """Each test's status by its name; where the package lies is taken out of names."""
    if package["language"] == "javascript":
        found = read_tap(output.decode("utf-8", "replace"))
        assert found is not None, output[-2000:]
        return {os.path.basename(name): status for name, status, _, _ in found}
    _, report = split_report(output, CALL)
    assert report is not None, output[-2000:]
    return {name: status for name, status, _, _ in report["cases"]}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("package", PACKAGES, ids=lambda one: one["name"])
@pytest.mark.parametrize("rung", ["bubblewrap", "docker"])
async def test_a_suite_gives_the_same_inside_as_outside(rung: str, package: dict[str, Any], tmp_path: Path) -> None:
    """And enough of it passes that the comparison says something."""
    if package["language"] == "javascript":
        require(shutil.which("node") is not None, "node is not installed")
    root = prepare(package, tmp_path)
    argv, environment = words(package, str(root))
    usual = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    told = subprocess.run(
        argv, cwd=root, env={**usual, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=RUN_S,
        check=False,
    )  # fmt: skip
    outside = results(package, told.stdout)
    async with open_rig(rung) as rig:
        shutil.rmtree(rig.project)
        shutil.copytree(root, rig.project, symlinks=True)
        argv, environment = words(package, PROJECT)
        lease = await rig.lease(mounts=find_interpreter(packages=True).mounts, environment=environment, limits=LIMITS)
        result = await (await rig.start_raw(lease, argv)).result()
        await lease.release()
    inside = results(package, result.output)
    assert sum(status == "passed" for status in outside.values()) >= package["passed"], json.dumps(outside)[:2000]
    different = {name: (outside.get(name), how) for name, how in inside.items() if outside.get(name) != how}
    assert different == {}
    assert outside.keys() == inside.keys()
