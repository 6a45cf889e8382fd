"""The audit log: one owner, one file, one chain.

Purpose: put a line on disk for every action before its outcome is used.
Invariant: `record_all` returns after the lines and a checkpoint over them are on disk; lines that wait together share
the fsyncs; a torn or cut tail is told by a line of its own before anything else is recorded; before anybody is served
only what lies behind the checkpoint is followed, the whole log in small steps beside the work.
Must never: change or remove a line, go on after a failed write, or be read for a decision.
"""

import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread

from gloveport.protocol.errors import ErrorCode
from gloveport.server.audit.checkpoint import (
    Checkpoint,
    checkpoint_path,
    key_path,
    load_key,
    write_checkpoint,
)
from gloveport.server.audit.ending import GROUP_LINES_MAX, End, inspect_end, write_all
from gloveport.server.audit.errors import AuditError, refused_by_disk
from gloveport.server.audit.line import Action, Entry, Line, Link, make_line
from gloveport.server.audit.reading import AuditReport, Damage, Following, export_lines, verify_log
from gloveport.server.audit.seen import Seen, read_seen, write_seen

AUDIT_FILE: Final = "audit.jsonl"
STOPPED_HINT: Final = "Free disk space or mend the data directory, then start the daemon again; nothing was started."
STEP_PAUSE_S: Final = 0.05
"""Between two steps of following the log beside the work: the work has most of the time."""
BREAKS_TOLD_MAX: Final = 1_000
"""So many breaks are told by one line."""
_FAR: Final = Link(10**15)


class _Waiting:
    """An entry on its way: its line or its error is set before its waiter goes on."""

    __slots__ = ("entry", "error", "line")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.line: Line | None = None
        self.error: AuditError | None = None


class AuditLog:
    """One open audit log. Make it with `open`, end it with `close`."""

    def __init__(self, path: Path, fd: int, key: bytes, end: End, *, clock: Callable[[], int], boot_id: str) -> None:
        self._path = path
        self._fd = fd
        self._key = key
        self._link = end.link
        self.end = end
        """How the log was found when it was opened."""
        self._clock = clock
        self._boot_id = boot_id
        self._rules_hash = ""
        self._waiting: list[_Waiting] = []
        self._lock = anyio.Lock()
        self._stopped: AuditError | None = None
        self._size = os.fstat(fd).st_size
        self._vouched = False
        self._seen = read_seen(path, fd, key, end.link, clock()) if end.vouched else None
        self._followed = self._seen
        self._ctime_ns = os.fstat(fd).st_ctime_ns

    @classmethod
    async def open(cls, path: Path, *, clock: Callable[[], int], boot_id: str = "") -> "AuditLog":
        """Open (or create, 0600) the log. What is wrong with its tail becomes its next line.

        `clock` gives UTC microseconds. Raises AuditError: LEASE_HELD (another process writes it), UNSAFE_DIRECTORY
        (not a regular file of this user alone), NOT_SAVED, DATA_FULL.
        """
        return await anyio.to_thread.run_sync(cls._open, path, clock, boot_id)

    @classmethod
    def _open(cls, path: Path, clock: Callable[[], int], boot_id: str) -> "AuditLog":
        fd = -1
        try:
            fd = _claim(path)
            key = load_key(key_path(path))
            end = inspect_end(path, fd, key)
            log = cls(path, fd, key, end, clock=clock, boot_id=boot_id)
            lines: list[Line] = []
            for action, params in end.findings:  # under one checkpoint: a crash leaves none of them untold
                lines.append(make_line(lines[-1].link if lines else end.link, _finding(clock(), action, params)))
            log._write(lines)
            if end.new:
                _sync_folder(path.parent)
        except OSError as error:
            _close(fd)
            raise refused_by_disk("the audit log cannot be opened", error) from error
        except BaseException:
            _close(fd)
            raise
        return log

    @property
    def head(self) -> Link:
        """Number and digest of the last line."""
        return self._link

    def use_rules(self, rules_hash: str) -> None:
        """Name the rules in force; every later checkpoint carries it."""
        self._rules_hash = rules_hash

    async def record(self, entry: Entry) -> Link:
        """Record one action; see `record_all`."""
        return (await self.record_all((entry,)))[0]

    async def record_all(self, entries: Sequence[Entry]) -> tuple[Link, ...]:
        """Record actions in their order; all are on disk and under a checkpoint when this returns.

        Raises AuditError: LIMIT or INVALID_PARAMS (nothing written), NOT_SAVED or DATA_FULL (the log has stopped; the
        actions must not go on).
        """
        for entry in entries:
            make_line(_FAR, entry)  # refused here, alone, and not with the group it would have waited in
        items = [_Waiting(entry) for entry in entries]
        self._waiting += items
        with anyio.CancelScope(shield=True):
            async with self._lock:
                while any(item.line is None and item.error is None for item in items):
                    group, self._waiting = self._waiting[:GROUP_LINES_MAX], self._waiting[GROUP_LINES_MAX:]
                    await anyio.to_thread.run_sync(self._commit, group)
        return tuple(_link_of(item) for item in items)

    async def verify(self) -> AuditReport:
        """Follow the whole log against its checkpoint; a file that is not the open one is a broken log."""
        async with self._lock:
            report = await anyio.to_thread.run_sync(verify_log, self._path)
            strange = self._strange()
        if report.ok and strange:
            return replace(report, broken_line=report.lines + 1, reason=strange)
        return report

    async def find_damage(self, pause_s: float = STEP_PAUSE_S) -> Damage | None:
        """Follow the whole log beside what is written; a break that no line tells of gets one. The newest that is told.

        A log that lies as its last daemon left it, and was followed whole that day, is not followed again. `pause_s`
        is between two steps. Raises AuditError (NOT_SAVED, DATA_FULL), also where it cannot be looked at now.
        """
        if self._seen is not None:
            return self._seen.damage
        try:
            following = await anyio.to_thread.run_sync(Following, self._path)
            try:
                whole = await anyio.to_thread.run_sync(following.step)
                while not whole:
                    await anyio.sleep(pause_s)
                    whole = await anyio.to_thread.run_sync(following.step)
            finally:
                following.close()
        except OSError as error:
            raise refused_by_disk("the audit log cannot be read", error) from error
        report, damage = following.report(), following.damage
        if report.broken_line is not None and not following.breaks and not following.is_told(report.broken_line):
            damage = await self.tell_damage({"line": report.broken_line, "reason": report.reason})
        untold = following.untold()
        for at in range(0, len(untold), BREAKS_TOLD_MAX):
            piece = untold[at : at + BREAKS_TOLD_MAX]
            more = f" (and {len(piece) - 1} lines further on)" if len(piece) > 1 else ""
            params = {"line": piece[0].line, "reason": piece[0].reason + more, "breaks": [one.key for one in piece]}
            damage = await self.tell_damage(params)
        self._followed = Seen(self._clock(), damage)
        return damage

    async def tell_damage(self, params: dict[str, Any]) -> Damage:
        """Record that lines were changed or are gone; `params` are `reason` and, where it is known, the first `line`.

        Raises AuditError (NOT_SAVED, DATA_FULL).
        """
        link = await self.record(_finding(self._clock(), Action.LOG_DAMAGED, params))
        return Damage(link.seq, link.digest, params.get("line"), params["reason"])

    def export(self, *, after_seq: int = 0, task_id: str | None = None) -> Iterator[dict[str, Any]]:
        """The lines as JSON objects, in order. Raises AuditError(NOT_SAVED) when the log cannot be read."""
        try:
            yield from export_lines(self._path, after_seq=after_seq, task_id=task_id)
        except OSError as error:
            raise refused_by_disk("the audit log cannot be read", error) from error

    async def close(self) -> None:
        """End the log; a second call does nothing."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                fd, self._fd = self._fd, -1
                if fd >= 0:
                    await anyio.to_thread.run_sync(self._leave, fd)

    def _leave(self, fd: int) -> None:
        """Close the file; where it was followed whole and nobody else wrote to it, the next daemon need not do it."""
        try:
            if self._followed is not None and self._stopped is None and os.fstat(fd).st_ctime_ns == self._ctime_ns:
                write_seen(self._path, fd, self._key, self._link, self._followed)
        finally:
            _close(fd)

    def _commit(self, group: list[_Waiting]) -> None:
        lines: list[Line] = []
        link = self._link
        for item in group:
            line = make_line(link, item.entry)
            lines.append(line)
            link = line.link
        try:
            if self._stopped is not None:
                raise self._stopped
            self._write(lines)
        except AuditError as error:
            for item in group:
                item.error = error
            return
        for item, line in zip(group, lines, strict=True):
            item.line = line

    def _write(self, lines: list[Line]) -> None:
        """Lines first, then the checkpoint that vouches for them: a crash leaves the log ahead, never behind."""
        if self._fd < 0:
            raise AuditError(ErrorCode.NOT_SAVED, "the audit log is closed")
        self._refuse_when_strange()
        try:
            if os.fstat(self._fd).st_ctime_ns != self._ctime_ns:  # somebody touched it: the next daemon follows it
                self._followed = None
            if lines:
                write_all(self._fd, b"".join(line.text + b"\n" for line in lines))
                os.fdatasync(self._fd)
                self._link = lines[-1].link
                status = os.fstat(self._fd)
                self._size, self._ctime_ns = status.st_size, status.st_ctime_ns
            last = Checkpoint(self._link.seq, self._link.digest, self._clock(), self._boot_id, self._rules_hash)
            write_checkpoint(checkpoint_path(self._path), last, self._key)
            self._vouched = True
        except OSError as error:
            self._stopped = refused_by_disk("the audit line was not saved", error, hint=STOPPED_HINT)
            raise self._stopped from error
        self._refuse_when_strange()  # what is answered had its name when it was on disk

    def _refuse_when_strange(self) -> None:
        if strange := self._strange():
            self._stopped = AuditError(ErrorCode.NOT_SAVED, f"{strange}; put it back and start the daemon again")
            raise self._stopped

    def _strange(self) -> str:
        """What is wrong with the files behind the open log, in words; empty when they are as they were left."""
        name = self._path.name
        try:
            status, named = os.fstat(self._fd), os.stat(self._path, follow_symlinks=False)
        except OSError:
            return f"{name} was removed while it was open"
        if (status.st_dev, status.st_ino) != (named.st_dev, named.st_ino):
            return f"{name} was replaced while it was open"
        if status.st_size != self._size:
            return f"{name} was changed by somebody else while it was open"
        if self._vouched and not checkpoint_path(self._path).exists():
            return f"the checkpoint of {name} was removed while it was open"
        return ""


def _finding(at: int, action: Action, params: dict[str, Any]) -> Entry:
    """What the log says about itself."""
    return Entry(at, action, "", "", "", "daemon", "found", params)


def _sync_folder(folder: Path) -> None:
    """Make the names of new files survive a power loss."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _link_of(item: _Waiting) -> Link:
    if item.error is not None:
        raise item.error
    if item.line is None:
        raise AuditError(ErrorCode.NOT_SAVED, "the audit line was lost on its way")
    return item.line.link


def _claim(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        status = os.fstat(fd)
        foreign = status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077
        if not stat.S_ISREG(status.st_mode) or foreign:
            raise AuditError(ErrorCode.UNSAFE_DIRECTORY, "the audit log is not a file of this user alone (mode 0600)")
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise AuditError(ErrorCode.LEASE_HELD, "another process writes the audit log") from error
    except BaseException:
        os.close(fd)
        raise
    return fd


def _close(fd: int) -> None:
    if fd >= 0:
        os.close(fd)
