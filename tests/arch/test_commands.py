"""Every test is run by exactly one of `make test`, `make test-engines` and `make e2e-vscode`, and CI runs all three."""

import itertools
import re
from pathlib import Path

import pytest
from tests.arch.gates.tree import walk_python
from tests.kit.engines import ELSEWHERE_NAME, TestEngine

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("test", "test-engines", "e2e-vscode")
WINDOWS = "tests/e2e/test_vscode.py"
"""The one file that the last of them reads."""


def recipe(target: str) -> str:
    """What `make` does for it."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return makefile.partition(f"\n{target}: bootstrap-dev")[2].partition("\n\n")[0]


def test_every_combination_of_marks_is_chosen_by_one_command() -> None:
    """The expressions leave nothing out and take nothing twice."""
    found = {name: re.findall(r'-m (?:"(.+?)"|(\w+))', recipe(name)) for name in COMMANDS}
    chosen = {name: quoted or word for name, ((_, program), (quoted, word)) in found.items() if program == "pytest"}
    assert tuple(chosen) == COMMANDS
    for window, engine in itertools.product((False, True), repeat=2):
        marks = {"window": window, "engine": engine}
        assert sum(bool(eval(words, {}, marks)) for words in chosen.values()) == 1, marks


def test_they_choose_among_the_same_files() -> None:
    """The first two among all hermetic tests, the last among those that bear its mark."""
    assert "pytest $(TESTS) " in recipe("test")
    assert "pytest $(TESTS) " in recipe("test-engines")
    assert f"pytest {WINDOWS} " in recipe("e2e-vscode")
    here = Path(__file__).relative_to(ROOT).as_posix()
    assert {one.path for one in walk_python(ROOT, "tests") if "mark.window" in one.text} - {here} == {WINDOWS}


def test_the_clean_machine_runs_all_of_them() -> None:
    """With every tool required."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "GLOVEPORT_REQUIRE=all" in script
    assert set(COMMANDS) <= set(re.findall(r"^make ([\w-]+)", script, re.MULTILINE))


def test_an_engine_is_started_by_none_but_marked_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make test` says so, and there a test without the mark fails; every engine of the tests begins at one place."""
    assert f"{ELSEWHERE_NAME}=1" in recipe("test")
    assert ELSEWHERE_NAME not in recipe("test-engines")
    monkeypatch.setenv(ELSEWHERE_NAME, "1")
    with pytest.raises(pytest.fail.Exception, match="marked `engine`"):
        TestEngine()
    places = {one.path for one in walk_python(ROOT, "tests") if '"dockerd"' in one.text}
    assert places - {Path(__file__).relative_to(ROOT).as_posix()} == {"tests/kit/engines.py"}
