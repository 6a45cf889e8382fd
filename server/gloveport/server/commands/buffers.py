"""Open documents of the clients.

Purpose: know what is open in which editor, and pass on what shall be changed there (`Editors`, `BufferSink`).
Invariant: what a client says of its document is the truth about it until it closes it or leaves.
Must never: write a file, or take a buffer for the file's content.
"""

import os
from collections.abc import Callable, Sequence

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.engine.editors import OpenDocument, Wanted
from gloveport.server.transports.port import Buffer, DocumentEdit


class BufferTable:
    """What is open now; `path_of` gives the local path that a URI means."""

    def __init__(self, path_of: Callable[[str], str | None]) -> None:
        self._path_of = path_of
        self._open: dict[tuple[str, str], Buffer] = {}
        self._paths: dict[tuple[str, str], str | None] = {}
        """Where each led when it was opened, as its editor goes by that."""
        self._heard: dict[str, int] = {}
        self._moments = 0
        self._changed = anyio.Event()

    def opened(self, buffer: Buffer) -> None:
        """A document was opened or its text changed."""
        name = (buffer.connection_id, buffer.key)
        if name not in self._open:
            self._paths[name] = self.real_path(buffer.uri)
        self._open[name] = buffer
        self.heard(buffer.connection_id)
        self._tell()

    def closed(self, connection_id: str, key: str) -> None:
        """A document was closed, or its connection ended."""
        self._open.pop((connection_id, key), None)
        self._paths.pop((connection_id, key), None)
        if not any(name == connection_id for name, _ in self._open):
            self._heard.pop(connection_id, None)
        self._tell()

    def heard(self, connection_id: str) -> None:
        """A client did something: of several that show one file, the last one heard of is its user's."""
        if any(name == connection_id for name, _ in self._open):
            self._moments += 1
            self._heard[connection_id] = self._moments

    def real_path(self, uri: str) -> str | None:
        """The link-free path that a URI means; None when it means no file of this machine."""
        shown = self._path_of(uri)
        return None if shown is None or "\0" in shown else os.path.realpath(shown)

    def documents(self) -> Sequence[OpenDocument]:
        """Every file that is open, the editor that was last heard of first."""
        found: list[tuple[int, OpenDocument]] = []
        for (connection_id, key), buffer in self._open.items():
            path = self._paths[connection_id, key]
            if path is None:
                continue
            editor = buffer.editor
            document = OpenDocument(
                name=f"{connection_id}/{key.replace('/', '%')}",
                client=connection_id,
                editor="an editor" if editor is None else editor.name,
                path=path,
                version=buffer.version,
                text=buffer.text,
                can_edit=editor is not None and editor.can_edit,
            )
            found.append((self._heard.get(connection_id, 0), document))
        return [document for _, document in sorted(found, key=lambda one: -one[0])]

    async def edit(self, label: str, wanted: Sequence[Wanted], timeout_s: float) -> str | None:
        """Ask the client of these documents for their new texts; what it says against it.

        Raises TimeoutError, GloveportError.
        """
        editor, edits = None, []
        for each in wanted:
            buffer = next((one for one in self._open.values() if self._is(one, each.document)), None)
            if buffer is None or buffer.editor is None:
                raise GloveportError(ErrorCode.CHANGE_CONFLICT, "the document was closed meanwhile")
            editor = buffer.editor
            edits.append(DocumentEdit(buffer.uri, buffer.version, buffer.text, each.text, label))
        return None if editor is None else await editor.edit(label, edits, timeout_s)

    def _is(self, buffer: Buffer, document: OpenDocument) -> bool:
        return f"{buffer.connection_id}/{buffer.key.replace('/', '%')}" == document.name

    async def until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something holds of the documents; whether it did in time."""
        with anyio.move_on_after(timeout_s):
            while not holds():
                await self._changed.wait()
            return True
        return holds()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
