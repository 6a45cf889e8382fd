"""Vectors for every reducer of the view, in whatever language.

`python -m tests.kit.simulation.vectors` says what differs from the committed files, `--write` writes them.

A file of tests/golden/view_vectors holds {"name", "base", "ops", "expected", "digest"}: begin with the items of `base`
(null: nothing), apply `ops` in order, and the items must be `expected` and the view's digest `digest`. An item is
{"id", "kind", "fields"}; a view is the list of its items. A file of tests/golden/view_vectors_refused holds
{"name", "base", "ops", "error": "gap"}: the last operation must be refused, for the client to begin anew.

Purpose: one source for what `upsert`, `append`, `reset` and the digest mean exactly.
Invariant: generated from the reference reducer, without a clock or a random source.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.kit.simulation.recordings import FOLDER, body_of

from gloveport.protocol.text import utf16_length
from gloveport.protocol.wire.reducer import View, ViewGapError
from gloveport.server.session.views.ops import append, project_ops, upsert

Ops = list[dict[str, Any]]
Items = list[dict[str, Any]]
GOLDEN: Final = Path(__file__).resolve().parents[2] / "golden"
RESET: Final = {"op": "reset"}


def text(value: str = "") -> dict[str, Any]:
    """An item with a text."""
    return upsert("t", "text", text=value)


def grow(offset: int, piece: str) -> dict[str, Any]:
    """A piece of its text."""
    return append("t", "text", offset, piece)


def streamed(*pieces: str) -> Ops:
    """A text that arrives in pieces."""
    ops, done = [text()], 0
    for piece in pieces:
        ops.append(grow(done, piece))
        done += utf16_length(piece)
    return ops


def item(item_id: str, kind: str = "note", **fields: Any) -> dict[str, Any]:
    """An item of a view."""
    return {"id": item_id, "kind": kind, "fields": fields}


def made_by_hand() -> Iterator[tuple[str, Items | None, Ops]]:
    """Each meaning by itself."""
    note = upsert("a", "note", n=1)
    yield "empty", None, []
    yield "upsert-creates", None, [note]
    yield "upsert-twice", None, [note, note]
    yield "upsert-merges", None, [note, upsert("a", "note", m=[1, {"x": None}]), upsert("a", "note", n=None)]
    yield (
        "upsert-replaces-nested-values-whole",
        None,
        [
            upsert("a", "note", m={"x": 1, "y": 2}),
            upsert("a", "note", m={"x": 3}),
        ],
    )
    yield "upsert-changes-the-kind", None, [note, upsert("a", "other")]
    yield "order-is-that-of-creation", None, [upsert("b", "note"), note, upsert("b", "note", late=True)]
    yield "ids-that-look-like-numbers", None, [upsert("10", "note"), upsert("2", "note"), upsert("-1", "note")]
    yield (
        "names-that-languages-know",
        None,
        [
            upsert("__proto__", "note", constructor=1, toString="x"),
            {"op": "upsert", "item": "constructor", "kind": "note", "fields": {"__proto__": {"x": 1}, "10": 0, "2": 0}},
            append("constructor", "hasOwnProperty", 0, "x"),
        ],
    )
    yield "append-in-pieces", None, streamed("one ", "two", "")
    yield "append-creates-the-field", None, [note, append("a", "text", 0, "x")]
    yield "append-astral", None, streamed("a😀", "𝒳", "b\U0010ffff", "c")
    yield "append-combining", None, streamed("e", "\u0301", "👩", "\u200d👩")
    yield "append-twice", None, [*streamed("😀b"), grow(0, "😀b")]
    yield "append-again-from-the-start", None, [*streamed("😀b", "c"), *streamed("😀b", "c")[1:]]
    yield "append-overlaps", None, [*streamed("a😀b"), grow(1, "😀bc")]
    yield "append-inside-is-there-already", None, [*streamed("a😀bc"), grow(1, "😀")]
    yield "append-counts-units-not-characters", None, [*streamed("a😀"), grow(1, "x")]
    yield "append-nothing-at-the-start", None, [*streamed("ab"), grow(0, "")]
    yield "append-after-the-whole-was-set", None, [*streamed("a"), text("a😀"), grow(3, "b")]
    yield "reset", None, [note, RESET]
    yield "reset-and-begin-anew", None, [note, *streamed("a"), RESET, text("b"), note, grow(1, "😀")]
    yield "base-alone", [item("a", n=1), item("t", "text", text="😀")], []
    yield "base-and-tail", [item("t", "text", text="😀"), item("a", n=1)], [grow(2, "x"), upsert("a", "note", n=2)]
    yield "base-and-overlapping-tail", [item("t", "text", text="a😀b")], [grow(0, "a😀"), grow(3, "bc")]
    yield "base-and-reset", [item("a", n=1)], [RESET, upsert("b", "note")]
    yield (
        "digest-sorts-names-by-code-point",
        None,
        [upsert("a", "note", v={"\U0001f600": 1, "\uff5e": 2, "z": 3, "Z": 4, "é": 5, "": 6})],
    )
    yield "digest-escapes", None, [text('\x00\x1f\x7f"\\/\b\f\n\r\t\u2028\u2029\ufeff\ufffd é😀')]
    yield "digest-numbers", None, [upsert("a", "note", v=[0, -1, 2**53 - 1, -(2**53 - 1)], t=True, f=False, n=None)]


def recorded() -> Iterator[tuple[str, Items | None, Ops]]:
    """What sessions really send: the operations of recorded histories, whole, repeated, and from a snapshot."""
    for name in ("surrogates", "approved", "steered", "seed-21", "seed-22"):
        yield f"session-{name}", None, operations(name)
    yield "session-sent-twice", None, [op for op in operations("surrogates") for _ in range(2)]
    whole = operations("seed-23")
    cut = len(whole) // 2
    yield "session-from-a-snapshot-with-overlap", reduce(None, whole[:cut]).items(), whole[cut - 3 :]


def operations(name: str) -> Ops:
    """All operations of a recorded history, in order."""
    events = json.loads((FOLDER / f"{name}.json").read_text(encoding="ascii"))["events"]
    return [op for seq, event in enumerate(events, 1) for op in project_ops(body_of(event), event["type"], seq)]


def refused() -> Iterator[tuple[str, Items | None, Ops]]:
    """What must not be guessed at."""
    yield "gap-beyond-the-end", None, [*streamed("ab"), grow(3, "x")]
    yield "gap-inside-a-code-point", None, [*streamed("a😀b"), grow(2, "x")]
    yield "gap-counted-in-characters", None, [*streamed("😀"), grow(1, "x")]
    yield "gap-unknown-item", None, [grow(0, "x")]
    yield "gap-after-a-reset", None, [*streamed("a"), RESET, grow(1, "x")]
    yield "gap-not-a-text", None, [upsert("t", "text", text=5), grow(0, "x")]
    yield "gap-in-a-base", [item("t", "text", text="😀")], [grow(3, "x")]


def reduce(base: Items | None, ops: Ops) -> View:
    """The view of a vector. Raises ViewGapError."""
    view = View()
    view.load(base or [], 0)
    for seq, op in enumerate(json.loads(json.dumps(ops)), 1):
        view.apply(seq, [op])
    return view


def build() -> dict[str, dict[str, Any]]:
    """All vectors by their path below tests/golden."""
    files: dict[str, dict[str, Any]] = {}
    for name, base, ops in (*made_by_hand(), *recorded()):
        view = reduce(base, ops)
        vector = {"name": name, "base": base, "ops": ops, "expected": view.items(), "digest": view.digest()}
        files[f"view_vectors/{name}.json"] = vector
    for name, base, ops in refused():
        reduce(base, ops[:-1])
        try:
            reduce(base, ops)
        except ViewGapError:
            files[f"view_vectors_refused/{name}.json"] = {"name": name, "base": base, "ops": ops, "error": "gap"}
    return files


def encode(vector: dict[str, Any]) -> str:
    """The text of a file: ASCII, so that no editor or checkout can change a character."""
    return json.dumps(vector, indent=1, ensure_ascii=True) + "\n"


def differences() -> list[str]:
    """Committed files that differ from what the reference reducer says today."""
    wanted = {path: encode(vector) for path, vector in build().items()}
    found = {
        path.relative_to(GOLDEN).as_posix(): path.read_text(encoding="ascii")
        for folder in ("view_vectors", "view_vectors_refused")
        for path in (GOLDEN / folder).glob("*.json")
    }
    return sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path))


def main() -> int:
    """Compare or write."""
    parser = argparse.ArgumentParser(description="Vectors of the view reducer.")
    parser.add_argument("--write", action="store_true", help="write the files instead of comparing them")
    if parser.parse_args().write:
        for path, vector in build().items():
            (GOLDEN / path).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / path).write_text(encode(vector), encoding="ascii")
    stale = differences()
    print("\n".join(stale) if stale else "the vectors are up to date")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
