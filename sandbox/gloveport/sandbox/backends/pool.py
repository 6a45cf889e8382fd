"""Which containers are kept ready, and for whom.

Purpose: the books of the warm pool: take one that fits exactly, make room fairly between sessions.
Invariant: what is taken never comes back; one that fits differs in nothing from what would be made anew; a session
that asks while others wait holds no more than its share.
Must never: touch an engine, or hand out one whose time is nearly up.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

ASKED_RECENTLY_S: Final = 120.0
"""For so long a session counts as one that others share with."""


@dataclass(frozen=True, slots=True)
class Idle:
    """An unused container: `key` says what it was made for, `ends_at` when its first process ends by itself."""

    name: str
    key: str
    session: str
    ends_at: float


class PoolBooks:
    """At most `places` idle containers. Times are seconds of one monotonic clock."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._idle: list[Idle] = []
        self._asked: dict[str, float] = {}

    def take(self, session: str, key: str, until: float, now: float) -> Idle | None:
        """One that fits and lasts `until`, oldest first; None when there is none. It is gone from the books."""
        self._asked[session] = now
        for idle in self._idle:
            if (idle.session, idle.key) == (session, key) and idle.ends_at > until:
                self._idle.remove(idle)
                return idle
        return None

    def wants(self, session: str, key: str, now: float) -> bool:
        """Whether one more should be made for this session and key: it has none, and its share leaves room."""
        if any((idle.session, idle.key) == (session, key) and idle.ends_at > now for idle in self._idle):
            return False
        return self._share(now) > 0

    def put(self, idle: Idle, now: float) -> list[Idle]:
        """Enter a new one; returns those that must go: spent ones, then of whoever holds most, oldest first."""
        gone = [other for other in self._idle if other.ends_at <= now]
        self._idle = [other for other in self._idle if other.ends_at > now]
        own = [other for other in self._idle if other.session == idle.session]
        if len(own) >= self._share(now):
            gone.append(self._drop(own[0]))
        if len(self._idle) >= self._places:
            counted = Counter(other.session for other in self._idle)
            most = max(counted.values())
            gone.append(self._drop(next(other for other in self._idle if counted[other.session] == most)))
        self._idle.append(idle)
        return gone

    def clear(self) -> list[Idle]:
        """Everything; the books are empty then."""
        gone, self._idle = self._idle, []
        return gone

    def _share(self, now: float) -> int:
        """How many one session may hold: the places divided among those that asked lately, at least one."""
        self._asked = {session: at for session, at in self._asked.items() if now - at <= ASKED_RECENTLY_S}
        return 0 if self._places == 0 else max(1, math.floor(self._places / max(1, len(self._asked))))

    def _drop(self, idle: Idle) -> Idle:
        self._idle.remove(idle)
        return idle
