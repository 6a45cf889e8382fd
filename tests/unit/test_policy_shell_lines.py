"""What each command line of both sets is taken for is what was reviewed."""

import json

import pytest
from tests.kit.shell.golden import GOLDEN, golden, lines, taken_for

EXPECTED = json.loads(GOLDEN.read_text(encoding="ascii"))


@pytest.mark.parametrize("name", lines(), ids=range(len(lines())))
def test_what_it_is_taken_for(name: str) -> None:
    """Commands, programs, effects, doubts and the verdict (`python -m tests.kit.shell --write`)."""
    assert taken_for(lines()[name]) == EXPECTED[name]


def test_the_golden_file_is_whole() -> None:
    """No line is missing, and none is left over."""
    assert GOLDEN.read_text(encoding="ascii") == golden()
