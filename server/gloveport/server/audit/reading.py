"""Checking and exporting an audit log that may belong to a running daemon, or to nobody.

Purpose: find an edited, reordered or missing line, and hand the lines out.
Invariant: nothing is written; a log that a daemon is writing to verifies.
Must never: hold the whole log in memory.
"""

import json
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gloveport.server.audit.checkpoint import Checkpoint, checkpoint_path, key_path, read_checkpoint, read_key
from gloveport.server.audit.line import FINDINGS, LINE_BYTES_MAX, Action, Link, follow, read_line, read_time

PROVES: Final = (
    "That finds edits, reordering and cuts by whoever lacks the key; this user and root hold it, so against them only "
    "a checkpoint that was copied to another machine proves anything"
)
"""What a chain with a signed checkpoint can prove, and what not."""
_LOSSES_TOLD_MAX: Final = 5
_BACKWARD_BYTES: Final = 256 * 1024
_STEP_BYTES: Final = LINE_BYTES_MAX + 2
DAMAGES: Final = frozenset({Action.TAIL_LOST, Action.LOG_DAMAGED})
"""Findings that no crash explains: lines were fsynced before anything vouched for them."""
_DAMAGE_MARKS: Final = tuple(f'"{action}"'.encode() for action in sorted(DAMAGES))
_FINDING_MARKS: Final = tuple(f'"{action}"'.encode() for action in sorted(FINDINGS))


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The outcome of following the whole log.

    `lines`: how many hold. `broken_line`: number of the first one that does not, None when all do; `reason` says why.
    `torn_tail`: the last line is half written (a crash, or a writer in the middle of it). `checkpoint_seq`: up to
    where a checkpoint vouches, None without one. `signed`: its mark was checked with the key. `findings`: numbers of
    the lines in which the log told of damage that was found earlier. `losses`: in words, what the journal lost by the
    last of them.
    """

    lines: int
    head: str
    broken_line: int | None
    reason: str
    torn_tail: bool
    checkpoint_seq: int | None
    signed: bool
    findings: tuple[int, ...] = ()
    losses: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every line follows from the one before and the checkpoint agrees."""
        return self.broken_line is None


def verify_log(path: Path, *, key_file: Path | None = None) -> AuditReport:
    """Follow the log at `path` against its last checkpoint; one that cannot be read is a broken one."""
    try:
        return _verify(path, key_file)
    except OSError as error:
        return AuditReport(0, Link().digest, 1, f"the log cannot be read ({error.strerror})", False, None, False)


def _verify(path: Path, key_file: Path | None) -> AuditReport:
    key = read_key(key_file if key_file is not None else key_path(path))
    # The checkpoint is read first: a log that is being written to can only be ahead of it.
    checkpoint = read_checkpoint(checkpoint_path(path), key)
    link, reason, torn, agreed = Link(), "", False, False
    findings: list[int] = []
    losses: deque[str] = deque(maxlen=_LOSSES_TOLD_MAX)
    for text, whole in iterate_lines(path):
        if not whole:
            torn = True
            break
        step = follow(link, text)
        if isinstance(step, str):
            reason = step
            break
        link = step
        if any(mark in text for mark in _FINDING_MARKS):
            _note_finding(link.seq, read_line(text) or {}, findings, losses)
        agreed = agreed or (isinstance(checkpoint, Checkpoint) and checkpoint.link == link)
    broken_line = link.seq + 1 if reason else None
    if not reason and (fault := _checkpoint_fault(checkpoint, link, agreed=agreed)) is not None:
        broken_line, reason = fault
    seq = checkpoint.seq if isinstance(checkpoint, Checkpoint) else None
    signed = key is not None and seq is not None
    return AuditReport(link.seq, link.digest, broken_line, reason, torn, seq, signed, tuple(findings), tuple(losses))


def _note_finding(seq: int, values: dict[str, Any], findings: list[int], losses: deque[str]) -> None:
    if values.get("action") not in FINDINGS:
        return
    findings.append(seq)
    if values["action"] == Action.EVENTS_LOST:
        params = values["params"]
        losses.append(f"{values['task_id']} lost {params.get('events')} events from {params.get('from_seq')} on")


def _checkpoint_fault(checkpoint: Checkpoint | str | None, end: Link, *, agreed: bool) -> tuple[int, str] | None:
    if isinstance(checkpoint, str):
        return end.seq + 1, checkpoint
    if checkpoint is None:
        return (end.seq + 1, "there are lines but no checkpoint") if end.seq > 0 else None
    if agreed or checkpoint.link == Link():
        return None
    if end.seq < checkpoint.seq:
        return end.seq + 1, f"the log ends at line {end.seq}; the checkpoint vouches for {checkpoint.seq}"
    return checkpoint.seq, f"line {checkpoint.seq} is not the one the checkpoint vouches for"


@dataclass(frozen=True, slots=True)
class Damage:
    """A line in which the log told that lines of it were changed or are gone; `at` is UTC microseconds.

    `broken_line`: the first that does not follow; None where the end is missing.
    """

    seq: int
    at: int
    broken_line: int | None
    words: str


def newest_damage(path: Path) -> Damage | None:
    """The last of them that the log holds. Raises OSError."""
    for text in iterate_backward(path):
        if not any(mark in text for mark in _DAMAGE_MARKS):
            continue
        values = read_line(text) or {}
        if values.get("action") in DAMAGES:
            params = values["params"]
            words = params.get("reason") or f"lines after {params.get('found_seq')} are gone"
            return Damage(values["seq"], read_time(values["timestamp"]), params.get("line"), str(words))
    return None


def iterate_lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Each line without its line feed, and whether it had one; an over-long line comes in pieces that do not parse."""
    with path.open("rb") as file:
        while text := file.readline(_STEP_BYTES):
            whole = text.endswith(b"\n")
            yield (text[:-1] if whole else text), whole or len(text) == _STEP_BYTES


def iterate_backward(path: Path) -> Iterator[bytes]:
    """The lines from the last one to the first; pieces between line feeds, whole or not. Raises OSError."""
    with path.open("rb") as file:
        place, rest = file.seek(0, os.SEEK_END), b""
        while place > 0:
            size = min(_BACKWARD_BYTES, place)
            place -= size
            file.seek(place)
            rest, *lines = (file.read(size) + rest).split(b"\n")
            yield from reversed(lines)
        yield rest


def export_lines(path: Path, *, after_seq: int = 0, task_id: str | None = None) -> Iterator[dict[str, Any]]:
    """The recorded lines as JSON objects, in order; a torn or damaged line is left out (`verify_log` tells of it)."""
    for text, whole in iterate_lines(path):
        try:
            values = json.loads(text) if whole else None
        except ValueError:
            continue
        if not isinstance(values, dict) or values.get("seq", 0) <= after_seq:
            continue
        if task_id is None or values.get("task_id") == task_id:
            yield values
