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
from gloveport.server.workspace.errors import REASONS, WorkspaceError
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
class Unknown:
    """What the last look could not tell: these paths and all below them, or everything that it did not come to."""

    paths: set[str] = field(default_factory=set)
    everything: bool = False

    def __contains__(self, path: object) -> bool:
        if self.everything or path in self.paths:
            return True
        parts = str(path).split("/")
        return bool(self.paths) and any("/".join(parts[:depth]) in self.paths for depth in range(1, len(parts)))


@dataclass(slots=True)
class Look:
    """Looks at one tree again and again; `skip` names folders by device and inode, `hidden` by path.

    `not_covered` and `unknown` speak of the last look.
    """

    tree: Root
    limits: WorkspaceLimits
    seen: dict[str, Seen] = field(default_factory=dict)
    skip: frozenset[tuple[int, int]] = frozenset()
    hidden: tuple[str, ...] = ()
    not_covered: tuple[NotCovered, ...] = ()
    unknown: Unknown = field(default_factory=Unknown)

    def current(self, state: WorkspaceState, *, strict: bool = False) -> dict[str, FileState]:
        """Every content file and link of the tree, and whatever lies at the paths of the base.

        What cannot be looked at is named, is `unknown`, and stays as the base has it: a failed look is no deletion.
        Where the whole tree cannot be gone through, only known paths are looked at; `strict` raises there instead.
        Raises `workspace.missing` when the tree is no longer the one that was opened.
        """
        self.tree.check_still_there()
        walk = Walk(self.tree, self.limits, known=_Known(state.base, state.forced), skip=self.skip)
        self.unknown = Unknown()
        current: dict[str, FileState] = {}
        for path, info in self._met(walk, strict=strict):
            self._take(path, info, walk, current)
        self.unknown.paths |= walk.left_out
        # Below a folder that a rule of today ignores, the walk did not come.
        for path in sorted(state.base.keys() | state.forced):
            if path not in current and path not in self.unknown.paths:
                self._take_known(path, walk, current)
        self.unknown.paths |= walk.left_out
        for path in state.base:
            if path in self.unknown and path not in current and not _is_replaced(path, current):
                current[path] = state.base[path]
        self.tree.check_still_there()
        self.not_covered = tuple(walk.not_covered)
        self.seen = {path: seen for path, seen in self.seen.items() if path in current}
        return current

    def leave_out(self, path: str, reason: str) -> None:
        """Name a path that was met but cannot be spoken of."""
        self.unknown.paths.add(path)
        if len(self.not_covered) < self.limits.not_covered_max:
            self.not_covered = (*self.not_covered, NotCovered(path, reason))

    def _met(self, walk: Walk, *, strict: bool) -> list[tuple[str, os.stat_result]]:
        try:
            return [(entry.path, entry.info) for entry in walk.entries()]
        except WorkspaceError as error:
            if strict:
                raise
            walk.leave_out(".", str(error.data.get("limit", reason_of(error))))
            self.unknown.everything = True
            return []

    def _take(self, path: str, info: os.stat_result, walk: Walk, current: dict[str, FileState]) -> None:
        if any(path == each or path.startswith(f"{each}/") for each in self.hidden):
            walk.leave_out(path, "protected")
            return
        found = self._state(path, info, walk)
        if found is not None:
            current[path] = found

    def _take_known(self, path: str, walk: Walk, current: dict[str, FileState]) -> None:
        try:
            info = self.tree.state(path)
        except WorkspaceError as error:
            if path not in self.unknown and not _is_replaced(path, current):
                walk.leave_out(path, reason_of(error))
            return
        if info is not None:
            self._take(path, info, walk, current)

    def _state(self, path: str, info: os.stat_result, walk: Walk) -> FileState | None:
        before = self.seen.get(path)
        if before is not None and before.still_holds(info):
            return before.state
        at_ns = time.time_ns()
        try:
            state, info = self._read(path, info)
        except GloveportError as error:
            walk.leave_out(path, reason_of(error))
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


def _is_replaced(path: str, current: Mapping[str, FileState]) -> bool:
    """True when a file or link that is content lies where a folder above `path` was: nothing can lie at `path`."""
    parts = path.split("/")
    return any("/".join(parts[:depth]) in current for depth in range(1, len(parts)))


def reason_of(error: GloveportError) -> str:
    """Why a look failed, in a word."""
    return REASONS.get(error.code, error.code.value)
