"""The newest time: one that never goes back.

Purpose: say how late it is for what ends at a moment (rights, releases, cards), whatever becomes of the clock.
Invariant: it is no earlier than any time that was told here before, nor, to `KEPT_US`, than any that was told before a
restart; after the clock went back it goes on as fast as the clock does.
Must never: stamp an event: what is shown as the time of something is the clock's own word.
"""

import sqlite3
import threading
from typing import Final

KEPT_US: Final = 1_000_000
"""It is written down when it is so much later than what is written: a commit a second, not each, pays for it."""
STEP_US: Final = 1_000_000
"""Told times within so much are of one clock, in whatever order they come; one that is earlier is a step back."""
_KEY: Final = "time"


class Latest:
    """How late it is, in UTC microseconds; used on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._time = 0
        self._kept = 0
        self._clock: int | None = None
        """The latest that the clock said since its last step back."""

    def at(self, clock: int) -> int:
        """How late it is when the clock says this."""
        with self._lock:
            before = clock if self._clock is None else self._clock
            if clock >= before:
                self._time = max(clock, self._time + clock - before)
            if clock >= before or clock < before - STEP_US:
                self._clock = clock
            return self._time

    def keep(self, connection: sqlite3.Connection, clock: int) -> None:
        """Write it down with the transaction that is open, where enough passed. Raises sqlite3.Error."""
        now = self.at(clock)
        if now - self._kept >= KEPT_US:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_KEY, now))
            self._kept = now

    def read(self, connection: sqlite3.Connection) -> None:
        """Go on from what is written down; older data has the times of its sessions alone. Raises sqlite3.Error."""
        row = connection.execute("SELECT value FROM meta WHERE key=?", (_KEY,)).fetchone()
        if row is None:
            row = connection.execute("SELECT max(updated_at) FROM session_index").fetchone()
        with self._lock:
            self._kept = row[0] if isinstance(row[0], int) else 0
            self._time = max(self._time, self._kept)
