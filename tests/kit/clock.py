"""A clock that tests move.

Purpose: let pauses of minutes pass in no time, or hold them open until the test has looked.
Invariant: time never goes back; a sleep that is over has moved the clock by its whole length.
"""

import anyio

START_US = 1_800_000_000_000_000
"""15 January 2027, 08:00 UTC."""


class VirtualClock:
    """Hand `now_us` and `sleep` to what shall live by it. While `held`, sleeps wait for `release`."""

    def __init__(self, start_us: int = START_US) -> None:
        self._now_us = start_us
        self.sleeps: list[float] = []
        self.held = False
        self.asleep = anyio.Event()
        self._released = anyio.Event()

    def now_us(self) -> int:
        """UTC microseconds."""
        return self._now_us

    def pass_s(self, seconds: float) -> None:
        """Let time pass without anybody sleeping."""
        self._now_us += round(seconds * 1e6)

    async def sleep(self, seconds: float) -> None:
        """Sleep by this clock."""
        self.sleeps.append(seconds)
        self.asleep.set()
        if self.held:
            await self._released.wait()
        await anyio.lowlevel.checkpoint()
        self.pass_s(seconds)

    def release(self) -> None:
        """Held sleeps end."""
        self._released.set()
