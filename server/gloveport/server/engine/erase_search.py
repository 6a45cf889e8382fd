"""Whether something that was recorded holds a text.

Purpose: look for a text in what an event says and in what an output holds, in every common spelling of it.
Invariant: a text is found however often JSON was put within JSON around it, and whatever its length.
Must never: take a name of the record itself (a key, an id, a fixed word) for something that was said.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel

from gloveport.protocol.journal.events import EventBody
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.server.secrets.encodings import spell, spell_in_lines

_BREAKS: Final = b" \t\r\n"
"""What programs break long base64 and hexadecimal by."""
UNESCAPED_MAX: Final = 6
"""So many times what escapes a text is taken off it: JSON in a command's argument in a call in an answer is three."""
_PAIR: Final = rb"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
_ESCAPE: Final = re.compile(_PAIR + rb"""|\\u([0-9a-fA-F]{4})|\\(["'\\/bfnrt])""")
_PLAIN: Final = MappingProxyType({b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"})
_NOT_SAID: Final = frozenset(
    {"by", "code", "digest", "executor", "framework", "kind", "model", "provider", "risk", "rule", "scheme",
     "security_context", "stream"}
)  # fmt: skip
"""Fields of events that hold names of ours or of settings."""
_NOT_SAID_ENDS: Final = ("_blob", "_digest", "_hash", "_id", "_ids")
_THEIRS: Final = "provider_"
"""What the ids begin with that a provider's server or its model chose."""
_KEY: Final = re.compile(r"[A-Za-z_]{1,40}")
"""What a key looks like that a program chose; any other may be something that was said."""


class Search:
    """Looks for one text; `tools` are the names that are Gloveport's own, any other the model made up."""

    def __init__(self, text: str, tools: Collection[str] = ()) -> None:
        self._tools = frozenset(tools)
        self.forms = _forms(text)
        self._in_lines = frozenset(form for value in _values(text) for form in spell_in_lines(value))

    def in_bytes(self, data: bytes) -> bool:
        """Whether the text stands in there, also where it is escaped."""
        for _ in range(UNESCAPED_MAX):
            if self._holds(data):
                return True
            if b"\\" not in data or (plain := _ESCAPE.sub(_unescaped, data)) == data:
                return False
            data = plain
        return self._holds(data)

    def _holds(self, data: bytes) -> bool:
        if any(form in data for form in self.forms):
            return True
        joined = data.translate(None, _BREAKS)
        return len(joined) < len(data) and any(form in joined for form in self._in_lines)

    def in_text(self, text: str) -> bool:
        """`in_bytes` of a text."""
        return self.in_bytes(text.encode("utf-8", "surrogatepass"))

    def in_body(self, body: EventBody) -> bool:
        """Whether an event says the text."""
        return any(map(self.in_text, self._said(body)))

    def in_source(self, source: str) -> bool:
        """Whether a source of a label names the text; what kind of source it is was not said by anybody."""
        return self.in_text(source.partition(":")[2])

    def _said(self, record: BaseModel) -> Iterator[str]:
        """The texts in an event that are no name of the record's own."""
        if isinstance(record, LabelRecord):
            yield from (source.partition(":")[2] for source in record.provenance)
            return
        for name, field in type(record).model_fields.items():
            is_ours = name in _NOT_SAID or (name.endswith(_NOT_SAID_ENDS) and not name.startswith(_THEIRS))
            if is_ours or _is_fixed(field.annotation):
                continue
            value = getattr(record, name)
            if name != "tool" or value not in self._tools:
                yield from self._texts(_arguments(value) if name == "arguments_json" else value)

    def _texts(self, value: Any) -> Iterator[str]:
        waiting = [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, str):
                yield one
            elif isinstance(one, BaseModel):
                yield from self._said(one)
            elif isinstance(one, Mapping):
                waiting += (key for key in one if not (isinstance(key, str) and _KEY.fullmatch(key)))
                waiting += one.values()
            elif isinstance(one, list | tuple):
                waiting += one
            elif isinstance(one, int | float):
                yield str(one)


def _forms(text: str) -> frozenset[bytes]:
    """The text with either end of lines, each as it is and in common encodings."""
    return frozenset(form for value in _values(text) for form in spell(value, bytes_max=len(value)))


def _values(text: str) -> set[bytes]:
    lines = text.replace("\r\n", "\n")
    return {one.encode("utf-8", "surrogatepass") for one in (text, lines, lines.replace("\n", "\r\n"))}


def _unescaped(found: re.Match[bytes]) -> bytes:
    high, low, unit, plain = found.groups()
    if plain is not None:
        return _PLAIN.get(plain, plain)
    if unit is not None:
        return chr(int(unit, 16)).encode("utf-8", "surrogatepass")
    return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)).encode()


def _is_fixed(annotation: Any) -> bool:
    """True for a field that takes none but the words that are given."""
    return get_origin(annotation) is Literal or any(map(_is_fixed, get_args(annotation)))


def _arguments(text: str) -> Any:
    """What a call's arguments say; whole where they are no object."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = text
    return given if isinstance(given, dict) else text
