"""Time between events, from stamps that may jump.

Purpose: one timeline for a session whose stamps come from a wall clock.
Invariant: time never runs backwards; what lies between two stamps of which the second is the earlier counts as nothing,
    and is told.
Must never: be used for order.
"""


class Timeline:
    """Reads stamps (UTC microseconds) in the order of their events."""

    def __init__(self) -> None:
        self.now = 0
        """Microseconds since the first stamp, without what the clock was set back."""
        self.set_back = 0
        """How many times the clock was set back."""
        self._last: int | None = None

    def read(self, at: int) -> int:
        """The microseconds since the stamp before; 0 where the clock was set back in between."""
        passed = at - self._last if self._last is not None else 0
        self._last = at
        if passed < 0:
            self.set_back += 1
            return 0
        self.now += passed
        return passed
