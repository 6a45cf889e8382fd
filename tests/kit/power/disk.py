"""A disk as a power loss sees it: what was done to each file and folder, and what was made durable when.

Purpose: keep, for every inode below one folder, its operations in order and its syncs, so that any later state can be
built with unsynced ones left out.
Invariant: nothing is forgotten: the state after all operations is the state of the real folder.
Must never: decide what is lost.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

FileKind = Literal["file", "folder", "link", "socket"]


@dataclass(frozen=True, slots=True)
class DataOp:
    """A change of a file's content: `write` puts `data` at `offset`, `size` sets the length to `offset`."""

    at: int
    kind: Literal["write", "size"]
    offset: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class EntryOp:
    """A change of a folder: each name then leads to an inode, or to nothing (None). Both sides of a rename are one."""

    at: int
    names: tuple[tuple["Inode", str, "Inode | None"], ...]


@dataclass(slots=True)
class Inode:
    """A file, folder, link or socket, from its making on."""

    number: int
    kind: FileKind
    mode: int
    born: int
    target: bytes = b""
    data_ops: list[DataOp] = field(default_factory=list)
    entry_ops: list[EntryOp] = field(default_factory=list)
    syncs: list[tuple[int, int]] = field(default_factory=list)
    """When each sync began and ended: it covers what was done before it began."""
    names: dict[str, "Inode"] = field(default_factory=dict)
    """Of a folder: as the programs see it now."""
    size: int = 0

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class Disk:
    """Everything below one folder."""

    def __init__(self, root: str) -> None:
        self.root_path = root
        self._count = 0
        self.root = self._make("folder", 0o700, -1)
        self.inodes = [self.root]
        self.strange: list[str] = []

    def load(self, folder: Path) -> None:
        """Take what lies in a real folder for there and durable."""
        self._load(folder, self.root)

    def _load(self, folder: Path, into: Inode) -> None:
        for path in sorted(folder.iterdir()):
            mode = path.lstat().st_mode & 0o7777
            if path.is_symlink():
                child = self._new("link", 0o777, -1)
                child.target = str(path.readlink()).encode()
            elif path.is_dir():
                child = self._new("folder", mode, -1)
                self._load(path, child)
            elif path.is_socket():
                child = self._new("socket", mode, -1)
            else:
                child = self._new("file", mode, -1)
                self.write(child, -1, 0, path.read_bytes())
                child.syncs.append((0, 0))
            self._enter(-1, (into, path.name, child))
        into.syncs.append((0, 0))

    def _make(self, kind: FileKind, mode: int, at: int) -> Inode:
        self._count += 1
        return Inode(self._count, kind, mode, at)

    def _new(self, kind: FileKind, mode: int, at: int) -> Inode:
        made = self._make(kind, mode, at)
        self.inodes.append(made)
        return made

    def holds(self, path: str) -> bool:
        """Whether a path lies below the folder."""
        return path == self.root_path or path.startswith(self.root_path + "/")

    def find(self, path: str) -> Inode | None:
        """What a path leads to now."""
        here: Inode | None = self.root
        for part in self._parts(path):
            if here is None or here.kind != "folder":
                return None
            here = here.names.get(part)
        return here

    def place(self, path: str) -> tuple[Inode, str] | None:
        """The folder above a path, and the last part of it."""
        parts = self._parts(path)
        if not parts:
            return None
        above = self.find("/".join((self.root_path, *parts[:-1])))
        return (above, parts[-1]) if above is not None and above.kind == "folder" else None

    def _parts(self, path: str) -> list[str]:
        return [part for part in path[len(self.root_path) :].split("/") if part]

    def make(self, path: str, kind: FileKind, mode: int, at: int, target: bytes = b"") -> Inode | None:
        """A new inode under a name that was free."""
        place = self.place(path)
        if place is None:
            self.strange.append(f"{at}: no folder for {path}")
            return None
        made = self._new(kind, mode, at)
        made.target = target
        self._enter(at, (*place, made))
        return made

    def link(self, old: str, new: str, at: int) -> None:
        """A second name."""
        found, place = self.find(old), self.place(new)
        if found is None or place is None:
            self.strange.append(f"{at}: link {old} {new}")
            return
        self._enter(at, (*place, found))

    def remove(self, path: str, at: int) -> None:
        """A name goes."""
        place = self.place(path)
        if place is None or place[1] not in place[0].names:
            self.strange.append(f"{at}: remove {path}")
            return
        self._enter(at, (*place, None))

    def rename(self, old: str, new: str, at: int, *, exchange: bool) -> None:
        """A name moves, in one step; with `exchange` the two trade places."""
        found, source, target = self.find(old), self.place(old), self.place(new)
        if found is None or source is None or target is None:
            self.strange.append(f"{at}: rename {old} {new}")
            return
        other = self.find(new) if exchange else None
        self._enter(at, (*source, other), (*target, found))

    def _enter(self, at: int, *names: tuple[Inode, str, Inode | None]) -> None:
        op = EntryOp(at, names)
        for folder in dict.fromkeys(folder for folder, _, _ in names):
            folder.entry_ops.append(op)
        for folder, name, child in names:
            if child is None:
                folder.names.pop(name, None)
            else:
                folder.names[name] = child

    def write(self, inode: Inode, at: int, offset: int, data: bytes) -> None:
        """Bytes go into a file."""
        inode.data_ops.append(DataOp(at, "write", offset, data))
        inode.size = max(inode.size, offset + len(data))

    def resize(self, inode: Inode, at: int, size: int) -> None:
        """A file is cut or extended by zeros."""
        inode.data_ops.append(DataOp(at, "size", size))
        inode.size = size

    def sync(self, inode: Inode, began: int, ended: int) -> None:
        """A file's bytes, or a folder's names, are durable."""
        inode.syncs.append((began, ended))

    def sync_all(self, began: int, ended: int) -> None:
        """Everything is."""
        for inode in self.inodes:
            inode.syncs.append((began, ended))

    def paths(self) -> Iterator[tuple[str, Inode]]:
        """Every name below the folder as it is now, relative."""
        yield from _below(self.root, "")


def _below(folder: Inode, prefix: str) -> Iterator[tuple[str, Inode]]:
    for name, child in sorted(folder.names.items()):
        yield prefix + name, child
        if child.kind == "folder":
            yield from _below(child, f"{prefix}{name}/")
