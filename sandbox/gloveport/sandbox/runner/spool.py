"""Bounded output of one run: the head, and a ring that holds the newest tail.

Purpose: any amount of output in a fixed amount of disk, readable while it is written and after a crash.
Invariant: bytes up to the published count are in place before the count says so; the newest `tail_bytes` counted
bytes are never those being overwritten, because the ring is one chunk longer than the tail.
Must never: block the jail on a slow reader, or grow beyond head + tail + one chunk.
"""

import os
import struct
from pathlib import Path
from typing import Final

CHUNK_BYTES: Final = 64 * 1024
OUTPUT_FILE: Final = "output"
COUNT_FILE: Final = "count"
READ_TRIES_MAX: Final = 8
_COUNT = struct.Struct("<Q")


class _Layout:
    """Where the byte at an absolute offset lies in the file."""

    def __init__(self, output_bytes_max: int) -> None:
        self.head_bytes = output_bytes_max // 2
        self.tail_bytes = output_bytes_max - self.head_bytes
        self.ring_bytes = self.tail_bytes + CHUNK_BYTES

    def spans(self, start: int, end: int) -> list[tuple[int, int]]:
        """File (position, length) pieces of the absolute range, in order."""
        pieces = []
        while start < end:
            if start < self.head_bytes:
                position, room = start, self.head_bytes - start
            else:
                inside = (start - self.head_bytes) % self.ring_bytes
                position, room = self.head_bytes + inside, self.ring_bytes - inside
            length = min(room, end - start)
            pieces.append((position, length))
            start += length
        return pieces


class SpoolWriter:
    """The supervisor's side; chunks are at most `CHUNK_BYTES` long."""

    def __init__(self, folder: Path, output_bytes_max: int) -> None:
        self._layout = _Layout(output_bytes_max)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._data = os.open(folder / OUTPUT_FILE, flags, 0o600)
        self._count = os.open(folder / COUNT_FILE, flags, 0o600)
        self.total = 0
        os.pwrite(self._count, _COUNT.pack(0), 0)

    def write(self, chunk: bytes) -> None:
        """Append one chunk and publish the new count."""
        used = 0
        for position, length in self._layout.spans(self.total, self.total + len(chunk)):
            os.pwrite(self._data, chunk[used : used + length], position)
            used += length
        self.total += len(chunk)
        os.pwrite(self._count, _COUNT.pack(self.total), 0)

    def sync(self) -> None:
        """Make the output durable and let go of the files."""
        if self.total:
            os.fsync(self._data)
        os.close(self._data)
        os.close(self._count)


class SpoolReader:
    """A reader's side; may run in another process while the writer writes."""

    def __init__(self, folder: Path, output_bytes_max: int) -> None:
        self._folder = folder
        self._layout = _Layout(output_bytes_max)
        self._offset = 0

    def total(self) -> int:
        """Bytes counted so far; 0 before the writer began."""
        try:
            raw = (self._folder / COUNT_FILE).read_bytes()
        except FileNotFoundError:
            return 0
        return int(_COUNT.unpack(raw)[0]) if len(raw) == _COUNT.size else 0

    def read_new(self) -> bytes:
        """Bytes after the last call, at most one chunk; when the reader was too slow the middle is skipped."""
        for _ in range(READ_TRIES_MAX):
            total = self.total()
            start = self._readable_from(self._offset, total)
            end = min(total, start + CHUNK_BYTES)
            if start < self._layout.head_bytes:
                end = min(end, self._layout.head_bytes)
            data = self._read(start, end)
            # The ring may have moved on while we read: only what is still inside is sure.
            sure = self._readable_from(start, self.total())
            self._offset = max(end, sure)
            if end == start or sure < end:
                return data[sure - start :]
        return b""

    def read_kept(self) -> tuple[bytes, int, bool]:
        """After the writer's end: (head + tail, total, whether the middle is missing)."""
        total, layout = self.total(), self._layout
        if total <= layout.head_bytes + layout.tail_bytes:
            return self._read(0, total), total, False
        return self._read(0, layout.head_bytes) + self._read(total - layout.tail_bytes, total), total, True

    def _readable_from(self, offset: int, total: int) -> int:
        oldest = total - self._layout.tail_bytes
        return offset if offset < self._layout.head_bytes or offset >= oldest else oldest

    def _read(self, start: int, end: int) -> bytes:
        if end <= start:
            return b""
        with open(self._folder / OUTPUT_FILE, "rb") as file:
            return b"".join(os.pread(file.fileno(), length, at) for at, length in self._layout.spans(start, end))
