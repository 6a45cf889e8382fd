"""textDocument/didOpen, didChange, didClose.

Purpose: tell the sink which text each open document of one connection holds.
Invariant: a change that does not fit closes the document: what is not known exactly is not known.
Must never: read or write a file, or hold a document beyond its connection.
"""

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.text import scrub_surrogates
from gloveport.server.transports.lsp.envelope import Notification
from gloveport.server.transports.lsp.reading import read_params
from gloveport.server.transports.lsp.uris import normal_uri
from gloveport.server.transports.port import Buffer, BufferSink, Editor

if TYPE_CHECKING:
    from gloveport.server.transports.lsp.notices import Changed, Item

_log = logging.getLogger("gloveport.transport")


class Documents:
    """The open documents of one connection."""

    def __init__(self, connection_id: str, sink: BufferSink, documents_max: int, editor: Editor | None = None) -> None:
        self._connection_id = connection_id
        self._editor = editor
        self._sink = sink
        self._documents_max = documents_max
        self._open: dict[str, Buffer] = {}

    def take(self, notification: Notification) -> None:
        """Follow one notice; what is not about an open document's text is ignored."""
        from gloveport.server.transports.lsp.notices import Changed, Closed, Opened  # for editors alone

        params = notification.params
        try:
            if notification.method == "textDocument/didOpen":
                self._opened(read_params(Opened, params).text_document)
            elif notification.method == "textDocument/didChange":
                self._changed(read_params(Changed, params))
            elif notification.method == "textDocument/didClose":
                self._forget(normal_uri(read_params(Closed, params).text_document.uri))
        except GloveportError as fault:
            _log.warning("%s of connection %s: %s", notification.method, self._connection_id, fault.message)
            self._lose(params)

    def close(self) -> None:
        """The connection ends, and with it what it had open."""
        for key in tuple(self._open):
            self._forget(key)

    def _opened(self, item: "Item") -> None:
        key = normal_uri(item.uri)
        if key not in self._open and len(self._open) >= self._documents_max:
            _log.warning(
                "connection %s has %d documents open; one more is not followed", self._connection_id, len(self._open)
            )
            return
        text = scrub_surrogates(item.text)
        self._keep(Buffer(self._connection_id, key, item.uri, item.version, text, self._editor))

    def _changed(self, changed: "Changed") -> None:
        key = normal_uri(changed.text_document.uri)
        before = self._open.get(key)
        if before is None:
            return
        if changed.text_document.version <= before.version:
            _log.warning("a document of connection %s went back in its version; it is let go", self._connection_id)
            self._forget(key)
            return
        from gloveport.server.transports.lsp.textsync import apply_changes

        text = apply_changes(before.text, changed.content_changes)
        self._keep(replace(before, version=changed.text_document.version, text=text))

    def _lose(self, params: object) -> None:
        """A notice that can't be read may have been a change: its document is not known any more."""
        named = params.get("textDocument") if isinstance(params, dict) else None
        uri = named.get("uri") if isinstance(named, dict) else None
        if isinstance(uri, str):
            self._forget(normal_uri(uri))

    def _keep(self, buffer: Buffer) -> None:
        self._open[buffer.key] = buffer
        self._sink.opened(buffer)

    def _forget(self, key: str) -> None:
        if self._open.pop(key, None) is not None:
            self._sink.closed(self._connection_id, key)
