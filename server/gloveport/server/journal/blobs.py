"""The blob store: large bodies, addressed by what they hold.

Purpose: keep tool output, file contents and images out of the log; an event carries the digest and the size.
Invariant: a blob that was answered is on disk, whole, under the SHA-256 of its bytes; what is read whole is checked
against its name; no name but 64 hex digits ever becomes a path.
Must never: overwrite a blob, follow a link, or hold a body larger than `BLOB_BYTES_MAX`.

One writer at a time, in a thread: temporary file, fsync, rename, fsync of the folder. Left-over temporary files of a
crash are removed when the store is opened. Reads need no lock.
"""

import hashlib
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import anyio
import anyio.to_thread

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.blob_uses import BLOBS_FOLDER
from gloveport.server.journal.errors import JournalError, corrupt, limit, refused_by_disk
from gloveport.server.journal.filesystem import fsync_directory
from gloveport.server.journal.records import is_digest

BLOB_BYTES_MAX: Final = 64 * 1024 * 1024
STORE_BYTES_MAX: Final = 8 * 1024 * 1024 * 1024
RANGE_BYTES_MAX: Final = 8 * 1024 * 1024

_SHELVES: Final = 256
_CHUNK_BYTES: Final = 1024 * 1024
_PART_SUFFIX: Final = ".part"
_READ_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class BlobRef:
    """What an event keeps of a large body: SHA-256 (64 hex digits) and size."""

    digest: str
    size_bytes: int


class BlobStore:
    """The blobs of one data directory. Make it with `open`; the owner of the data directory's lease writes."""

    def __init__(self, folder: Path, used_bytes: int, blob_bytes_max: int, store_bytes_max: int) -> None:
        self._folder = folder
        self._used_bytes = used_bytes
        self._blob_bytes_max = blob_bytes_max
        self._store_bytes_max = store_bytes_max
        self._lock = anyio.Lock()

    @classmethod
    async def open(
        cls, directory: Path, *, blob_bytes_max: int = BLOB_BYTES_MAX, store_bytes_max: int = STORE_BYTES_MAX
    ) -> "BlobStore":
        """Open (or make) the store of a data directory; raises JournalError (NOT_SAVED, DATA_FULL)."""
        folder = directory / BLOBS_FOLDER
        used_bytes = await anyio.to_thread.run_sync(_prepare, folder)
        return cls(folder, used_bytes, blob_bytes_max, store_bytes_max)

    @property
    def used_bytes(self) -> int:
        """Bytes of all blobs."""
        return self._used_bytes

    async def put(self, data: bytes) -> BlobRef:
        """Keep `data`; durable when this returns. Raises JournalError: LIMIT, NOT_SAVED, DATA_FULL."""
        return await self._put(iter((data,)))

    async def put_file(self, path: Path) -> BlobRef:
        """Keep a copy of a regular file (no link); raises JournalError: LIMIT, NOT_SAVED, DATA_FULL."""
        try:
            source = await anyio.to_thread.run_sync(_open_read, path)
        except OSError as error:
            raise refused_by_disk("the body cannot be read", error) from error
        with closing(source):
            return await self._put(iter(lambda: source.read(_CHUNK_BYTES), b""))

    async def has(self, digest: str) -> bool:
        """Whether the blob is there."""
        return await anyio.to_thread.run_sync(self._path(digest).is_file)

    async def size(self, digest: str) -> int:
        """Size in bytes; raises JournalError(BLOB_MISSING)."""
        return await anyio.to_thread.run_sync(lambda: _size(self._path(digest)))

    async def get(self, digest: str) -> bytes:
        """The whole blob, checked against its name; raises JournalError: BLOB_MISSING, CORRUPT."""
        data = await anyio.to_thread.run_sync(_read, self._path(digest), 0, self._blob_bytes_max)
        if hashlib.sha256(data).hexdigest() != digest:
            raise corrupt(f"blob {digest[:12]} is damaged on disk")
        return data

    async def read_range(self, digest: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes (at most `RANGE_BYTES_MAX`) from `offset`; not checked against the name."""
        if offset < 0 or length < 0:
            raise JournalError(ErrorCode.INVALID_PARAMS, "offset and length of a range are not negative")
        return await anyio.to_thread.run_sync(_read, self._path(digest), offset, min(length, RANGE_BYTES_MAX))

    async def delete(self, digest: str) -> bool:
        """Remove a blob (retention, or a leaked secret); False when it was not there."""
        async with self._lock:
            size_bytes = await anyio.to_thread.run_sync(_delete, self._path(digest))
            self._used_bytes -= size_bytes or 0
        return size_bytes is not None

    async def sweep(self, unused: Callable[[Iterable[str]], Awaitable[tuple[str, ...]]], before_ns: int) -> int:
        """Remove blobs that nothing refers to and that were last put before a time; bytes that were given back.

        `unused` gives back those of the digests it is asked about that nothing refers to. A put of a body that is
        there already counts: whoever puts it is about to refer to it. Raises JournalError (NOT_SAVED, DATA_FULL).
        """
        given_back = 0
        for number in range(_SHELVES):
            shelf = self._folder / f"{number:02x}"
            old = await anyio.to_thread.run_sync(_older_than, shelf, before_ns)
            for digest in await unused(old) if old else ():
                async with self._lock:
                    size_bytes = await anyio.to_thread.run_sync(_delete_old, self._path(digest), before_ns)
                    self._used_bytes -= size_bytes or 0
                given_back += size_bytes or 0
        return given_back

    async def _put(self, chunks: Iterator[bytes]) -> BlobRef:
        async with self._lock:
            room_bytes = self._store_bytes_max - self._used_bytes
            with anyio.CancelScope(shield=True):
                ref, added = await anyio.to_thread.run_sync(
                    write_blob, self._folder, chunks, self._blob_bytes_max, room_bytes
                )
            self._used_bytes += ref.size_bytes if added else 0
        return ref

    def _path(self, digest: str) -> Path:
        if not is_digest(digest):
            raise JournalError(ErrorCode.INVALID_PARAMS, "a blob is named by 64 lower-case hex digits")
        return self._folder / digest[:2] / digest


def write_blob(folder: Path, chunks: Iterator[bytes], blob_bytes_max: int, room_bytes: int) -> tuple[BlobRef, bool]:
    """Write a blob and whether it is new; on any failure nothing of it is left."""
    part = folder / f"{os.getpid()}{_PART_SUFFIX}"
    try:
        try:
            ref = _write_part(part, chunks, blob_bytes_max, room_bytes)
            final = folder / ref.digest[:2] / ref.digest
            if final.is_file():
                os.utime(final)  # as young as a new one: its event is on its way
                return ref, False
            if not final.parent.is_dir():
                final.parent.mkdir(mode=0o700)
                fsync_directory(folder)
            part.rename(final)
            fsync_directory(final.parent)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise refused_by_disk("the body was not saved", error) from error
    return ref, True


def _write_part(part: Path, chunks: Iterator[bytes], blob_bytes_max: int, room_bytes: int) -> BlobRef:
    digest, size_bytes = hashlib.sha256(), 0
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(fd, "wb") as file:
        for chunk in chunks:
            size_bytes += len(chunk)
            if size_bytes > blob_bytes_max:
                raise limit(f"a body is larger than {blob_bytes_max} bytes")
            if size_bytes > room_bytes:
                raise limit("the blob store is full; delete old sessions")
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(fd)
    return BlobRef(digest.hexdigest(), size_bytes)


def _prepare(folder: Path) -> int:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for part in folder.glob(f"*{_PART_SUFFIX}"):
            part.unlink()
        return sum(entry.stat().st_size for shelf in folder.iterdir() if shelf.is_dir() for entry in os.scandir(shelf))
    except OSError as error:
        raise refused_by_disk("the blob store cannot be opened", error) from error


def _open_read(path: Path) -> BinaryIO:
    return open(os.open(path, _READ_FLAGS), "rb")


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError as error:
        raise _missing(path) from error


def _read(path: Path, offset: int, length: int) -> bytes:
    try:
        with _open_read(path) as file:
            file.seek(offset)
            return file.read(length)
    except FileNotFoundError as error:
        raise _missing(path) from error
    except OSError as error:
        raise corrupt(f"blob {path.name[:12]} cannot be read ({error.strerror})") from error


def _older_than(shelf: Path, before_ns: int) -> tuple[str, ...]:
    try:
        with os.scandir(shelf) as found:
            return tuple(one.name for one in found if is_digest(one.name) and one.stat().st_mtime_ns < before_ns)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise refused_by_disk("the blob store cannot be read", error) from error


def _delete_old(path: Path, before_ns: int) -> int | None:
    try:
        young = path.lstat().st_mtime_ns >= before_ns
    except FileNotFoundError:
        return None
    return None if young else _delete(path)


def _delete(path: Path) -> int | None:
    try:
        size_bytes = path.lstat().st_size
        path.unlink()
        fsync_directory(path.parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused_by_disk("the blob was not deleted", error) from error
    return size_bytes


def _missing(path: Path) -> JournalError:
    return JournalError(ErrorCode.BLOB_MISSING, f"blob {path.name[:12]} is not in the store")
