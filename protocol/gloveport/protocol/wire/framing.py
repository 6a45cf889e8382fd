"""Frames on a byte stream: `Content-Length: n`, an empty line, n bytes of body.

Purpose: cut a byte stream into bodies, whatever the size of the pieces it arrives in.
Invariant: the same bytes give the same items however they are cut; memory held is at most one body plus one header.
Must never: look into a body, do IO, or raise on bad input (a fault is an item, so earlier bodies are not lost).
"""

from dataclasses import dataclass
from typing import Final

MESSAGE_BYTES_MAX: Final = 64 << 20
"""A longer body is refused and skipped; the connection lives."""
SKIP_BYTES_MAX: Final = 1 << 30
"""A body longer than this is not even skipped: nobody means it, and the connection ends."""
HEADER_BYTES_MAX: Final = 8 << 10
LENGTH_DIGITS_MAX: Final = 18
_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Body:
    """One whole body, not yet decoded."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """A body over the limit: its `length_bytes` are being skipped, the next frame follows."""

    length_bytes: int
    limit_bytes: int


@dataclass(frozen=True, slots=True)
class Broken:
    """The stream can't be cut any more; every later byte is ignored."""

    reason: str


FrameItem = Body | Refused | Broken


def encode_frame(body: bytes) -> bytes:
    """`body` with its header, ready to be written."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class FrameReader:
    """Cuts pieces of a stream into items; feed it whatever arrived."""

    def __init__(self, message_bytes_max: int = MESSAGE_BYTES_MAX, skip_bytes_max: int = SKIP_BYTES_MAX) -> None:
        self._message_bytes_max = message_bytes_max
        self._skip_bytes_max = skip_bytes_max
        self._head = b""
        self._parts: list[bytes] = []
        self._missing = 0
        self._skipping = 0
        self._broken = False

    def feed(self, chunk: bytes) -> list[FrameItem]:
        """The items completed by `chunk`, in order; after `Broken` always empty."""
        items: list[FrameItem] = []
        data, self._head, at = self._head + chunk, b"", 0
        while at < len(data) and not self._broken:
            if self._skipping:
                step = min(self._skipping, len(data) - at)
                self._skipping -= step
                at += step
            elif self._missing:
                at = self._take_body(data, at, items)
            else:
                at = self._take_header(data, at, items)
        return items

    def take_rest(self) -> bytes:
        """Bytes fed but not yet part of an item, as a fresh reader would have to be fed them.

        While a refused body is being skipped there is nothing to hand on, and the result is empty.
        """
        held = b"".join(self._parts)
        header = b"Content-Length: %d\r\n\r\n" % (len(held) + self._missing) if self._missing else b""
        rest = header + held + self._head
        self._parts, self._missing, self._head = [], 0, b""
        return rest

    def _take_body(self, data: bytes, at: int, items: list[FrameItem]) -> int:
        part = data[at : at + self._missing]
        self._parts.append(part)
        self._missing -= len(part)
        if not self._missing:
            items.append(Body(b"".join(self._parts)))
            self._parts = []
        return at + len(part)

    def _take_header(self, data: bytes, at: int, items: list[FrameItem]) -> int:
        end = data.find(_END, at, at + HEADER_BYTES_MAX + len(_END))
        if end < 0:
            return self._hold_header(data[at:], len(data), items)
        length = _content_length(data[at:end])
        if isinstance(length, Broken):
            self._break(length, items)
        elif length > self._skip_bytes_max:
            self._break(Broken(f"a body of {length} bytes is far over the limit"), items)
        elif length > self._message_bytes_max:
            self._skipping = length
            items.append(Refused(length, self._message_bytes_max))
        elif length == 0:
            items.append(Body(b""))
        else:
            self._missing = length
        return end + len(_END)

    def _hold_header(self, head: bytes, end: int, items: list[FrameItem]) -> int:
        if len(head) > HEADER_BYTES_MAX:
            self._break(Broken(f"a header of more than {HEADER_BYTES_MAX} bytes"), items)
        elif (fault := _line_fault(head.rpartition(b"\r\n")[0] if b"\r\n" in head else b"")) is not None:
            self._break(fault, items)
        elif b"\n" in head.replace(b"\r\n", b""):
            self._break(Broken("a header line that ends without a carriage return"), items)
        else:
            self._head = head
        return end

    def _break(self, fault: Broken, items: list[FrameItem]) -> None:
        self._broken = True
        items.append(fault)


def _line_fault(block: bytes) -> Broken | None:
    for line in block.split(b"\r\n") if block else ():
        if b":" not in line or b"\n" in line:
            return Broken("a header line without a name and a value")
    return None


def _content_length(block: bytes) -> int | Broken:
    if (fault := _line_fault(block)) is not None:
        return fault
    found: set[bytes] = set()
    for line in block.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            found.add(value.strip())
    if len(found) != 1:
        return Broken("a header without exactly one Content-Length")
    digits = found.pop()
    if not digits.isdigit() or len(digits) > LENGTH_DIGITS_MAX:
        return Broken("a Content-Length that is not a plain number")
    return int(digits)
