"""Taking secrets out of text.

Purpose: find credentials by their shape, and redact them and every known value before text is stored or shown.
Invariant: no known value of `KNOWN_CHARS_MIN` characters or more survives `Redactor.redact`, nor any of its common
    spellings; time is linear in the text.
Must never: keep or log what it found, or be the only thing between a secret and the network.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import re2  # type: ignore[import-untyped]  # the library ships no types

from gloveport.server.secrets.automaton import Automaton
from gloveport.server.secrets.encodings import spell
from gloveport.server.secrets.shapes import SHAPES, Shape

KNOWN_CHARS_MIN: Final = 4
"""Shorter values are not redacted: they would take half of any text with them."""

KNOWN_KIND: Final = "a value of yours"

DIGEST_DIGITS: Final = 6
"""So much of a keyed digest tells two secrets apart in one record, and is no handle on either."""
_PATTERN_BYTES_MAX: Final = 32 * 1024 * 1024
_MARK_LENGTH: Final = 3
_MARK_CHARS: Final = "•◦▪▫◆◇○●◈◉"
_BEYOND: Final = range(0x2800, 0x28FF)


@dataclass(frozen=True, slots=True)
class Finding:
    """A place that has the shape of a credential, as character offsets."""

    kind: str
    start: int
    end: int


class Redactor:
    """Redacts known values and, unless `shapes` is off, whatever looks like a credential. Shows nothing of what it
    knows; safe to share.

    With a `key` a secret's place tells its keyed digest, the same for all spellings of a known one, so that two places
    can be seen to have held the same; nobody without the key learns more from it.
    """

    __slots__ = ("_automaton", "_key", "_known", "_spellings", "_use_shapes", "_values", "mark")

    def __init__(self, known: Iterable[str] = (), *, shapes: bool = True, key: bytes = b"") -> None:
        values = {v.encode("utf-8", "surrogatepass") for v in known if len(v) >= KNOWN_CHARS_MIN}
        self._key = key
        self._values = {spelling: value for value in sorted(values) for spelling in spell(value)} if key else {}
        self._spellings = frozenset(s for value in values for s in spell(value))
        self._known = _alternatives(self._spellings) if self._spellings else None
        self._automaton: Automaton | None = None
        self._use_shapes = shapes
        self.mark = _choose_mark(self._spellings)

    def redact(self, text: str) -> str:
        """The text with `mark` in the place of every secret."""
        data = text.encode("utf-8", "surrogatepass")
        clean = self.redact_bytes(data)
        return text if clean is data else clean.decode("utf-8", "surrogatepass")

    def redact_bytes(self, data: bytes) -> bytes:
        """The same for bytes; the very object when there was nothing to redact."""
        data = _cut_out(data, self.known_places(data), self._in_place_of)
        return _cut_out(data, self.shape_places(data), self._in_place_of)

    def _in_place_of(self, secret: bytes) -> bytes:
        """The mark, and between its characters, which no known value holds, those of the keyed digest."""
        mark = self.mark.encode()
        between = self.mark[0].encode()
        told_bytes = 2 * len(mark) + DIGEST_DIGITS + (DIGEST_DIGITS - 1) * len(between)
        is_told = len(secret) == told_bytes and secret.startswith(mark) and secret.endswith(mark)
        if not self._key or is_told:
            return secret if is_told else mark
        value = self._values.get(secret, secret)
        digits = hmac.new(self._key, value, hashlib.sha256).hexdigest()[:DIGEST_DIGITS]
        return mark + between.join(digit.encode() for digit in digits) + mark

    @property
    def uses_shapes(self) -> bool:
        """Whether credentials are looked for by shape, too."""
        return self._use_shapes

    def known_places(self, data: bytes) -> list[tuple[int, int]]:
        """Where known values stand, as byte offsets; in order and apart."""
        return [] if self._known is None else [match.span() for match in self._known.finditer(data)]

    def shape_places(self, data: bytes) -> list[tuple[int, int]]:
        """Where something has the shape of a credential; in order and apart."""
        return [(start, end) for _, start, end in _find_shapes(data)] if self._use_shapes else []

    def kinds(self, data: bytes) -> list[tuple[str, int, int]]:
        """What stands there, as (kind, start, end) in byte offsets, in order: known values, and what looks like one."""
        known = [(KNOWN_KIND, start, end) for start, end in self.known_places(data)]
        return list(_apart(sorted((*known, *(_find_shapes(data) if self._use_shapes else ())), key=lambda one: one[1])))

    def automaton(self) -> Automaton:
        """What is known, for the streaming form; built when first asked for."""
        if self._automaton is None:
            self._automaton = Automaton(self._spellings)
        return self._automaton

    def __repr__(self) -> str:
        return "Redactor(hidden)"


def find_secrets(text: str) -> tuple[Finding, ...]:
    """What in a text has the shape of a credential, in order; places do not overlap."""
    data = text.encode("utf-8", "surrogatepass")
    return tuple(Finding(kind, _chars(data[:start]), _chars(data[:end])) for kind, start, end in _find_shapes(data))


def _chars(data: bytes) -> int:
    return len(data.decode("utf-8", "surrogatepass"))


def _find_shapes(data: bytes) -> list[tuple[str, int, int]]:
    fitting, patterns = _shape_patterns()
    found = [
        (SHAPES[index].kind, *match.span(1))
        for index in fitting.Match(data) or ()
        for match in patterns[index].finditer(data)
        if SHAPES[index].accepts(match.group(1).decode("utf-8", "replace"))
    ]
    return list(_apart(sorted(found, key=lambda f: (f[1], -f[2]))))


def _apart(found: Iterable[tuple[str, int, int]]) -> Iterator[tuple[str, int, int]]:
    """Findings without those that begin inside an earlier one; of an overlap, the rest goes with the earlier."""
    open_one: tuple[str, int, int] | None = None
    for kind, start, end in found:
        if open_one is None or start >= open_one[2]:
            if open_one is not None:
                yield open_one
            open_one = (kind, start, end)
        elif end > open_one[2]:
            open_one = (open_one[0], open_one[1], end)
    if open_one is not None:
        yield open_one


def _cut_out(data: bytes, places: list[tuple[int, int]], in_place_of: Callable[[bytes], bytes]) -> bytes:
    if not places:
        return data
    pieces, at = [], 0
    for start, end in places:
        pieces += [data[at:start], in_place_of(data[start:end])]
        at = end
    return b"".join([*pieces, data[at:]])


def _choose_mark(known: frozenset[bytes]) -> str:
    """Three of a character that no known value holds, so that a mark can never complete one."""
    taken = b"".join(known)
    candidates = (*_MARK_CHARS, *map(chr, _BEYOND))
    char: str = next(c for c in candidates if c.encode() not in taken)
    return char * _MARK_LENGTH


def _alternatives(known: frozenset[bytes]) -> Any:
    return re2.compile(b"|".join(re2.escape(k) for k in sorted(known)), _byte_options(longest=True))


@cache
def _shape_patterns() -> tuple[Any, list[Any]]:
    options = _byte_options(longest=False)
    fitting = re2.Set.SearchSet(options)
    for shape in SHAPES:
        fitting.Add(_pattern_bytes(shape))
    fitting.Compile()
    return fitting, [re2.compile(_pattern_bytes(shape), options) for shape in SHAPES]


def _pattern_bytes(shape: Shape) -> bytes:
    return shape.pattern.encode("ascii")


def _byte_options(*, longest: bool) -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.longest_match = longest
    options.max_mem = _PATTERN_BYTES_MAX
    options.log_errors = False
    return options
