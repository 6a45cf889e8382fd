"""Bytes kept under their own hash.

Purpose: hold every content that a snapshot, a proposal or an undo may need, in one append-only pack.
Invariant: `get(put(data)) == data`; what lay in the index at a `sync` survives a crash; a torn tail is cut at opening.
Must never: hand out bytes whose hash is not the name they were asked under, or change bytes once written.
"""

import os
import struct
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.server.workspace.errors import WorkspaceError, os_failure

PACK_NAME: Final = "objects.pack"
INDEX_NAME: Final = "objects.index"
_RECORD: Final = struct.Struct(">32sQQ")


class ContentStore:
    """An open store. One owner at a time; close it."""

    def __init__(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._pack = os.open(folder / PACK_NAME, flags, 0o600)
            self._index = os.open(folder / INDEX_NAME, flags, 0o600)
        except OSError as error:
            raise os_failure(error, PACK_NAME, writing=True) from None
        self._places: dict[bytes, tuple[int, int]] = {}
        self._unsaved: list[bytes] = []
        self._end = self._load()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the handles back; unsynced objects are lost."""
        if self._pack >= 0:
            os.close(self._pack)
            os.close(self._index)
            self._pack = self._index = -1

    def put(self, data: bytes) -> Sha256:
        """Keep `data`; durable after the next `sync`."""
        name = sha256(data)
        key = name.digest()
        if key not in self._places:
            self._append(data)
            self._places[key] = (self._end, len(data))
            self._unsaved.append(_RECORD.pack(key, self._end, len(data)))
            self._end += len(data)
        return Sha256(name.hexdigest())

    def get(self, digest: str) -> bytes:
        """The bytes named `digest`. Raises WorkspaceError `journal.blob_missing`."""
        place = self._places.get(bytes.fromhex(digest))
        try:
            data = b"" if place is None else _read_at(self._pack, *place)
        except OSError as error:
            raise os_failure(error, PACK_NAME) from None
        if place is None or sha256(data).hexdigest() != digest:
            raise WorkspaceError(ErrorCode.BLOB_MISSING, f"content {digest[:12]}… is not in the store or is damaged")
        return data

    def has(self, digest: str) -> bool:
        """True when `get` would find the name."""
        return bytes.fromhex(digest) in self._places

    def size(self, digest: str) -> int | None:
        """How many bytes the name stands for; None when it is not here."""
        place = self._places.get(bytes.fromhex(digest))
        return None if place is None else place[1]

    def sync(self) -> None:
        """Make everything put so far durable: first the bytes, then their names."""
        if not self._unsaved:
            return
        try:
            os.fdatasync(self._pack)
            os.lseek(self._index, 0, os.SEEK_END)
            _write_all(self._index, b"".join(self._unsaved))
            os.fdatasync(self._index)
        except OSError as error:
            raise os_failure(error, INDEX_NAME, writing=True) from None
        self._unsaved.clear()

    def _append(self, data: bytes) -> None:
        try:
            os.lseek(self._pack, self._end, os.SEEK_SET)
            _write_all(self._pack, data)
        except OSError as error:
            raise os_failure(error, PACK_NAME, writing=True) from None

    def _load(self) -> int:
        raw = _read_at(self._index, 0, os.fstat(self._index).st_size)
        whole = len(raw) - len(raw) % _RECORD.size
        size = os.fstat(self._pack).st_size
        end = 0
        for key, offset, length in _RECORD.iter_unpack(raw[:whole]):
            if offset + length <= size:
                self._places[key] = (offset, length)
                end = max(end, offset + length)
        os.ftruncate(self._index, whole)
        return end


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _read_at(fd: int, offset: int, length: int) -> bytes:
    pieces = []
    while length > 0 and (piece := os.pread(fd, length, offset)):
        pieces.append(piece)
        offset += len(piece)
        length -= len(piece)
    return b"".join(pieces)
