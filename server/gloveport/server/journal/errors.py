"""Failures of the journal room.

Purpose: one exception for everything that can go wrong between an append and the disk.
Invariant: the code says what the caller may do: CONFLICT read again; NOT_SAVED and DATA_FULL stop and reopen; the
rest refuse.
Must never: name a path the user did not choose, or carry a payload.

Tree: `JournalError` (codes CONFLICT, NOT_SAVED, DATA_FULL, CORRUPT, UNSUPPORTED_FS, NEWER_DATA, LEASE_HELD, BUSY,
UNSAFE_DIRECTORY, BLOB_MISSING, LIMIT, INVALID_PARAMS).
"""

import errno
import sqlite3

from gloveport.protocol.errors import ErrorCode, GloveportError

_DAMAGE_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PRIMARY_CODE_MASK = 0xFF
_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})


class JournalError(GloveportError):
    """A typed failure of the journal, the blob store or the data directory's lease."""


def conflict(stream: str, expected: int, actual: int) -> JournalError:
    """Somebody appended to `stream` first."""
    return JournalError(
        ErrorCode.CONFLICT,
        f"{stream}: expected next seq {expected}, it is {actual}",
        stream=stream,
        expected=expected,
        actual=actual,
    )


def not_saved(reason: str) -> JournalError:
    """The disk did not take it; whether it is there after all is known only after a reopen."""
    return JournalError(ErrorCode.NOT_SAVED, f"not saved: {reason}")


def disk_full(reason: str) -> JournalError:
    """The data disk has no room; what was acknowledged is there, and a reopen works once there is room again."""
    return JournalError(ErrorCode.DATA_FULL, f"not saved, the data disk is full: {reason}")


def refused_by_disk(what: str, error: OSError) -> JournalError:
    """A file operation of this room that failed."""
    reason = f"{what} ({error.strerror or error})"
    return disk_full(reason) if error.errno in _FULL_ERRNOS else not_saved(reason)


def refused_by_sqlite(error: sqlite3.Error) -> JournalError:
    """A statement that failed for the disk's sake."""
    return disk_full(str(error)) if is_full(error) else not_saved(str(error))


def corrupt(reason: str) -> JournalError:
    """Stored data is damaged beyond what setting the tail aside can mend."""
    return JournalError(ErrorCode.CORRUPT, reason)


def corrupt_event(stream: str, seq: int, kind: str = "") -> JournalError:
    """One event cannot be read; `Journal.set_aside` keeps it and what follows, and lets the stream go on."""
    named = f" ({kind})" if kind else ""
    return JournalError(ErrorCode.CORRUPT, f"event {seq} of {stream}{named} cannot be read", stream=stream, seq=seq)


def limit(reason: str) -> JournalError:
    """A named limit of this room was reached."""
    return JournalError(ErrorCode.LIMIT, reason)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite says that the file itself is damaged (as opposed to full, busy or unreadable)."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and (code & _PRIMARY_CODE_MASK) in _DAMAGE_CODES


def is_full(error: sqlite3.Error) -> bool:
    """Whether SQLite found no room on the disk (or none under its own limit)."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and (code & _PRIMARY_CODE_MASK) == sqlite3.SQLITE_FULL


def is_unreadable(error: sqlite3.Error) -> bool:
    """Whether a page could not be read: damaged, or refused by the disk."""
    code = getattr(error, "sqlite_errorcode", None)
    return is_damage(error) or (code is not None and (code & _PRIMARY_CODE_MASK) == sqlite3.SQLITE_IOERR)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection kept the lock longer than the busy timeout; nothing was written then."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and (code & _PRIMARY_CODE_MASK) == sqlite3.SQLITE_BUSY
