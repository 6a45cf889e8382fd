"""The journal and the audit log, compared when a daemon begins.

Purpose: write the lines that a crash kept from the audit log, find events that the log knows and the journal lost,
and record every loss.
Invariant: afterwards each action of the streams written to since the last time has its line, or the next start goes
on; a line written here says `late`; nothing else appends meanwhile.
Must never: hold a whole stream or log in memory, or write a line twice.

Lines follow the journal stream by stream, so the last line of a stream says up to where it was taken.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from gloveport.server.audit.line import Action, Entry, read_line
from gloveport.server.audit.log import AuditLog
from gloveport.server.audit.reading import iterate_backward
from gloveport.server.engine.bookkeeping import AUDITED, entries_of
from gloveport.server.journal.records import Loss, Unsettled
from gloveport.server.journal.store import Journal

STREAMS_MAX: Final = 1_000
LATE_LINES_MAX: Final = 2_000
"""So many lines are written late at one start; what is left is written at the next ones."""
COMPARED_LINES: Final = 1_000
"""So many of the last lines are compared with the journal's heads."""
STRIDE_LINES: Final = 100
"""Of lines further back that name none of the streams, one in so many is looked at for its number."""
READ_EVENTS: Final = 500
SEQ_MAX: Final = 2**63 - 1
"""The journal's largest number; a line that tells of a larger one tells of no event."""
_TASK_ID: Final = re.compile(rb'"task_id":"([^"]*)"')
_REASON: Final = "the audit log knows of events that the journal does not hold"


async def reckon(
    journal: Journal, audit: AuditLog, path: Path, redact: Callable[[str], str], now_us: Callable[[], int]
) -> tuple[Loss, ...]:
    """Bring the audit log up to the journal; what acknowledged events are lost and not yet told.

    Raises JournalError, AuditError (NOT_SAVED, DATA_FULL).
    """
    unsettled = await journal.unsettled(STREAMS_MAX)
    if audit.head.seq < unsettled.line:  # the log is not the one that was settled with
        unsettled = Unsettled(dict.fromkeys(unsettled.streams, 0), 0)
    marks = unsettled.streams
    wanted = {name: seq for name, mark in marks.items() if (seq := await journal.last_of(name, AUDITED, mark))}
    known = await anyio.to_thread.run_sync(_read_known, path, wanted, unsettled.line)
    losses = journal.report.untold + await _declare_missing(journal, known)
    left = LATE_LINES_MAX
    for name, last in wanted.items():
        written = max(known.get(name, 0), marks[name])
        if written < last and left > 0:
            left -= await _write_late(journal, audit, redact, name, (written, last), left)
    await audit.record_all([loss_entry(one, now_us()) for one in losses])
    if left > 0:
        await journal.settle(audit.head.seq)
    return losses


def _read_known(path: Path, wanted: Mapping[str, int], settled_line: int) -> dict[str, int]:
    """Up to which event the log took each wanted stream, and each that its newest lines name.

    Lines up to `settled_line` say nothing that is not known, but for the newest.
    """
    known: dict[str, int] = {}
    missing = {name.encode() for name in wanted}
    for number, text in enumerate(iterate_backward(path)):
        if number >= COMPARED_LINES:
            if not missing:
                break
            if number % STRIDE_LINES and missing.isdisjoint(_TASK_ID.findall(text)):
                continue
        values = read_line(text) or {}
        if number >= COMPARED_LINES and values.get("seq", settled_line + 1) <= settled_line:
            break
        stream, seq = values.get("task_id"), _taken_seq(values)
        if not stream or seq is None or stream in known:
            continue
        known[stream] = seq
        missing.discard(stream.encode())
    return known


def _taken_seq(values: Mapping[str, Any]) -> int | None:
    params = values.get("params", {})
    is_loss = values.get("action") == Action.EVENTS_LOST
    seq = params.get("from_seq" if is_loss else "seq")
    return seq - is_loss if type(seq) is int and 0 <= seq <= SEQ_MAX else None


async def _declare_missing(journal: Journal, known: Mapping[str, int]) -> tuple[Loss, ...]:
    """Streams that the audit log knows further than the journal, which the journal did not miss by itself."""
    told = {one.stream for one in journal.report.untold}
    found: list[Loss] = []
    for stream, seq in known.items():
        end = await journal.last_seq(stream)
        if seq > end and stream not in told:
            found.append(Loss(stream, end + 1, seq - end, _REASON))
    if found:
        await journal.declare_lost(found)
    return tuple(found)


async def _write_late(
    journal: Journal, audit: AuditLog, redact: Callable[[str], str], stream: str, between: tuple[int, int], most: int
) -> int:
    """Write the missing lines of a stream, those after one event up to another; how many."""
    (after_seq, last), count = between, 0
    while count < most and after_seq < last:
        events = await journal.read(stream, after_seq, min(READ_EVENTS, last - after_seq))
        after_seq = events[-1].seq if events else last
        entries = [_late(entry) for event in events for entry in entries_of(event, redact)]
        await audit.record_all(entries[: most - count])
        count += len(entries)
    return count


def _late(entry: Entry) -> Entry:
    return replace(entry, params={**entry.params, "late": True})


def loss_entry(loss: Loss, at: int) -> Entry:
    """The audit line of a loss; `at` is UTC microseconds."""
    params = {"from_seq": loss.from_seq, "events": loss.events, "reason": loss.reason}
    return Entry(at, Action.EVENTS_LOST, loss.stream, "", "", "daemon", "found", params)
