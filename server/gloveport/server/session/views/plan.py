"""The plan: its steps, and the goal each was made for.

Purpose: the plan as it stands, with the goal revision under which each step first appeared.
Invariant: a step keeps the revision of its birth for as long as it stays in the plan under its title.
Must never: call a step done that the agent did not call done.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from gloveport.protocol.journal import events as ev
from gloveport.server.session.views.placed import Placed

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

    by_name: ClassVar[frozenset[str]] = frozenset({"ModelTextDelta", "ToolExecutionProgress"})

    def __init__(self) -> None:
        self._revision = 0
        self._update: tuple[str, int] | None = None
        self._steps: tuple[tuple[str, str, int], ...] = ()

    def take(self, event: Placed) -> None:
        """Take one more event in."""
        body = event.body
        if isinstance(body, ev.GoalRevised):
            self._revision = max(self._revision, body.goal_revision)
        elif isinstance(body, ev.PlanUpdated):
            born = {title: revision for title, _, revision in self._steps}
            self._steps = tuple(
                (one.title, one.state, getattr(one, "goal_revision", born.get(one.title, body.goal_revision)))
                for one in body.items
            )
            self._update = body.turn_id, event.at

    def finish(self) -> PlanView:
        """The plan now."""
        turn_id, at = self._update or (None, None)
        steps = (PlanStep(title, state, born, self._is_over(state, born)) for title, state, born in self._steps)
        return PlanView(self._revision, turn_id, at, tuple(steps))

    def _is_over(self, state: str, born: int) -> bool:
        return state == "superseded" or (state in OPEN_STATES and born < self._revision)
