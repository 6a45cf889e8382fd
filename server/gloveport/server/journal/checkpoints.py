"""When the log is moved into the database, and what keeps it from being moved.

Purpose: bound the log, hide the work between appends, and say so when a reader holds the log.
Invariant: only the writer's connection checkpoints, after the answers of a commit are out, except where the log has
grown to a bound; a failed checkpoint is never passed over in silence.
Must never: wait for a reader longer than `RESTART_WAIT_MS`, or leave checkpoints to SQLite's own hook, which drops
their errors: a failed fsync of the log would then be taken for a good one by the next commit.

A checkpoint that moved everything lets the next commit begin the log anew, in the same bytes. One that could not move
everything found a reader of older data. Beyond `RESTART_PAGES` the writer waits a little for readers to end: as it
writes nothing meanwhile, readers that begin need the log no more.
"""

import logging
import sqlite3
from typing import Final

from gloveport.server.journal.schema import BUSY_TIMEOUT_MS

PAGE_BYTES: Final = 4096
DUE_PAGES: Final = 1_000
"""About so many pages in the log make a checkpoint due, at the next moment without a waiting append."""
FORCED_PAGES: Final = 4_000
"""So many make it due at once."""
RESTART_PAGES: Final = 8_000
TIGHT_PAGES: Final = 32
"""So many make it due, and at once, on a disk that has no room for a reserve."""
RESTART_WAIT_MS: Final = 200
WAL_ALARM_BYTES: Final = 64 * 1024 * 1024
PINNED_CHECKPOINTS: Final = 3
"""So many checkpoints in a row that could not move everything mean a reader that does not end."""

_COMMIT_PAGES: Final = 4
"""A commit writes about so many pages beyond its payload: leaves of events, streams, index, requests."""

_log = logging.getLogger("gloveport")


class Checkpoints:
    """The state of the log; used on the writer's thread, read from anywhere."""

    def __init__(self, *, tight: bool = False) -> None:
        self.tight = tight
        """The disk has no room for a reserve: the log is kept small, and its room is given back each time."""
        self.log_pages = 0
        """Pages in the log: as the last checkpoint counted them, and an estimate of what came since."""
        self.stuck = 0
        """How many checkpoints in a row could not move everything."""
        self._since = 0

    @property
    def pinned(self) -> bool:
        """Whether a reader holds the log and does not end."""
        return self.stuck >= PINNED_CHECKPOINTS

    @property
    def due(self) -> bool:
        """Whether the next quiet moment is for a checkpoint."""
        return self._since >= (TIGHT_PAGES if self.tight else DUE_PAGES)

    @property
    def forced(self) -> bool:
        """Whether no further commit should come before a checkpoint."""
        return self._since >= (TIGHT_PAGES if self.tight else FORCED_PAGES)

    def count(self, size_bytes: int) -> None:
        """Something was committed."""
        pages = _COMMIT_PAGES + size_bytes // PAGE_BYTES
        self._since += pages
        self.log_pages += pages

    def put_off(self) -> None:
        """There was no room for it; the next one is due after as much again."""
        self._since = 0
        _log.warning("the data disk has no room to move the journal's log into the database; nothing is lost")

    def run(self, connection: sqlite3.Connection) -> None:
        """Move what can be moved. Raises sqlite3.Error."""
        crowded = "RESTART" if self.log_pages >= RESTART_PAGES else "PASSIVE"
        self._run(connection, "TRUNCATE" if self.tight else crowded)

    def empty(self, connection: sqlite3.Connection) -> bool:
        """Move everything and cut the log to nothing; False where a reader kept that from happening."""
        return self._run(connection, "TRUNCATE")

    def _run(self, connection: sqlite3.Connection, mode: str) -> bool:
        waits = mode != "PASSIVE"
        if waits:
            connection.execute(f"PRAGMA busy_timeout={RESTART_WAIT_MS}")
        try:
            busy, pages, moved = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        finally:
            if waits:
                connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        self._since = 0
        done = moved >= pages and not busy
        self.log_pages = 0 if done and waits else max(0, pages)
        self._judge(done)
        return done

    def _judge(self, done: bool) -> None:
        was = self.pinned
        self.stuck = 0 if done else self.stuck + 1
        if self.pinned and not was:
            _log.warning(
                "a reader holds the journal's log, which has %d pages now and grows; end programs that read journal.db",
                self.log_pages,
            )
        elif was and done:
            _log.info("the journal's log could be moved again")
