"""What a power loss may leave of a recorded disk.

Purpose: for a cut and a seed, choose what of the unsynced operations is on the disk, and build that tree.
Invariant: what was synced before the cut is there; a folder keeps its operations in order; the same loss gives the
same tree.
Must never: leave out more than a file system may, or tear what is smaller than a sector.

Two orders of names. `ordered`, as ext4, xfs and btrfs keep them: names of all folders are lost from one moment on, and
a sync of anything keeps every name before it. `strict`, as POSIX says: each folder by itself, and only its own sync
counts.
"""

import random
import shutil
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tests.kit.power.disk import DataOp, Disk, EntryOp, Inode

Policy = Literal["drop", "keep", "torn", "nul", "names_only", "data_only", "mixed"]
Order = Literal["ordered", "strict"]
POLICIES: Final[tuple[Policy, ...]] = ("drop", "keep", "torn", "nul", "names_only", "data_only", "mixed")
ORDERS: Final[tuple[Order, ...]] = ("ordered", "strict")
_SECTORS: Final = (512, 4096)
_KEEPS_DATA: Final[Mapping[Policy, tuple[str, ...]]] = {
    "drop": ("none",),
    "keep": ("all",),
    "torn": ("torn",),
    "nul": ("nul",),
    "names_only": ("sizes",),
    "data_only": ("all",),
    "mixed": ("none", "all", "torn", "nul", "sizes", "prefix"),
}
_KEEPS_NAMES: Final[Mapping[Policy, str]] = {
    "drop": "none",
    "keep": "all",
    "torn": "some",
    "nul": "all",
    "names_only": "all",
    "data_only": "none",
    "mixed": "some",
}


@dataclass(frozen=True, slots=True)
class Loss:
    """One power loss: after which operation, with which seed, what is left out, in which order of names."""

    cut: int
    seed: int
    policy: Policy
    order: Order

    @property
    def words(self) -> str:
        """How to ask for it again."""
        return f"{self.cut}:{self.seed}:{self.policy}:{self.order}"

    @classmethod
    def of(cls, words: str) -> "Loss":
        """The loss that `words` name."""
        cut, seed, policy, order = words.split(":")
        found = cls(
            int(cut), int(seed), next(p for p in POLICIES if p == policy), next(o for o in ORDERS if o == order)
        )
        assert found.words == words
        return found


def content(ops: Iterable[DataOp]) -> bytes:
    """A file's bytes after these operations."""
    data = bytearray()
    for op in ops:
        if op.kind == "size":
            del data[op.offset :]
            data.extend(bytes(op.offset - len(data)))
        else:
            if op.offset > len(data):
                data.extend(bytes(op.offset - len(data)))
            data[op.offset : op.offset + len(op.data)] = op.data
    return bytes(data)


class State:
    """One state of a disk after a loss."""

    def __init__(self, disk: Disk, loss: Loss) -> None:
        self._disk = disk
        self._loss = loss
        self._random = random.Random(f"{loss.cut} {loss.seed}")
        self._names = self._surviving_names()

    def _floor(self, inode: Inode) -> int:
        return max((began for began, ended in inode.syncs if ended <= self._loss.cut), default=-1)

    def _horizon(self, floor: int) -> int:
        keeps = _KEEPS_NAMES[self._loss.policy]
        if keeps == "none":
            return floor
        return self._loss.cut if keeps == "all" else self._random.randint(floor, max(floor, self._loss.cut))

    def _horizons(self) -> Callable[[Inode], int]:
        if self._loss.order == "ordered":
            horizon = self._horizon(max(map(self._floor, self._disk.inodes)))
            return lambda _: horizon
        each = {inode: self._horizon(self._floor(inode)) for inode in self._disk.inodes if inode.kind == "folder"}
        return each.__getitem__

    def _surviving_names(self) -> dict[Inode, dict[str, Inode]]:
        horizon = self._horizons()
        ops: dict[int, list[EntryOp]] = {}
        for inode in self._disk.inodes:
            for op in inode.entry_ops:
                if op.names[-1][0] is inode and op.at <= min(self._loss.cut, horizon(inode)):
                    ops.setdefault(op.at, []).append(op)
        names: dict[Inode, dict[str, Inode]] = {}
        for at in sorted(ops):
            for op in ops[at]:
                for folder, name, child in op.names:
                    held = names.setdefault(folder, {})
                    held.pop(name, None)
                    if child is not None:
                        held[name] = child
        return names

    def names_in(self, folder: Inode) -> dict[str, Inode]:
        """What a folder holds."""
        return self._names.get(folder, {})

    def bytes_of(self, inode: Inode) -> bytes:
        """What a file holds."""
        floor = self._floor(inode)
        safe = [op for op in inode.data_ops if op.at <= floor]
        loose = [op for op in inode.data_ops if floor < op.at <= self._loss.cut]
        return content((*safe, *self._kept(loose, content(safe))))

    def _kept(self, loose: list[DataOp], before: bytes) -> Iterable[DataOp]:
        way = self._random.choice(_KEEPS_DATA[self._loss.policy])
        if way == "all":
            return loose
        if way == "none":
            return ()
        if way == "prefix":
            return loose[: self._random.randint(0, len(loose))]
        if way == "sizes":
            return [op for op in loose if op.kind == "size"]
        if way == "nul":
            return [_emptied(op, len(before)) for op in loose]
        return self._torn(loose)

    def _torn(self, loose: list[DataOp]) -> list[DataOp]:
        sector = self._random.choice(_SECTORS)
        kept: list[DataOp] = []
        for op in loose:
            if op.kind == "size":
                kept.append(op)
                continue
            end = op.offset + len(op.data)
            at = op.offset
            while at < end:
                stop = min(end, (at // sector + 1) * sector)
                if self._random.random() < 0.5:
                    kept.append(DataOp(op.at, "write", at, op.data[at - op.offset : stop - op.offset]))
                at = stop
        return kept

    def build(self, target: Path, rewritten: Callable[[str, bytes], bytes]) -> None:
        """Put the tree in the place of what lies in `target`, whose two first levels of folders stay themselves."""
        for top in sorted(target.iterdir()):
            _empty(top)
        for name, child in self.names_in(self._disk.root).items():
            self._fill(target / name, child, name, rewritten)

    def _fill(self, path: Path, folder: Inode, relative: str, rewritten: Callable[[str, bytes], bytes]) -> None:
        for name, child in sorted(self.names_in(folder).items()):
            here, inner = path / name, f"{relative}/{name}"
            if child.kind == "folder":
                here.mkdir(mode=0o700)
                self._fill(here, child, inner, rewritten)
                here.chmod(child.mode)
            elif child.kind == "link":
                here.symlink_to(child.target.decode())
            elif child.kind == "socket":
                _leave_socket(here)
            else:
                here.write_bytes(rewritten(inner, self.bytes_of(child)))
                here.chmod(child.mode)


def _emptied(op: DataOp, size_before: int) -> DataOp:
    """The write with its new blocks allocated and never written."""
    if op.kind == "size" or op.offset + len(op.data) <= size_before:
        return op
    return DataOp(op.at, "write", op.offset, op.data[: max(0, size_before - op.offset)].ljust(len(op.data), b"\0"))


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _leave_socket(path: Path) -> None:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
