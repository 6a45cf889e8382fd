"""The reference reducer of the view and its digest.

Purpose: apply batches of operations to an ordered list of items, exactly as every client must.
Invariant: operations with seq at or below the watermark change nothing; equal views have equal digests.
Must never: guess: an append that leaves a gap is an error that calls for a resync.

Digest: SHA-256 over the newline-joined digests of the items in order; an item's digest is SHA-256 over the
canonical JSON of {"fields", "id", "kind"} (keys sorted by code point, no spaces, UTF-8, integers only).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from gloveport.protocol.text import utf16_index, utf16_length


class ViewGapError(ValueError):
    """An append began beyond the end of what is there: events are missing; subscribe anew."""


def canonical_json(value: Any) -> bytes:
    """The one encoding that is hashed. Raises ValueError on a float that is not finite."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "strict")


class View:
    """An ordered list of items. One owner changes it; `items` and `digest` read it."""

    def __init__(self) -> None:
        self._items: dict[str, tuple[str, dict[str, Any]]] = {}
        self._digests: dict[str, str] = {}
        self._ends: dict[str, tuple[str, int]] = {}  # where the last append to an item ended: field, UTF-16 units
        self.watermark = 0

    def __len__(self) -> int:
        return len(self._items)

    def apply(self, seq: int, ops: Iterable[Mapping[str, Any]]) -> bool:
        """Apply one event's operations. Returns false when the event was applied before.

        Raises:
            ViewGapError: an append does not join what is there.
        """
        if seq <= self.watermark:
            return False
        for op in ops:
            self._apply_one(op)
        self.watermark = seq
        return True

    def _apply_one(self, op: Mapping[str, Any]) -> None:
        if op["op"] == "reset":
            self._items.clear()
            self._digests.clear()
            self._ends.clear()
            return
        item = op["item"]
        if op["op"] == "upsert":
            _, fields = self._items.get(item, ("", {}))
            self._items[item] = (op["kind"], {**fields, **op["fields"]})
            self._ends.pop(item, None)
        else:
            kind, fields = self._items.get(item, ("", {}))
            current = fields.get(op["field"], "")
            if not kind or not isinstance(current, str):
                raise ViewGapError(f"append to {op['field']} of {item}, which is not a text that is there")
            self._items[item] = (kind, {**fields, op["field"]: self._join(op, current)})
        self._digests.pop(item, None)

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

    def load(self, items: Iterable[Mapping[str, Any]], watermark: int) -> None:
        """Begin anew from a snapshot."""
        self._items = {item["id"]: (item["kind"], dict(item["fields"])) for item in items}
        self._digests = {}
        self._ends = {}
        self.watermark = watermark

    def items(self, start: int = 0, stop: int | None = None) -> list[dict[str, Any]]:
        """The items from `start` to `stop` in order, as plain JSON objects."""
        chosen = list(self._items.items())[start:stop]
        return [{"id": key, "kind": kind, "fields": fields} for key, (kind, fields) in chosen]

    def digest(self) -> str:
        """SHA-256 of the whole view; unchanged items are not hashed again."""
        for key, (kind, fields) in self._items.items():
            if key not in self._digests:
                body = canonical_json({"id": key, "kind": kind, "fields": fields})
                self._digests[key] = hashlib.sha256(body).hexdigest()
        return hashlib.sha256("\n".join(self._digests[key] for key in self._items).encode()).hexdigest()


def join_text(current: str, offset: int, text: str) -> str:
    """`current` with `text` written at `offset` UTF-16 units; what is already there is not doubled."""
    length = utf16_length(current)
    if offset == length:
        return current + text
    index = utf16_index(current, offset)
    if index is None:
        raise ViewGapError(f"append at {offset} joins no place of the {length} units that are there")
    return current[:index] + text if length - offset <= utf16_length(text) else current
