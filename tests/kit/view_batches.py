"""Hand-driven batches for the view, written with the reference reducer.

Usage: python -m tests.kit.view_batches     rewrites tests/golden/view_batches/*.json of this file's scenes

Purpose: whole events with their seq, for every reducer in any language, as view_vectors holds single operations.
Invariant: a vector is {"name", "base", "ops", "expected", "digest"}: `base` null or {"items", "watermark"}, `ops` a
list of {"seq", "ops"} (one per event), `expected` {"items", "watermark"} or null where a batch leaves a gap.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gloveport.protocol.wire.reducer import View, ViewGapError

FOLDER: Final = Path(__file__).resolve().parents[1] / "golden" / "view_batches"
Json = dict[str, Any]
ASTRAL: Final = "a𝒳b😀"


def make_vector(name: str, base: Json | None, batches: Sequence[Json]) -> Json:
    """The vector of these batches on this base."""
    view = load_view(base)
    expected: Json | None
    try:
        apply_batches(view, batches)
        expected = {"items": view.items(), "watermark": view.watermark}
    except ViewGapError:
        expected = None
    digest = view.digest() if expected is not None else None
    return {"name": name, "base": base, "ops": list(batches), "expected": expected, "digest": digest}


def write_vector(vector: Mapping[str, Any], folder: Path = FOLDER) -> None:
    """Keep a vector under its name."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(vector, indent=1, ensure_ascii=False) + "\n"
    (folder / f"{vector['name']}.json").write_text(text, encoding="utf-8")


def load_view(base: Json | None) -> View:
    """A view that begins at the base."""
    view = View()
    if base is not None:
        view.load(base["items"], base["watermark"])
    return view


def apply_batches(view: View, batches: Sequence[Json]) -> None:
    """Feed all batches in order."""
    for batch in batches:
        view.apply(batch["seq"], batch["ops"])


def upsert(item: str, kind: str = "k", **fields: Any) -> Json:
    """An upsert."""
    return {"op": "upsert", "item": item, "kind": kind, "fields": fields}


def append(item: str, offset: int, text: str, field: str = "text") -> Json:
    """An append."""
    return {"op": "append", "item": item, "field": field, "offset": offset, "text": text}


def each(*ops: Json, first: int = 1) -> list[Json]:
    """One event per operation."""
    return [{"seq": first + index, "ops": [op]} for index, op in enumerate(ops)]


def _deep() -> Json:
    return {"z": [1, {"b": None, "a": True}], "é": 0, "ｚ": -5, "𝒳": 9007199254740991, "": "", "\n": "\x7f\x00\u2028"}


def list_scenes() -> Iterator[tuple[str, Json | None, list[Json]]]:
    """All scenes: name, base, batches."""
    held = {"items": [{"id": "m", "kind": "k", "fields": {"text": ASTRAL, "n": 1}}], "watermark": 4}
    yield "empty", None, []
    yield "upsert_keeps_place_and_merges", None, each(upsert("b", x=1, y=2), upsert("a"), upsert("b", "j", y=3))
    yield "append_astral", None, each(upsert("m", text=""), append("m", 0, ASTRAL), append("m", 6, "漢é"))
    yield "append_creates_field", None, each(upsert("m"), append("m", 0, "𝒳", "output"))
    yield "append_twice_is_not_doubled", held, each(append("m", 1, "𝒳b😀"), append("m", 3, "b"), first=5)
    yield "append_overlaps_and_extends", held, each(append("m", 3, "b😀!"), append("m", 7, "?"), first=5)
    yield "append_inside_code_point", held, each(append("m", 2, "x"), first=5)
    yield "append_beyond_the_end", held, each(append("m", 7, "x"), first=5)
    yield "append_to_unknown_item", None, each(append("nobody", 0, "x"))
    yield "reset_forgets", held, each({"op": "reset"}, upsert("n", text="neu"), first=5)
    yield "reset_alone", held, each({"op": "reset"}, first=9)
    yield "old_events_change_nothing", held, [{"seq": 4, "ops": [{"op": "reset"}]}, {"seq": 3, "ops": []}]
    yield "several_ops_in_one_event", None, [{"seq": 7, "ops": [upsert("a", text="x"), append("a", 1, "y")]}]
    yield "gap_in_seq_is_fine", None, [{"seq": 2, "ops": [upsert("a")]}, {"seq": 900, "ops": [upsert("b")]}]
    yield "canonical_json", None, each(upsert('é"\\/', "kind 😀", **_deep()))
    yield "names_of_the_language", None, each(upsert("__proto__", "constructor", __proto__=1, length=2))
    numbered = {**upsert("1"), "fields": {"10": 0, "9": 1}}
    yield "numbers_as_keys_keep_order", None, each(upsert("2"), upsert("10"), numbered)


def main() -> None:
    """Write every scene."""
    for scene in list_scenes():
        write_vector(make_vector(*scene))


if __name__ == "__main__":
    main()
