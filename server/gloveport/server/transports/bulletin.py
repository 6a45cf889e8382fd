"""What the daemon tells every client at once, beside their streams.

Purpose: say that nothing can be saved, which no event can say then, and that saving works again.
Invariant: who connects while something is the matter is told first; telling never waits for a reader.
Must never: carry what the journal could hold, or keep more than the newest few notices.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio

if TYPE_CHECKING:
    from gloveport.protocol.wire.place import DaemonTold

NOTICES_MAX: Final = 8
"""A reader that is further behind misses the older ones; the newest says how it stands."""

Tell: TypeAlias = "Callable[[DaemonTold], Awaitable[None]]"


class Bulletin:
    """The newest notices, and who waits for the next."""

    def __init__(self) -> None:
        self._notices: deque[DaemonTold] = deque(maxlen=NOTICES_MAX)
        self._count = 0
        self._news = anyio.Event()

    def post(self, notice: "DaemonTold") -> None:
        """Tell everybody; returns at once."""
        self._notices.append(notice)
        self._count += 1
        self._news.set()
        self._news = anyio.Event()

    async def run(self, tell: Tell) -> None:
        """Tell one client what is the matter now, and every later notice, until cancelled. Raises what `tell` does."""
        stands = bool(self._notices) and not self._notices[-1].accepting
        told = self._count - int(stands)
        while True:
            news = self._news
            missed = min(self._count - told, len(self._notices))
            told = self._count
            for notice in list(islice(self._notices, len(self._notices) - missed, None)):
                await tell(notice)
            if told == self._count:
                await news.wait()
