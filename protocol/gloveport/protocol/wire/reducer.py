"""The reference reducer of the view and its digest.

Purpose: apply batches of operations to an ordered list of items, exactly as every client must.
Invariant: operations with seq at or below the watermark change nothing; equal views have equal digests; an item's index
is the number of items created before it and never changes until a `reset`.
Must never: guess: an append that leaves a gap is an error that calls for a resync.

Digest: the items stand on pages of `PAGE_ITEMS` by their index. An item's digest is SHA-256 over the canonical JSON of
{"fields", "id", "kind"} (keys sorted by code point, no spaces, UTF-8, integers only); a page's is SHA-256 over the
newline-joined digests of its items in order; the view's is SHA-256 over the newline-joined digests of its pages. A view
that holds the items from some page on has the digest of those pages: two sides compare what both hold, and a change
costs one page, however long the view.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gloveport.protocol.text import utf16_index, utf16_length

PAGE_ITEMS: Final = 128

_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class ViewGapError(ValueError):
    """An append began beyond the end of what is there: events are missing; subscribe anew."""


def canonical_json(value: Any) -> bytes:
    """The one encoding that is hashed. Raises ValueError on a float that is not finite."""
    return _ENCODER.encode(value).encode("utf-8", "strict")


def item_digest(item: str, kind: str, fields: Mapping[str, Any]) -> str:
    """SHA-256 of one item (64 hex digits)."""
    return hashlib.sha256(canonical_json({"id": item, "kind": kind, "fields": fields})).hexdigest()


def joined_digest(digests: Iterable[str]) -> str:
    """SHA-256 over newline-joined digests: of a page's items, and of a view's pages."""
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def page_start(index: int) -> int:
    """The index of the first item on the page of an item."""
    return index - index % PAGE_ITEMS


class View:
    """The items of a view from `first` on, in order. One owner changes it; `items` and `digest` read it.

    `first` is the first item's index in the whole view: 0, or the start of a page for who holds the newest ones only.
    Its operations are then those of the items from there on.
    """

    def __init__(self) -> None:
        self._items: dict[str, tuple[str, dict[str, Any]]] = {}
        self._order: list[str] = []
        self._index: dict[str, int] = {}
        self._digests: dict[str, str] = {}
        self._pages: dict[int, str] = {}
        self._ends: dict[str, tuple[str, int]] = {}  # where the last append to an item ended: field, UTF-16 units
        self.first = 0
        self.watermark = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def end(self) -> int:
        """How many items the whole view has."""
        return self.first + len(self._order)

    def apply(self, seq: int, ops: Iterable[Mapping[str, Any]]) -> bool:
        """Apply one event's operations. Returns false when the event was applied before.

        Raises:
            ViewGapError: an append does not join what is there.
        """
        if seq <= self.watermark:
            return False
        for op in ops:
            self.apply_op(op)
        self.watermark = seq
        return True

    def apply_op(self, op: Mapping[str, Any]) -> None:
        """Apply one operation, whatever the watermark. Raises ViewGapError."""
        if op["op"] == "reset":
            self.load((), self.watermark)
            return
        item = op["item"]
        held = self._items.get(item)
        if op["op"] == "upsert":
            if held is None:
                self._index[item] = self.end
                self._order.append(item)
                self._items[item] = (op["kind"], dict(op["fields"]))
            else:
                self._items[item] = (op["kind"], {**held[1], **op["fields"]})
                self._ends.pop(item, None)
        else:
            kind, fields = held if held is not None else ("", {})
            current = fields.get(op["field"], "")
            if not kind or not isinstance(current, str):
                raise ViewGapError(f"append to {op['field']} of {item}, which is not a text that is there")
            self._items[item] = (kind, {**fields, op["field"]: self._join(op, current)})
        self._digests.pop(item, None)
        self._pages.pop(self._index[item] // PAGE_ITEMS, None)

    def _join(self, op: Mapping[str, Any], current: str) -> str:
        """`join_text` without measuring a long text anew for every piece that follows the one before it."""
        item, field, offset = op["item"], op["field"], op["offset"]
        text: str = op["text"]
        if self._ends.get(item) == (field, offset):
            joined, end = current + text, offset + utf16_length(text)
        else:
            joined = join_text(current, offset, text)
            end = utf16_length(joined)
        self._ends[item] = (field, end)
        return joined

    def load(self, items: Iterable[Mapping[str, Any]], watermark: int, first: int = 0) -> None:
        """Begin anew from a snapshot, of the items from index `first` (the start of a page) on."""
        self._items = {item["id"]: (item["kind"], dict(item["fields"])) for item in items}
        self._order = list(self._items)
        self._index = {item: index for index, item in enumerate(self._order, first)}
        self._digests, self._pages, self._ends = {}, {}, {}
        self.first, self.watermark = first, watermark

    def prepend(self, items: Iterable[Mapping[str, Any]], first: int) -> None:
        """Take in older items, from index `first` (the start of a page) up to those that are held.

        Raises:
            ViewGapError: they do not join what is there.
        """
        older = {item["id"]: (item["kind"], dict(item["fields"])) for item in items}
        if first + len(older) != self.first or not older.keys().isdisjoint(self._items):
            raise ViewGapError(f"{len(older)} items from {first} on do not join those from {self.first} on")
        self._index.update({item: index for index, item in enumerate(older, first)})
        self._order = [*older, *self._order]
        self._items = {**older, **self._items}
        self.first = first

    def forget_before(self, first: int) -> None:
        """Hold the items from index `first` (the start of a page) on only."""
        for item in self._order[: first - self.first]:
            del self._items[item], self._index[item]
            self._digests.pop(item, None)
            self._ends.pop(item, None)
        self._order = self._order[first - self.first :]
        self._pages = {page: digest for page, digest in self._pages.items() if page * PAGE_ITEMS >= first}
        self.first = first

    def index(self, item: str) -> int | None:
        """Where an item stands in the whole view; null for one that is not held."""
        return self._index.get(item)

    def items(self, start: int = 0, stop: int | None = None) -> list[dict[str, Any]]:
        """The held items from the `start`th to the `stop`th in order, as plain JSON objects."""
        return [
            {"id": key, "kind": self._items[key][0], "fields": self._items[key][1]} for key in self._order[start:stop]
        ]

    def digest(self, first: int | None = None) -> str:
        """SHA-256 of the items from index `first` (the start of a page that is held; default: of all that are held).

        What did not change is not hashed again.
        """
        begin = self.first if first is None else first
        return joined_digest(self.page_digest(page) for page in range(begin // PAGE_ITEMS, -(-self.end // PAGE_ITEMS)))

    def page_digest(self, page: int) -> str:
        """SHA-256 of the items that are held of one page."""
        known = self._pages.get(page)
        if known is None:
            at = page * PAGE_ITEMS - self.first
            known = self._pages[page] = joined_digest(map(self._item_digest, self._order[at : at + PAGE_ITEMS]))
        return known

    def _item_digest(self, item: str) -> str:
        known = self._digests.get(item)
        if known is None:
            kind, fields = self._items[item]
            known = self._digests[item] = item_digest(item, kind, fields)
        return known


def join_text(current: str, offset: int, text: str) -> str:
    """`current` with `text` written at `offset` UTF-16 units; what is already there is not doubled."""
    length = utf16_length(current)
    if offset == length:
        return current + text
    index = utf16_index(current, offset)
    if index is None:
        raise ViewGapError(f"append at {offset} joins no place of the {length} units that are there")
    return current[:index] + text if length - offset <= utf16_length(text) else current
