"""The Python and the TypeScript reducer agree on anything a daemon may send, and on where there is a gap."""

import json
import subprocess
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.require import require_node
from tests.kit.view_batches import append, apply_batches, each, make_vector, upsert

from gloveport.protocol.text import utf16_length
from gloveport.protocol.wire.reducer import PAGE_ITEMS, View

PROGRAM = Path(__file__).resolve().parents[1] / "e2e" / "node" / "reduce.mjs"
TEXT = st.sampled_from(["", "a", "bc", "é", "漢", "𝒳", "😀y", "𝒳😀", "ｚ", '\n"\\\x00\x7f\u2028'])
NAMES = st.sampled_from(["a", "a", "𝒳", "10", "2", "__proto__"])
FIELDS = st.sampled_from(["text", "ｚ", "😀", "__proto__"])
INTEGERS = st.integers(-(2**53) + 1, 2**53 - 1)
PLAIN = st.none() | st.booleans() | INTEGERS | TEXT
VALUES = PLAIN | st.lists(PLAIN, max_size=3) | st.dictionaries(FIELDS | TEXT, PLAIN, max_size=4)
UPSERTS = st.builds(
    lambda item, texts, more: {"op": "upsert", "item": item, "kind": "k 𝒳", "fields": {**texts, "more": more}},
    NAMES, st.dictionaries(FIELDS, TEXT, max_size=4), VALUES,
)  # fmt: skip
APPENDS = st.builds(
    lambda item, field, offset, text: {"op": "append", "item": item, "field": field, "offset": offset, "text": text},
    NAMES, FIELDS, st.integers(0, 4), TEXT,
)  # fmt: skip
BATCH = st.tuples(st.integers(0, 2), st.lists(UPSERTS | UPSERTS | APPENDS | st.just({"op": "reset"}), max_size=3))


def number(batches: list[tuple[int, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Give the batches their seq from the steps between them: repeated, following, or with a hole."""
    seqs = accumulate((step for step, _ in batches), initial=1)
    return [{"seq": seq, "ops": ops} for seq, (_, ops) in zip(seqs, batches, strict=False)]


Reduce = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def reduce() -> Iterator[Reduce]:
    """The TypeScript reducer in one process for all examples."""
    node = require_node()
    with subprocess.Popen([node, str(PROGRAM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(vector: dict[str, Any]) -> dict[str, Any]:
            stdin.write(json.dumps(vector) + "\n")
            stdin.flush()
            answer: dict[str, Any] = json.loads(stdout.readline())
            return answer

        yield ask
        stdin.close()


def expect(vector: dict[str, Any]) -> dict[str, Any]:
    """What the Python reducer says, in the other's words."""
    if vector["expected"] is None:
        return {"gap": True}
    return {**vector["expected"], "digest": vector["digest"]}


@given(batches=st.lists(BATCH, max_size=5).map(number))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_batches(reduce: Reduce, batches: list[dict[str, Any]]) -> None:
    """Any operations with any steps of seq, gaps included."""
    vector = make_vector("any", None, batches)
    assert reduce(vector) == expect(vector)


@given(before=TEXT, offset=st.integers(0, 6), text=TEXT)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_append(reduce: Reduce, before: str, offset: int, text: str) -> None:
    """An append anywhere: joined, overlapping, already there, inside a code point, beyond the end."""
    vector = make_vector("append", None, each(upsert("m", text=before), append("m", offset, text)))
    assert reduce(vector) == expect(vector)


@given(count=st.integers(0, 300), pages=st.integers(1, 2), data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_part_of_a_view(reduce: Reduce, count: int, pages: int, data: st.DataObject) -> None:
    """Who holds the end of a view and takes in what stands before has its items and its digest; a hole is a gap."""
    whole = View()
    for seq in range(count):
        whole.apply(seq + 1, [upsert(f"i{seq}", text="𝒳")])
    first = min(pages, count // PAGE_ITEMS) * PAGE_ITEMS
    base = {"items": whole.items(first), "watermark": count, "first": first}
    ops = [
        {"seq": count + 1 + n, "ops": [upsert(f"i{data.draw(st.integers(first, 310))}", text="new")]} for n in range(3)
    ]
    for batch in ops:
        whole.apply(batch["seq"], batch["ops"])
    begin = data.draw(st.sampled_from([0, first - PAGE_ITEMS])) if first else 0
    older = {"items": whole.items(begin, first), "first": begin}
    expected = {"items": whole.items(begin), "watermark": whole.watermark, "digest": whole.digest(begin)}
    assert reduce({"base": base, "ops": ops, "older": older}) == expected
    part = View()
    part.load(base["items"], count, first)
    apply_batches(part, ops)
    part.prepend(older["items"], begin)
    assert (part.items(), part.digest(), part.digest(first)) == (
        expected["items"],
        expected["digest"],
        whole.digest(first),
    )
    if first:
        assert reduce({"base": base, "ops": [], "older": {**older, "items": older["items"][1:]}}) == {"gap": True}


@given(pieces=st.lists(TEXT, max_size=8), cut=st.integers(0, 8), data=st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_streamed_text(reduce: Reduce, pieces: list[str], cut: int, data: st.DataObject) -> None:
    """A stream cut at code points, joined from a snapshot anywhere and replayed from anywhere earlier, is the text."""
    batches: list[dict[str, Any]] = [
        {"seq": 1, "ops": [{"op": "upsert", "item": "m", "kind": "k", "fields": {"text": ""}}]}
    ]
    whole = ""
    for piece in pieces:
        op = {"op": "append", "item": "m", "field": "text", "offset": utf16_length(whole), "text": piece}
        batches.append({"seq": len(batches) + 1, "ops": [op]})
        whole += piece
    cut = min(cut, len(pieces))
    view = View()
    apply_batches(view, batches[: cut + 1])
    base = {"items": view.items(), "watermark": data.draw(st.integers(0, cut + 1))}
    vector = make_vector("stream", base, batches[base["watermark"] :] if base["watermark"] else batches[1:])
    assert vector["expected"] is not None
    assert vector["expected"]["items"][0]["fields"]["text"] == whole
    assert reduce(vector) == expect(vector)
