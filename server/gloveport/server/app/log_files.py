"""Logs read without a daemon: of a data directory, of one database file, or of an export.

Purpose: give the events of one session in order, and say whether their chain holds.
Invariant: reads only; what is read may be a backup, a file set aside, or of an earlier version.
Must never: take a text out of an export for what the session really held: its payloads may be redacted.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import SessionId, session_stream
from gloveport.protocol.journal.envelope import ERASED_PAYLOAD, GENESIS_DIGEST, StoredEvent, chain_digest
from gloveport.server.journal.offline import OfflineJournal

LOGS: Final = "Name a session's id, a data folder, a database of one, or what gloveport export wrote."
"""What can be read, where something else was named."""
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
_PREFIX: Final = session_stream(SessionId(""))


@dataclass(frozen=True, slots=True)
class SessionLog:
    """The log of one session; `events` begins anew with each call, `chain` is empty when it holds."""

    session_id: str
    events: Callable[[], Iterator[tuple[StoredEvent, ...]]]
    chain: Callable[[], str]


def open_log(journal: OfflineJournal, wanted: str) -> SessionLog:
    """The session whose id holds `wanted` (empty: the newest). Raises GloveportError (SESSION_UNKNOWN)."""
    session_id = find_session(journal, wanted)
    stream = session_stream(SessionId(session_id))

    def events() -> Iterator[tuple[StoredEvent, ...]]:
        seq = 0
        while page := journal.read(stream, seq):
            yield page
            seq = page[-1].seq

    def chain() -> str:
        report = journal.verify(stream)
        return "" if report.ok else f"broken at {report.broken_seq}: {report.reason}"

    return SessionLog(session_id, events, chain)


def find_session(journal: OfflineJournal, wanted: str) -> str:
    """A session by a part of its id, from the list, or from the logs where the list lacks it."""
    found: list[str] = []
    before: int | None = None
    while rows := journal.sessions(before=before):
        before = rows[-1].order
        found += [row.session_id for row in rows if wanted in row.session_id]
        if found and not wanted:
            return found[0]
    ends = [name for name in found if name.endswith(wanted)]
    found = ends if wanted and len(ends) == 1 else found
    if not found:
        streams = (name.removeprefix(_PREFIX) for name in _streams(journal))
        found = [name for name in streams if wanted in name]
    if len(found) != 1 and (wanted or not found):
        words = f"{wanted!r} fits {len(found)} sessions" if found else f"there is no session {wanted!r}"
        words = words if wanted else "there is no session yet"
        raise GloveportError(ErrorCode.SESSION_UNKNOWN, words, hint="See gloveport sessions.")
    return found[-1]


def _streams(journal: OfflineJournal) -> Iterator[str]:
    after = ""
    while names := journal.streams(_PREFIX, after=after):
        yield from names
        after = names[-1]


def read_export(path: Path) -> SessionLog:
    """The log in an export (NDJSON). Raises GloveportError (CORRUPT, INVALID_PARAMS)."""
    first = next(_lines(path), None)
    if first is None:
        raise GloveportError(ErrorCode.CORRUPT, f"{path} holds no event", hint=LOGS)
    event, _hash = _event_of(first, path, 1)

    def events() -> Iterator[tuple[StoredEvent, ...]]:
        for number, line in enumerate(_lines(path), 1):
            yield (_event_of(line, path, number)[0],)

    return SessionLog(event.stream.removeprefix(_PREFIX), events, lambda: _chain_of(path))


def _chain_of(path: Path) -> str:
    """An export's chain holds over the hashes it gives; its payloads are not proven, since they may be redacted."""
    digest = GENESIS_DIGEST
    for number, line in enumerate(_lines(path), 1):
        event, payload_hash = _event_of(line, path, number)
        digest = chain_digest(
            digest,
            stream=event.stream,
            epoch=event.epoch,
            seq=event.seq,
            event_type=event.type,
            version=event.version,
            at=event.at,
            payload_hash=payload_hash,
        )
        if digest != event.digest or event.seq != number:
            return f"broken at line {number}: it does not follow from the line before"
    return ""


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while line := file.readline(LINE_BYTES_MAX):
                yield line
    except OSError as error:
        raise GloveportError(ErrorCode.INVALID_PARAMS, f"{path} cannot be read ({error.strerror})") from error


def _event_of(line: bytes, path: Path, number: int) -> tuple[StoredEvent, str]:
    try:
        plain: dict[str, Any] = json.loads(line)
        erased = bool(plain["erased"])
        payload_hash = str(plain["payloadHash"])
        payload = ERASED_PAYLOAD if erased else json.dumps(plain["payload"], ensure_ascii=False).encode()
        named = {name: plain[name] for name in ("stream", "epoch", "seq", "type", "version", "at", "digest")}
        event = StoredEvent(**named, payload=payload, erased=payload_hash if erased else None)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise GloveportError(ErrorCode.CORRUPT, f"line {number} of {path} is no exported event", hint=LOGS) from error
    return event, payload_hash
