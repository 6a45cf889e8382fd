"""The shape of what a client says first.

Purpose: read an initialize that is not of the plain types, or say what is wrong with it.
Invariant: what the quick reading takes, this takes alike.
Must never: be loaded for a client whose words have the plain types.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gloveport.server.transports.lsp.limits import CLIENT_NAME_CHARS_MAX


class _Read(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True
    )


class ClientInfo(_Read):
    """Who connects, in its own words."""

    name: str = Field(default="", max_length=CLIENT_NAME_CHARS_MAX)
    version: str | None = None


class Options(_Read):
    """What is ours in initialize."""

    decision_token: str | None = Field(default=None, repr=False)
    protocol_version: int | None = None


class InitializeParams(_Read):
    """The part of LSP's InitializeParams that is read here."""

    client_info: ClientInfo | None = None
    capabilities: dict[str, Any] = Field(default_factory=dict)
    initialization_options: Options | None = None
