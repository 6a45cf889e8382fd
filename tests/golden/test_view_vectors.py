"""The reference reducer on the shared vectors, which the client's reducer runs as well."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.kit.simulation import vectors

from gloveport.protocol.wire.reducer import View, ViewGapError

HERE = Path(__file__).resolve().parent
VECTORS = sorted((HERE / "view_vectors").glob("*.json"))
REFUSED = sorted((HERE / "view_vectors_refused").glob("*.json"))


def read(path: Path) -> dict[str, Any]:
    """A vector."""
    vector: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
    return vector


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vector(path: Path) -> None:
    """Items and digest are the expected ones, operation by operation and in one batch."""
    vector = read(path)
    stepwise, at_once = View(), View()
    for view in (stepwise, at_once):
        view.load(vector["base"] or [], 0)
    for seq, op in enumerate(vector["ops"], 1):
        assert stepwise.apply(seq, [op])
    at_once.apply(1, vector["ops"])
    for view in (stepwise, at_once):
        assert view.items() == vector["expected"]
        assert view.digest() == vector["digest"]


@pytest.mark.parametrize("path", REFUSED, ids=lambda path: path.stem)
def test_refused_vector(path: Path) -> None:
    """The last operation leaves a gap."""
    vector = read(path)
    view = View()
    view.load(vector["base"] or [], 0)
    for seq, op in enumerate(vector["ops"][:-1], 1):
        view.apply(seq, [op])
    assert vector["error"] == "gap"
    with pytest.raises(ViewGapError):
        view.apply(len(vector["ops"]), vector["ops"][-1:])


def test_the_files_are_what_the_generator_makes() -> None:
    """`python -m tests.kit.simulation.vectors --write` would change nothing."""
    assert len(VECTORS) > 30
    assert len(REFUSED) == len(list(vectors.refused()))
    assert vectors.differences() == []
