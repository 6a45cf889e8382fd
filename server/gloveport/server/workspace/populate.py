"""Writing a worktree.

Purpose: make the folders, files and links of a base, each from bytes that were just read or lie in a store.
Invariant: a file is made anew, never written into or linked; its owner may read and write it whatever its mode says.
Must never: write outside the worktree, which nobody else has had yet.
"""

import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from gloveport.server.workspace.errors import os_failure
from gloveport.server.workspace.sight import Seen, Sight, stamp_of
from gloveport.server.workspace.state import FileState

PERMISSIONS: Final = 0o777
WORKERS: Final = 4
CHUNK: Final = 256
_OWNER_MAY: Final = 0o600


class Source(Protocol):
    """Where contents come from."""

    def get(self, digest: str) -> bytes:
        """The bytes of a name, checked against it. Raises WorkspaceError."""

    def share(self, digest: str, fd: int) -> bool:
        """Make an empty file hold the bytes of a name without a copy; False where that cannot be had."""


@dataclass(slots=True)
class Populate:
    """Fills one worktree."""

    worktree: str
    made: set[str] = field(default_factory=set)
    written: dict[str, os.stat_result] = field(default_factory=dict)

    def make_folders(self, folders: Iterable[str]) -> None:
        """Every folder, also those that hold nothing. Raises WorkspaceError."""
        for folder in sorted(folders):
            self._folder(folder)

    def write(self, path: str, data: bytes, state: FileState) -> None:
        """Make one file or link. Raises WorkspaceError."""
        self._folder(path.rpartition("/")[0])
        self._write(path, data, state)

    def run(self, source: Source, states: Mapping[str, FileState]) -> None:
        """Make every path from the store, some at a time: most of the time is the system's. Raises WorkspaceError."""
        paths = sorted(states)
        for folder in sorted({path.rpartition("/")[0] for path in paths}):
            self._folder(folder)
        parts = [paths[at : at + CHUNK] for at in range(0, len(paths), CHUNK)]

        def write_part(part: list[str]) -> None:
            for path in part:
                self._write(path, source.get(states[path].digest), states[path], source)

        if len(parts) <= 1:
            for part in parts:
                write_part(part)
            return
        with ThreadPoolExecutor(min(WORKERS, os.cpu_count() or 1)) as pool:
            for _ in pool.map(write_part, parts):
                pass

    def sight(self, base: Mapping[str, FileState]) -> Sight:
        """Nobody else has had the worktree yet, so what was written is what is there now."""
        at_ns = time.time_ns()
        seen = Sight()
        for path, info in self.written.items():
            mode = info.st_mode & PERMISSIONS
            state = base[path]
            kept = state if state.mode == mode else FileState("file", state.digest, mode)
            seen.loose[path] = Seen(stamp_of(info), kept, at_ns)
        return seen

    def _folder(self, folder: str) -> None:
        if not folder or folder in self.made:
            return
        self._folder(folder.rpartition("/")[0])
        try:
            with suppress(FileExistsError):
                os.mkdir(f"{self.worktree}/{folder}", 0o700)
        except OSError as error:
            raise os_failure(error, folder, writing=True) from None
        self.made.add(folder)

    def _write(self, path: str, data: bytes, state: FileState, source: Source | None = None) -> None:
        target = f"{self.worktree}/{path}"
        try:
            if state.kind == "link":
                os.symlink(data, os.fsencode(target))
                return
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, state.mode | _OWNER_MAY)
            try:
                shared = source is not None and source.share(state.digest, fd)
                view = memoryview(data)[len(data) if shared else 0 :]
                while view:
                    view = view[os.write(fd, view) :]
                self.written[path] = os.fstat(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise os_failure(error, path, writing=True) from None
