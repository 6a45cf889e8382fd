"""What became of a plan whose end was not recorded.

Purpose: tell from hashes whether a plan was done, not begun, or done in part.
Invariant: reads only; "unknown" is a legal answer and names the paths that are neither before nor after.
Must never: guess from times, or from what the journal hoped.
"""

from dataclasses import dataclass
from typing import Literal

from gloveport.protocol.errors import GloveportError
from gloveport.server.workspace.applying import Trees
from gloveport.server.workspace.content import fits
from gloveport.server.workspace.plan import Plan, Step

Finding = Literal["done", "not_done", "partial", "unknown"]
Place = Literal["before", "after", "other"]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The finding, and per path what was found ("base" rows speak of our own record)."""

    finding: Finding
    evidence: tuple[tuple[str, str, Place], ...]

    @property
    def words(self) -> str:
        """The evidence in one line."""
        return "; ".join(f"{side} {path}: {place}" for side, path, place in self.evidence) or "nothing to do"


def reconcile_plan(plan: Plan, trees: Trees) -> Reconciled:
    """Compare every step's path with its two ends."""
    evidence: list[tuple[str, str, Place]] = [(step.side, step.path, _place(step, trees)) for step in plan.steps]
    for step in plan.base_steps:
        current = trees.state.base.get(step.path)
        place: Place = "after" if current == step.after else "before" if current == step.before else "other"
        evidence.append(("base", step.path, place))
    places = {place for _, _, place in evidence}
    if "other" in places:
        finding: Finding = "unknown"
    elif places <= {"after"}:
        finding = "done"
    else:
        finding = "not_done" if places == {"before"} else "partial"
    return Reconciled(finding, tuple(evidence))


def _place(step: Step, trees: Trees) -> Place:
    try:
        found = trees.found(step)
    except GloveportError:
        return "other"
    if fits(found, step.after, step.before):
        return "after"
    return "before" if fits(found, step.before, step.after) else "other"
