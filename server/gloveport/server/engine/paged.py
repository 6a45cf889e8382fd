"""A long view of which only what is needed is in memory.

Purpose: the reducer's view for sessions of any length: the newest pages whole, of the older ones their digests, and
where each item stands; a page comes back from its bytes when it is asked for or changed.
Invariant: items, indexes and digests are those of one `View` that took the same operations; a page that changed since
it was written is never let go; bytes that are not the page they should be are refused.
Must never: read or write anything itself.

A cold item is found by 40 bits of the hash of its id. Two ids with the same bits are told apart by looking at the page.
"""

import hashlib
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gloveport.protocol.wire.reducer import PAGE_ITEMS, View, ViewGapError, joined_digest, page_start

HOT_PAGES: Final = 4
"""Pages before the last one that stay in memory; from twice as many on the older ones are let go."""
THAWED_PAGES: Final = 8
INDEX_BITS: Final = 24
ITEMS_MAX: Final = 1 << INDEX_BITS
HASH_BYTES: Final = 5


class StalePageError(ValueError):
    """A page's bytes are not those that the view was written with."""


@dataclass(frozen=True, slots=True)
class Captured:
    """A view's bytes at one place: the root, and the pages that changed since they were last written."""

    root: bytes
    pages: Mapping[int, bytes]


def _key(item: str, index: int) -> int:
    digest = hashlib.blake2b(item.encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).digest()
    return int.from_bytes(digest, "big") << INDEX_BITS | index


class PagedView:
    """The view of a session. One owner changes it; `needed` and `missing` say which pages it wants back first."""

    def __init__(self) -> None:
        self._hot = View()
        self._cold_ids = array("Q")
        self._cold_digests: list[str] = []
        self._thawed: dict[int, View] = {}
        self._dirty: set[int] = set()
        self._flying: set[int] = set()
        self._next_ids: tuple[int, array[int]] | None = None
        """What the cold ids will be when the items below an index are let go, as they were last captured."""

    @classmethod
    def opened(cls, root: "Root", pages: Mapping[int, bytes]) -> "PagedView":
        """The view of a root, with the pages that it wants (`Root.hot_pages`). Raises StalePageError."""
        view = cls()
        rows: list[dict[str, Any]] = []
        for page in root.hot_pages:
            rows += _read_page(page, pages.get(page, b""), root.digests).items()
        view._cold_ids, first = root.cold_ids, root.hot_pages.start * PAGE_ITEMS
        view._hot.load(rows, root.watermark, first)
        view._cold_digests = root.digests[: root.hot_pages.start]
        if view._hot.end != root.end:
            raise StalePageError("the pages do not fill the view")
        return view

    def __len__(self) -> int:
        return self._hot.end

    @property
    def watermark(self) -> int:
        """The seq of the last event that was applied."""
        return self._hot.watermark

    @property
    def pages_held(self) -> int:
        """How many pages are in memory."""
        return len(self._thawed) + -(-len(self._hot) // PAGE_ITEMS)

    def needed(self, ops: Iterable[Mapping[str, Any]]) -> set[int]:
        """The pages that must be thawed before these operations are applied."""
        named = {op["item"] for op in ops if op["op"] != "reset"}
        cold = (index for item in named if self._hot.index(item) is None for index in self._candidates(item))
        return {page for index in cold if (page := index // PAGE_ITEMS) not in self._thawed}

    def missing(self, start: int, stop: int) -> set[int]:
        """The pages that must be thawed before the items from `start` to `stop` are read."""
        stop = min(stop, self._hot.first)
        pages = range(start // PAGE_ITEMS, -(-stop // PAGE_ITEMS)) if start < stop else range(0)
        return {page for page in pages if page not in self._thawed}

    def thaw(self, page: int, raw: bytes) -> None:
        """Take a page back. Raises StalePageError when these are not its bytes."""
        self._thawed[page] = _read_page(page, raw, self._cold_digests)

    def apply(self, seq: int, ops: Iterable[Mapping[str, Any]]) -> bool:
        """Apply one event's operations, once. Returns false when the event was applied before.

        Raises:
            ViewGapError: an append does not join what is there.
        """
        if seq <= self._hot.watermark:
            return False
        for op in ops:
            self._apply_one(op)
        self._hot.watermark = seq
        return True

    def take(self, seq: int, ops: Iterable[Mapping[str, Any]]) -> bool:
        """`apply` for a stored event. Returns false when something of it joined nothing that is there.

        What it belongs to was made by an event that was erased, or that a newer version wrote: it is left out.
        """
        joined = True
        if seq > self._hot.watermark:
            for op in ops:
                try:
                    self._apply_one(op)
                except ViewGapError:
                    joined = False
            self._hot.watermark = seq
        return joined

    def _apply_one(self, op: Mapping[str, Any]) -> None:
        if op["op"] == "reset":
            self._hot.apply_op(op)
            self._cold_ids, self._cold_digests, self._thawed, self._dirty = array("Q"), [], {}, set()
            self._next_ids = None
            return
        item = op["item"]
        if self._hot.index(item) is None:
            for index in self._candidates(item):
                page = index // PAGE_ITEMS
                view = self._thawed[page]
                if view.index(item) is not None:
                    view.apply_op(op)
                    self._dirty.add(page)
                    self._thawed[page] = self._thawed.pop(page)  # used last
                    return
        self._hot.apply_op(op)
        index_now = self._hot.index(item)
        if index_now is not None:
            self._dirty.add(index_now // PAGE_ITEMS)

    def stands_before(self, item: str, first: int) -> bool:
        """Whether an item's index is below `first`; an id that is unknown stands after everything."""
        index = self._hot.index(item)
        if index is not None:
            return index < first
        candidates = self._candidates(item)
        return bool(candidates) and all(candidate < first for candidate in candidates)

    def places(self, item: str) -> list[int]:
        """The indexes at which an item may stand; one that is certain where its page is in memory."""
        index = self._hot.index(item)
        return self._candidates(item) if index is None else [index]

    def items(self, start: int = 0, stop: int | None = None) -> list[dict[str, Any]]:
        """The items from index `start` to `stop`; what is `missing` must have been thawed."""
        stop = len(self) if stop is None else min(stop, len(self))
        found: list[dict[str, Any]] = []
        at = start
        while at < min(stop, self._hot.first):
            begin = at - at % PAGE_ITEMS
            end = min(stop, begin + PAGE_ITEMS)
            found += self._thawed[begin // PAGE_ITEMS].items(at - begin, end - begin)
            at = end
        return found + self._hot.items(max(0, start - self._hot.first), max(0, stop - self._hot.first))

    def digest(self, first: int = 0) -> str:
        """SHA-256 of the items from index `first` (the start of a page) on, as `View.digest` gives it."""
        return joined_digest(self._page_digests(first // PAGE_ITEMS))

    def _page_digests(self, begin: int) -> list[str]:
        cold = self._hot.first // PAGE_ITEMS
        digests = self._cold_digests[begin:cold]
        for page in self._dirty:
            if begin <= page < cold:
                digests[page - begin] = self._thawed[page].page_digest(page)
        hot = range(max(begin, cold), -(-self._hot.end // PAGE_ITEMS))
        return digests + [self._hot.page_digest(page) for page in hot]

    def capture(self) -> Captured:
        """The bytes to be written now. Until `written`, and again after `failed`, what changed counts as unwritten."""
        pages = {}
        for page in self._dirty:
            rows = self.items(page * PAGE_ITEMS, (page + 1) * PAGE_ITEMS)
            pages[page] = orjson.dumps([[row["id"], row["kind"], row["fields"]] for row in rows])
        digests = self._page_digests(0)
        for page in self._dirty & self._thawed.keys():
            self._cold_digests[page] = digests[page]
        self._dirty, self._flying = set(), set(pages)
        hot = self._hot
        first = max(hot.first, page_start(hot.end) - HOT_PAGES * PAGE_ITEMS)
        ids = self._cold_ids
        if first > hot.first:
            ids = _with_ids(ids, hot.items(0, first - hot.first), hot.first)
            self._next_ids = (first, ids)
        head = {
            "end": hot.end,
            "first": first,
            "watermark": hot.watermark,
            "order": sys.byteorder,
            "digests": digests,
        }
        return Captured(orjson.dumps(head) + b"\n" + ids.tobytes(), pages)

    def failed(self, captured: Captured) -> None:
        """What was captured could not be written: it is as unwritten as before."""
        self._dirty.update(captured.pages)
        self._flying = set()

    def written(self) -> None:
        """What was captured can be had again: let go of the old pages that did not change since."""
        self._flying = set()
        self._let_go_hot()
        self.trim()

    def trim(self) -> None:
        """Let go of old pages that were not used lately and did not change since they were written."""
        busy = self._dirty | self._flying
        for page in [page for page in self._thawed if page not in busy]:
            if len(self._thawed) <= THAWED_PAGES:
                break
            del self._thawed[page]

    def _let_go_hot(self) -> None:
        hot, begin = self._hot, self._hot.first
        first = page_start(hot.end) - HOT_PAGES * PAGE_ITEMS
        if first - begin < HOT_PAGES * PAGE_ITEMS or hot.end > ITEMS_MAX:
            return
        known = self._next_ids
        if known is None or known[0] != first:
            known = (first, _with_ids(self._cold_ids, hot.items(0, first - begin), begin))
        self._cold_ids, self._next_ids = known[1], None
        for page in range(begin // PAGE_ITEMS, first // PAGE_ITEMS):
            self._cold_digests.append(hot.page_digest(page))
            if page in self._dirty:  # changed while the last capture was on its way
                at = page * PAGE_ITEMS - begin
                self._thawed[page] = View()
                self._thawed[page].load(hot.items(at, at + PAGE_ITEMS), 0, page * PAGE_ITEMS)
        hot.forget_before(first)

    def _candidates(self, item: str) -> list[int]:
        """The indexes of cold items that may be this one."""
        if not self._cold_ids:
            return []
        low = _key(item, 0)
        at = bisect_left(self._cold_ids, low)
        found = []
        while at < len(self._cold_ids) and self._cold_ids[at] >> INDEX_BITS == low >> INDEX_BITS:
            found.append(self._cold_ids[at] & (ITEMS_MAX - 1))
            at += 1
        return found


@dataclass(frozen=True, slots=True)
class Root:
    """What a captured view says of itself: `hot_pages` are wanted to open it."""

    end: int
    watermark: int
    digests: list[str]
    cold_ids: "array[int]"
    hot_pages: range


def read_root(raw: bytes) -> Root:
    """The root of its bytes. Raises StalePageError."""
    head, _, ids = raw.partition(b"\n")
    cold_ids = array("Q")
    try:
        fields = orjson.loads(head)
        end, first = int(fields["end"]), int(fields["first"])
        cold_ids.frombytes(ids)
        root = Root(
            end=end,
            watermark=int(fields["watermark"]),
            digests=[str(digest) for digest in fields["digests"]],
            cold_ids=cold_ids,
            hot_pages=range(first // PAGE_ITEMS, -(-end // PAGE_ITEMS)),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise StalePageError("the root cannot be read") from error
    if len(cold_ids) != first or len(root.digests) != root.hot_pages.stop or fields["order"] != sys.byteorder:
        raise StalePageError("the root does not fit together")
    return root


def _with_ids(ids: "array[int]", rows: Iterable[Mapping[str, Any]], first: int) -> "array[int]":
    return array("Q", sorted([*ids, *(_key(row["id"], index) for index, row in enumerate(rows, first))]))


def _read_page(page: int, raw: bytes, digests: list[str]) -> View:
    try:
        view = View()
        items = [{"id": item, "kind": kind, "fields": fields} for item, kind, fields in orjson.loads(raw)]
        view.load(items, 0, page * PAGE_ITEMS)
        whole = view.page_digest(page) == digests[page]
    except (ValueError, TypeError, IndexError) as error:
        raise StalePageError(f"page {page} cannot be read") from error
    if not whole:
        raise StalePageError(f"page {page} is another one")
    return view
