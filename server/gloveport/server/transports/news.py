"""That something which editors show may have changed.

Purpose: let each connection know that code lenses are to be asked for anew.
Invariant: who waits with the count it has seen misses no change; many in a row wake it once.
Must never: say what changed, or wait for anybody.
"""

import anyio


class News:
    """One bell for all connections."""

    def __init__(self) -> None:
        self._count = 0
        self._rung = anyio.Event()

    def ring(self) -> None:
        """Something changed."""
        self._count += 1
        self._rung.set()
        self._rung = anyio.Event()

    async def after(self, seen: int) -> int:
        """The count once it is no longer what was seen (0 at first)."""
        while self._count == seen:
            await self._rung.wait()
        return self._count
