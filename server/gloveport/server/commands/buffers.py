"""Open documents of the clients.

Purpose: know what is open and unsaved, so that no decision is written over words the user has not saved.
Invariant: what a client says of its document is the truth about it until it closes it or leaves.
Must never: write, or take a buffer for the file's content.
"""

import os
from collections.abc import Callable
from pathlib import Path

from gloveport.server.transports.port import Buffer


class BufferTable:
    """What is open now (`BufferSink`); `path_of` gives the local path that a URI means."""

    def __init__(self, path_of: Callable[[str], str | None]) -> None:
        self._path_of = path_of
        self._open: dict[tuple[str, str], Buffer] = {}

    def opened(self, buffer: Buffer) -> None:
        """A document was opened or its text changed."""
        self._open[buffer.connection_id, buffer.key] = buffer

    def closed(self, connection_id: str, key: str) -> None:
        """A document was closed, or its connection ended."""
        self._open.pop((connection_id, key), None)

    def real_path(self, uri: str) -> str | None:
        """The link-free path that a URI means; None when it means no file of this machine."""
        shown = self._path_of(uri)
        return None if shown is None or "\0" in shown else os.path.realpath(shown)

    def shown(self, path: Path) -> bytes | None:
        """What an open document shows of this file, as bytes of UTF-8 without a mark; None when none is open."""
        wanted = os.path.realpath(path)
        for buffer in self._open.values():
            if self.real_path(buffer.uri) == wanted:
                return buffer.text.encode("utf-8", "surrogatepass")
        return None

    def unsaved(self, path: Path) -> bool:
        """Whether a client shows another text for this file than the disk holds."""
        wanted = os.path.realpath(path)
        for buffer in self._open.values():
            if self.real_path(buffer.uri) != wanted:
                continue
            try:
                saved = path.read_bytes()
            except OSError:
                saved = b""
            if buffer.text.encode("utf-8", "surrogatepass") != saved.removeprefix(b"\xef\xbb\xbf"):
                return True
        return False
