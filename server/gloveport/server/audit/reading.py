"""Checking and exporting an audit log that may belong to a running daemon, or to nobody.

Purpose: find an edited, reordered or missing line, and hand the lines out.
Invariant: nothing is written; a log that a daemon is writing to verifies.
Must never: hold the whole log in memory.
"""

import hashlib
import os
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gloveport.server.audit.checkpoint import Checkpoint, checkpoint_path, key_path, read_checkpoint, read_key
from gloveport.server.audit.line import FINDINGS, GENESIS, LINE_BYTES_MAX, Action, Link, follow, read_line, read_object

PROVES: Final = (
    "That finds edits, reordering and cuts by whoever lacks the key; this user and root hold it, so against them only "
    "a checkpoint that was copied to another machine proves anything"
)
"""What a chain with a signed checkpoint can prove, and what not."""
_LOSSES_TOLD_MAX: Final = 5
_BACKWARD_BYTES: Final = 256 * 1024
_PIECE_BYTES: Final = LINE_BYTES_MAX + 2
STEP_BYTES: Final = 256 * 1024
"""So much is followed at once: some milliseconds."""
DAMAGES: Final = frozenset({Action.TAIL_LOST, Action.LOG_DAMAGED})
"""Findings that no crash explains: lines were fsynced before anything vouched for them."""
BREAKS_MAX: Final = 10_000
"""So many lines that do not follow are told apart; behind more of them a log is not followed."""
_KEY_CHARACTERS: Final = 16
_UNKNOWN: Final = ""
"""The digest of a line that cannot be read: what stands behind it cannot be shown to follow."""
_FINDING_MARKS: Final = tuple(f'"{action}"'.encode() for action in sorted(FINDINGS))


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The outcome of following the whole log.

    `lines`: how many hold. `broken_line`: number of the first one that does not, None when all do; `reason` says why,
    and how many there are further on.
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


@dataclass(frozen=True, slots=True)
class Damage:
    """A line in which the log told that lines of it were changed or are gone.

    `seq` and `digest` are the telling line's. `broken_line`: the first that does not follow; None where the end is
    missing.
    """

    seq: int
    digest: str
    broken_line: int | None
    words: str


@dataclass(frozen=True, slots=True)
class Break:
    """A line that does not follow from the one before it: the number that was expected there, and why not.

    `key` names this very break: another text there, or another line before it, is another one. `place` counts the
    file's lines, whatever they say of themselves.
    """

    line: int
    place: int
    key: str
    reason: str


class Following:
    """A log that is followed from its first line to its last, in steps.

    Behind a line that does not follow it goes on from what that line says of itself, so that every other edit is found
    too, wherever it is.
    """

    def __init__(self, path: Path, *, key_file: Path | None = None) -> None:
        """Raises OSError."""
        key = read_key(key_file if key_file is not None else key_path(path))
        # The checkpoint is read first: a log that is being written to can only be ahead of it.
        self._checkpoint = read_checkpoint(checkpoint_path(path), key)
        self._signed = key is not None
        self._lines = iterate_lines(path)
        self._link, self._held, self._torn, self._agreed = Link(), Link(), False, False
        self._findings: list[int] = []
        self._losses: deque[str] = deque(maxlen=_LOSSES_TOLD_MAX)
        self._place = 0
        self._told: dict[str, int] = {}
        self._told_lines: dict[int, int] = {}
        self.breaks: list[Break] = []
        """Each line that does not follow, as far as the log was followed."""
        self.damage: Damage | None = None
        """The last that a line told of, as far as the log was followed."""

    def step(self, bytes_max: int = STEP_BYTES) -> bool:
        """Follow about so many bytes more; whether that was all. Raises OSError."""
        left = bytes_max
        for text, whole in self._lines:
            if not whole:
                self._torn = True
                return True
            self._place += 1
            step = follow(self._link, text)
            if isinstance(step, str):
                if len(self.breaks) >= BREAKS_MAX:
                    return True
                self._go_on_behind(text, step)
            else:
                self._link = step
                if not self.breaks:
                    self._held = step
                if any(mark in text for mark in _FINDING_MARKS):
                    self._note(read_line(text) or {})
            vouched = isinstance(self._checkpoint, Checkpoint) and self._checkpoint.link == self._link
            self._agreed = self._agreed or vouched
            left -= len(text)
            if left <= 0:
                return False
        return True

    def _go_on_behind(self, text: bytes, reason: str) -> None:
        """Note a line that does not follow, and take its word for where it stands."""
        number = self._link.seq + 1
        key = hashlib.sha256(self._link.digest.encode() + b"\n" + text).hexdigest()[:_KEY_CHARACTERS]
        self.breaks.append(Break(number, self._place, key, reason))
        values = read_line(text)
        known = values is not None and len(values["digest"]) == len(GENESIS) and values["digest"].isascii()
        self._link = Link(values["seq"], values["digest"]) if values is not None and known else Link(number, _UNKNOWN)

    def untold(self) -> list[Break]:
        """The breaks of which no line behind them tells that follows itself; a forged one is a break, or makes one."""
        told = self._told, self._told_lines
        return [one for one in self.breaks if max(told[0].get(one.key, 0), told[1].get(one.line, 0)) <= one.place]

    def is_told(self, line: int) -> bool:
        """Whether a line tells of damage at this one, without naming what stands there."""
        return line in self._told_lines

    def close(self) -> None:
        """Let go of the file."""
        self._lines.close()

    def report(self) -> AuditReport:
        """What was found, once a step was the last."""
        end, broken_line, reason = self._held, None, ""
        if self.breaks:
            broken_line, reason = self.breaks[0].line, self.breaks[0].reason
            if (more := len(self.breaks) - 1) > 0:
                numbers = ", ".join(str(one.line) for one in self.breaks[1 : 1 + _LOSSES_TOLD_MAX])
                reason += f"; further on {more} more do not: {numbers}{', …' if more > _LOSSES_TOLD_MAX else ''}"
        elif (fault := _checkpoint_fault(self._checkpoint, end, agreed=self._agreed)) is not None:
            broken_line, reason = fault
        seq = self._checkpoint.seq if isinstance(self._checkpoint, Checkpoint) else None
        signed = self._signed and seq is not None
        told = (tuple(self._findings), tuple(self._losses))
        return AuditReport(end.seq, end.digest, broken_line, reason, self._torn, seq, signed, *told)

    def _note(self, values: dict[str, Any]) -> None:
        params = values.get("params")
        if values.get("action") not in FINDINGS or not isinstance(params, dict):
            return
        self._findings.append(self._link.seq)
        if (damage := damage_of(values)) is not None:
            self.damage = damage
            if isinstance(keys := params.get("breaks"), list):
                self._told |= {key: self._place for key in keys if isinstance(key, str)}
            elif damage.broken_line is not None:
                self._told_lines[damage.broken_line] = self._place
        if values["action"] == Action.EVENTS_LOST:
            count, first = _number(params.get("events")), _number(params.get("from_seq"))
            self._losses.append(f"{values['task_id']} lost {count} events from {first} on")


def verify_log(path: Path, *, key_file: Path | None = None) -> AuditReport:
    """Follow the log at `path` against its last checkpoint; one that cannot be read is a broken one."""
    try:
        following = Following(path, key_file=key_file)
        while not following.step():
            pass
        following.close()
        return following.report()
    except OSError as error:
        return AuditReport(0, Link().digest, 1, f"the log cannot be read ({error.strerror})", False, None, False)


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


def damage_of(values: dict[str, Any]) -> Damage | None:
    """What a line tells of damage, if that is what it does."""
    params = values.get("params")
    if values.get("action") not in DAMAGES or not isinstance(params, dict):
        return None
    line, reason = params.get("line"), params.get("reason")
    words = reason if isinstance(reason, str) and reason else f"lines after {_number(params.get('found_seq'))} are gone"
    return Damage(values["seq"], values["digest"], line if type(line) is int else None, words)


def _number(told: object) -> int | str:
    """A number as a line tells it; anything else that stands there is not repeated."""
    return told if type(told) is int else "?"


def iterate_lines(path: Path, offset: int = 0) -> Generator[tuple[bytes, bool]]:
    """Each line from a place on without its line feed, and whether it had one; an over-long one comes in pieces that
    do not parse.
    """
    with path.open("rb") as file:
        file.seek(offset)
        while text := file.readline(_PIECE_BYTES):
            whole = text.endswith(b"\n")
            yield (text[:-1] if whole else text), whole or len(text) == _PIECE_BYTES


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
        values = read_object(text) if whole else None
        if values is None or type(seq := values.get("seq")) is not int or seq <= after_seq:
            continue
        if task_id is None or values.get("task_id") == task_id:
            yield values
