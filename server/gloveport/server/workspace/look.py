"""A look at a whole tree, cheap when it is repeated.

Purpose: the state of every content file of the worktree or of the user's folder, hashed only where it may have changed.
Invariant: a hash is reused only when size, both times and inode are the same and older than the clock's grain.
Must never: take a modification time alone as proof, or take what could not be read for a deletion.
"""

import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.ids import Sha256
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.limits import WorkspaceLimits
from gloveport.server.workspace.state import FileState, WorkspaceState
from gloveport.server.workspace.walk import NotCovered, Walk

CLOCK_GRAIN_NS: Final = 50_000_000
"""A file whose inode changed within this time before it was looked at is hashed again."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A worktree file as it was when hashed; `stamp` is size, mtime, ctime and inode."""

    stamp: tuple[int, int, int, int]
    state: FileState
    at_ns: int

    def still_holds(self, info: os.stat_result) -> bool:
        """True when the file cannot have changed since."""
        return self.stamp == stamp_of(info) and info.st_ctime_ns + CLOCK_GRAIN_NS < self.at_ns


@dataclass(slots=True)
class Look:
    """Looks at one tree again and again; `skip` names folders by device and inode."""

    tree: Root
    limits: WorkspaceLimits
    seen: dict[str, Seen] = field(default_factory=dict)
    skip: frozenset[tuple[int, int]] = frozenset()
    not_covered: tuple[NotCovered, ...] = ()

    def current(self, state: WorkspaceState) -> dict[str, FileState]:
        """Every content file and link of the tree, and whatever lies at the paths of the base."""
        known = _Known(state.base, state.forced)
        walk = Walk(self.tree, self.limits, known=known, skip=self.skip)
        current: dict[str, FileState] = {}
        for entry in walk.entries():
            found = self._state(entry.path, entry.info, walk)
            if found is not None:
                current[entry.path] = found
        for path in state.base.keys() | state.forced:
            # Below a folder that a rule of today ignores, the walk did not come.
            if path not in current and (info := self.tree.state(path)) is not None:
                found = self._state(path, info, walk)
                if found is not None:
                    current[path] = found
        # What cannot be read is told, and stays as the user has it: a failed look is no deletion.
        for each in walk.not_covered:
            if each.path in state.base:
                current.setdefault(each.path, state.base[each.path])
        self.not_covered = tuple(walk.not_covered)
        self.seen = {path: seen for path, seen in self.seen.items() if path in current}
        return current

    def _state(self, path: str, info: os.stat_result, walk: Walk) -> FileState | None:
        before = self.seen.get(path)
        if before is not None and before.still_holds(info):
            return before.state
        at_ns = time.time_ns()
        try:
            state, info = self._read(path, info)
        except GloveportError as error:
            walk.leave_out(path, error.code.value)
            return None
        if state is not None:
            self.seen[path] = Seen(stamp_of(info), state, at_ns)
        return state

    def _read(self, path: str, info: os.stat_result) -> tuple[FileState | None, os.stat_result]:
        if stat.S_ISLNK(info.st_mode):
            target = self.tree.link_target(path)
            self.tree.resolve(path)
            return FileState("link", Sha256(sha256(os.fsencode(target)).hexdigest()), 0), info
        if not stat.S_ISREG(info.st_mode):
            return None, info
        read = self.tree.read(path, self.limits.file_bytes_max)
        digest = Sha256(sha256(read.data).hexdigest())
        return FileState("file", digest, read.info.st_mode & 0o777), read.info


def stamp_of(info: os.stat_result) -> tuple[int, int, int, int]:
    """What a stat says about content without reading it."""
    return (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)


@dataclass(frozen=True, slots=True)
class _Known:
    base: Mapping[str, FileState]
    forced: set[str]

    def __contains__(self, path: object) -> bool:
        return path in self.base or path in self.forced
