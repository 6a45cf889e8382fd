"""Every input in every state gives what was reviewed."""

import json

import pytest
from tests.kit.decisions import GOLDEN, STATES, golden, row

SEEN = json.loads(GOLDEN.read_text(encoding="ascii"))


@pytest.mark.parametrize("name", STATES)
def test_the_row_of_a_state(name: str) -> None:
    """Events field by field, effects, refusals; `python -m tests.kit.decisions --write` after a review."""
    assert json.loads(json.dumps(row(name))) == SEEN[name]


def test_the_golden_file_is_whole() -> None:
    """No state is left over, and none is missing."""
    assert GOLDEN.read_text(encoding="ascii") == golden()
