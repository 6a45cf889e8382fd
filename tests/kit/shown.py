"""An editor in this process: documents in a table, edits made as it is told, or not.

Purpose: play an editor (`Editor`) at the daemon's inner door, faithful, lying, slow or silent.
Invariant: what a document shows is told to the table and nowhere else.
Must never: touch a file unless a test asks it to save.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio

from gloveport.server.commands.buffers import BufferTable
from gloveport.server.transports.port import Buffer, DocumentEdit

Behaviour = Callable[["ShownEditor", Sequence[DocumentEdit]], Awaitable[str | None]]


async def faithful(editor: "ShownEditor", edits: Sequence[DocumentEdit]) -> str | None:
    """Make the edits of the version that is shown."""
    for edit in edits:
        shown = editor.shown[edit.uri]
        if (shown.version, shown.text) != (edit.version, edit.old_text):
            return "stale"
    for edit in edits:
        editor.type(edit.uri, edit.new_text)
    return None


async def lying(_editor: "ShownEditor", _edits: Sequence[DocumentEdit]) -> str | None:
    """Agree and do nothing, as Neovim does with an edit of an older version."""
    return None


async def denying(editor: "ShownEditor", edits: Sequence[DocumentEdit]) -> str | None:
    """Make the edits and say that it refused them."""
    await faithful(editor, edits)
    return "refused"


async def silent(_editor: "ShownEditor", _edits: Sequence[DocumentEdit]) -> str | None:
    """Never answer."""
    await anyio.sleep_forever()
    return None


class ShownEditor:
    """One editor; `asked` keeps what it was asked for."""

    can_edit = True

    def __init__(self, table: BufferTable, name: str, behaviour: Behaviour = faithful) -> None:
        self.table, self.name, self.behaviour = table, name, behaviour
        self.shown: dict[str, Buffer] = {}
        self.asked: list[Sequence[DocumentEdit]] = []

    def open(self, path: Path, text: str | None = None) -> str:
        """Show a file; its URI."""
        uri = path.as_uri()
        shown = path.read_bytes().decode("utf-8-sig") if text is None else text
        self._show(Buffer(self.name, uri, uri, 1, shown, self))
        return uri

    def type(self, uri: str, text: str) -> None:
        """Let a document hold another text."""
        self._show(Buffer(self.name, uri, uri, self.shown[uri].version + 1, text, self))

    def save(self, path: Path) -> None:
        """Write a document into its file."""
        path.write_bytes(self.shown[path.as_uri()].text.encode())

    def close(self, path: Path) -> None:
        """Close a document."""
        del self.shown[path.as_uri()]
        self.table.closed(self.name, path.as_uri())

    def text(self, path: Path) -> str:
        """What a document holds."""
        return self.shown[path.as_uri()].text

    async def edit(self, label: str, edits: Sequence[DocumentEdit], timeout_s: float) -> str | None:
        """As the behaviour has it."""
        self.asked.append(edits)
        with anyio.fail_after(timeout_s):
            return await self.behaviour(self, edits)

    def _show(self, buffer: Buffer) -> None:
        self.shown[buffer.uri] = buffer
        self.table.opened(buffer)
