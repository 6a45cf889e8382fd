"""Takes files out of a jail after its tree is dead.

Purpose: the one way artifacts come back.
Invariant: only regular files with one link, opened without following any link, within the caps.
Must never: open a device or pipe, follow a link, or read beyond a cap.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.contract import SandboxError
from gloveport.sandbox.profile import Access, Mount, Profile, is_below

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
TOTAL_BYTES_MAX: Final = 64 * 1024 * 1024
FILES_MAX: Final = 256
VISITS_MAX: Final = 200_000
DEPTH_MAX: Final = 64
"""Folders below a mount that are looked into; a program makes them as deep as it likes."""


def collect_files(profile: Profile, globs: tuple[str, ...]) -> Mapping[str, bytes]:
    """Path inside the jail -> content, for globs that are absolute inside or relative to the working folder.

    A file that is no plain file, or has several links, is left out. Raises `SandboxError` over a cap.
    """
    wanted = [_absolute(profile.working_dir, glob) for glob in globs]
    found: dict[str, bytes] = {}
    total = 0
    for mount in profile.mounts:
        patterns = [glob for glob in wanted if _may_match(glob, mount)]
        if mount.access is Access.READ_WRITE and patterns:
            for path, content in _walk(mount, patterns):
                found[path] = content
                total += len(content)
                if len(found) > FILES_MAX or total > TOTAL_BYTES_MAX:
                    raise SandboxError(ErrorCode.LIMIT, "More files or bytes match than may be collected.")
    return found


def _absolute(working_dir: str, glob: str) -> str:
    path = PurePosixPath(working_dir, glob)
    if ".." in path.parts:
        raise SandboxError(ErrorCode.SANDBOX_REFUSED, "A pattern may not hold '..'.")
    return str(path)


def _may_match(glob: str, mount: Mount) -> bool:
    fixed = glob.split("*")[0].split("?")[0].split("[")[0]
    return is_below(fixed.rstrip("/") or "/", mount.target) or is_below(mount.target, fixed.rstrip("/") or "/")


def _walk(mount: Mount, patterns: list[str]) -> Iterator[tuple[str, bytes]]:
    visits = 0
    for folder, folders, files, folder_fd in os.fwalk(mount.source, follow_symlinks=False):
        inside = PurePosixPath(mount.target, os.path.relpath(folder, mount.source))
        if len(inside.parts) - len(PurePosixPath(mount.target).parts) >= DEPTH_MAX:
            folders.clear()
        visits += 1 + len(files)
        if visits > VISITS_MAX:
            raise SandboxError(ErrorCode.LIMIT, "The folder holds too many files to search.")
        for name in files:
            path = inside / name
            if any(path.match(pattern) for pattern in patterns):
                content = _read_plain(name, folder_fd)
                if content is not None:
                    yield str(path), content


def _read_plain(name: str, folder_fd: int) -> bytes | None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        fd = os.open(name, flags, dir_fd=folder_fd)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            return None
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise SandboxError(ErrorCode.LIMIT, f"{name} is larger than {FILE_BYTES_MAX} bytes.")
    return content
