"""Folders that a run may write, and may not fill.

Purpose: look now and then at how much the bounded folders of a run take, and name one that takes too much.
Invariant: looking costs at most a twentieth of a core; a bound can be passed for one interval.
Must never: kill, or remove anything; it names an ending and the run carries it out.
"""

import time
from collections.abc import Sequence
from typing import Final

from gloveport.protocol.jail.replies import ExitKind
from gloveport.protocol.jail.requests import BoundPlan
from gloveport.sandbox.runner.descent import taken_by
from gloveport.sandbox.runner.limits import COST_SHARE
from gloveport.sandbox.runner.verdict import Ending

INTERVAL_S: Final = 0.5


class Bounds:
    """Looks when due; `next_at` is None when nothing is bounded."""

    def __init__(self, plans: Sequence[BoundPlan]) -> None:
        self._plans = plans
        self.next_at: float | None = time.monotonic() + INTERVAL_S if plans else None

    def check(self, now: float) -> Ending | None:
        """Look if due, and name the folder that takes more than it may."""
        if self.next_at is None or now < self.next_at:
            return None
        ending = None
        for plan in self._plans:
            if taken := taken_by(plan.folder, plan.bytes_max, plan.files_max):
                ending = Ending(ExitKind.KILLED, f"{plan.name} has grown to {taken}", True)
        cost = time.monotonic() - now
        self.next_at = now + cost + max(INTERVAL_S, COST_SHARE * cost)
        return ending
