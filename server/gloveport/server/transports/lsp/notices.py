"""What editors say of their documents, as far as it is read.

Purpose: the shapes of the document notices, and of the answer to an edit.
Invariant: tolerant: what is not read here is the editor's own business.
Must never: be loaded before an editor says something.
"""

from typing import Final

from pydantic import Field

from gloveport.server.transports.lsp.textsync import Change, SyncModel

URI_CHARS_MAX: Final = 8192


class Identifier(SyncModel):
    """Which document."""

    uri: str = Field(max_length=URI_CHARS_MAX)


class Versioned(Identifier):
    """Which version of it."""

    version: int


class Item(Versioned):
    """A document with its text."""

    text: str


class Opened(SyncModel):
    """textDocument/didOpen."""

    text_document: Item


class Changed(SyncModel):
    """textDocument/didChange."""

    text_document: Versioned
    content_changes: tuple[Change, ...]


class Closed(SyncModel):
    """textDocument/didClose."""

    text_document: Identifier


class EditAnswer(SyncModel):
    """The answer to workspace/applyEdit."""

    applied: bool = False
    failure_reason: str | None = None
