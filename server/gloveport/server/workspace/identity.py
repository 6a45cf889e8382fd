"""Which folder it is: path, device, inode, and what tells one inode's folder from the next one's.

Purpose: name a folder so that trust and rights given to it are no other's, also when it was deleted and made again
under the number that its inode had.
Invariant: a name with a generation (`born-…`) is never that of a folder that was made later; one without (`ws-…`) says
by its form that it proves less, and is what earlier versions recorded.
Must never: take a generation from anything that a program of the folder can set.
"""

import os
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.syscalls import birth_ns, inode_version

_BORN: Final = "born-"
_PLAIN: Final = "ws-"
_DIGEST_CHARACTERS: Final = 32
_NS_PER_US: Final = 1_000
TICK_US: Final = 10_000
"""A file system's clock stands still between two ticks of the kernel's, so a birth may be told as early as this."""
_ABSENT: Final = frozenset({2, 20})
"""ENOENT, ENOTDIR."""


def folder_identity(root: Path) -> str:
    """The folder's name as one opaque text: another folder at the same path has another one. Raises WorkspaceError."""
    info = _stat(root)
    generation = _generation(root, info)
    return _plain(root, info) if not generation else _named(_BORN, root, info, generation)


def identity_without_generation(root: Path) -> str:
    """The name that earlier versions gave the folder, and this one where it can't do better. Raises WorkspaceError."""
    return _plain(root, _stat(root))


def has_generation(identity: str) -> bool:
    """Whether a folder made again at the same place is told apart by this name."""
    return identity.startswith(_BORN)


def is_folder(root: Path, identity: str) -> bool:
    """Whether what is at `root` now is the folder that was named so. Raises WorkspaceError when nothing is there."""
    return identity == (folder_identity(root) if has_generation(identity) else identity_without_generation(root))


def stood_at(root: Path, identity: str, moment_us: int) -> bool:
    """Whether the folder that is at `root` now was the one named `identity` at a moment (UTC microseconds).

    For names without a generation: the folder's inode is the same, and it was made before. False where nobody can know.
    """
    with suppress(WorkspaceError):
        born = birth_ns(root)
        return is_folder(root, identity) and born is not None and born // _NS_PER_US + TICK_US <= moment_us
    return False


def _stat(root: Path) -> os.stat_result:
    try:
        return os.stat(root)
    except OSError as error:
        code = ErrorCode.WORKSPACE_MISSING if error.errno in _ABSENT else ErrorCode.WORKSPACE_UNREADABLE
        raise WorkspaceError(code, f"{root} cannot be reached") from None


def _generation(root: Path, info: os.stat_result) -> str:
    """What this inode's folder has and the next one's has not; empty where the file system keeps nothing."""
    born = birth_ns(root)
    if born is not None:
        return f"born {born}"
    version = inode_version(root, info.st_ino) if sys.platform == "linux" else None
    return "" if version is None else f"version {version}"


def _plain(root: Path, info: os.stat_result) -> str:
    return _named(_PLAIN, root, info)


def _named(form: str, root: Path, info: os.stat_result, *more: str) -> str:
    text = "\0".join((os.path.realpath(root), str(info.st_dev), str(info.st_ino), *more))
    return f"{form}{sha256(os.fsencode(text)).hexdigest()[:_DIGEST_CHARACTERS]}"
