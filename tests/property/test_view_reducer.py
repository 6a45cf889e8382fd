"""The reference reducer: order, watermark, overlap, gaps, digest."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.protocol.text import utf16_length
from gloveport.protocol.wire.reducer import View, ViewGapError, canonical_json, join_text

TEXT = st.text(max_size=6)
ITEMS = st.sampled_from(["a", "b", "c"])
UPSERT = st.builds(
    lambda item, name, value: {"op": "upsert", "item": item, "kind": "note", "fields": {name: value}},
    ITEMS,
    st.sampled_from(["title", "body"]),
    TEXT | st.integers(-5, 5) | st.none() | st.lists(TEXT, max_size=2),
)
STREAM = st.lists(TEXT, max_size=8)


def pieces(parts: list[str]) -> list[dict[str, Any]]:
    """The operations of a text that arrives in parts."""
    ops: list[dict[str, Any]] = [{"op": "upsert", "item": "t", "kind": "text", "fields": {"text": ""}}]
    done = 0
    for part in parts:
        ops.append({"op": "append", "item": "t", "field": "text", "offset": done, "text": part})
        done += utf16_length(part)
    return ops


@settings(deadline=None)
@given(STREAM, st.data())
def test_text_arrives_once_however_often_it_is_sent(parts: list[str], data: st.DataObject) -> None:
    """Any number of repetitions from any earlier place gives the same text."""
    ops = pieces(parts)
    view, seq = View(), 0
    for index in range(len(ops)):
        start = data.draw(st.integers(0 if index == 0 else 1, index))
        for op in ops[start : index + 1]:
            seq += 1
            assert view.apply(seq, [op])
    expected = [{"id": "t", "kind": "text", "fields": {"text": "".join(parts)}}]
    assert view.items() == expected
    fresh = View()
    fresh.load(expected, 1)
    assert fresh.digest() == view.digest()


@settings(deadline=None)
@given(st.lists(st.one_of(UPSERT, st.just({"op": "reset"})), max_size=12), st.integers(0, 12))
def test_snapshot_and_tail_equal_the_whole(ops: list[dict[str, Any]], cut: int) -> None:
    """A client that joins anywhere, with any overlap, ends where the one that saw everything ends."""
    whole = View()
    for seq, op in enumerate(ops, 1):
        whole.apply(seq, [op])
    early = View()
    for seq, op in enumerate(ops[:cut], 1):
        early.apply(seq, [op])
    late = View()
    late.load(json.loads(json.dumps(early.items())), early.watermark)
    taken = [late.apply(seq, [op]) for seq, op in enumerate(ops, 1)]
    assert taken == [seq > early.watermark for seq in range(1, len(ops) + 1)]
    assert late.items() == whole.items()
    assert late.digest() == whole.digest()
    assert (len(late), late.watermark) == (len(whole.items()), whole.watermark)


@settings(deadline=None)
@given(st.lists(UPSERT, max_size=6), UPSERT)
def test_the_digest_follows_every_change(ops: list[dict[str, Any]], op: dict[str, Any]) -> None:
    """Kept item digests never go stale: the digest is the one of a view built anew, and differs when the view does."""
    view = View()
    for seq, earlier in enumerate(ops, 1):
        view.apply(seq, [earlier])
    before, items = view.digest(), view.items()
    view.apply(100, [op])
    anew = View()
    anew.load(view.items(), 100)
    assert view.digest() == anew.digest()
    assert (view.digest() == before) == (view.items() == items)


def test_items_keep_their_places() -> None:
    """An item stays where it was created; setting a field again moves nothing."""
    view = View()
    for seq, item in enumerate(["b", "a", "b"], 1):
        view.apply(seq, [{"op": "upsert", "item": item, "kind": "note", "fields": {"n": seq}}])
    assert [item["id"] for item in view.items()] == ["b", "a"]
    assert view.items(1, 2) == [{"id": "a", "kind": "note", "fields": {"n": 2}}]
    swapped = View()
    swapped.load(reversed(view.items()), 3)
    assert swapped.digest() != view.digest()


def test_the_last_kind_holds() -> None:
    """An upsert sets the kind as well."""
    view = View()
    for seq, kind in enumerate(["draft", "note"], 1):
        view.apply(seq, [{"op": "upsert", "item": "a", "kind": kind, "fields": {}}])
    assert view.items() == [{"id": "a", "kind": "note", "fields": {}}]


@pytest.mark.parametrize(
    ("current", "offset", "text", "joined"),
    [
        ("", 0, "", ""),
        ("ab", 2, "c", "abc"),
        ("a😀", 3, "b", "a😀b"),
        ("abc", 1, "b", "abc"),
        ("abc", 1, "bcd", "abcd"),
        ("a😀b", 1, "😀bc", "a😀bc"),
        ("a😀", 1, "x", "a😀"),
        ("abc", 0, "", "abc"),
    ],
)
def test_joining(current: str, offset: int, text: str, joined: str) -> None:
    """What is there already is not doubled; what goes on is added; lengths are counted in units."""
    assert join_text(current, offset, text) == joined


@pytest.mark.parametrize(("current", "offset"), [("", 1), ("ab", 3), ("a😀", 2), ("😀", 4), ("ab", -1)])
def test_gaps_are_refused(current: str, offset: int) -> None:
    """Beyond the end or inside a code point something is missing: the client must begin anew."""
    with pytest.raises(ViewGapError):
        join_text(current, offset, "x")


@pytest.mark.parametrize("fields", [None, {"text": 5}, {"text": None}, {"text": ["x"]}])
def test_only_text_grows(fields: dict[str, Any] | None) -> None:
    """An append to an unknown item, or to a field that is no text, is a gap and moves no watermark."""
    view = View()
    if fields is not None:
        view.apply(1, [{"op": "upsert", "item": "a", "kind": "note", "fields": fields}])
    mark = view.watermark
    with pytest.raises(ViewGapError):
        view.apply(2, [{"op": "append", "item": "a", "field": "text", "offset": 0, "text": "x"}])
    assert view.watermark == mark


def test_the_canonical_form_is_pinned() -> None:
    """Names sorted by code point (not by unit), no spaces, no escapes beyond JSON's own; no number that is none."""
    value = {"\U0001f600": 1, "\uff5e": [True, None], "a": {"b": "é\n", "B": -0}}
    assert canonical_json(value) == '{"a":{"B":0,"b":"é\\n"},"\uff5e":[true,null],"\U0001f600":1}'.encode()
    with pytest.raises(ValueError):
        canonical_json(float("nan"))
    with pytest.raises(UnicodeEncodeError):
        canonical_json("\ud800")
