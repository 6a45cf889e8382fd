"""The kernel's sentences are those that were reviewed; each refusal and each failure says what to do next."""

import json

import pytest
from tests.kit.words import GOLDEN, SAID, golden

SEEN = json.loads(GOLDEN.read_text(encoding="ascii"))


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(name: str) -> None:
    """Situation by situation; `python -m tests.kit.words --write` after a review."""
    assert SAID[name]() == SEEN[name]


def test_the_golden_file_is_whole() -> None:
    """No situation is left over, and none is missing."""
    assert GOLDEN.read_text(encoding="ascii") == golden()


def test_every_failure_has_a_hint() -> None:
    """What happened never stands without what to do."""
    for name, lines in SEEN.items():
        failures = [at for at, line in enumerate(lines) if line.startswith("TurnFailed.message")]
        assert all(lines[at + 1].startswith("TurnFailed.hint") for at in failures), name
