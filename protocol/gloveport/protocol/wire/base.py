"""What every wire message has in common.

Purpose: naming, immutability and tolerance of all wire models.
Invariant: written fields are exactly the declared ones; fields of a newer peer are ignored when read.
Must never: hold behaviour.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

CLIENT_REQUEST_ID_LENGTH_MAX = 128
TEXT_LENGTH_MAX = 1_000_000
PAGE_MAX = 500

Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Path = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class WireModel(BaseModel):
    """A frozen message part, camelCase on the wire."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        frozen=True,
        extra="ignore",
        defer_build=True,
    )


class Empty(WireModel):
    """No parameters, or nothing to say."""


class SessionParams(WireModel):
    """Parameters of a method about one session."""

    session_id: Name


class Mutation(WireModel):
    """Parameters of a call that changes something: the same id is answered again, never done again."""

    client_request_id: Annotated[str, StringConstraints(min_length=1, max_length=CLIENT_REQUEST_ID_LENGTH_MAX)]


class SessionMutation(Mutation):
    """A mutation of one session."""

    session_id: Name


class Page(WireModel):
    """Paging: `limit` items from `offset` on."""

    offset: int = Field(default=0, ge=0)
    limit: int = Field(default=100, ge=1, le=PAGE_MAX)
