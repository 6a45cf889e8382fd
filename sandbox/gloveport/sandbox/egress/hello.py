"""The first words of TLS: to whom a client wants to speak.

Purpose: find the server name in a ClientHello, however it is cut into records.
Invariant: one plain name and no hidden one, or the reason why there is none.
Must never: take a hello whose real name only the server can read.
"""

from dataclasses import dataclass
from typing import Final

HELLO_BYTES_MAX: Final = 32 * 1024
RECORD_HEAD: Final = 5
HANDSHAKE_RECORD: Final = 22
_CLIENT_HELLO: Final = 1
_RECORD_BYTES_MAX: Final = 16 * 1024
_SERVER_NAME: Final = 0
_HIDDEN_NAMES: Final = frozenset({0xFE0D, 0xFFCE})
"""Encrypted ClientHello, and the encrypted server name before it."""


class HelloFault(Exception):  # noqa: N818 - a finding about a client, not a fault of this program
    """The first bytes are no hello that can be held against the list; the text says why."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What a ClientHello says; `name` is None where it names no server."""

    name: str | None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) != count:
            raise HelloFault("the hello is cut short")
        self._at += count
        return piece

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def block(self, width: int) -> bytes:
        return self.take(self.number(width))

    def is_done(self) -> bool:
        return self._at >= len(self._data)


def record_length(head: bytes) -> int:
    """How many bytes follow the five of a record's head. Raises HelloFault where it begins no TLS handshake."""
    kind, major, _minor, length = head[0], head[1], head[2], int.from_bytes(head[3:5], "big")
    if kind != HANDSHAKE_RECORD or major != 3:
        raise HelloFault("what comes first is no TLS hello")
    if not 0 < length <= _RECORD_BYTES_MAX:
        raise HelloFault("a TLS record has no such length")
    return length


def is_whole(handshake: bytes) -> bool:
    """True if the records' content so far holds the whole first message. Raises HelloFault."""
    if handshake and handshake[0] != _CLIENT_HELLO:
        raise HelloFault("what comes first is no ClientHello")
    if len(handshake) < 4:
        return False
    length = int.from_bytes(handshake[1:4], "big")
    if length > HELLO_BYTES_MAX:
        raise HelloFault(f"limit hello_bytes_max of {HELLO_BYTES_MAX} bytes")
    return len(handshake) >= 4 + length


def read_hello(handshake: bytes) -> Hello:
    """The name in a whole ClientHello. Raises HelloFault."""
    reader = _Reader(handshake)
    reader.take(1)
    body = _Reader(reader.block(3))
    if not reader.is_done():
        raise HelloFault("more follows the hello before it was answered")
    body.take(2 + 32)
    for width in (1, 2, 1):  # session, cipher suites, compressions
        body.block(width)
    if body.is_done():
        return Hello(None)
    extensions = _Reader(body.block(2))
    if not body.is_done():
        raise HelloFault("the hello is longer than it says")
    found: dict[int, bytes] = {}
    while not extensions.is_done():
        kind, content = extensions.number(2), extensions.block(2)
        if kind in found:
            raise HelloFault("the hello says something twice")
        found[kind] = content
    if _HIDDEN_NAMES & found.keys():
        raise HelloFault("the hello hides a name (encrypted ClientHello)")
    return Hello(_read_name(found[_SERVER_NAME]) if _SERVER_NAME in found else None)


def _read_name(content: bytes) -> str:
    outer = _Reader(content)
    names = _Reader(outer.block(2))
    kind, name = names.number(1), names.block(2)
    if kind != 0 or not names.is_done() or not outer.is_done():
        raise HelloFault("the hello names more than one server")
    try:
        return name.decode("ascii")
    except UnicodeDecodeError as error:
        raise HelloFault("the hello's name is not ASCII") from error
