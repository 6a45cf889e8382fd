"""Every version of every event that was ever written is read by today's code, and keeps its shape for ever."""

import json
from pathlib import Path
from typing import Any

import pytest
from scripts.event_samples import FOLDER, ROOT, samples, shape_of

from gloveport.protocol.journal.events import REGISTRY, EventBody, decode_body, encode_body
from gloveport.protocol.journal.upcast import current_version, registry_gaps, upcast

RECORDED = sorted((ROOT / FOLDER).glob("*.json"))


def read(path: Path) -> dict[str, Any]:
    """A recorded sample."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_every_version_ever_written_is_read(path: Path) -> None:
    """Through its upcasters to today's version, and written again without loss."""
    recorded = read(path)
    body_type = REGISTRY[recorded["type"]]
    assert current_version(recorded["type"], recorded["version"]) == body_type.version
    for size in ("full", "least"):
        payload = upcast(recorded["type"], recorded["version"], recorded[size])
        body = decode_body(body_type, json.dumps(payload).encode())
        again = json.loads(encode_body(body))
        assert decode_body(body_type, again) == body
        assert payload.keys() <= again.keys()
        if recorded["version"] == body_type.version:
            assert again == recorded[size]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_changed_shape_is_a_new_version(path: Path) -> None:
    """A field more or less, another type, one value more: the version must be raised, and an upcaster be there."""
    recorded = read(path)
    body_type = REGISTRY[recorded["type"]]
    if recorded["version"] == body_type.version:
        assert shape_of(body_type) == recorded["shape"], (
            f"raise the version of {recorded['type']} and add an upcaster (of an event that was in no release yet,"
            f" remove {path.name} and record it anew)"
        )


def test_every_version_of_today_is_recorded() -> None:
    """A new event, or a new version of one, is recorded with the change that makes it."""
    wanted = {name for name, _content in samples()}
    there = {path.name for path in RECORDED}
    assert wanted <= there, "run scripts/event_samples.py --record"
    for path in RECORDED:
        recorded = read(path)
        assert path.name == f"{recorded['type']}.{recorded['version']}.json"
        assert recorded["version"] <= REGISTRY[recorded["type"]].version
    assert registry_gaps() == ()


class Noted(EventBody):
    """An event of this test."""

    text: str
    count: int = 0


class More(Noted):
    """A field more, with a default."""

    extra: str | None = None


class Wider(Noted):
    """Another type, which today's samples would pass."""

    count: int | str = 0  # type: ignore[assignment]  # - what the gate is to find


@pytest.mark.parametrize("changed", [More, Wider])
def test_the_gate_sees_a_changed_shape(changed: type[EventBody]) -> None:
    """What a sample alone would not show, the shape does; words may change."""
    assert shape_of(changed) != shape_of(Noted)
    assert shape_of(type("Noted", (Noted,), {"__doc__": "Other words.", "__module__": __name__})) == shape_of(Noted)
