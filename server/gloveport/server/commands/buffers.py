"""Open documents of the clients.

Purpose: know what is open and unsaved, so that no decision is written over words the user has not saved.
Invariant: what a client says of its document is the truth about it until it closes it or leaves.
Must never: write, or take a buffer for the file's content.
"""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gloveport.server.transports.port import Buffer


def path_of(uri: str) -> Path | None:
    """The local path of a `file:` address; None for any other."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or "\0" in path:
        return None
    return Path(path)


class BufferTable:
    """What is open now (`BufferSink`)."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Buffer] = {}

    def opened(self, buffer: Buffer) -> None:
        """A document was opened or its text changed."""
        self._open[buffer.connection_id, buffer.key] = buffer

    def closed(self, connection_id: str, key: str) -> None:
        """A document was closed, or its connection ended."""
        self._open.pop((connection_id, key), None)

    def unsaved(self, path: Path) -> bool:
        """Whether a client shows another text for this file than the disk holds."""
        wanted = Path(os.path.realpath(path))
        for buffer in self._open.values():
            shown = path_of(buffer.uri)
            if shown is None or Path(os.path.realpath(shown)) != wanted:
                continue
            try:
                saved = wanted.read_bytes()
            except OSError:
                saved = b""
            if buffer.text.encode("utf-8", "surrogatepass") != saved.removeprefix(b"\xef\xbb\xbf"):
                return True
        return False
