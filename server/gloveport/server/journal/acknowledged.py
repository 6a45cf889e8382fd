"""What was acknowledged since the journal was opened, noted beside it.

Purpose: find acknowledged events that are gone: SQLite drops everything after the first damaged frame of its log
without a word, and a database that was removed is an empty one to it.
Invariant: a note is written after the commit and before the answer, so it never names more than was committed; `full`
notes hold after a power loss too, `relaxed` ones on the same boot only; a damaged note says nothing.
Must never: be fsynced (the log is what is durable), make an append fail, or be read for anything but this comparison.

One line a stream and commit: CRC-32 (hex) of the rest, `full` or `relaxed`, seq of the last event, stream.
"""

import os
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gloveport.protocol.journal.envelope import INTEGER_MAX

NOTES_FILE: Final = "journal.acknowledged"
NOTES_BYTES_MAX: Final = 1024 * 1024
_READ_BYTES_MAX: Final = 64 * 1024 * 1024
_FIELDS: Final = 4


@dataclass(slots=True)
class Noted:
    """How far a stream was acknowledged: at all, and on disk."""

    last_seq: int = 0
    full_seq: int = 0


class Notes:
    """The notes of one open journal; used on the writer's thread."""

    def __init__(self, directory: Path, noted: Mapping[str, Noted]) -> None:
        self._path = directory / NOTES_FILE
        self._noted: dict[str, Noted] = dict(noted)
        self._bytes = 0
        self._fd = -1
        self._start(self._noted)

    def add(self, heads: Iterable[tuple[str, int]], *, full: bool) -> None:
        """Note where streams end after a commit."""
        word = "full" if full else "relaxed"
        lines: list[bytes] = []
        for stream, seq in heads:
            noted = self._noted.setdefault(stream, Noted())
            noted.last_seq = seq
            if full:
                noted.full_seq = seq
            lines.append(_line(word, seq, stream))
        self._bytes += self._write(b"".join(lines))
        if self._bytes > NOTES_BYTES_MAX:
            self._start(self._noted)

    def cut(self, stream: str, last_seq: int) -> None:
        """A stream ends earlier than was noted, and whoever reads it knows; 0 when it is gone."""
        if last_seq > 0:
            self._noted[stream] = Noted(last_seq, last_seq)
        else:
            self._noted.pop(stream, None)
        self._start(self._noted)

    def close(self) -> None:
        """End the notes; the file stays."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _write(self, data: bytes) -> int:
        # A note that the disk refuses costs the comparison, not the append; the line feed keeps the next one whole.
        with suppress(OSError):
            if self._fd >= 0 and os.write(self._fd, data) < len(data):
                os.write(self._fd, b"\n")
        return len(data)

    def _start(self, noted: Mapping[str, Noted]) -> None:
        """Write a fresh file with one pair of notes a stream."""
        self.close()
        write_notes(self._path.parent, noted)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with suppress(OSError):
            self._fd = os.open(self._path, flags, 0o600)
        self._bytes = 0


def write_notes(directory: Path, noted: Mapping[str, Noted]) -> None:
    """Replace the notes of a directory; what the disk refuses is left as it was."""
    part = directory / (NOTES_FILE + ".part")
    lines = [
        _line(word, seq, stream)
        for stream, one in noted.items()
        for word, seq in (("full", one.full_seq), ("relaxed", one.last_seq))
        if seq > 0
    ]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with suppress(OSError):
        with open(os.open(part, flags, 0o600), "wb") as file:
            file.write(b"".join(lines))
        part.replace(directory / NOTES_FILE)


def read_notes(directory: Path, *, full_only: bool) -> dict[str, int]:
    """How far each stream was acknowledged by the last owner; `full_only` after a power loss."""
    try:
        with (directory / NOTES_FILE).open("rb") as file:
            data = file.read(_READ_BYTES_MAX)
    except OSError:
        return {}
    found: dict[str, int] = {}
    for line in data.split(b"\n"):
        note = _note(line)
        if note is not None and not (full_only and note[0] != "full"):
            found[note[2]] = max(found.get(note[2], 0), note[1])
    return found


def _line(word: str, seq: int, stream: str) -> bytes:
    text = f"{word} {seq} {stream}".encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _note(line: bytes) -> tuple[str, int, str] | None:
    fields = line.split(b" ")
    if len(fields) != _FIELDS or b"%08x" % zlib.crc32(line[9:]) != fields[0] or not fields[2].isdigit():
        return None
    seq = int(fields[2])
    return (fields[1].decode(), seq, fields[3].decode()) if 0 < seq <= INTEGER_MAX else None
