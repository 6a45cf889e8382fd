"""From which use on a hand is taken for one that went wrong.

Purpose: the breaker's thresholds of each hand as data.
Invariant: small hands are ended, since nothing they do takes so much; programs of the user's (commands, tests, builds)
only raise an alarm, since a build may.
Must never: replace a limit; a hard limit is met with or without a breaker.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gloveport.protocol.jail.requests import BreakerPlan
from gloveport.sandbox.profile import Profile


@dataclass(frozen=True, slots=True)
class Thresholds:
    """One row. `cpu_share` of a core for `cpu_window_s` s; `memory_soft_share` of the hard limit; calls a second,
    null where any number is ordinary.

    `ends`: passing one ends the run (soft signal, dump, kill); else it is noted.
    """

    ends: bool
    cpu_share: float | None
    cpu_window_s: float
    memory_soft_share: float
    calls_per_s_max: int | None


SMALL: Final = Thresholds(True, 0.95, 3.0, 1 / 1.2, 1_000)
"""The hard memory limit is 1.2 times the soft one."""
COMPUTING: Final = Thresholds(True, None, 3.0, 1 / 1.2, 10_000)
"""Programs that are there to compute: their processor time has a limit of its own, and one import of a plotting
library opens a thousand files within the first second on a fast machine."""
LOOKING: Final = Thresholds(True, None, 3.0, 1 / 1.2, None)
"""Looking through a whole workspace opens every file of it, as fast as the machine can; its time and memory are what
bounds it."""
PROGRAMS: Final = Thresholds(False, None, 3.0, 1 / 1.2, 1_000)
HANDS: Final[Mapping[str, Thresholds]] = MappingProxyType(
    {
        "file_reader": SMALL,
        "file_reader_large": COMPUTING,
        "file_reader_lean": SMALL,
        "archive": COMPUTING,
        "execution": COMPUTING,
        "plot": COMPUTING,
        "http": SMALL,
        # A statement may compute for as long as it may take, which is more than the processor's window.
        "sql": COMPUTING,
        "shell": LOOKING,
        "email": SMALL,
        "run_command": PROGRAMS,
        "run_tests": PROGRAMS,
    }
)
_KINDS: Final = MappingProxyType({"small": SMALL, "build": PROGRAMS})


def thresholds_of(profile: Profile) -> Thresholds:
    """The row of the profile's hand, or of its tool kind."""
    return HANDS.get(profile.hand, _KINDS[profile.tool_kind])


def plan_breaker(profile: Profile) -> BreakerPlan:
    """The supervisor's share of the row."""
    row, hard = thresholds_of(profile), profile.limits.memory_bytes_max
    return BreakerPlan(
        ends=row.ends,
        cpu_share=row.cpu_share,
        cpu_window_s=row.cpu_window_s,
        memory_soft_bytes=None if hard is None else int(hard * row.memory_soft_share),
        calls_per_s_max=row.calls_per_s_max,
    )
