"""Which paths git tracks, read from its index as a plain file.

Purpose: name the files that are content though a rule ignores them, because somebody put them into the history.
Invariant: a file that is missing, damaged or of an unknown form names nothing; no program is run.
Must never: follow a link or a gitfile, take a name that no change may have, or believe a count of the file.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from gloveport.server.edit.errors import EditError
from gloveport.server.edit.names import split_path
from gloveport.server.workspace.beneath import Root, read_entry
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.ignore import DEPENDENCY_FOLDERS, is_cache_name

INDEX_BYTES_MAX: Final = 64 << 20
_HEAD: Final = struct.Struct(">4sII")
_MODE: Final = struct.Struct(">I")
_FLAGS: Final = struct.Struct(">H")
_SHA1_BYTES: Final = 20
_MODE_AT, _HASH_AT, _EXTENDED, _PLAIN_KINDS = 24, 40, 0x4000, (0o100000, 0o120000)


@dataclass(frozen=True, slots=True)
class Tracked:
    """Paths of files and links in a history, and the folders with a name of installed dependencies that hold some."""

    paths: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()


def read_tracked(root: Root) -> Tracked:
    """What the index of a repository at the root itself names; of the paths none below such a folder."""
    with suppress(OSError, WorkspaceError):
        fd = os.open(".git", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root.fd)
        try:
            raw = read_entry(fd, "index", "index", INDEX_BYTES_MAX).data
        finally:
            os.close(fd)
        fit = set(filter(_is_fit, _paths(raw)))
        below = {path: folders for path in fit if (folders := tuple(_dependency_folders(path)))}
        return Tracked(frozenset(fit - below.keys()), frozenset().union(*below.values()))
    return Tracked()


def _paths(raw: bytes) -> Iterator[str]:
    if len(raw) < _HEAD.size:
        return
    mark, version, count = _HEAD.unpack_from(raw)
    if mark != b"DIRC" or version not in (2, 3, 4):
        return
    hash_size = 32 if sha256(raw[:-32]).digest() == raw[-32:] else _SHA1_BYTES
    at, name = _HEAD.size, b""
    for _ in range(count):
        begin, at = at, at + _HASH_AT + hash_size
        if at + 4 > len(raw):
            return
        (mode,), (flags,) = _MODE.unpack_from(raw, begin + _MODE_AT), _FLAGS.unpack_from(raw, at)
        at += 4 if flags & _EXTENDED else 2
        kept = 0
        if version == 4:
            kept, at = _number(raw, at)
        end = raw.find(b"\0", at)
        if end < 0 or kept > len(name):
            return
        name = name[: len(name) - kept] + raw[at:end] if version == 4 else raw[at:end]
        # In the older forms an entry ends at a multiple of eight bytes, with one zero at least.
        at = end + 1 if version == 4 else begin + (end - begin + 8) // 8 * 8
        if mode & 0o170000 in _PLAIN_KINDS:
            with suppress(UnicodeDecodeError):
                yield name.decode()


def _number(raw: bytes, at: int) -> tuple[int, int]:
    """A number of the fourth form, and where it ends."""
    value = 0
    for position in range(at, min(at + 8, len(raw))):
        byte = raw[position]
        value = (value << 7) | (byte & 0x7F)
        if not byte & 0x80:
            return value, position + 1
        value += 1
    return len(raw), len(raw)


def _is_fit(path: str) -> bool:
    with suppress(EditError):
        return not any(map(is_cache_name, split_path(path)))
    return False


def _dependency_folders(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[: at + 1]) for at, part in enumerate(parts[:-1]) if part in DEPENDENCY_FOLDERS)
