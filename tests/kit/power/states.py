"""What a power loss may leave of a recorded disk.

Purpose: for a cut and a seed, choose what of the unsynced operations is on the disk, and build that tree.
Invariant: what was synced before the cut is there; the same cut, policy and seed give the same tree.
Must never: leave out more than a file system may.
"""

from collections.abc import Iterable

from tests.kit.power.disk import DataOp


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
