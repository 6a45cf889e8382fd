"""The one door from a connection to the engine.

Purpose: what the transport asks of the daemon's inside, as a protocol the engine fulfils.
Invariant: every call says who calls; `deciding` is true only for a connection that proved the decision token.
Must never: grow a second method per feature; a feature is a method of the wire table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request: a connection of this daemon, the client's own name, and whether it may decide."""

    connection_id: str
    client_name: str
    deciding: bool


class SessionPort(Protocol):
    """The engine as a connection sees it."""

    async def call(self, method: str, params: "BaseModel", caller: Caller) -> "BaseModel":
        """Answer one valid request. Raises GloveportError; cancelled when its sender cancels."""
        ...


class MethodShape(Protocol):
    """One row of the wire's method table."""

    @property
    def params(self) -> "type[BaseModel]": ...

    @property
    def result(self) -> "type[BaseModel]": ...

    @property
    def decides(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class DocumentEdit:
    """The text that an open document shall have, for the version that was seen; `label` is for people."""

    uri: str
    version: int
    old_text: str
    new_text: str
    label: str


class Editor(Protocol):
    """A client that shows documents."""

    @property
    def name(self) -> str:
        """The client's own name, for people."""
        ...

    @property
    def can_edit(self) -> bool:
        """True when it takes edits of named versions."""
        ...

    async def edit(self, label: str, edits: Sequence[DocumentEdit], timeout_s: float) -> str | None:
        """Ask for edits, all of them or none; what the client says against it.

        Raises TimeoutError when it does not answer, GloveportError when it refuses to.
        """
        ...


@dataclass(frozen=True, slots=True)
class Buffer:
    """A document that is open in a client: its text is what the user sees, saved or not.

    `key` is the address in normal form, `uri` the client's own spelling of it.
    """

    connection_id: str
    key: str
    uri: str
    version: int
    text: str
    editor: Editor | None = None


class BufferSink(Protocol):
    """Who wants to know of open documents."""

    def opened(self, buffer: Buffer) -> None:
        """A document was opened or its text changed."""
        ...

    def closed(self, connection_id: str, key: str) -> None:
        """A document was closed, or its connection ended."""
        ...
