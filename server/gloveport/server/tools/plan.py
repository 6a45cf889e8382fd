"""update_plan: what the model means to do, shown to the user.

Purpose: keep the plan as a fact of the session.
Invariant: the whole plan is given each time.
Must never: change anything but the plan.
"""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from gloveport.protocol.journal.events import PlanUpdated
from gloveport.protocol.journal.events.tool import FileFingerprint, PlanItem
from gloveport.server.tools.contract import OWN_LABEL, Arguments, Found, Performed, ToolContext, ToolPlan

ITEMS_MAX: Final = 50
TITLE_CHARACTERS_MAX: Final = 200


class Item(BaseModel):
    """One step."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    text: str = Field(min_length=1, max_length=TITLE_CHARACTERS_MAX, description="What the step does")
    status: Literal["pending", "running", "done", "dropped"] = Field(description="Where it stands")


class UpdatePlanArguments(Arguments):
    """Arguments of update_plan."""

    items: list[Item] = Field(max_length=ITEMS_MAX, description="The whole plan, in order")


class UpdatePlan:
    """update_plan"""

    name = "update_plan"
    description = "Show the user your plan. Send the whole plan each time, with the state of each step."
    arguments = UpdatePlanArguments

    async def plan(self, arguments: UpdatePlanArguments, context: ToolContext) -> ToolPlan:
        """No effect outside the session."""
        return ToolPlan(
            title="Update the plan",
            effects=(),
            recovery="idempotent",
            stop_class="atomic",
            executor="daemon",
            label=OWN_LABEL,
        )

    async def perform(self, arguments: UpdatePlanArguments, context: ToolContext) -> Performed:
        """The plan becomes a fact."""
        revision = context.goal_revision
        items = tuple(PlanItem(title=i.text, state=i.status, goal_revision=revision) for i in arguments.items)
        fact = PlanUpdated(turn_id=context.turn_id, goal_revision=context.goal_revision, items=items)
        return Performed("ok", "The plan is shown.", f"{len(items)} steps", OWN_LABEL, facts=(fact,))

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Showing it again is the same."""
        return Found("not_started", "the plan may be shown again")

    async def attach(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Performed:
        """Show it again."""
        return await self.perform(arguments, context)
