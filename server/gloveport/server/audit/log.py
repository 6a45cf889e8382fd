"""The audit log: one owner, one file, one chain.

Purpose: put a line on disk for every action before its outcome is used.
Invariant: `record_all` returns after the lines and a checkpoint over them are on disk; lines that wait together share
the fsyncs; a torn or cut tail is told by a line of its own before anything else is recorded.
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
    read_checkpoint,
    write_checkpoint,
)
from gloveport.server.audit.errors import AuditError, refused_by_disk
from gloveport.server.audit.line import LINE_BYTES_MAX, Action, Entry, Line, Link, make_line, read_line
from gloveport.server.audit.reading import AuditReport, Damage, export_lines, newest_damage, verify_log

GROUP_LINES_MAX: Final = 256
AUDIT_FILE: Final = "audit.jsonl"
STOPPED_HINT: Final = "Free disk space or mend the data directory, then start the daemon again; nothing was started."
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

    def __init__(self, path: Path, fd: int, key: bytes, link: Link, *, clock: Callable[[], int], boot_id: str) -> None:
        self._path = path
        self._fd = fd
        self._key = key
        self._link = link
        self._clock = clock
        self._boot_id = boot_id
        self._rules_hash = ""
        self._waiting: list[_Waiting] = []
        self._lock = anyio.Lock()
        self._stopped: AuditError | None = None
        self._size = os.fstat(fd).st_size
        self._vouched = False

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
            link, findings = _inspect(path, fd, key)
            log = cls(path, fd, key, link, clock=clock, boot_id=boot_id)
            log._write([])
            for action, params in findings:
                log._write([_line_of(log.head, action, clock(), params)])
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

    async def find_damage(self) -> Damage | None:
        """Follow the whole log beside what is written; a break that no line tells of gets one. The newest that is told.

        Raises AuditError (NOT_SAVED, DATA_FULL).
        """
        report, known = await anyio.to_thread.run_sync(_look_back, self._path)
        if report.ok or (known is not None and known.broken_line == report.broken_line):
            return known
        params = {"line": report.broken_line, "reason": report.reason}
        await self.record(Entry(self._clock(), Action.LOG_DAMAGED, "", "", "", "daemon", "found", params))
        return (await anyio.to_thread.run_sync(_look_back, self._path))[1]

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
            if lines:
                _write_all(self._fd, b"".join(line.text + b"\n" for line in lines))
                os.fdatasync(self._fd)
                self._link = lines[-1].link
                self._size = os.fstat(self._fd).st_size
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


def _look_back(path: Path) -> tuple[AuditReport, Damage | None]:
    report = verify_log(path)
    try:
        return report, newest_damage(path)
    except OSError as error:
        raise refused_by_disk("the audit log cannot be read", error) from error


def _link_of(item: _Waiting) -> Link:
    if item.error is not None:
        raise item.error
    if item.line is None:
        raise AuditError(ErrorCode.NOT_SAVED, "the audit line was lost on its way")
    return item.line.link


def _line_of(link: Link, action: Action, at: int, params: dict[str, Any]) -> Line:
    """A line of the log about itself."""
    return make_line(link, Entry(at, action, "", "", "", "daemon", "found", params))


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


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


def _inspect(path: Path, fd: int, key: bytes) -> tuple[Link, list[tuple[Action, dict[str, Any]]]]:
    """Where the chain goes on, and what is wrong with its end; a damaged end is moved aside into a file of its own."""
    findings: list[tuple[Action, dict[str, Any]]] = []
    link, damaged = _split_end(_tail(fd))
    if link is None:  # not one readable line at the end: the whole log is kept aside and a new chain begins
        kept = _set_aside(path, path.read_bytes())
        os.ftruncate(fd, 0)
        findings.append((Action.LOG_DAMAGED, {"reason": "the end cannot be read", "kept": kept}))
        link = Link()
    elif damaged:
        kept = _set_aside(path, damaged)
        os.ftruncate(fd, os.fstat(fd).st_size - len(damaged))
        findings.append((Action.TAIL_TORN, {"bytes": len(damaged), "kept": kept}))
    checkpoint = read_checkpoint(checkpoint_path(path), key)
    if isinstance(checkpoint, Checkpoint) and checkpoint.seq > link.seq:
        vouched = {"seq": checkpoint.seq, "head": checkpoint.head, "found_seq": link.seq}
        findings.append((Action.TAIL_LOST, vouched))
    elif not (isinstance(checkpoint, Checkpoint) and checkpoint.link == link):
        report = verify_log(path)
        if not report.ok:
            findings.append((Action.LOG_DAMAGED, {"line": report.broken_line, "reason": report.reason}))
    return link, findings


def _split_end(tail: bytes) -> tuple[Link | None, bytes]:
    """The place of the last readable line of `tail` and the bytes after it; no place when none is readable."""
    end = len(tail)
    while (cut := tail.rfind(b"\n", 0, end)) >= 0:
        start = tail.rfind(b"\n", 0, cut) + 1
        values = read_line(tail[start:cut])
        if values is not None:
            return Link(values["seq"], values["digest"]), tail[cut + 1 :]
        end = start
        if start == 0:
            break
    return (None if tail else Link()), tail


def _tail(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    start = max(0, size - 2 * LINE_BYTES_MAX)
    return os.pread(fd, size - start, start)


def _set_aside(path: Path, piece: bytes) -> str:
    """Keep a damaged piece of the log in a file beside it; the file's name."""
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged.{number}")).exists():
        number += 1
    fd = os.open(kept, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _write_all(fd, piece)
        os.fsync(fd)
    finally:
        os.close(fd)
    return kept.name


def _close(fd: int) -> None:
    if fd >= 0:
        os.close(fd)
