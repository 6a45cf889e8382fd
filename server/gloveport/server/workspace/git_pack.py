"""The forms of git's own files, as bytes.

Purpose: objects in one pack with its index, the trees of a listing, one commit, the index of a worktree.
Invariant: what is written is what git writes for the same content; nothing but the given bytes and names goes in.
Must never: run git, open a file, or take over anything from a repository of the user's.
"""

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha1
from types import MappingProxyType
from typing import BinaryIO, Final, Literal

Kind = Literal["commit", "tree", "blob"]
_NUMBERS: Final[Mapping[Kind, int]] = MappingProxyType({"commit": 1, "tree": 2, "blob": 3})
_LEVEL: Final = 1
_OFFSET_MAX: Final = (1 << 31) - 1
_PACK_HEAD: Final = struct.Struct(">4sII")
_ENTRY: Final = struct.Struct(">10I20sH")
_NAME_LENGTH_MAX: Final = 0xFFF
TREE_MODE: Final = 0o040000
_PIECE: Final = 1 << 20


@dataclass(slots=True)
class Pack:
    """Writes one pack into an empty file that can be read too: it begins with a count that is set at the end."""

    file: BinaryIO
    places: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    size: int = _PACK_HEAD.size

    def __post_init__(self) -> None:
        self.file.write(bytes(_PACK_HEAD.size))

    def add(self, kind: Kind, data: bytes) -> bytes:
        """Keep an object once; its name, 20 bytes. Raises OverflowError where the pack would become too large."""
        name = object_name(kind, data)
        if name not in self.places:
            raw = _entry_head(_NUMBERS[kind], len(data)) + zlib.compress(data, _LEVEL)
            if self.size + len(raw) > _OFFSET_MAX:
                raise OverflowError(self.size)
            self.file.write(raw)
            self.places[name] = (self.size, zlib.crc32(raw))
            self.size += len(raw)
        return name

    def finish(self) -> bytes:
        """End the pack; its index."""
        head = _PACK_HEAD.pack(b"PACK", 2, len(self.places))
        total = sha1(head, usedforsecurity=False)
        self.file.seek(len(head))
        while piece := self.file.read(_PIECE):
            total.update(piece)
        self.file.write(total.digest())
        self.file.seek(0)
        self.file.write(head)
        return _pack_index(self.places, total.digest())


def object_name(kind: Kind, data: bytes) -> bytes:
    """The name that git gives to an object."""
    return sha1(b"%s %d\0" % (kind.encode(), len(data)) + data, usedforsecurity=False).digest()


def write_trees(pack: Pack, files: Mapping[str, tuple[int, bytes]]) -> bytes:
    """The trees of a listing (mode and blob by path); the name of the topmost."""
    folders: dict[str, list[tuple[bytes, int, bytes]]] = {"": []}
    for path, (mode, name) in files.items():
        folder, _, last = path.rpartition("/")
        above = folder
        while above not in folders:
            folders[above] = []
            above = above.rpartition("/")[0]
        folders[folder].append((_raw(last), mode, name))
    found = b""
    for folder in sorted(folders, key=lambda path: (path.count("/") + bool(path), path), reverse=True):
        rows = sorted(folders[folder], key=lambda row: row[0] + b"/" * (row[1] == TREE_MODE))
        found = pack.add("tree", b"".join(b"%o %s\0%s" % (mode, name, each) for name, mode, each in rows))
        if folder:
            above, _, last = folder.rpartition("/")
            folders[above].append((_raw(last), TREE_MODE, found))
    return found


def commit_bytes(tree: bytes, person: str, at_s: int, words: str) -> bytes:
    """A first commit: of nobody's line, without parents."""
    who = f"{person} {at_s} +0000"
    return f"tree {tree.hex()}\nauthor {who}\ncommitter {who}\n\n{words}\n".encode()


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a worktree's index; `stamp` is what a stat says of the file, or zeros: then git looks into it."""

    path: str
    mode: int
    name: bytes
    stamp: tuple[int, ...] = (0,) * 9
    """Both times in seconds and nanoseconds (inode first), device, inode, user, group, size."""


def index_bytes(entries: Iterable[Entry]) -> bytes:
    """An index of the second form."""
    rows = []
    for entry in sorted(entries, key=lambda each: _raw(each.path)):
        path = _raw(entry.path)
        changed, changed_ns, written, written_ns, device, inode, user, group, size = (
            number & 0xFFFFFFFF for number in entry.stamp
        )
        numbers = (changed, changed_ns, written, written_ns, device, inode, entry.mode, user, group, size)
        row = _ENTRY.pack(*numbers, entry.name, min(len(path), _NAME_LENGTH_MAX)) + path
        rows.append(row + bytes(8 - len(row) % 8))
    raw = _PACK_HEAD.pack(b"DIRC", 2, len(rows)) + b"".join(rows)
    return raw + sha1(raw, usedforsecurity=False).digest()


def _entry_head(kind: int, size: int) -> bytes:
    first, size = kind << 4 | size & 0xF, size >> 4
    found = bytearray()
    while size:
        found.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    found.append(first)
    return bytes(found)


def _pack_index(places: Mapping[bytes, tuple[int, int]], pack: bytes) -> bytes:
    names = sorted(places)
    counts = [0] * 256
    for name in names:
        counts[name[0]] += 1
    sums, total = [], 0
    for count in counts:
        total += count
        sums.append(total)
    raw = b"".join(
        (
            struct.pack(">4sI256I", b"\377tOc", 2, *sums),
            *names,
            struct.pack(f">{len(names)}I", *(places[name][1] for name in names)),
            struct.pack(f">{len(names)}I", *(places[name][0] for name in names)),
            pack,
        )
    )
    return raw + sha1(raw, usedforsecurity=False).digest()


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
