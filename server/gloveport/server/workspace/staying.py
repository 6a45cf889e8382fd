"""What programs leave in the worktree where it is no content.

Purpose: find the files that were written since a moment in ignored folders, caches and folders of dependencies.
Invariant: no link is followed and nothing outside the worktree is opened; what a look proposes is not among them.
Must never: propose, change or keep anything, or read more than it was given room for.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gloveport.server.edit.names import is_git_name
from gloveport.server.workspace.beneath import read_entry
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.ignore import DEPENDENCY_FOLDERS, is_cache_name
from gloveport.server.workspace.look import Look

STAYING_FILES_MAX: Final = 20_000
"""So many names are gone through; of what comes behind them the folder alone is named, as not looked at."""
NO_FOLDER: Final = -1
CLOCKS_APART_NS: Final = 2_000_000_000
"""The times of a file system lag behind the clock."""


@dataclass(frozen=True, slots=True)
class Staying:
    """A file that stays in the session's copy and is never proposed."""

    path: str
    data: bytes | None
    """Its content; None where that was not read: it is too large, or a link."""
    is_unseen: bool = False
    """It is no link, and nobody read it: it is too large, there was no room left, or it could not be read."""

    @property
    def is_tools_own(self) -> bool:
        """True for caches and installed dependencies, which nobody waits for as a result."""
        return any(is_cache_name(part) or part in DEPENDENCY_FOLDERS for part in self.path.split("/"))


def staying_since(look: Look, since_us: int, file_bytes_max: int, bytes_max: int) -> tuple[Staying, ...]:
    """The files changed since then (UTC, microseconds) below what the last look of the worktree did not enter.

    Larger files than `file_bytes_max`, and those behind `bytes_max` in all, are named without their content; a folder
    in which there were too many names is named as a whole.
    """
    found: list[Staying] = []
    for path, folder_fd, name in _changed(look, since_us * 1_000 - CLOCKS_APART_NS):
        if folder_fd == NO_FOLDER:
            found.append(Staying(path, None, is_unseen=True))
            continue
        try:
            data = read_entry(folder_fd, name, path, min(file_bytes_max, bytes_max)).data
        except WorkspaceError:
            found.append(Staying(path, None, is_unseen=not _is_link(folder_fd, name)))
            continue
        bytes_max -= len(data)
        found.append(Staying(path, data))
    return tuple(found)


def _changed(look: Look, since_ns: int) -> Iterator[tuple[str, int, str]]:
    left = STAYING_FILES_MAX
    for place in _not_entered(look):
        folder, _, name = place.rpartition("/")
        try:
            with look.tree.folder(folder) as fd:
                if _is_changed(fd, name, since_ns):
                    yield place, fd, name
                for below, folders, names, below_fd in os.fwalk(name, dir_fd=fd, follow_symlinks=False):
                    for each in [*names, *folders][: max(0, left)]:
                        if _is_changed(below_fd, each, since_ns):
                            yield f"{folder}/{below}/{each}".lstrip("/"), below_fd, each
                    left -= len(names) + len(folders)
                    if left < 0:
                        yield place, NO_FOLDER, name
                        break
        except (OSError, WorkspaceError):
            continue


def _not_entered(look: Look) -> list[str]:
    """What lies in the folders that the last look went through, and is neither content nor entered."""
    with look.sight.lock:
        seen = dict(look.sight.folders)
    found: list[str] = []
    for folder, each in seen.items():
        prefix = f"{folder}/" if folder else ""
        paths = {prefix + name for name in each.places() if not is_git_name(name)}
        found += paths - each.content.keys() - set(each.below)
    return sorted(found)


def _is_changed(folder_fd: int, name: str, since_ns: int) -> bool:
    try:
        info = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except OSError:
        return False
    return (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)) and info.st_ctime_ns >= since_ns


def _is_link(folder_fd: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode)
    except OSError:
        return False  # it is gone, or nobody can tell
