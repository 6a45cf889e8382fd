"""What every recorded event does to the state and to the view is what was reviewed."""

import json

import pytest
from tests.kit.every_event import GOLDEN, effects, golden, samples
from tests.kit.projections import plain

SAMPLES = samples()
SEEN = json.loads(GOLDEN.read_text(encoding="ascii"))


@pytest.mark.parametrize("name", SAMPLES)
def test_what_it_does(name: str) -> None:
    """Operations, fold and contradictions; `python -m tests.kit.every_event --write` after a review."""
    done = json.dumps(plain(effects(SAMPLES[name])), default=lambda body: body.model_dump(mode="json"))
    assert json.loads(done) == SEEN[name]


def test_the_golden_file_is_whole() -> None:
    """No event is missing, and none is left over."""
    assert GOLDEN.read_text(encoding="ascii") == golden()
