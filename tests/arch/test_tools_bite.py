"""The tools of `make check`, with this tree's settings, report a planted fault in each of the three packages."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOC = '"""A room.\n\nPurpose: p.\nInvariant: i.\nMust never: n.\n"""\n\n'
PACKAGES = ("protocol", "sandbox", "server")
CLEAN = {f"{name}/gloveport/{name}/__init__.py": DOC.rstrip() + "\n" for name in PACKAGES}
WRONG_TYPE = DOC + '\ndef f() -> int:\n    """Do."""\n    return "x"\n'
BROAD = DOC + '\ndef f() -> None:\n    """Do."""\n    try:\n        g()\n    except Exception:\n        return\n'
KNOTTED = DOC + '\ndef f(x: int) -> int:\n    """Do."""\n' + "".join(
    f"    if x == {n}:\n        return {n + 1}\n" for n in range(11)
) + "    return 0\n"  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small clean tree with this tree's settings."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    grow(tmp_path, CLEAN)
    return tmp_path


def grow(root: Path, files: dict[str, str]) -> None:
    """Write the files below the root."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def run(root: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of the environment in the tree, as the Makefile does."""
    env = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "MYPYPATH"}}
    return subprocess.run(
        [sys.executable, "-m", *argv], cwd=root, env=env, capture_output=True, text=True, timeout=110, check=False
    )


def test_mypy_sees_every_package(tree: Path) -> None:
    """A wrong type in any of the three roots is told: one namespace in three folders is easily searched in one."""
    assert run(tree, "mypy", "--no-error-summary").returncode == 0
    planted = {f"{name}/gloveport/{name}/planted.py": WRONG_TYPE for name in PACKAGES}
    grow(tree, planted)
    done = run(tree, "mypy", "--no-error-summary")
    assert done.returncode == 1
    assert {line.partition(":")[0] for line in done.stdout.splitlines() if "return-value" in line} == planted.keys()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import os\n", "F401"),
        (DOC + "X = 1  # " + "x" * 120 + "\n", "E501"),
        (BROAD, "BLE001"),
        (KNOTTED, "C901"),
        (DOC + "print(1)\n", "T201"),
        (DOC + "X = 1  # noqa: E501 - no reason for it\n", "RUF100"),
    ],
)
@pytest.mark.parametrize("package", PACKAGES)
def test_ruff_bites(tree: Path, package: str, text: str, code: str) -> None:
    """Each family of rules that the house counts on is on in each package."""
    assert run(tree, "ruff", "check", "--no-cache", ".").returncode == 0
    grow(tree, {f"{package}/gloveport/{package}/planted.py": text})
    done = run(tree, "ruff", "check", "--no-cache", "--output-format=concise", ".")
    assert done.returncode == 1
    assert code in done.stdout


def test_ruff_format_bites(tree: Path) -> None:
    """Unformatted code is told."""
    assert run(tree, "ruff", "format", "--no-cache", "--check", ".").returncode == 0
    grow(tree, {"server/gloveport/server/planted.py": DOC + "X  =  1\n"})
    assert run(tree, "ruff", "format", "--no-cache", "--check", ".").returncode == 1


def test_check_runs_every_tool() -> None:
    """`make check` calls each of them, and the gates."""
    rule = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert rule is not None
    for tool in ("ruff check", "ruff format --check", "mypy", "lint-imports", "pytest tests/arch"):
        assert tool in rule[1]
