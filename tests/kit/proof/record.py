"""What a dead daemon left, read without waking another one.

Purpose: the events, answers and states of a home as today's code reads them.
Invariant: nothing of the home is changed by looking at it.
Must never: trust a running daemon.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gloveport.protocol.journal.envelope import GENESIS_DIGEST, StoredEvent
from gloveport.server.engine.folding import Loaded, fold_stored
from gloveport.server.journal.offline import OfflineJournal
from gloveport.server.journal.schema import DATABASE_FILE
from gloveport.server.session.state import SessionState


@dataclass(frozen=True, slots=True)
class Record:
    """All streams of a home."""

    streams: dict[str, tuple[StoredEvent, ...]]
    answers: dict[str, Any]
    broken: tuple[str, ...]

    @property
    def session(self) -> tuple[StoredEvent, ...]:
        """The events of the one session; empty before it began."""
        found = [events for name, events in self.streams.items() if name.startswith("session/")]
        return max(found, key=len, default=())

    def bodies(self, *types: str) -> Iterator[dict[str, Any]]:
        """Payloads of the session's events of these types, in order; of an erased one nothing is left."""
        for event in self.session:
            if event.type in types and event.erased is None:
                body: dict[str, Any] = json.loads(event.payload)
                yield body

    def states(self) -> Iterator[SessionState]:
        """The session's state after each of its events."""
        loaded = Loaded()
        for event in self.session:
            fold_stored(loaded, (event,))
            yield loaded.state

    def folded(self) -> Loaded:
        """The session as a daemon would read it."""
        loaded = Loaded()
        fold_stored(loaded, self.session)
        return loaded

    def digest_at(self, seq: int) -> str | None:
        """The chain's digest at a place of the session."""
        if seq == 0:
            return GENESIS_DIGEST
        return next((event.digest for event in self.session if event.seq == seq), None)


def read_record(home: Path) -> Record:
    """Everything in the journal of a home; an empty record where there is none yet. Raises JournalError."""
    if not (home / DATABASE_FILE).exists() or not (home / DATABASE_FILE).stat().st_size:
        return Record({}, {}, ())
    with OfflineJournal.open(home) as journal:
        streams: dict[str, tuple[StoredEvent, ...]] = {}
        broken = []
        for name in journal.streams():
            events: list[StoredEvent] = []
            while page := journal.read(name, events[-1].seq if events else 0):
                events += page
            streams[name] = tuple(events)
            if not (report := journal.verify(name)).ok:
                broken.append(f"{name} is broken at {report.broken_seq}: {report.reason}")
        rows = journal._connection.execute("SELECT id, result FROM request")
        answers = {name: json.loads(result) for name, result in rows}
    return Record(streams, answers, tuple(broken))


def witnessed(path: Path) -> tuple[str, ...]:
    """The tokens that commands left, in order."""
    return tuple(path.read_text().split()) if path.exists() else ()


def read_folder(root: Path) -> dict[str, str]:
    """A folder's files and their texts."""
    return {
        str(path.relative_to(root)): path.read_text(errors="replace")
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
