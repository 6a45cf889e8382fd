"""The demo's repository and script: a real failing test, mended by what the tools really answered."""

from pathlib import Path

import pytest
from tests.kit.mini_agent import converse, failing

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.cli.demo_repo import MARKER, SCRIPT, TASK, materialise, repository_files
from gloveport.server.models.script_file import load_script
from gloveport.server.models.scripted import ScriptedProvider

BUG = "tests/test_stats.py::test_median_of_an_even_count"


async def quick(_seconds: float) -> None:
    """Lets a script's delays pass at once."""


def provider() -> ScriptedProvider:
    """The demo's model."""
    return ScriptedProvider(load_script(SCRIPT), SCRIPT.parent, sleep=quick)


async def test_the_script_finds_and_mends_the_bug(tmp_path: Path) -> None:
    materialise(tmp_path / "demo")
    told = await converse(provider(), tmp_path / "demo", TASK)
    assert not [result.text for _, result in told.calls if result.is_error]
    wanted = ["update_plan", "run_tests", "read_file", "read_file", "edit_file", "run_tests", "update_plan"]
    assert told.tools == wanted
    assert [failing(result.text) for call, result in told.calls if call.name == "run_tests"] == [[BUG], []]
    assert "Accept the change" in told.replies[-1]


async def test_the_script_reads_what_the_tools_answer(tmp_path: Path) -> None:
    """Where the tests are green already, it says so and changes nothing; where the code is another, too."""
    materialise(tmp_path)
    stats = tmp_path / "tinystat/stats.py"
    bad = stats.read_text()
    stats.write_text(bad.replace("ordered[len(ordered) // 2]", "sum(ordered[(len(ordered) - 1) // 2 :][:1]) + 0"))
    told = await converse(provider(), tmp_path, TASK)
    assert "edit_file" not in told.tools
    assert "changed nothing" in told.replies[-1]

    materialise(tmp_path)
    assert stats.read_text() == bad
    (tmp_path / "tests/test_stats.py").write_text("def test_fine():\n    pass\n")
    told = await converse(provider(), tmp_path, TASK)
    assert told.replies[-1] == "All tests pass already. I changed nothing."


def test_laying_it_out_again_resets_its_files_and_no_others(tmp_path: Path) -> None:
    materialise(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "tinystat/stats.py").write_text("")
    materialise(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    laid_out = {name: (tmp_path / name).read_text() for name in repository_files()}
    assert laid_out == repository_files()
    assert not list(tmp_path.rglob("*.new"))


def test_a_folder_of_somebody_else_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("my own")
    with pytest.raises(GloveportError) as caught:
        materialise(tmp_path)
    assert caught.value.code is ErrorCode.UNSAFE_DIRECTORY
    assert [p.name for p in tmp_path.iterdir()] == ["README.md"]
    assert (tmp_path / "README.md").read_text() == "my own"


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "demo"
    outside.mkdir()
    (outside / "victim.py").write_text("mine")
    target.symlink_to(outside)
    with pytest.raises(GloveportError):
        materialise(target)
    target.unlink()
    target.mkdir()
    (target / MARKER).write_text("")
    (target / "README.md").symlink_to(outside / "victim.py")
    (target / "tests").symlink_to(outside)
    with pytest.raises(GloveportError):
        materialise(target)
    assert [p.name for p in outside.iterdir()] == ["victim.py"]
    assert (outside / "victim.py").read_text() == "mine"


def test_a_broken_off_attempt_is_taken_up_again(tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text("")
    (tmp_path / ".README.md.new").write_text("half")
    materialise(tmp_path)
    assert {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()} == {
        MARKER,
        *repository_files(),
    }
