"""Failures of the audit room.

Purpose: one exception for everything that keeps a line from being evidence.
Invariant: NOT_SAVED and DATA_FULL mean the action has no line and must not be performed.
Must never: carry the line's params.

Tree: `AuditError` (codes NOT_SAVED, DATA_FULL, LEASE_HELD, UNSAFE_DIRECTORY, LIMIT, INVALID_PARAMS).
"""

import errno

from gloveport.protocol.errors import ErrorCode, GloveportError

_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})


class AuditError(GloveportError):
    """A typed failure of the audit log."""


def refused_by_disk(what: str, error: OSError, *, hint: str | None = None) -> AuditError:
    """A file operation of this room that failed; `hint` where the code's own would not do."""
    code = ErrorCode.DATA_FULL if error.errno in _FULL_ERRNOS else ErrorCode.NOT_SAVED
    return AuditError(code, f"{what} ({error.strerror or error})", hint=hint)
