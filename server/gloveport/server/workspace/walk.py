"""Going through a tree once.

Purpose: yield the files and links that are content, and name everything that was left out and why.
Invariant: the order is the same for the same tree; folders are opened beneath the root without following links.
Must never: enter `.git`, a dependency folder, an ignored folder or another device's special file.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.edit.errors import EditError
from gloveport.server.edit.names import is_git_name, is_temp_name, split_path
from gloveport.server.workspace.beneath import Root, read_entry
from gloveport.server.workspace.errors import WorkspaceError, os_failure
from gloveport.server.workspace.ignore import (
    DEPENDENCY_FOLDERS,
    DEPENDENCY_FOLDERS_IF_IGNORED,
    RULES_BYTES_MAX,
    RULES_FILE,
    IgnoreRules,
    is_cache_name,
)
from gloveport.server.workspace.limits import WorkspaceLimits

PYTHON_ENVIRONMENT_MARK: Final = "pyvenv.cfg"


@dataclass(frozen=True, slots=True)
class NotCovered:
    """A path that is not part of the snapshot, and why in one word."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A regular file or link met on the way; `folder_fd` is open until the walk goes on."""

    path: str
    name: str
    folder_fd: int
    info: os.stat_result

    @property
    def is_link(self) -> bool:
        """True for a symbolic link."""
        return stat.S_ISLNK(self.info.st_mode)


@dataclass(slots=True)
class Walk:
    """One walk; `skip` names folders by device and inode."""

    root: Root
    limits: WorkspaceLimits
    skip: frozenset[tuple[int, int]] = frozenset()
    not_covered: list[NotCovered] = field(default_factory=list)
    not_covered_total: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    dependencies: list[str] = field(default_factory=list)
    files: int = 0

    def entries(self) -> Iterator[Entry]:
        """Every file and link that is content. Raises WorkspaceError when the root cannot be read or holds too many."""
        stack: list[tuple[str, IgnoreRules]] = [("", IgnoreRules())]
        while stack:
            folder, rules = stack.pop()
            try:
                with self.root.folder(folder) as fd:
                    below: list[tuple[str, IgnoreRules]] = []
                    yield from self._folder(fd, folder, rules, below)
            except WorkspaceError as error:
                if not folder or error.code is ErrorCode.LIMIT:
                    raise
                self.leave_out(folder, _word(error))
                continue
            stack.extend(reversed(below))

    def covers(self, path: str) -> bool:
        """True when a walk would come to the existing file at `path`, a link-free one."""
        rules = IgnoreRules()
        parts = path.split("/")
        for depth, name in enumerate(parts):
            folder, here = "/".join(parts[:depth]), "/".join(parts[: depth + 1])
            with self.root.folder(folder) as fd:
                rules = rules.within(folder, rules_text(fd))
            info = self.root.state(here)
            if info is None or not self.is_content(here, name, info, rules):
                return False
        return True

    def leave_out(self, path: str, reason: str) -> None:
        """Note that `path` is not covered, and why."""
        self.not_covered_total += 1
        self.left_out[path] = reason
        if len(self.not_covered) < self.limits.not_covered_max:
            self.not_covered.append(NotCovered(path.encode("utf-8", "backslashreplace").decode(), reason))

    def remember(self, left_out: Iterable[NotCovered], dependencies: Iterable[str]) -> None:
        """Note again what an earlier walk found in a folder that is as it was."""
        for each in left_out:
            self.leave_out(each.path, each.reason)
        self.dependencies.extend(dependencies)

    def count(self, files: int) -> None:
        """Note that so many files were met. Raises `limit.reached` above the limit."""
        self.files += files
        if self.files > self.limits.files_max:
            raise over_limit("files_max", self.limits.files_max)

    def _folder(
        self, fd: int, folder: str, rules: IgnoreRules, below: list[tuple[str, IgnoreRules]]
    ) -> Iterator[Entry]:
        here = rules.within(folder, rules_text(fd))
        prefix = f"{folder}/" if folder else ""
        for name, info in _listed(fd, folder):
            path = prefix + name
            if not self.is_content(path, name, info, here):
                continue
            if not stat.S_ISDIR(info.st_mode):
                self.count(1)
                yield Entry(path, name, fd, info)
            elif self.may_enter(path, info):
                below.append((path, here))

    def is_content(self, path: str, name: str, info: os.stat_result, rules: IgnoreRules) -> bool:
        """True when a file or folder is content by the rules; special files and unfit names are noted."""
        folder = stat.S_ISDIR(info.st_mode)
        if is_git_name(name) or is_temp_name(name):
            return False
        if not self._has_fit_name(path):
            return False
        if folder and self._is_dependency(path, name, rules):
            self.dependencies.append(path)
            return False
        if is_cache_name(name) or rules.ignores(path, folder=folder):
            return False
        return folder or self._is_plain(path, info)

    def _is_plain(self, path: str, info: os.stat_result) -> bool:
        if stat.S_ISLNK(info.st_mode) or stat.S_ISREG(info.st_mode):
            return True
        self.leave_out(path, "special")
        return False

    def _has_fit_name(self, path: str) -> bool:
        try:
            split_path(path)
        except EditError:
            self.leave_out(path, "name")
            return False
        return True

    def _is_dependency(self, path: str, name: str, rules: IgnoreRules) -> bool:
        committed = path in self.limits.content_folders and not rules.ignores(path, folder=True)
        if name in DEPENDENCY_FOLDERS and not committed:
            return True
        if name in DEPENDENCY_FOLDERS_IF_IGNORED and rules.ignores(path, folder=True):
            return True
        with suppress(WorkspaceError):  # a folder that cannot be entered is named when the walk comes to it
            return "env" in name.lower() and self.root.state(f"{path}/{PYTHON_ENVIRONMENT_MARK}") is not None
        return False

    def may_enter(self, path: str, info: os.stat_result) -> bool:
        """True for a folder that is not skipped; one that lies too deep is noted."""
        if (info.st_dev, info.st_ino) in self.skip:
            return False
        if path.count("/") >= self.limits.depth_max:
            self.leave_out(path, "too_deep")
            return False
        return True


def is_ignored(root: Root, path: str) -> bool:
    """True when the rules keep a file at the link-free `path`, or a folder above it, from being content."""
    rules = IgnoreRules()
    parts = path.split("/")
    for depth, name in enumerate(parts):
        folder, here = "/".join(parts[:depth]), "/".join(parts[: depth + 1])
        try:
            with root.folder(folder) as fd:
                rules = rules.within(folder, rules_text(fd))
        except WorkspaceError:
            return False
        if is_cache_name(name) or rules.ignores(here, folder=depth + 1 < len(parts)):
            return True
    return False


def over_limit(name: str, bound: int) -> WorkspaceError:
    """The refusal of a tree that is too large, naming the limit."""
    return WorkspaceError(
        ErrorCode.LIMIT,
        f"the workspace is larger than {name} = {bound}",
        hint="Open a smaller folder, or ignore what is not source (.gitignore).",
        limit=name,
    )


def _listed(fd: int, folder: str) -> list[tuple[str, os.stat_result]]:
    found = []
    try:
        with os.scandir(fd) as listing:
            for entry in listing:
                with suppress(FileNotFoundError):
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
    except OSError as error:
        raise os_failure(error, folder) from None
    return sorted(found, key=lambda pair: pair[0])


def rules_text(fd: int) -> bytes | None:
    """The ignore rules of an open folder; None where there are none that can be read."""
    try:
        return read_entry(fd, RULES_FILE, RULES_FILE, RULES_BYTES_MAX).data
    except WorkspaceError:
        return None


def _word(error: WorkspaceError) -> str:
    return "gone" if error.code is ErrorCode.FILE_MISSING else "unreadable"
