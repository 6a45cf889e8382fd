"""Frozen states as plain JSON values and back, driven by their type hints.

Purpose: keep a folded state as bytes, exactly, whatever fields it has or will have.
Invariant: decoding what was encoded gives an equal value of the same types; a type it does not know is refused when the
codec is made, never guessed.
Must never: know a field by name, or be trusted across builds: a snapshot of another build is folded anew.

Forms: a dataclass is the list of its fields in declared order; an event body or record is its own stored JSON as a
text; a union is null, or [number of the member, value]; a mapping is a list of pairs in order; an enum is its value.
"""

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from gloveport.protocol.journal.events.base import Record
from gloveport.server.session.series import Series

Step = Callable[[Any], Any]
_AS_IS: Final = frozenset({str, int, float, bool, NoneType})


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """How values of one type become plain JSON values (`encode`) and come back (`decode`).

    `encode` raises KeyError or TypeError for a value that is not of the type; `decode` raises ValueError, TypeError,
    KeyError or IndexError for what `encode` did not make.
    """

    encode: Step
    decode: Step
    as_is: bool = False
    """True where the plain value is the value itself."""


def codec_of(hint: Any) -> Codec:
    """The codec of a type. Raises TypeError for one that cannot be kept exactly."""
    return _Maker().make(hint)


def _same(value: Any) -> Any:
    return value


SAME: Final = Codec(_same, _same, as_is=True)


class _Maker:
    """Makes each class's codec once; a class that holds itself is not supported."""

    def __init__(self) -> None:
        self._made: dict[Any, Codec] = {}

    def make(self, hint: Any) -> Codec:
        if hint not in self._made:
            self._made[hint] = self._new(hint)
        return self._made[hint]

    def _new(self, hint: Any) -> Codec:
        origin, args = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self.make(args[0])
        if origin in (Union, UnionType):
            return self._union(args)
        if origin is Literal:
            return SAME
        if origin is tuple:
            return self._tuple(args)
        if origin in (frozenset, Series):
            return _sequence(self.make(args[0]), origin)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return self._mapping(origin, args)
        return self._plain(hint)

    def _plain(self, hint: Any) -> Codec:
        supertype = getattr(hint, "__supertype__", None)
        if supertype is not None:
            return self.make(supertype)
        if hint in _AS_IS:
            return SAME
        if isinstance(hint, type):
            if issubclass(hint, Enum):
                return Codec(lambda value: value.value, hint)
            if issubclass(hint, Record):
                return _record(hint)
            if dataclasses.is_dataclass(hint):
                return self._dataclass(hint)
        raise TypeError(f"{hint!r} cannot be kept in a snapshot")

    def _union(self, args: tuple[Any, ...]) -> Codec:
        members = tuple(arg for arg in args if arg is not NoneType)
        codecs = tuple(map(self.make, members))
        if all(codec.as_is for codec in codecs):
            return SAME
        numbers = {get_origin(member) or member: number for number, member in enumerate(members)}
        encoders = {kind: (number, codecs[number].encode) for kind, number in numbers.items()}

        def encode(value: Any) -> Any:
            if value is None:
                return None
            number, inner = encoders[type(value)]
            return [number, inner(value)]

        decoders = tuple(codec.decode for codec in codecs)
        return Codec(encode, lambda plain: None if plain is None else decoders[plain[0]](plain[1]))

    def _tuple(self, args: tuple[Any, ...]) -> Codec:
        if len(args) == 2 and args[1] is Ellipsis:
            return _sequence(self.make(args[0]), tuple)
        encoders = tuple(self.make(arg).encode for arg in args)
        decoders = tuple(self.make(arg).decode for arg in args)
        return Codec(
            lambda value: [step(part) for step, part in zip(encoders, value, strict=True)],
            lambda plain: tuple(step(part) for step, part in zip(decoders, plain, strict=True)),
        )

    def _mapping(self, origin: type, args: tuple[Any, ...]) -> Codec:
        keys, values = self.make(args[0]), self.make(args[1])
        close: Step = dict if origin is dict else lambda pairs: MappingProxyType(dict(pairs))
        return Codec(
            lambda value: [[keys.encode(key), values.encode(part)] for key, part in value.items()],
            lambda plain: close([(keys.decode(key), values.decode(part)) for key, part in plain]),
        )

    def _dataclass(self, kind: type[Any]) -> Codec:
        hints = get_type_hints(kind, include_extras=True)
        fields = [field.name for field in dataclasses.fields(kind)]
        codecs = [self.make(hints[name]) for name in fields]
        readers = [(name, codec.encode) for name, codec in zip(fields, codecs, strict=True)]
        changed = [(index, codec.decode) for index, codec in enumerate(codecs) if not codec.as_is]
        count = len(fields)

        def encode(value: Any) -> list[Any]:
            return [step(getattr(value, name)) for name, step in readers]

        def decode(plain: Any) -> Any:
            row = list(plain)
            if len(row) != count:
                raise ValueError(f"{kind.__name__} has {count} fields, not {len(row)}")
            for index, step in changed:
                row[index] = step(row[index])
            return kind(*row)

        return Codec(encode, decode)


def _sequence(inner: Codec, kind: type[Any]) -> Codec:
    if inner.as_is:
        return Codec(list, kind)
    encode, decode = inner.encode, inner.decode
    return Codec(lambda value: [encode(part) for part in value], lambda plain: kind([decode(part) for part in plain]))


def _record(kind: type[Record]) -> Codec:
    def encode(value: Record) -> str:
        if type(value) is not kind:
            raise TypeError(f"{type(value).__name__} stands where {kind.__name__} should")
        return value.__pydantic_serializer__.to_json(value).decode()

    return Codec(encode, kind.model_validate_json)
