"""Failures of the workspace room.

Purpose: one class for all of them, and the one translation of operating system errors into codes.
Invariant: a `WorkspaceError` names a path only relative to the workspace, or as its caller gave it.
Must never: be raised after a change was made in part: whoever raises has rolled back first, or says what is left.
"""

import errno
from types import MappingProxyType
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError

_CODES: Final = MappingProxyType(
    {
        errno.ENOSPC: ErrorCode.DISK_FULL,
        errno.EDQUOT: ErrorCode.DISK_FULL,
        errno.ENOENT: ErrorCode.FILE_MISSING,
        errno.ENOTDIR: ErrorCode.FILE_MISSING,
        errno.ELOOP: ErrorCode.OUTSIDE_WORKSPACE,
        errno.EXDEV: ErrorCode.OUTSIDE_WORKSPACE,
        errno.EISDIR: ErrorCode.NOT_A_FILE,
        errno.ENXIO: ErrorCode.NOT_A_FILE,
        errno.EFBIG: ErrorCode.TOO_LARGE_FILE,
        errno.ENAMETOOLONG: ErrorCode.OUTSIDE_WORKSPACE,
    }
)


REASONS: Final = MappingProxyType(
    {
        ErrorCode.TOO_LARGE_FILE: "too_large",
        ErrorCode.PROTECTED_PATH: "hard_link",
        ErrorCode.WORKSPACE_UNREADABLE: "unreadable",
        ErrorCode.FILE_MISSING: "gone",
        ErrorCode.OUTSIDE_WORKSPACE: "link_leaves_root",
        ErrorCode.NOT_A_FILE: "special",
    }
)
"""Why a path was left out, in a word."""


class WorkspaceError(GloveportError):
    """A refusal or failure of the workspace room; `data` may hold `path` and hashes."""


def os_failure(error: OSError, path: str, *, writing: bool = False) -> WorkspaceError:
    """The typed form of an operating system error met at `path`."""
    fallback = ErrorCode.WORKSPACE_UNWRITABLE if writing else ErrorCode.WORKSPACE_UNREADABLE
    code = _CODES.get(error.errno or 0, fallback)
    why = errno.errorcode.get(error.errno or 0, "unknown error")
    return WorkspaceError(code, f"{path or '.'}: {'write' if writing else 'read'} failed ({why})", path=path)
