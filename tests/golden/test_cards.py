"""What policy says of a table of calls is what was reviewed: decision, factors, the card's every sentence, rights."""

import json

import pytest
from tests.kit.cards import GOLDEN, asked, golden, row

SEEN = json.loads(GOLDEN.read_text(encoding="ascii"))


def test_the_golden_file_is_whole() -> None:
    """No call is left over, and none is missing; `python -m tests.kit.cards --write` after a review."""
    assert GOLDEN.read_text(encoding="ascii") == golden()


@pytest.mark.parametrize("name", [name for name in SEEN if name != "rules"])
def test_what_is_said_of_a_call(name: str) -> None:
    assert json.loads(json.dumps(row(*asked()[name]), default=str)) == SEEN[name]
