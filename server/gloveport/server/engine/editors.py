"""The editors that show the user's files, as far as a session needs them.

Purpose: what is open below a session's folder, and the door through which text in an editor is changed.
Invariant: what an editor answers proves nothing; what its document shows afterwards does.
Must never: know a protocol or a connection.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class OpenDocument:
    """A file's document: `name` is opaque, `editor` names who shows it, `client` all documents of one editor."""

    name: str
    client: str
    editor: str
    path: str
    version: int
    text: str
    can_edit: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """The text that a document shall show."""

    document: OpenDocument
    text: str


class Editors(Protocol):
    """Who knows the open documents."""

    def documents(self) -> Sequence[OpenDocument]:
        """Every file that is open, under its link-free path, the editor that was last heard of first."""

    async def edit(self, label: str, wanted: Sequence[Wanted], timeout_s: float) -> str | None:
        """Ask one client for the edits that make these texts; what it says against it, None if it agrees.

        Raises TimeoutError when it does not answer, GloveportError when it cannot be asked.
        """

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something holds of the documents; whether it did in time."""


class NoEditors:
    """Nothing is open (`Editors`)."""

    def documents(self) -> Sequence[OpenDocument]:
        """None."""
        return ()

    async def edit(self, label: str, wanted: Sequence[Wanted], timeout_s: float) -> str | None:
        """There is nobody to ask."""
        return "there is no editor"

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Nothing will change."""
        return holds()
