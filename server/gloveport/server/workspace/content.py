"""What lies at a path, by content.

Purpose: the state of one path of a tree, read now, and whether it is the state a step speaks of.
Invariant: equality is decided by kind and hash; the mode counts only where a step changes whether a file may run.
Must never: follow a link, or answer from a stat alone.
"""

import os
import stat
from hashlib import sha256

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.server.workspace.beneath import Root, read_entry
from gloveport.server.workspace.errors import WorkspaceError, os_failure
from gloveport.server.workspace.limits import WorkspaceLimits
from gloveport.server.workspace.state import FileState


def path_state(root: Root, path: str, limits: WorkspaceLimits, *, exact: bool = False) -> FileState | None:
    """The state of `path`, None when nothing is there."""
    return path_with_data(root, path, limits, exact=exact)[0]


def path_with_data(
    root: Root, path: str, limits: WorkspaceLimits, *, exact: bool = False
) -> tuple[FileState | None, bytes | None]:
    """The state of `path` and its bytes (a link's target). A folder that holds no file is as good as absent.

    With `exact`, a file that has this name only because the file system takes two names for one is not there.
    """
    info = root.state(path)
    if info is None or (stat.S_ISDIR(info.st_mode) and root.is_hollow(path)):
        return None, None
    if exact and not root.has_name(path):
        return None, None
    folder, _, name = path.rpartition("/")
    with root.folder(folder) as fd:
        return entry_state(fd, name, path, limits)


def entry_state(folder_fd: int, name: str, path: str, limits: WorkspaceLimits) -> tuple[FileState | None, bytes | None]:
    """The state of one name in an open folder, and its bytes."""
    try:
        info = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=folder_fd))
            return FileState("link", Sha256(sha256(target).hexdigest()), 0), target
    except FileNotFoundError:
        return None, None
    except OSError as error:
        raise os_failure(error, path) from None
    if stat.S_ISDIR(info.st_mode):
        raise WorkspaceError(ErrorCode.NOT_A_FILE, f"{path} is a folder", path=path)
    read = read_entry(folder_fd, name, path, limits.file_bytes_max)
    return FileState("file", Sha256(sha256(read.data).hexdigest()), read.info.st_mode & 0o777), read.data


def blocking(root: Root, path: str) -> str | None:
    """The path above `path` at which something else than a folder lies, if there is one."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        above = "/".join(parts[:depth])
        info = root.state(above)
        if info is None:
            return None
        if not stat.S_ISDIR(info.st_mode):
            return above
    return None


def fits(found: FileState | None, wanted: FileState | None, other: FileState | None) -> bool:
    """True when `found` is the `wanted` end of a step whose other end is `other`."""
    if found is None or wanted is None:
        return found is wanted
    if (found.kind, found.digest) != (wanted.kind, wanted.digest):
        return False
    mode_is_at_stake = other is not None and other.kind == wanted.kind and other.runnable != wanted.runnable
    return not mode_is_at_stake or found.runnable == wanted.runnable
