"""workspace/applyEdit: changes of open documents, made by the client that shows them.

Purpose: turn a wanted text into edits of the version that was seen, and ask the client to make them.
Invariant: an edit names the version; lines that stay are in no edit.
Must never: take an answer for a fact; what the document shows is told by its own notices.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.text import utf16_length
from gloveport.server.transports.lsp.asks import Asks
from gloveport.server.transports.lsp.handlers.lifecycle import Lifecycle
from gloveport.server.transports.lsp.reading import read_params
from gloveport.server.transports.port import DocumentEdit

REASON_CHARS_MAX: Final = 200
UNNAMED: Final = "an editor"


class Place(NamedTuple):
    """Zero-based line and UTF-16 offset."""

    line: int
    character: int


class ClientEditor:
    """One connection's client, as far as it shows documents (`Editor`)."""

    def __init__(self, asks: Asks, lifecycle: Lifecycle) -> None:
        self._asks = asks
        self._lifecycle = lifecycle

    @property
    def name(self) -> str:
        """The client's own name, for people."""
        return self._lifecycle.identity.client_name or UNNAMED

    @property
    def can_edit(self) -> bool:
        """True when it takes edits of named versions."""
        return self._lifecycle.identity.takes_edits

    async def edit(self, label: str, edits: Sequence[DocumentEdit], timeout_s: float) -> str | None:
        """Ask for edits; what the client says against it. Raises TimeoutError, GloveportError."""
        annotated = self._lifecycle.identity.takes_annotations
        body: dict[str, object] = {"documentChanges": [_change(edit, annotated=annotated) for edit in edits]}
        if annotated:
            notes = {edit.uri: {"label": edit.label, "needsConfirmation": False} for edit in edits}
            body["changeAnnotations"] = notes
        found = await self._asks.ask("workspace/applyEdit", {"label": label, "edit": body}, timeout_s)
        from gloveport.server.transports.lsp.notices import EditAnswer  # for editors alone

        try:
            answer = read_params(EditAnswer, found)
        except GloveportError:
            return "its editor gave an answer that cannot be read"
        if answer.applied:
            return None
        reason = (answer.failure_reason or "")[:REASON_CHARS_MAX]
        return f"its editor refused the change{f' ({reason})' if reason else ''}"


def _change(edit: DocumentEdit, *, annotated: bool) -> dict[str, object]:
    rows = [_row(row, edit.uri if annotated else None) for row in text_edits(edit.old_text, edit.new_text)]
    return {"textDocument": {"uri": edit.uri, "version": edit.version}, "edits": rows}


def _row(row: tuple[Place, Place, str], annotation: str | None) -> dict[str, object]:
    start, end, text = row
    named = {} if annotation is None else {"annotationId": annotation}
    place = {"start": start._asdict(), "end": end._asdict()}
    return {"range": place, "newText": text, **named}


def text_edits(old_text: str, new_text: str) -> list[tuple[Place, Place, str]]:
    """Whole lines to replace: where they begin and end, and the new text; none of them touch.

    Both texts have one kind of line end, and both end with it or neither does: so nothing reaches behind the text.
    """
    from gloveport.server.edit.hunks import diff_hunks
    from gloveport.server.edit.lines import split_lines  # with the rooms, which are loaded after the first clients

    old, new = (text.encode("utf-8", "surrogatepass") for text in (old_text, new_text))
    lines = split_lines(old)
    return [
        (
            _place(hunk.old_start, lines),
            _place(hunk.old_start + len(hunk.old_lines), lines),
            b"".join(hunk.new_lines).decode("utf-8", "surrogatepass"),
        )
        for hunk in diff_hunks(old, new, "", context=1)
    ]


def _place(line: int, lines: list[bytes]) -> Place:
    """The beginning of a line, or the end of a text that ends within its last line."""
    if line < len(lines) or not lines or lines[-1].endswith(b"\n"):
        return Place(line, 0)
    return Place(line - 1, utf16_length(lines[-1].decode("utf-8", "surrogatepass")))
