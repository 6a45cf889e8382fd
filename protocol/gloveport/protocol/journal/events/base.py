"""What every event body has in common.

Purpose: the base class of stored facts, the label and the encoding.
Invariant: a body is immutable; encoding then decoding gives an equal body; unknown fields are refused when written.
Must never: carry a wall clock or an id of its own making.
"""

from functools import cache
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints
from pydantic_core import PydanticSerializationError

from gloveport.protocol.text import scrub_surrogates

HexDigest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 of raw bytes, lower-case hexadecimal."""

Json: TypeAlias = JsonValue
"""Anything JSON can say."""


class Record(BaseModel):
    """A frozen part of an event body."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants", defer_build=True)


class LabelRecord(Record):
    """Integrity (0 user, 1 workspace, 2 untrusted), readers (null = public) and provenance of a value."""

    integrity: int = Field(ge=0, le=2)
    readers: tuple[str, ...] | None
    provenance: tuple[str, ...]


class EventBody(Record):
    """One fact of a stream. The class name is the stored type name; `version` is raised with the shape."""

    version: ClassVar[int] = 1


class TurnBody(EventBody):
    """A fact of a turn: it names the turn and the goal revision under which it was born."""

    turn_id: str
    goal_revision: int = Field(ge=1)


class CallBody(TurnBody):
    """A fact of one tool call; `call_id` is ours and unique."""

    call_id: str


def blobs_of(body: EventBody) -> tuple[str, ...]:
    """Digests of the blobs that a body refers to: by rule the fields whose names end in `_blob`, and no others."""
    names = _blob_fields(type(body))
    return tuple(digest for name in names if (digest := getattr(body, name)) is not None) if names else ()


@cache
def _blob_fields(body_type: type[EventBody]) -> tuple[str, ...]:
    return tuple(name for name in body_type.model_fields if name.endswith("_blob"))


B = TypeVar("B", bound=EventBody)


def storable_body(body: B) -> B:
    """The body itself, or, when it holds lone surrogates (models and programs do send them), one with them replaced."""
    try:
        body.__pydantic_serializer__.to_json(body)
    except PydanticSerializationError:
        return type(body).model_validate(_scrub(body.model_dump(mode="python")))
    return body


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return scrub_surrogates(value)
    if isinstance(value, dict):
        return {_scrub(key): _scrub(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(part) for part in value]
    return value


def encode_body(body: EventBody) -> bytes:
    """The stored bytes of a body: JSON, UTF-8, fields in declared order."""
    return body.__pydantic_serializer__.to_json(body)


def decode_body(body_type: type[EventBody], payload: bytes | dict[str, Any]) -> EventBody:
    """Read a stored body; fields of a newer version are ignored.

    Raises:
        pydantic.ValidationError: the payload lacks a field or has one of the wrong type.
    """
    if isinstance(payload, bytes):
        body: EventBody = body_type.__pydantic_validator__.validate_json(payload, extra="ignore")
        return body
    return body_type.model_validate(payload, extra="ignore", strict=False)
