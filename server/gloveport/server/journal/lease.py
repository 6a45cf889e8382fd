"""The exclusive lease of a data directory.

Purpose: one daemon per data directory; a second one learns who the first is.
Invariant: the lock is the kernel's (flock) on the directory itself and on the file, so it ends with its owner and
outlives a removed file; what the file says is information only, and a stale file never blocks. The generation grows by
one with every owner.
Must never: delete the lock file (two owners could then lock two files), or judge an owner by its pid alone.

A child that is forked without exec shares the lock: fork servers are started before the lease is taken, or close
`DataLease.filenos`. So does any child for the moment before it becomes a program; where the owner died in that moment,
the lock is waited for.
"""

import errno
import fcntl
import json
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode
from gloveport.server.journal.errors import JournalError, refused_by_disk

LOCK_FILE: Final = "daemon.lock"
HEIR_WAIT_S: Final = 5.0
"""How long a child of a dead owner may take to become a program."""
_HEIR_POLL_S: Final = 0.01
_LOCK_BYTES_MAX: Final = 4096
_STAT_START_FIELD: Final = 19  # of /proc/<pid>/stat, counted after the command's closing parenthesis


@dataclass(frozen=True, slots=True)
class LeaseOwner:
    """Who holds a lease: process id, its start time (clock ticks since boot) and the lease's generation.

    A process id of 0 means that the last owner gave it back.
    """

    pid: int
    start_ticks: int
    generation: int


def process_start_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot; 0 where it cannot be known. With the pid it is an identity."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[_STAT_START_FIELD])


def current_boot_id() -> str:
    """A name of this boot of the machine; empty where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def read_owner(directory: Path) -> LeaseOwner | None:
    """What the lock file of `directory` says; None when there is nothing readable in it."""
    try:
        raw = (directory / LOCK_FILE).read_bytes()[:_LOCK_BYTES_MAX]
        values: Any = json.loads(raw)
        return LeaseOwner(int(values["pid"]), int(values["start_ticks"]), int(values["generation"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class DataLease:
    """A held lease. Release it with `release()` or by leaving a `with` block."""

    def __init__(self, fd: int, directory_fd: int, owner: LeaseOwner) -> None:
        self._fd = fd
        self._directory_fd = directory_fd
        self.owner = owner

    @classmethod
    def acquire(cls, directory: Path) -> "DataLease":
        """Take the lease of an existing directory.

        Raises JournalError(LEASE_HELD) with `pid` in its data while another owner lives, UNSAFE_DIRECTORY when the
        lock file is not a regular file of ours, NOT_SAVED when it cannot be written.
        """
        deadline = time.monotonic() + HEIR_WAIT_S
        while True:
            try:
                return cls._acquire(directory)
            except JournalError as error:
                is_held = error.code is ErrorCode.LEASE_HELD
                if not is_held or not _is_dead(read_owner(directory)) or time.monotonic() > deadline:
                    raise
            time.sleep(_HEIR_POLL_S)

    @classmethod
    def _acquire(cls, directory: Path) -> "DataLease":
        # The directory first: without its lock no lock file is made in the place of a removed one.
        directory_fd = _lock_directory(directory)
        fd = -1
        try:
            fd = _open_lock_file(directory / LOCK_FILE)
            _lock(fd, directory)
            before = read_owner(directory)
            generation = before.generation + 1 if before is not None else 1
            owner = LeaseOwner(os.getpid(), process_start_ticks(os.getpid()), generation)
            _write_owner(fd, owner)
        except BaseException:
            for one in (fd, directory_fd):
                if one >= 0:
                    os.close(one)
            raise
        return cls(fd, directory_fd, owner)

    @property
    def generation(self) -> int:
        """How many owners the directory has had, this one included."""
        return self.owner.generation

    @property
    def filenos(self) -> tuple[int, int]:
        """The descriptors that carry the lock (for a forked child to close)."""
        return self._fd, self._directory_fd

    @property
    def held(self) -> bool:
        """Whether this object still holds the lease."""
        return self._fd >= 0

    def release(self) -> None:
        """Give the lease up; a second call does nothing."""
        if self._fd >= 0:
            with suppress(JournalError):  # for readers without a lease only: nobody owns it any more
                _write_owner(self._fd, LeaseOwner(0, 0, self.owner.generation))
            for fd in self.filenos:
                fcntl.flock(fd, fcntl.LOCK_UN)  # ends the lock even where a forked child kept a copy
                os.close(fd)
            self._fd = self._directory_fd = -1

    def __enter__(self) -> "DataLease":
        return self

    def __exit__(self, *_exc: object) -> None:
        self.release()


def _is_dead(owner: LeaseOwner | None) -> bool:
    """Whether the owner that the lock file names is certainly gone."""
    return (
        owner is not None
        and owner.pid > 0
        and owner.start_ticks > 0
        and process_start_ticks(owner.pid) != owner.start_ticks
    )


def _lock_directory(directory: Path) -> int:
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise refused_by_disk("the data directory cannot be opened", error) from error
    try:
        _lock(fd, directory)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _open_lock_file(path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _unsafe("the lock file is a link") from error
        raise refused_by_disk("the lock file cannot be opened", error) from error
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(fd)
        raise _unsafe("the lock file is not a regular file of this user")
    return fd


def _lock(fd: int, directory: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = read_owner(directory)
        pid = owner.pid if owner is not None and owner.pid > 0 else None
        named = f"process {pid}" if pid is not None else "another process"
        raise JournalError(ErrorCode.LEASE_HELD, f"the data directory belongs to {named}", pid=pid) from error
    except OSError as error:
        raise JournalError(
            ErrorCode.UNSUPPORTED_FS, f"the file system does not lock files ({error.strerror})"
        ) from error


def _write_owner(fd: int, owner: LeaseOwner) -> None:
    text = json.dumps({"pid": owner.pid, "start_ticks": owner.start_ticks, "generation": owner.generation}).encode()
    try:
        # Written over, then cut: a crash between leaves trailing bytes at worst, which costs the generation only.
        os.pwrite(fd, text, 0)
        os.ftruncate(fd, len(text))
        os.fsync(fd)
    except OSError as error:
        raise refused_by_disk("the lock file cannot be written", error) from error


def _unsafe(reason: str) -> JournalError:
    return JournalError(ErrorCode.UNSAFE_DIRECTORY, reason)
