"""Taking the first copy of the user's folder.

Purpose: read every content file once, keep its bytes in the store and write the worktree from the same bytes.
Invariant: the worktree equals the base entry by entry, byte by byte; the user's folder is only read.
Must never: write below the root, make a hard link, follow a link out, or leave a half snapshot that can be opened.
"""

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.server.workspace.beneath import Root, read_entry
from gloveport.server.workspace.errors import REASONS, WorkspaceError, os_failure
from gloveport.server.workspace.limits import WorkspaceLimits
from gloveport.server.workspace.look import Seen, stamp_of
from gloveport.server.workspace.state import (
    STATE_NAME,
    FileState,
    SnapshotInfo,
    WorkspaceState,
    folder_identity,
    folder_keys,
    save_state,
    snapshot_name,
    sync_folder,
)
from gloveport.server.workspace.store import INDEX_NAME, PACK_NAME, ContentStore
from gloveport.server.workspace.walk import Entry, Walk, over_limit

WORKTREE_NAME: Final = "worktree"
PERMISSIONS: Final = 0o777
_OWNER_MAY: Final = 0o600


@dataclass(frozen=True, slots=True)
class Taken:
    """A complete snapshot, and the worktree's files as they were when written."""

    state: WorkspaceState
    seen: dict[str, Seen]


@dataclass(slots=True)
class _Taking:
    walk: Walk
    store: ContentStore
    worktree: str
    limits: WorkspaceLimits
    base: dict[str, FileState] = field(default_factory=dict)
    written: dict[str, os.stat_result] = field(default_factory=dict)
    bytes_total: int = 0
    folders_made: int = 0

    def run(self) -> None:
        for entry in self.walk.entries():
            self._make_folders()
            try:
                self._take(entry)
            except WorkspaceError as error:
                reason = REASONS.get(error.code)
                if reason is None:
                    raise
                self.walk.leave_out(entry.path, reason)
        self._make_folders()

    def seen(self) -> dict[str, Seen]:
        """Nobody else has had the worktree yet, so what was written is what is there now."""
        at_ns = time.time_ns()
        return {
            path: Seen(stamp_of(info), FileState("file", self.base[path].digest, info.st_mode & PERMISSIONS), at_ns)
            for path, info in self.written.items()
        }

    def _take(self, entry: Entry) -> None:
        if entry.is_link:
            self._take_link(entry)
            return
        read = read_entry(entry.folder_fd, entry.name, entry.path, self.limits.file_bytes_max)
        self._count(len(read.data))
        mode = read.info.st_mode & PERMISSIONS
        self.written[entry.path] = _write_new(f"{self.worktree}/{entry.path}", read.data, mode | _OWNER_MAY)
        self.base[entry.path] = FileState("file", self.store.put(read.data), mode)

    def _take_link(self, entry: Entry) -> None:
        target = self.walk.root.link_target(entry.path)
        try:
            self.walk.root.resolve(entry.path)
        except GloveportError:
            raise WorkspaceError(ErrorCode.OUTSIDE_WORKSPACE, f"{entry.path} is a link that leads away") from None
        self._count(len(target))
        try:
            os.symlink(target, f"{self.worktree}/{entry.path}")
        except OSError as error:
            raise os_failure(error, entry.path, writing=True) from None
        self.base[entry.path] = FileState("link", self.store.put(os.fsencode(target)), 0)

    def _count(self, size: int) -> None:
        self.bytes_total += size
        if self.bytes_total > self.limits.total_bytes_max:
            raise over_limit("total_bytes_max", self.limits.total_bytes_max)

    def _make_folders(self) -> None:
        for folder in self.walk.folders[self.folders_made :]:
            try:
                os.mkdir(f"{self.worktree}/{folder}", 0o700)
            except OSError as error:
                raise os_failure(error, folder, writing=True) from None
        self.folders_made = len(self.walk.folders)


def take_snapshot(
    root: Path, session_dir: Path, limits: WorkspaceLimits, exclude: Sequence[Path], boot_id: str = ""
) -> Taken:
    """Copy the content of `root` into `session_dir`. Whatever fails, nothing that could be opened is left."""
    identity = folder_identity(root)
    real = Path(os.path.realpath(root))
    with Root(real) as handle:
        _prepare(session_dir)
        walk = Walk(handle, limits, skip=folder_keys((session_dir, *exclude)))
        try:
            return _taken(walk, session_dir, identity, tuple(map(str, exclude)), boot_id)
        except BaseException:
            _discard(session_dir)
            raise


def _taken(walk: Walk, session_dir: Path, identity: str, excluded: tuple[str, ...], boot_id: str) -> Taken:
    worktree = session_dir / WORKTREE_NAME
    with ContentStore(session_dir) as store:
        try:
            worktree.mkdir(mode=0o700)
        except OSError as error:
            raise os_failure(error, WORKTREE_NAME, writing=True) from None
        taking = _Taking(walk, store, str(worktree), walk.limits)
        taking.run()
        _make_mount_points(worktree, walk.dependencies)
        store.sync()
    info = SnapshotInfo(
        snapshot_name(identity, taking.base),
        len(taking.base),
        taking.bytes_total,
        tuple(walk.not_covered),
        walk.not_covered_total,
        tuple(sorted(walk.dependencies)),
    )
    state = WorkspaceState(walk.root.path, identity, info, taking.base, excluded=excluded, boot_id=boot_id)
    save_state(session_dir, state)
    _sync_names(session_dir)
    return Taken(state, taking.seen())


def _sync_names(session_dir: Path) -> None:
    """The session's folder, and the one of all sessions, keep their names through a power loss."""
    try:
        for folder in (session_dir.parent, session_dir.parent.parent):
            sync_folder(folder)
    except OSError as error:
        raise os_failure(error, session_dir.name, writing=True) from None


def _make_mount_points(worktree: Path, dependencies: Sequence[str]) -> None:
    """Empty folders where a jail shows the user's installed dependencies."""
    for path in dependencies:
        try:
            (worktree / path).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise os_failure(error, path, writing=True) from None


def _prepare(session_dir: Path) -> None:
    if (session_dir / STATE_NAME).exists():
        raise WorkspaceError(
            ErrorCode.CONFLICT, "this session has a workspace already", hint="Open it instead of creating it."
        )
    try:
        session_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise os_failure(error, session_dir.name, writing=True) from None
    _discard(session_dir)


def _discard(session_dir: Path) -> None:
    """Remove what a snapshot that was broken off has left; nothing but our own names."""
    shutil.rmtree(session_dir / WORKTREE_NAME, ignore_errors=True)
    for name in (PACK_NAME, INDEX_NAME, f"{STATE_NAME}.new", STATE_NAME):
        with suppress(OSError):
            (session_dir / name).unlink()


def _write_new(path: str, data: bytes, mode: int) -> os.stat_result:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            return os.fstat(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise os_failure(error, path.rsplit("/", 1)[-1], writing=True) from None
