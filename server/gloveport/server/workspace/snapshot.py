"""Taking the first copy of the user's folder.

Purpose: look at every content file, keep the bytes that are not kept yet, and write the worktree from what is kept.
Invariant: the worktree equals the base entry by entry, byte by byte; the user's folder is only read; a content that was
not read now has the hash it was seen with, and is checked against it when it is written.
Must never: write below the root, make a hard link, follow a link out, or leave a half snapshot that can be opened.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import SnapshotId
from gloveport.server.workspace.beneath import Root
from gloveport.server.workspace.content import path_with_data
from gloveport.server.workspace.contents import PINS_NAME, Contents, load_pins, save_pins
from gloveport.server.workspace.errors import WorkspaceError, os_failure
from gloveport.server.workspace.identity import folder_identity
from gloveport.server.workspace.limits import WorkspaceLimits
from gloveport.server.workspace.look import Look
from gloveport.server.workspace.populate import Populate
from gloveport.server.workspace.removing import remove_tree
from gloveport.server.workspace.seen_file import SEEN_NAME, save_seen
from gloveport.server.workspace.sight import Sight
from gloveport.server.workspace.state import (
    STATE_NAME,
    FileState,
    SnapshotInfo,
    WorkspaceState,
    folder_keys,
    save_state,
)
from gloveport.server.workspace.store import INDEX_NAME, PACK_NAME, SHARED_BYTES_MIN, ContentStore
from gloveport.server.workspace.syscalls import sync_folder
from gloveport.server.workspace.tracked import read_tracked
from gloveport.server.workspace.walk import over_limit

WORKTREE_NAME: Final = "worktree"
_NOTHING: Final = SnapshotInfo(SnapshotId(""), 0, 0, (), 0, ())


@dataclass(frozen=True, slots=True)
class Taken:
    """A complete snapshot, the worktree's files as they were when written, and the user's as they were when read."""

    state: WorkspaceState
    seen: Sight
    seen_in_root: Sight


@dataclass(slots=True)
class _Reader:
    """Keeps what a look reads: in the shared store where there is one, and as a file of the worktree."""

    store: ContentStore | Contents
    populate: Populate
    limits: WorkspaceLimits
    bytes_read: int = 0
    written: set[str] = field(default_factory=set)

    def keep(self, path: str, data: bytes, state: FileState) -> None:
        """Take the bytes of one path, just read. Raises `limit.reached`."""
        self.bytes_read += len(data)
        if self.bytes_read > self.limits.total_bytes_max:
            raise over_limit("total_bytes_max", self.limits.total_bytes_max)
        self.store.put(data)
        if len(data) < SHARED_BYTES_MIN:  # the others come from the store, when it is on the disk
            self.populate.write(path, data, state)
            self.written.add(path)


def take_snapshot(
    root: Path,
    session_dir: Path,
    limits: WorkspaceLimits,
    exclude: Sequence[Path],
    boot_id: str = "",
    contents: Contents | None = None,
) -> Taken:
    """Copy the content of `root` into `session_dir`. Whatever fails, nothing that could be opened is left."""
    identity = folder_identity(root)
    real = Path(os.path.realpath(root))
    with Root(real) as handle:
        _prepare(session_dir)
        tracked = read_tracked(handle)
        limits = replace(limits, content_folders=tracked.folders)
        state = WorkspaceState(real, identity, _NOTHING, {}, set(tracked.paths), tuple(map(str, exclude)), boot_id)
        state.committed = tracked.folders
        try:
            with _sight(contents, identity) as sight:
                look = Look(handle, limits, sight, folder_keys((session_dir, *exclude)))
                return _taken(look, session_dir, state, contents)
        except BaseException:
            _discard(session_dir)  # what stays of it refuses the next snapshot there, with its name
            raise


@contextmanager
def open_store(session_dir: Path, contents: Contents | None) -> Iterator[ContentStore]:
    """The session's own store, before the shared one. Raises WorkspaceError."""
    pinned = load_pins(session_dir)
    if pinned and contents is None:
        raise WorkspaceError(ErrorCode.BLOB_MISSING, "this session's snapshot lies in the store of all sessions")
    with ContentStore(session_dir, contents, pinned) as store:
        yield store


@contextmanager
def _sight(contents: Contents | None, identity: str) -> Iterator[Sight]:
    if contents is None:
        yield Sight()
        return
    with contents.taking(identity) as sight:
        yield sight


def _taken(look: Look, session_dir: Path, state: WorkspaceState, contents: Contents | None) -> Taken:
    worktree = session_dir / WORKTREE_NAME
    try:
        worktree.mkdir(mode=0o700)
    except OSError as error:
        raise os_failure(error, WORKTREE_NAME, writing=True) from None
    populate = Populate(str(worktree))
    with ContentStore(session_dir) as own:
        reader = _Reader(own if contents is None else contents, populate, look.limits)
        look.keep = reader.keep
        # What is in the history is content whatever a rule says; later it is known by the base.
        base = dict(look.current(state, strict=True))
        _read_missing(look, base, reader)
        populate.make_folders(look.sight.folders)
        reader.store.sync()
        populate.run(reader.store, {path: base[path] for path in base.keys() - reader.written})
        _make_mount_points(worktree, look.dependencies)
    if contents is not None:
        save_pins(session_dir, {each.digest for each in base.values()})
    info = _described(look, state.identity, base)
    taken = replace(state, snapshot=info, base=base, forced=set())
    save_state(session_dir, taken)
    _sync_names(session_dir)
    seen, seen_in_root = populate.sight(base), look.sight.copy()
    save_seen(session_dir, state.boot_id, seen, seen_in_root)
    return Taken(taken, seen, seen_in_root)


def _read_missing(look: Look, base: dict[str, FileState], reader: _Reader) -> None:
    """Read what was seen before and is no longer kept; it may have changed meanwhile."""
    for path in [path for path, each in base.items() if path not in reader.written]:
        if reader.store.has(base[path].digest):
            continue
        look.sight.forget(path.rpartition("/")[0])
        found, data = path_with_data(look.tree, path, look.limits)
        if found is None or data is None:
            del base[path]
        else:
            base[path] = found
            reader.keep(path, data, found)


def _described(look: Look, identity: str, base: Mapping[str, FileState]) -> SnapshotInfo:
    size = look.sight.bytes_total()
    if size > look.limits.total_bytes_max:
        raise over_limit("total_bytes_max", look.limits.total_bytes_max)
    name = sha256(identity.encode() + b"\0" + look.sight.digest()).hexdigest()
    return SnapshotInfo(
        SnapshotId(f"snap-{name[:32]}"),
        len(base),
        size,
        look.not_covered,
        look.not_covered_total,
        look.dependencies,
    )


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
    if left := _discard(session_dir):
        raise WorkspaceError(
            ErrorCode.WORKSPACE_UNWRITABLE,
            f"what an earlier snapshot left cannot be removed: {left[0]}",
            hint="Remove it as whoever owns it, or begin another session.",
        )


def _discard(session_dir: Path) -> tuple[str, ...]:
    """Remove what a snapshot that was broken off has left; nothing but our own names. What stays is named."""
    left = remove_tree(session_dir / WORKTREE_NAME)
    for name in (PACK_NAME, INDEX_NAME, f"{STATE_NAME}.new", STATE_NAME, PINS_NAME, SEEN_NAME):
        with suppress(OSError):
            (session_dir / name).unlink()
    return left
