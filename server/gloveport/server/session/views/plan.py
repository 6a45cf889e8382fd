"""The plan: its steps, and the goal each was made for.

Purpose: the plan as it stands, each step with the goal revision it was made for.
Invariant: a step that is open while its goal has changed is marked, whatever its own state says.
Must never: call a step done that the agent did not call done.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.tool import PlanItem
from gloveport.server.session.views.placed import Placed, all_but

OPEN_STATES: Final = frozenset({"pending", "running"})


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step. `superseded`: it is open, and the goal it was made for was replaced or has changed since."""

    title: str
    state: str
    goal_revision: int
    superseded: bool


@dataclass(frozen=True, slots=True)
class PlanView:
    """The plan under the goal of today; `turn_id` and `at` (UTC microseconds) of its last update, null without one."""

    goal_revision: int
    turn_id: str | None
    at: int | None
    steps: tuple[PlanStep, ...]


class PlanProjection:
    """Follows the plan."""

    by_name: ClassVar[frozenset[str]] = all_but(ev.GoalRevised, ev.PlanUpdated)

    def __init__(self) -> None:
        self._revision = 0
        self._update: tuple[str, int] | None = None
        self._steps: tuple[PlanItem, ...] = ()

    def take(self, event: Placed) -> None:
        """Take one more event in."""
        body = event.body
        if isinstance(body, ev.GoalRevised):
            self._revision = max(self._revision, body.goal_revision)
        elif isinstance(body, ev.PlanUpdated):
            self._steps = body.items
            self._update = body.turn_id, event.at

    def finish(self) -> PlanView:
        """The plan now."""
        turn_id, at = self._update or (None, None)
        steps = (PlanStep(one.title, one.state, one.goal_revision, self._is_over(one)) for one in self._steps)
        return PlanView(self._revision, turn_id, at, tuple(steps))

    def _is_over(self, step: PlanItem) -> bool:
        return step.state == "superseded" or (step.state in OPEN_STATES and step.goal_revision < self._revision)
