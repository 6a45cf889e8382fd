"""Whether the files that are open are still the files that have their names.

Purpose: notice that the database or its log was removed or replaced behind an open journal: what is written then goes
to files without a name, and is gone with the process.
Invariant: two looks at the same untouched files agree; a look costs one stat a file.
Must never: open, create or remove a file.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.errors import JournalError

Identity = tuple[int, int]


def identity_of(path: str) -> Identity | None:
    """Device and inode of what has a name; None when nothing has."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino


class OpenFiles:
    """The files of a journal as they were when it was opened; those that were not there are not watched."""

    def __init__(self, directory: Path, names: Iterable[str]) -> None:
        self.directory = directory
        seen = ((str(directory / name), name, identity_of(str(directory / name))) for name in names)
        self._seen = tuple(one for one in seen if one[2] is not None)

    def changed(self) -> str:
        """The name of the first file that is gone or another one; empty when all are the same."""
        for path, name, identity in self._seen:
            if identity_of(path) != identity:
                return name
        return ""


def close_to_others(fd: int, name: str) -> bool:
    """Take other users' rights off an open file of ours; whether there were any.

    Raises JournalError(UNSAFE_DIRECTORY) when it is not a regular file of this user, OSError.
    """
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise JournalError(ErrorCode.UNSAFE_DIRECTORY, f"{name} is not a regular file of this user")
    if not stat.S_IMODE(status.st_mode) & 0o077:
        return False
    os.fchmod(fd, 0o600)
    return True
