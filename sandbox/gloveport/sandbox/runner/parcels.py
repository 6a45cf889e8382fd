"""Folders that are sent to another machine: what they hold, and what comes back.

Purpose: the list of a folder's entries with their hashes, remembered between runs.
Invariant: a hash that is remembered belongs to a file that was not touched since: size, times and inode are as they
were, and it had rested before it was read.
Must never: follow a link, open what is no plain file, or read what is covered.
"""

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gloveport.protocol.jail.requests import ParcelPlan

ENTRIES_MAX: Final = 200_000
PARCEL_BYTES_MAX: Final = 8 * 1024 * 1024 * 1024
PIECE: Final = 256 * 1024
RESTED_NS: Final = 2_000_000_000
"""A file that changed so shortly before it was read may change again within the clock's grain."""
EMPTY: Final = hashlib.sha256(b"").hexdigest()
COVERED_MODE: Final = 0o444
READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class ParcelError(OSError):
    """A folder cannot be sent as it is."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a folder: `kind` is d, f or l; `what` is the hash of a file or where a link leads."""

    kind: str
    path: str
    mode: int
    mtime_ns: int
    size: int
    what: str

    def line(self, index: int) -> list[Any]:
        """As it is sent."""
        return [index, self.kind, self.path, self.mode, self.mtime_ns, self.size, self.what]


class Memory:
    """Hashes of one folder's files, as they were last read."""

    def __init__(self, folder: Path, source: str) -> None:
        self._path = folder / f"{hashlib.sha256(os.fsencode(source)).hexdigest()[:32]}.json"
        self._old: dict[str, list[Any]] = {}
        self._new: dict[str, list[Any]] = {}
        try:
            held = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            held = {}
        if isinstance(held, dict):
            self._old = held

    def hash_of(self, path: str, found: os.stat_result, read: Callable[[], str]) -> str:
        """The file's hash; read only where it may have changed."""
        mark = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
        known = self._old.get(path)
        digest = str(known[4]) if known is not None and known[:4] == mark else read()
        if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > RESTED_NS:
            self._new[path] = [*mark, digest]
        return digest

    def save(self) -> None:
        """Write what is known now, whole; what cannot be written is read again next time."""
        if self._new == self._old:
            return
        aside = self._path.with_suffix(f".{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            aside.write_text(json.dumps(self._new), encoding="ascii")
            aside.rename(self._path)
        except OSError:
            aside.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Parcel:
    """A folder as it is sent. `others`: paths below it where another parcel stands; `root` its own mode and time."""

    plan: ParcelPlan
    entries: tuple[Entry, ...]
    others: tuple[str, ...]
    digest: str

    @property
    def by_path(self) -> dict[str, Entry]:
        """Entries by their path."""
        return {entry.path: entry for entry in self.entries}

    def contents(self, entry: Entry) -> Iterator[bytes]:
        """A file's bytes as they were listed; what is covered is empty."""
        return iter(()) if entry.what == EMPTY else read_content(self.plan.source, entry.path, entry.size)


def pack(plan: ParcelPlan, others: tuple[str, ...], covered: frozenset[str], memory: Memory) -> Parcel:
    """Everything below a folder. Raises `ParcelError` for one that is too large, `OSError` where it cannot be read."""
    root = os.stat(plan.source)
    if not stat.S_ISDIR(root.st_mode):
        raise ParcelError(f"{plan.source} is no folder")
    entries = [Entry("d", "", stat.S_IMODE(root.st_mode) & 0o777, root.st_mtime_ns, 0, "")]
    total = 0
    for entry in _walk(plan.source, frozenset(others), covered, memory):
        entries.append(entry)
        total += entry.size
        if len(entries) > ENTRIES_MAX or total > PARCEL_BYTES_MAX:
            raise ParcelError(f"{plan.source} holds more than is sent to another machine")
    memory.save()
    seen = hashlib.sha256()
    for entry in entries:
        seen.update(json.dumps(entry.line(0)).encode() + b"\n")
    return Parcel(plan, tuple(entries), others, seen.hexdigest())


def _walk(source: str, others: frozenset[str], covered: frozenset[str], memory: Memory) -> Iterator[Entry]:
    def fail(error: OSError) -> None:
        raise error

    for folder, folders, files, fd in os.fwalk(source, follow_symlinks=False, onerror=fail):
        inside = os.path.relpath(folder, source)
        inside = "" if inside == "." else inside + "/"
        linked = [name for name in folders if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)]
        folders[:] = [name for name in sorted(folders) if inside + name not in others and name not in linked]
        for name in (*folders, *sorted([*files, *linked])):
            path = inside + name
            if path in others:
                continue
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if path in covered:
                yield Entry("f", path, COVERED_MODE, found.st_mtime_ns, 0, EMPTY)
            elif (entry := _look(path, name, fd, found, memory)) is not None:
                yield entry


def _look(path: str, name: str, fd: int, found: os.stat_result, memory: Memory) -> Entry | None:
    mode = stat.S_IMODE(found.st_mode) & 0o777
    if stat.S_ISDIR(found.st_mode):
        return Entry("d", path, mode, found.st_mtime_ns, 0, "")
    if stat.S_ISLNK(found.st_mode):
        return Entry("l", path, 0o777, found.st_mtime_ns, 0, os.readlink(name, dir_fd=fd))
    if stat.S_ISREG(found.st_mode):
        digest = memory.hash_of(path, found, lambda: _hash(name, fd))
        return Entry("f", path, mode, found.st_mtime_ns, found.st_size, digest)
    return None  # a socket, pipe or device is no content


def _hash(name: str, fd: int) -> str:
    seen = hashlib.sha256()
    with os.fdopen(os.open(name, READ_FLAGS, dir_fd=fd), "rb") as file:
        while piece := file.read(PIECE):
            seen.update(piece)
    return seen.hexdigest()


def read_content(source: str, path: str, size: int) -> Iterator[bytes]:
    """Exactly `size` bytes of a file; one that changed meanwhile is cut or filled, and its hash will not fit."""
    left = size
    with os.fdopen(os.open(os.path.join(source, path), READ_FLAGS), "rb") as file:
        while left and (piece := file.read(min(PIECE, left))):
            left -= len(piece)
            yield piece
    while left:
        piece = bytes(min(PIECE, left))
        left -= len(piece)
        yield piece
