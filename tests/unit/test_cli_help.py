"""What the command line says of itself: pages in words for people, and wrong usage that shows how it is used."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest
import typer.main
from typer.testing import CliRunner

from gloveport.server.cli import root
from gloveport.server.cli.help import unbroken


def _closed(*_: object) -> NoReturn:
    raise AssertionError("nothing is done here")


APP = root.command_line(root.Doors(**{door.name: _closed for door in dataclasses.fields(root.Doors)}))


def every(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of each command, groups first."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from every(inner, (*path, name))


def page(*words: str, columns: int = 80) -> Any:
    """What is printed, with the exit code."""
    return CliRunner().invoke(APP, list(words), env={"COLUMNS": str(columns), "NO_COLOR": "1"}, prog_name="gloveport")


@pytest.mark.parametrize("words", list(every(typer.main.get_command(APP))), ids=" ".join)
def test_a_page_has_no_word_of_the_program_alone(words: tuple[str, ...]) -> None:
    """A switch shows no type, a value a plain word, what has to be given stands bare."""
    shown = page(*words, "--help").stdout
    assert "Usage: gloveport" in shown
    assert not {"<", ">", "{", "}"} & set(shown), shown


def test_lines_of_a_page_break_where_the_terminal_does() -> None:
    """Not where they do in the code."""
    shown = page("run", "--help", columns=200).stdout
    assert "4 the turn was stopped, 5 an answer is needed, 6 the daemon cannot be reached, 130 interrupted." in shown
    assert unbroken("One\n    line.\n\n    Another\n    one.") == "One line.\n\nAnother one."


@pytest.mark.parametrize("words", ["accept --hunk", "diff --nope", "approve x", "budget --turn", "policy explain"])
def test_wrong_usage_shows_how_it_is_used(words: str) -> None:
    """Whatever is wrong with it."""
    done = page(*words.split())
    assert done.exit_code == 2
    assert done.stderr.startswith("Usage: gloveport")


@pytest.mark.parametrize("command", ["approve", "why a", "restore a", "budget", "mode plan", "redo"])
def test_a_session_given_as_a_word_too_many_is_told_where_it_goes(command: str) -> None:
    """The error names -s where the command takes a session by it alone."""
    done = page(*command.split(), "ecee")
    said = " ".join(done.stderr.replace("│", " ").split())
    assert done.exit_code == 2
    assert "A session is named with -s." in said
