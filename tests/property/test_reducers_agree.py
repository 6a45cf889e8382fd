"""The Python and the TypeScript reducer agree on anything a daemon may send, and on where there is a gap."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.kit.require import require_node
from tests.kit.view_vectors import apply_batches, make_vector

from gloveport.protocol.text import utf16_length
from gloveport.protocol.wire.reducer import View

PROGRAM = Path(__file__).resolve().parents[1] / "e2e" / "node" / "reduce.mjs"
LETTERS = 'ab é漢𝒳😀ｚ\n"\\\x00\x7f\u2028'
TEXT = st.text(alphabet=LETTERS, max_size=6)
NAMES = st.sampled_from(["a", "b", "𝒳", "10", "2", "__proto__"])
FIELDS = st.sampled_from(["text", "output", "ｚ", "😀"])
INTEGERS = st.integers(-(2**53) + 1, 2**53 - 1)
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | TEXT, inner, max_size=3),
    max_leaves=6,
)
UPSERTS = st.builds(
    lambda item, texts, more: {"op": "upsert", "item": item, "kind": "k 𝒳", "fields": {"more": more, **texts}},
    NAMES, st.dictionaries(FIELDS, TEXT, max_size=2), VALUES,
)  # fmt: skip
APPENDS = st.builds(
    lambda item, field, offset, text: {"op": "append", "item": item, "field": field, "offset": offset, "text": text},
    NAMES, FIELDS, st.integers(0, 8), TEXT,
)  # fmt: skip
OPS = st.lists(UPSERTS | UPSERTS | APPENDS | st.just({"op": "reset"}), max_size=4)
BATCHES = st.lists(st.builds(lambda seq, ops: {"seq": seq, "ops": ops}, st.integers(0, 12), OPS), max_size=6)
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


@given(batches=BATCHES)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_batches(reduce: Reduce, batches: list[dict[str, Any]]) -> None:
    """Any operations in any order of seq, gaps included."""
    vector = make_vector("any", None, batches)
    assert reduce(vector) == expect(vector)


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
