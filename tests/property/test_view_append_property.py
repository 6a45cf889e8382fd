"""The view's appends, however they are mixed, against text joined the plain way."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gloveport.protocol.text import utf16_length
from gloveport.protocol.wire.reducer import View, ViewGapError, join_text

pieces = st.text(st.sampled_from(list("aé漢😀")), max_size=4)
steps = st.one_of(
    st.tuples(st.just("append"), st.sampled_from("xy"), st.integers(-3, 1), pieces),
    st.tuples(st.just("upsert"), st.sampled_from("xy"), st.just(0), pieces),
    st.tuples(st.sampled_from(["reset", "load"]), st.just("x"), st.just(0), pieces),
)


def to_op(kind: str, field: str, offset: int, text: str) -> dict[str, Any]:
    """The wire form of one step."""
    if kind == "append":
        return {"op": "append", "item": "i", "field": field, "offset": offset, "text": text}
    return {"op": "upsert", "item": "i", "kind": "k", "fields": {field: text}}


LONGER_THAN_THE_APPENDED = [("append", "x", 0, "ab"), ("upsert", "x", 0, "abc"), ("append", "x", -1, "Z")]


@example(LONGER_THAN_THE_APPENDED)
@settings(deadline=None)
@given(st.lists(steps, max_size=25))
def test_appends_are_what_joining_whole_texts_gives(script: list[tuple[str, str, int, str]]) -> None:
    """Appends at, before and beyond the end, to two fields, between upserts, resets and snapshots."""
    view, plain, seq = View(), {"x": "", "y": ""}, 1
    view.apply(seq, [{"op": "upsert", "item": "i", "kind": "k", "fields": dict(plain)}])
    for kind, field, shift, text in script:
        seq += 1
        if kind in ("reset", "load"):
            view.load([{"id": "i", "kind": "k", "fields": {"x": text, "y": ""}}], seq)
            plain = {"x": text, "y": ""}
            continue
        offset = max(0, utf16_length(plain[field]) + shift)
        try:
            expected = join_text(plain[field], offset, text) if kind == "append" else text
        except ViewGapError:
            expected = None
        if expected is None:
            try:
                view.apply(seq, [to_op(kind, field, offset, text)])
            except ViewGapError:
                continue
            raise AssertionError("a gap was not seen")
        view.apply(seq, [to_op(kind, field, offset, text)])
        plain[field] = expected
        assert view.items()[0]["fields"] == plain
