"""Bytes kept under their own hash.

Purpose: hold every content that a snapshot, a proposal or an undo may need, in one append-only pack; a session's store
stands before the one that all sessions share, and sees of it what its own snapshot named.
Invariant: `get(put(data)) == data`; what lay in the index at a `sync` survives a crash; a torn tail is cut at opening.
Must never: hand out bytes whose hash is not the name they were asked under, or change bytes once written.
"""

import os
import struct
from collections.abc import Container, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol, Self

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.server.workspace.errors import WorkspaceError, os_failure
from gloveport.server.workspace.syscalls import SHARED_BLOCK_BYTES, give_back, share_range, sync_folder

PACK_NAME: Final = "objects.pack"
INDEX_NAME: Final = "objects.index"
SHARED_BYTES_MIN: Final = 64 << 10
"""From this size on a content begins at a block, so that files can share its place: of each, all but the last block."""
_RECORD: Final = struct.Struct(">32sQQ")


class Below(Protocol):
    """A store that another one stands before."""

    def get(self, digest: str) -> bytes:
        """The bytes of a name. Raises WorkspaceError."""

    def has(self, digest: str) -> bool:
        """True when `get` would find the name."""

    def size(self, digest: str) -> int | None:
        """How many bytes the name stands for."""

    def share(self, digest: str, fd: int) -> bool:
        """Make an empty file hold the bytes of a name without a copy; False where that cannot be had."""


class ContentStore:
    """An open store. One owner at a time; close it.

    Of `below` only the names in `pinned` (raw hashes) are there: what nobody named may be removed from it.
    """

    def __init__(self, folder: Path, below: Below | None = None, pinned: Container[bytes] = ()) -> None:
        self._below, self._pinned = below, pinned
        self._folder = folder
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
        if key not in self._places and not (key in self._pinned and self._has_below(name.hexdigest())):
            if len(data) >= SHARED_BYTES_MIN:
                self._end = -(-self._end // SHARED_BLOCK_BYTES) * SHARED_BLOCK_BYTES
            self._append(data)
            self._places[key] = (self._end, len(data))
            self._unsaved.append(_RECORD.pack(key, self._end, len(data)))
            self._end += len(data)
        return Sha256(name.hexdigest())

    def get(self, digest: str) -> bytes:
        """The bytes named `digest`. Raises WorkspaceError `journal.blob_missing`."""
        key = bytes.fromhex(digest)
        place = self._places.get(key)
        if place is None and self._below is not None and key in self._pinned:
            return self._below.get(digest)
        try:
            data = b"" if place is None else _read_at(self._pack, *place)
        except OSError as error:
            raise os_failure(error, PACK_NAME) from None
        if place is None or sha256(data).hexdigest() != digest:
            raise WorkspaceError(ErrorCode.BLOB_MISSING, f"content {digest[:12]}… is not in the store or is damaged")
        return data

    def has(self, digest: str) -> bool:
        """True when `get` would find the name."""
        key = bytes.fromhex(digest)
        return key in self._places or (key in self._pinned and self._has_below(digest))

    def size(self, digest: str) -> int | None:
        """How many bytes the name stands for; None when it is not here."""
        key = bytes.fromhex(digest)
        place = self._places.get(key)
        if place is None and self._below is not None and key in self._pinned:
            return self._below.size(digest)
        return None if place is None else place[1]

    def share(self, digest: str, fd: int) -> bool:
        """Make an empty file hold the bytes of a name without a copy; False where that cannot be had.

        The bytes are not checked. What was put since the last `sync` is written to the disk first.
        """
        key = bytes.fromhex(digest)
        place = self._places.get(key)
        if place is None and self._below is not None and key in self._pinned:
            return self._below.share(digest, fd)
        if place is None or place[1] < SHARED_BYTES_MIN:
            return False
        try:
            share_range(self._pack, *place, fd)
        except OSError:
            os.ftruncate(fd, 0)
            return False
        return True

    @property
    def bytes_total(self) -> int:
        """Bytes of all contents that are here."""
        return sum(length for _, length in self._places.values())

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

    def keep_only(self, wanted: Container[bytes]) -> int:
        """Forget every content that is not `wanted` (raw hashes) and give its place on the disk back; the bytes freed.

        First the names go, durably, then the bytes; what a death leaves between is given back at the next call.
        """
        self.sync()
        kept = {key: place for key, place in self._places.items() if key in wanted}
        freed = self.bytes_total - sum(length for _, length in kept.values())
        if len(kept) < len(self._places):
            rows = (_RECORD.pack(key, *place) for key, place in kept.items())
            self._index = replace_file(self._folder, INDEX_NAME, self._index, b"".join(rows))
            self._places = kept
        try:
            for offset, length in _gaps(sorted(kept.values()), os.fstat(self._pack).st_size):
                give_back(self._pack, offset, length)
        except OSError as error:
            raise os_failure(error, PACK_NAME, writing=True) from None
        return freed

    def _has_below(self, digest: str) -> bool:
        return self._below is not None and self._below.has(digest)

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


def replace_file(folder: Path, name: str, old_fd: int, data: bytes) -> int:
    """Make a file hold `data`, durably and whole; a handle of the new one. Raises WorkspaceError."""
    fresh = folder / f"{name}.new"
    try:
        fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _write_all(fd, data)
        os.fsync(fd)
        fresh.replace(folder / name)
        sync_folder(folder)
    except OSError as error:
        raise os_failure(error, name, writing=True) from None
    os.close(old_fd)
    return fd


def _gaps(places: Sequence[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Offset and length of what no name stands for."""
    at = 0
    for offset, length in places:
        if offset > at:
            yield at, offset - at
        at = max(at, offset + length)
    if size > at:
        yield at, size - at


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
