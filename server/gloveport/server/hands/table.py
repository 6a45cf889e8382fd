"""What each hand may use: one row a hand.

Purpose: limits, input, network, credential and substitute of every hand, as data.
Invariant: a hand has no more than its row says; its hard memory limit is a fifth above the soft one of the breaker.
Must never: act.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

MEBIBYTE: Final = 1024 * 1024
HARD_SHARE: Final = 1.2
"""The hard memory limit is this much of the soft one, which the breaker holds."""
READER_BYTES_MAX: Final = 8 * MEBIBYTE
READER_LARGE_BYTES_MAX: Final = 32 * MEBIBYTE
ARCHIVE_BYTES_MAX: Final = 32 * MEBIBYTE
INPUTS_BYTES_MAX: Final = 16 * MEBIBYTE
MAIL_BYTES_MAX: Final = 16 * MEBIBYTE
NO_INPUT: Final = 0

Credential = Literal["none", "stand-in", "broker"]
"""A stand-in is replaced behind the jail's back; what the broker gives is handed over once and kept nowhere."""


@dataclass(frozen=True, slots=True)
class Hand:
    """One row: seconds and bytes. `substitute` is the hand that is tried, once, where this one met a limit."""

    wall_s: float
    memory_bytes: int
    input_bytes_max: int
    reaches: bool = False
    credential: Credential = "none"
    substitute: str = ""
    processes_max: int = 16
    output_bytes_max: int = 4 * MEBIBYTE
    looks: bool = False
    """It is a program of the machine's on the worktree, read-only, and none of ours."""

    @property
    def memory_bytes_max(self) -> int:
        """The hard limit."""
        return int(self.memory_bytes * HARD_SHARE)


HANDS: Final[Mapping[str, Hand]] = MappingProxyType(
    {
        "file_reader": Hand(3.0, 128 * MEBIBYTE, READER_BYTES_MAX, substitute="file_reader_lean"),
        "file_reader_large": Hand(15.0, 256 * MEBIBYTE, READER_LARGE_BYTES_MAX, substitute="file_reader_lean"),
        "file_reader_lean": Hand(3.0, 128 * MEBIBYTE, READER_LARGE_BYTES_MAX),
        "archive": Hand(15.0, 256 * MEBIBYTE, ARCHIVE_BYTES_MAX, output_bytes_max=24 * MEBIBYTE),
        "execution": Hand(15.0, 256 * MEBIBYTE, INPUTS_BYTES_MAX, processes_max=32),
        "plot": Hand(15.0, 256 * MEBIBYTE, NO_INPUT, substitute="table"),
        "http": Hand(15.0, 256 * MEBIBYTE, NO_INPUT, reaches=True, credential="stand-in"),
        "sql": Hand(15.0, 256 * MEBIBYTE, READER_LARGE_BYTES_MAX, reaches=True, credential="broker"),
        "shell": Hand(3.0, 128 * MEBIBYTE, NO_INPUT, output_bytes_max=MEBIBYTE, looks=True),
        "email": Hand(15.0, 128 * MEBIBYTE, MAIL_BYTES_MAX, reaches=True, credential="broker"),
    }
)
TABLE: Final = "table"
"""The substitute that is no hand: what was to be drawn, as text."""
