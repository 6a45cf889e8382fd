"""The Python reducer on the vectors that the TypeScript one shares."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.kit.view_batches import FOLDER, apply_batches, list_scenes, load_view, make_vector

from gloveport.protocol.wire.reducer import View, ViewGapError

VECTORS = sorted(FOLDER.glob("*.json"))


def read(path: Path) -> dict[str, Any]:
    """A vector."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_vector_holds(path: Path) -> None:
    """The batches lead to the picture and the digest, the second time as the first; or to a gap."""
    vector = read(path)
    view = load_view(vector["base"])
    if vector["expected"] is None:
        with pytest.raises(ViewGapError):
            apply_batches(view, vector["ops"])
        return
    for _ in range(2):
        apply_batches(view, vector["ops"])
        assert {"items": view.items(), "watermark": view.watermark} == vector["expected"]
        assert view.digest() == vector["digest"]


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_snapshot_in_the_middle_and_tail_give_the_same(path: Path) -> None:
    """A client that joins after any event ends with the same view."""
    vector = read(path)
    for cut in range(len(vector["ops"]) if vector["expected"] else 0):
        early = load_view(vector["base"])
        apply_batches(early, vector["ops"][:cut])
        late = View()
        late.load(early.items(), early.watermark)
        apply_batches(late, vector["ops"])
        assert late.digest() == vector["digest"]


def test_hand_driven_scenes_are_kept() -> None:
    """The committed vectors of this tree's scenes are those that the script writes."""
    for name, base, batches in list_scenes():
        assert read(FOLDER / f"{name}.json") == make_vector(name, base, batches)


def test_astral_characters_are_covered() -> None:
    """Offsets beyond U+FFFF are where two languages differ."""
    assert any("𝒳" in path.read_text(encoding="utf-8") for path in VECTORS)
