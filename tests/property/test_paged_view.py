"""A view of which most is not in memory is the view."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gloveport.protocol.text import utf16_length
from gloveport.protocol.wire.reducer import PAGE_ITEMS, View, ViewGapError
from gloveport.server.engine.paged import (
    HOT_PAGES,
    THAWED_PAGES,
    PagedView,
    StalePageError,
    read_root,
)

MANY = (2 * HOT_PAGES + 4) * PAGE_ITEMS


class Kept:
    """A view that is written to a dict and opened again from it."""

    def __init__(self) -> None:
        self.view = PagedView()
        self.root = b""
        self.pages: dict[int, bytes] = {}

    def write(self) -> None:
        """Write and let go."""
        captured = self.view.capture()
        self.root = captured.root
        self.pages.update(captured.pages)
        self.view.written()

    def reopen(self) -> None:
        """Read what was written."""
        root = read_root(self.root)
        self.view = PagedView.opened(root, {page: self.pages[page] for page in root.hot_pages})

    def apply(self, seq: int, ops: list[dict[str, Any]]) -> bool:
        """Thaw what is needed, then apply."""
        for page in self.view.needed(ops):
            self.view.thaw(page, self.pages[page])
        return self.view.apply(seq, ops)

    def items(self, start: int = 0, stop: int = 1 << 30) -> list[dict[str, Any]]:
        """Thaw what is missing, then read."""
        for page in self.view.missing(start, stop):
            self.view.thaw(page, self.pages[page])
        return self.view.items(start, stop)


def upsert(number: int, **fields: Any) -> dict[str, Any]:
    """One item."""
    return {"op": "upsert", "item": f"item/{number}", "kind": "k", "fields": fields}


STEP = st.one_of(
    st.tuples(st.just("new"), st.integers(1, 400)),
    st.tuples(st.just("set"), st.integers(0, 10_000)),
    st.tuples(st.just("append"), st.integers(0, 10_000)),
    st.tuples(st.just("write"), st.just(0)),
    st.tuples(st.just("reopen"), st.just(0)),
    st.tuples(st.just("reset"), st.just(0)),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(STEP, max_size=30), st.data())
def test_it_is_one_view_with_the_plain_one(steps: list[tuple[str, int]], data: st.DataObject) -> None:
    """Any operations, written, let go and opened again anywhere: same items, same indexes, same digests."""
    plain, kept, seq, made = View(), Kept(), 0, 0
    saved = 0
    for name, number in [("new", 400), *steps, ("new", 3)]:
        ops: list[list[dict[str, Any]]] = []
        if name == "new":
            ops = [[upsert(n, text="é", n=n)] for n in range(made, made + number)]
            made += number
        elif name == "set" and made:
            ops = [[upsert(number % made, state=seq), upsert(made - 1, state=seq)]]
        elif name == "append" and made:
            item = f"item/{number % made}"
            at = next(utf16_length(one["fields"]["text"]) for one in plain.items() if one["id"] == item)
            ops = [[{"op": "append", "item": item, "field": "text", "offset": at, "text": "😀"}]]
        elif name == "reset":
            ops, made = [[{"op": "reset"}]], 0
        elif name == "write":
            kept.write()
            saved = seq
        elif name == "reopen" and saved == seq and saved:
            kept.reopen()
        for one in ops:
            seq += 1
            assert plain.apply(seq, one) is kept.apply(seq, one)
            assert kept.apply(seq, one) is False
    assert len(kept.view) == len(plain)
    assert kept.view.watermark == plain.watermark
    assert kept.view.digest() == plain.digest()
    first = data.draw(st.integers(0, len(plain) // PAGE_ITEMS)) * PAGE_ITEMS
    assert kept.view.digest(first) == plain.digest(first)
    start = data.draw(st.integers(0, len(plain)))
    assert kept.items(start, start + 300) == plain.items(start, start + 300)
    assert kept.items() == plain.items()
    for number in range(0, made, 97):
        index = plain.index(f"item/{number}")
        assert kept.view.stands_before(f"item/{number}", first) is (index is not None and index < first)


def filled() -> Kept:
    """A long view, written."""
    kept = Kept()
    for number in range(MANY):
        kept.apply(number + 1, [upsert(number, text="x")])
    kept.write()
    return kept


def test_what_was_written_is_let_go() -> None:
    """Memory holds the newest pages and a few that were asked for, however long the view."""
    kept = filled()
    assert kept.view.pages_held <= HOT_PAGES + 1
    for page in range(12):
        kept.items(page * PAGE_ITEMS, (page + 1) * PAGE_ITEMS)
    kept.write()
    assert kept.view.pages_held <= HOT_PAGES + 1 + THAWED_PAGES


def test_what_could_not_be_written_is_kept() -> None:
    """A refused write lets nothing go and is made up for by the next."""
    kept = filled()
    kept.apply(MANY + 1, [upsert(3, text="changed")])
    captured = kept.view.capture()
    kept.view.failed(captured)
    kept.write()
    kept.reopen()
    assert kept.items(3, 4)[0]["fields"] == {"text": "changed"}


@pytest.mark.parametrize("damage", ["root", "page", "other page", "no page", "missing hot page"])
def test_other_bytes_are_refused(damage: str) -> None:
    """Damaged, of another time, of another page: never believed."""
    kept = filled()
    older = dict(kept.pages)
    kept.apply(MANY + 1, [upsert(3, text="changed")])
    kept.write()
    last = read_root(kept.root).hot_pages[-1]
    if damage == "root":
        kept.root = kept.root[:-8]
    elif damage == "page":
        kept.pages[last] = kept.pages[last].replace(b'"x"', b'"y"', 1)
    elif damage == "other page":
        kept.pages[last] = kept.pages[last - 1]
    elif damage == "missing hot page":
        kept.pages[last] = b""
    else:
        kept.pages[0] = older[0]

    def read_all() -> None:
        kept.reopen()
        kept.items()

    with pytest.raises(StalePageError):
        read_all()


def test_ids_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ids whose hashed bits agree are two items."""
    monkeypatch.setattr("gloveport.server.engine.paged._key", lambda item, index: index)
    kept, plain = filled(), View()
    for number in range(MANY):
        plain.apply(number + 1, [upsert(number, text="x")])
    for seq, number in enumerate((5, 500, MANY, 7), MANY + 1):
        kept.apply(seq, [upsert(number, text=str(seq))])
        plain.apply(seq, [upsert(number, text=str(seq))])
    assert kept.items() == plain.items()
    assert kept.view.digest() == plain.digest()


def test_a_window_of_the_reducer_is_the_end_of_the_whole() -> None:
    """Who holds the newest pages, and takes older ones in, has the digest of what it holds."""
    whole = View()
    for number in range(300):
        whole.apply(number + 1, [upsert(number, text="x")])
    part = View()
    part.load(json.loads(json.dumps(whole.items(256))), 300, 256)
    assert (part.end, part.digest()) == (300, whole.digest(256))
    for view in (whole, part):
        view.apply(301, [upsert(299, text="y"), upsert(300)])
    assert part.digest() == whole.digest(256)
    part.prepend(whole.items(128, 256), 128)
    assert (len(part), part.digest(), part.digest(256)) == (173, whole.digest(128), whole.digest(256))
    for items, first in ((whole.items(0, 127), 0), (whole.items(0, 128), 1), (whole.items(128, 256), 0)):
        with pytest.raises(ViewGapError):
            part.prepend(items, first)
    part.prepend(whole.items(0, 128), 0)
    assert (part.items(), part.digest()) == (whole.items(), whole.digest())
    part.forget_before(256)
    assert (part.first, part.items(), part.digest()) == (256, whole.items(256), whole.digest(256))
