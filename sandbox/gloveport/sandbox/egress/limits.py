"""Bounds of one lease's way out.

Purpose: every wait, count and size of the proxy, by name.
Invariant: what is cut is cut with the name of its limit.
Must never: be unlimited.
"""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class EgressLimits:
    """Seconds, bytes and counts.

    `accepts_max` bounds the connections of a lease's whole life; `drain_s` is how long open ones may go on at its end.
    """

    connections_max: int = 64
    accepts_max: int = 20_000
    requests_max: int = 10_000
    head_bytes_max: int = 32 * 1024
    head_s: float = 20.0
    idle_s: float = 120.0
    resolve_s: float = 10.0
    connect_s: float = 10.0
    total_bytes_max: int = 2048 * MIB
    drain_s: float = 2.0

    def __post_init__(self) -> None:
        if any(getattr(self, name) <= 0 for name in self.__slots__ if name != "drain_s"):
            raise ValueError("a limit of the way out is positive")
