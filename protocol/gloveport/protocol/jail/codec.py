"""Reading of untrusted JSON bodies into the jail dialect's shapes.

Purpose: one strict field reader, so that a damaged run folder is an error and never a wrong value.
Invariant: a field is present with the named type, or `JailFormatError` names the field.
Must never: guess a default for a field that decides what is run or how a run ended.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Final

JAIL_VERSION: Final = 1
BODY_BYTES_MAX: Final = 64 * 1024 * 1024


class JailFormatError(ValueError):
    """A body of the run folder is not what this version can read."""


def parse_body(raw: bytes) -> "Fields":
    """Parse one JSON object of the current version; raises `JailFormatError`."""
    if len(raw) > BODY_BYTES_MAX:
        raise JailFormatError("body is larger than the limit")
    try:
        value = json.loads(raw)
    except ValueError as error:
        raise JailFormatError("body is not JSON") from error
    if not isinstance(value, dict):
        raise JailFormatError("body is not an object")
    fields = Fields(value)
    if fields.integer("version") != JAIL_VERSION:
        raise JailFormatError("body has another version")
    return fields


def dump_body(body: Mapping[str, object]) -> bytes:
    """Serialise one body with the version in front, as compact UTF-8 JSON."""
    return json.dumps({"version": JAIL_VERSION, **body}, separators=(",", ":")).encode()


def encode_bytes(raw: bytes) -> str:
    """Base64 text of raw bytes."""
    return base64.b64encode(raw).decode("ascii")


def decode_bytes(text: str) -> bytes:
    """Raw bytes of strict base64 text; raises `JailFormatError`."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise JailFormatError("field is not base64") from error


class Fields:
    """Typed access to the fields of one parsed object."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = values

    def text(self, name: str) -> str:
        """A string field."""
        value = self._values.get(name)
        if not isinstance(value, str):
            raise JailFormatError(f"{name} is not text")
        return value

    def integer(self, name: str) -> int:
        """An integer field (a boolean is not one)."""
        value = self._values.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise JailFormatError(f"{name} is not an integer")
        return value

    def integer_or_none(self, name: str) -> int | None:
        """An integer field that may be null or absent."""
        return None if self._values.get(name) is None else self.integer(name)

    def number(self, name: str) -> float:
        """A number field, as float."""
        value = self._values.get(name)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise JailFormatError(f"{name} is not a number")
        return float(value)

    def number_or_none(self, name: str) -> float | None:
        """A number field that may be null or absent."""
        return None if self._values.get(name) is None else self.number(name)

    def flag(self, name: str) -> bool:
        """A boolean field."""
        value = self._values.get(name)
        if not isinstance(value, bool):
            raise JailFormatError(f"{name} is not a flag")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self._values.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise JailFormatError(f"{name} is not a list of text")
        return tuple(value)

    def pairs(self, name: str) -> tuple[tuple[str, str], ...]:
        """A list of two-element lists of strings."""
        value = self._values.get(name)
        if not isinstance(value, list):
            raise JailFormatError(f"{name} is not a list")
        found = []
        for item in value:
            if not isinstance(item, list) or len(item) != 2 or not all(isinstance(part, str) for part in item):
                raise JailFormatError(f"{name} does not hold pairs of text")
            found.append((item[0], item[1]))
        return tuple(found)

    def text_or_none(self, name: str) -> str:
        """A string field that an older version did not write; then empty."""
        return "" if self._values.get(name) is None else self.text(name)

    def texts_or_none(self, name: str) -> tuple[str, ...]:
        """A list of strings that an older version did not write; then empty."""
        return () if self._values.get(name) is None else self.texts(name)

    def pairs_or_none(self, name: str) -> tuple[tuple[str, str], ...]:
        """A list of pairs that an older version did not write; then empty."""
        return () if self._values.get(name) is None else self.pairs(name)

    def inner(self, name: str) -> "Fields | None":
        """A nested object, or None when null or absent."""
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise JailFormatError(f"{name} is not an object")
        return Fields(value)

    def inners(self, name: str) -> "list[Fields]":
        """A list of nested objects."""
        value = self._values.get(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise JailFormatError(f"{name} is not a list of objects")
        return [Fields(item) for item in value]

    def inners_or_none(self, name: str) -> "list[Fields]":
        """The same; absent is empty."""
        return self.inners(name) if name in self._values else []
