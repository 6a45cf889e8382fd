"""What a session knows of its workspace, on disk and in memory.

Purpose: the base (path by path: kind, hash, mode), the identity of the folder, what is not covered.
Invariant: the file on disk is replaced whole, after the contents it names are durable.
Must never: hold file contents, or be guessed when the file is missing or from a newer version.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256, SnapshotId
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.names import split_path
from gloveport.server.workspace.errors import WorkspaceError, os_failure
from gloveport.server.workspace.syscalls import sync_folder
from gloveport.server.workspace.walk import NotCovered

STATE_NAME: Final = "workspace.json"
STATE_VERSION: Final = 1

FileKind = Literal["file", "link"]


@dataclass(frozen=True, slots=True)
class FileState:
    """One path as it is or shall be; absence is None. `mode` holds permission bits only (0 for links)."""

    kind: FileKind
    digest: Sha256
    mode: int

    @property
    def runnable(self) -> bool:
        """True when the owner may execute the file."""
        return bool(self.mode & 0o100)


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """The record of what was copied when the session began."""

    snapshot_id: SnapshotId
    files: int
    bytes_total: int
    not_covered: tuple[NotCovered, ...]
    not_covered_total: int
    dependency_folders: tuple[str, ...]
    """Folders of installed dependencies, relative to the root: not copied, to be mounted read-only."""


@dataclass(slots=True)
class WorkspaceState:
    """Root, identity, snapshot and the base that moves with every accept."""

    root: Path
    identity: str
    snapshot: SnapshotInfo
    base: dict[str, FileState]
    forced: set[str] = field(default_factory=set)
    """Ignored paths that the agent wrote by name: proposed although a rule ignores them."""

    excluded: tuple[str, ...] = ()
    """Folders that are no content though they may lie below the root (the data directory)."""

    boot_id: str = ""
    """The boot of the machine on which the worktree was last known to be as recorded; empty where that is unknown."""

    renamed: dict[str, str] = field(default_factory=dict)
    """Old names by new ones of files that the agent moved by name; it counts while the old one is gone there."""

    committed: frozenset[str] = frozenset()
    """Folders with a name of installed dependencies that are content: they were in the history at the beginning."""

    def moved(self, old: str, new: str) -> "WorkspaceState":
        """A copy that remembers a move in the worktree; moves of one file are one, a move back is none."""
        renamed = {name: origin for name, origin in self.renamed.items() if name not in (old, new)}
        origin = self.renamed.get(old, old)
        return replace(self, renamed=renamed if origin == new else {**renamed, new: origin})

    def with_base(self, changes: dict[str, FileState | None]) -> "WorkspaceState":
        """A copy whose base has the given paths set, or removed where None."""
        base = dict(self.base)
        for path, state in changes.items():
            if state is None:
                base.pop(path, None)
            else:
                base[path] = state
        return replace(self, base=base)


def folder_keys(folders: Iterable[Path]) -> frozenset[tuple[int, int]]:
    """Device and inode of those folders that exist."""
    found = set()
    for folder in folders:
        with suppress(OSError):
            info = os.stat(folder)
            found.add((info.st_dev, info.st_ino))
    return frozenset(found)


def save_state(folder: Path, state: WorkspaceState) -> None:
    """Replace the file on disk, durably."""
    body = {
        "version": STATE_VERSION,
        "root": str(state.root),
        "identity": state.identity,
        "snapshot": {
            "snapshot_id": state.snapshot.snapshot_id,
            "files": state.snapshot.files,
            "bytes_total": state.snapshot.bytes_total,
            "not_covered": [[each.path, each.reason] for each in state.snapshot.not_covered],
            "not_covered_total": state.snapshot.not_covered_total,
            "dependency_folders": list(state.snapshot.dependency_folders),
        },
        "base": {path: [each.kind, each.digest, each.mode] for path, each in state.base.items()},
        "forced": sorted(state.forced),
        "excluded": list(state.excluded),
        "boot_id": state.boot_id,
        "renamed": state.renamed,
        "committed": sorted(state.committed),
    }
    fresh = folder / f"{STATE_NAME}.new"
    try:
        with fresh.open("wb") as file:
            file.write(orjson.dumps(body))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(folder / STATE_NAME)
        sync_folder(folder)
    except OSError as error:
        raise os_failure(error, STATE_NAME, writing=True) from None


def load_state(folder: Path) -> WorkspaceState:
    """The state last saved. Raises WorkspaceError when there is none, or it cannot be understood."""
    try:
        body = orjson.loads((folder / STATE_NAME).read_bytes())
    except OSError:
        raise WorkspaceError(
            ErrorCode.WORKSPACE_MISSING, "no complete snapshot of this session", hint="Start a new session."
        ) from None
    except orjson.JSONDecodeError:
        raise _damaged() from None
    try:
        if body["version"] > STATE_VERSION:
            raise WorkspaceError(ErrorCode.NEWER_DATA, "the session's workspace record is of a newer version")
        return _state_in(body)
    except (KeyError, TypeError, ValueError, AttributeError, EditError):
        raise _damaged() from None


def _damaged() -> WorkspaceError:
    return WorkspaceError(
        ErrorCode.CORRUPT,
        f"the session's workspace record ({STATE_NAME}) is damaged",
        hint="The session can be read, not worked in; your folder is untouched. Start a new session to go on.",
    )


def _state_in(body: Any) -> WorkspaceState:
    taken = body["snapshot"]
    info = SnapshotInfo(
        SnapshotId(taken["snapshot_id"]),
        taken["files"],
        taken["bytes_total"],
        tuple(NotCovered(*each) for each in taken["not_covered"]),
        taken["not_covered_total"],
        tuple(taken["dependency_folders"]),
    )
    base = {_path_in(path): _file_in(*each) for path, each in body["base"].items()}
    forced, root = {_path_in(path) for path in body["forced"]}, Path(body["root"])
    if not root.is_absolute():
        raise ValueError(root)
    excluded, boot_id = tuple(map(str, body["excluded"])), str(body.get("boot_id", ""))
    renamed = {_path_in(new): _path_in(old) for new, old in body.get("renamed", {}).items()}
    committed = frozenset(map(_path_in, body.get("committed", [])))
    return WorkspaceState(root, str(body["identity"]), info, base, forced, excluded, boot_id, renamed, committed)


def _path_in(raw: str) -> str:
    split_path(raw)
    return raw


def _file_in(kind: FileKind, digest: str, mode: int) -> FileState:
    if kind not in ("file", "link") or len(bytes.fromhex(digest)) != 32 or not 0 <= mode <= 0o777:
        raise ValueError(digest)
    return FileState(kind, Sha256(digest), mode)
