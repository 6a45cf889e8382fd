"""The worktree's files as tools see them.

Purpose: read, list, search, write and delete by relative path, inside the worktree only.
Invariant: links are followed only where they stay inside; a write is whole or not at all and keeps the mode.
Must never: touch `.git`, our own staged names, a dependency folder, or anything outside the worktree.
"""

import os
import stat
from collections.abc import Container, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import re2  # type: ignore[import-untyped]  # the library ships no types

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.ids import Sha256
from gloveport.server.edit.lines import UTF8_BOM, split_lines
from gloveport.server.edit.names import TEMP_PREFIX, split_path
from gloveport.server.workspace.beneath import Root, read_entry
from gloveport.server.workspace.errors import WorkspaceError, os_failure
from gloveport.server.workspace.ignore import DEPENDENCY_FOLDERS
from gloveport.server.workspace.limits import (
    SEARCH_FILE_BYTES_MAX,
    SEARCH_LINE_BYTES_MAX,
    SEARCH_PATTERN_CHARS_MAX,
    SEARCH_TOTAL_BYTES_MAX,
    WorkspaceLimits,
)
from gloveport.server.workspace.placing import copy_attributes, drop, stage_file
from gloveport.server.workspace.walk import Entry, Walk, is_ignored

NEW_FILE_MODE: Final = 0o644
_IGNORED_HINT: Final = "Go on without it, or ask the user for what it says."
_STAGED: Final = f"{TEMP_PREFIX}write"


@dataclass(frozen=True, slots=True)
class Listing:
    """Paths of files, ordered; `truncated` when there are more than the limit."""

    paths: tuple[str, ...]
    truncated: bool


@dataclass(frozen=True, slots=True)
class Match:
    """One line that matches; `line` counts from 1, `text` is cut at a named limit and decoded for display."""

    path: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Matching lines in order of path; `skipped` are files that were binary, unreadable or too large to search.

    `left_out` are files that were not looked into because the caller said so.
    """

    matches: tuple[Match, ...]
    truncated: bool
    skipped: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def resolve_path(root: Root, path: str, last: bool = True) -> str:
    """The link-free path that `path` leads to; with `last` false a link at its end is not followed."""
    if last:
        return root.resolve(path)
    folder, _, name = path.rpartition("/")
    return "/".join(split_path(f"{root.resolve(folder)}/{name}" if folder else name))


def check_place(path: str, limits: WorkspaceLimits, own: bool = False) -> None:
    """Refuse a link-free path that no look at the worktree would come to; `own`: it lies in a folder of Gloveport's."""
    if own:
        words = f"{path} lies where gloveport keeps its own data and settings: it is never written"
        raise WorkspaceError(ErrorCode.PROTECTED_PATH, words, path=path)
    _refuse_dependency(path, limits)
    if path.count("/") > limits.depth_max:
        raise WorkspaceError(
            ErrorCode.LIMIT,
            f"{path[:80]}… lies deeper than depth_max = {limits.depth_max} folders, so it could not be proposed",
            hint="Choose a path with fewer folders.",
            limit="depth_max",
        )


def read_file(root: Root, path: str, limits: WorkspaceLimits, at: str | None = None) -> bytes:
    """Bytes of the file at `path`, which must lead to `at` where that is given."""
    real = resolve_path(root, path)
    if at is not None and real != at:
        raise WorkspaceError(ErrorCode.CHANGE_CONFLICT, f"{path} leads elsewhere than when it was judged", path=path)
    try:
        return root.read(real, limits.file_bytes_max).data
    except WorkspaceError as error:
        if error.code is ErrorCode.FILE_MISSING and is_ignored(root, real):
            words = f"{path} is ignored here (git's rules), and ignored files are not in the session's copy"
            raise WorkspaceError(ErrorCode.FILE_MISSING, words, hint=_IGNORED_HINT, path=path) from None
        raise


def digest_file(root: Root, path: str, limits: WorkspaceLimits) -> Sha256 | None:
    """SHA-256 of the file's bytes, None when there is none."""
    try:
        return Sha256(sha256(read_file(root, path, limits)).hexdigest())
    except WorkspaceError as error:
        if error.code is ErrorCode.FILE_MISSING:
            return None
        raise


def write_file(root: Root, path: str, data: bytes, limits: WorkspaceLimits, expected: Sha256 | None) -> str:
    """Make `path` hold `data`; folders above are made. The link-free path that was written."""
    real = resolve_path(root, path)
    check_place(real, limits)
    if len(data) > limits.file_bytes_max:
        raise WorkspaceError(
            ErrorCode.TOO_LARGE_FILE, f"{path}: {len(data)} bytes, the limit is {limits.file_bytes_max}", path=path
        )
    _expect(root, real, limits, expected)
    state = root.state(real)
    if state is not None and not stat.S_ISREG(state.st_mode):
        raise WorkspaceError(ErrorCode.NOT_A_FILE, f"{path} is not a regular file", path=path)
    folder, _, name = real.rpartition("/")
    made = root.make_folders(folder)
    try:
        with root.folder(folder) as fd:
            mode = stat.S_IMODE(state.st_mode) & 0o777 if state else NEW_FILE_MODE
            stage_file(fd, _STAGED, data, mode, state, path)
            if state is not None:
                copy_attributes(fd, name, fd, _STAGED)
            _replace(fd, name, path)
    except BaseException:
        root.drop_folders(made)
        raise
    return real


def delete_file(root: Root, path: str, limits: WorkspaceLimits, expected: Sha256 | None) -> str:
    """Remove the file or link at `path` (a link itself, not what it leads to)."""
    real = resolve_path(root, path, last=False)
    name = real.rpartition("/")[2]
    _refuse_dependency(real, limits)
    _expect(root, real, limits, expected)
    state = root.state(real)
    if state is None:
        raise WorkspaceError(ErrorCode.FILE_MISSING, f"{path} does not exist", path=path)
    if not (stat.S_ISREG(state.st_mode) or stat.S_ISLNK(state.st_mode)):
        raise WorkspaceError(ErrorCode.NOT_A_FILE, f"{path} is not a file", path=path)
    with root.folder(real.rpartition("/")[0]) as fd:
        try:
            os.unlink(name, dir_fd=fd)
        except OSError as error:
            raise os_failure(error, path, writing=True) from None
    return real


def list_files(root: Root, pattern: str, limits: WorkspaceLimits, limit: int) -> Listing:
    """Content files that fit `pattern` (as in ignore rules: `*.py`, `src/**`; `**` is all)."""
    paths = sorted(entry.path for entry in _fitting(root, pattern, limits))
    return Listing(tuple(paths[:limit]), len(paths) > limit)


def search_files(
    root: Root, regex: str, pattern: str, limits: WorkspaceLimits, limit: int, leave_out: Container[str] = ()
) -> SearchResult:
    """Lines that match `regex` (RE2 syntax: no backtracking) in the files that fit `pattern`."""
    expression = _compiled(regex)
    # Without anchors and escapes a line can only match where the whole text does.
    loose = not any(char in regex for char in "^$\\")
    matches: list[Match] = []
    skipped: list[str] = []
    left = SEARCH_TOTAL_BYTES_MAX
    kept_back: list[str] = []
    for entry in _fitting(root, pattern, limits):
        if entry.is_link:
            continue
        if entry.path in leave_out:
            kept_back.append(entry.path)
            continue
        if entry.info.st_size > min(SEARCH_FILE_BYTES_MAX, left):
            skipped.append(entry.path)
            continue
        left -= entry.info.st_size
        try:
            data = read_entry(entry.folder_fd, entry.name, entry.path, SEARCH_FILE_BYTES_MAX).data
        except WorkspaceError:
            skipped.append(entry.path)
            continue
        if b"\0" in data:
            skipped.append(entry.path)
            continue
        if loose and expression.search(data) is None:
            continue
        matches.extend(_matches(expression, data, entry.path, limit + 1 - len(matches)))
        if len(matches) > limit:
            break
    return SearchResult(tuple(matches[:limit]), len(matches) > limit, tuple(skipped), tuple(kept_back))


def _compiled(regex: str) -> Any:
    if len(regex) > SEARCH_PATTERN_CHARS_MAX:
        raise WorkspaceError(ErrorCode.TOOL_ARGUMENTS, f"the pattern is longer than {SEARCH_PATTERN_CHARS_MAX}")
    try:
        options = re2.Options()
        options.log_errors = False
        options.encoding = re2.Options.Encoding.LATIN1 if regex.isascii() else re2.Options.Encoding.UTF8
        return re2.compile(regex.encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        raise WorkspaceError(ErrorCode.TOOL_ARGUMENTS, f"not a valid pattern: {error}") from None


def _matches(expression: Any, data: bytes, path: str, room: int) -> Iterator[Match]:
    for number, line in enumerate(split_lines(data.removeprefix(UTF8_BOM)), 1):
        body = line.rstrip(b"\r\n")
        if expression.search(body) is None:
            continue
        if room <= 0:
            return
        room -= 1
        yield Match(path, number, body[:SEARCH_LINE_BYTES_MAX].decode("utf-8", "replace"))


def _fitting(root: Root, pattern: str, limits: WorkspaceLimits) -> Iterator[Entry]:
    from pathspec import GitIgnoreSpec

    try:
        spec = GitIgnoreSpec.from_lines([pattern]) if pattern not in ("", "**", "*", ".") else None
    except ValueError as error:
        raise WorkspaceError(ErrorCode.TOOL_ARGUMENTS, f"not a valid pattern of paths: {error}") from None
    for entry in Walk(root, limits).entries():
        if spec is None or spec.match_file(entry.path):
            yield entry


def _refuse_dependency(path: str, limits: WorkspaceLimits) -> None:
    parts = path.split("/")
    for depth, part in enumerate(parts[:-1], 1):
        if part in DEPENDENCY_FOLDERS and "/".join(parts[:depth]) not in limits.content_folders:
            raise WorkspaceError(
                ErrorCode.PROTECTED_PATH,
                f"{path}: {part} holds installed dependencies; changes there never return",
                path=path,
            )


def _expect(root: Root, path: str, limits: WorkspaceLimits, expected: Sha256 | None) -> None:
    if expected is not None and (found := digest_file(root, path, limits)) != expected:
        raise WorkspaceError(
            ErrorCode.CHANGE_CONFLICT, f"{path} changed since it was read", path=path, expected=expected, found=found
        )


def _replace(fd: int, name: str, path: str) -> None:
    try:
        os.rename(_STAGED, name, src_dir_fd=fd, dst_dir_fd=fd)
    except OSError as error:
        drop(fd, _STAGED)
        raise os_failure(error, path, writing=True) from None
