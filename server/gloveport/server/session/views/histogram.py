"""Durations in bounded room.

Purpose: percentiles of any number of durations, of one session or of many added up.
Invariant: the room is bounded by the range and not by the number of values; a percentile is never below the value of
    its rank, and above it by a thirty-second at most.
Must never: use a float.
"""

from dataclasses import dataclass, field
from typing import Final

FINE_BITS: Final = 5
"""Each doubling of a value is divided into 32 steps."""


def _step(value: int) -> int:
    """The number of the step in which a value lies."""
    shift = max(0, value.bit_length() - FINE_BITS - 1)
    return (shift << FINE_BITS) + (value >> shift)


def _highest(step: int) -> int:
    """The highest value of a step."""
    shift = max(0, (step >> FINE_BITS) - 1)
    return ((step - (shift << FINE_BITS) + 1) << shift) - 1


@dataclass(slots=True)
class Histogram:
    """Counts by step; values are whole and not negative."""

    steps: dict[int, int] = field(default_factory=dict)
    highest: int = 0

    @property
    def count(self) -> int:
        """How many values were added."""
        return sum(self.steps.values())

    def add(self, value: int) -> None:
        """Take one more value in; one below 0 counts as 0."""
        value = max(0, value)
        step = _step(value)
        self.steps[step] = self.steps.get(step, 0) + 1
        self.highest = max(self.highest, value)

    def join(self, other: "Histogram") -> None:
        """Take the values of another one in."""
        for step, count in other.steps.items():
            self.steps[step] = self.steps.get(step, 0) + count
        self.highest = max(self.highest, other.highest)

    def percentile(self, percent: int) -> int | None:
        """The value that so many of a hundred do not exceed; None without values."""
        rank = -(-self.count * percent // 100)
        seen = 0
        for step in sorted(self.steps):
            seen += self.steps[step]
            if seen >= max(1, rank):
                return min(_highest(step), self.highest)
        return None
