"""What became of a plan whose end was not recorded, and the two ways out.

Purpose: tell from hashes whether a plan was done, not begun, or done in part; finish it or take it back.
Invariant: "unknown" is a legal answer and names the paths that are neither before nor after; both ways out end with
all steps or none, and nothing of ours is left beside the user's files.
Must never: guess from times, or drop content that is neither a step's before nor its after.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from gloveport.protocol.errors import GloveportError
from gloveport.server.workspace import placing
from gloveport.server.workspace.applying import Applied, Trees, carry_out, conflict, set_base
from gloveport.server.workspace.content import entry_state, fits
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.plan import Plan, Step
from gloveport.server.workspace.state import FileState

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


def finish_plan(plan: Plan, trees: Trees) -> Applied:
    """Do the steps that are not done yet. Raises with those steps as they were before."""
    todo = []
    for index, step in enumerate(plan.steps):
        _put_foreign_back(plan, index, trees)
        found = trees.found(step)
        if fits(found, step.before, step.after):
            todo.append((index, step))
        elif not fits(found, step.after, step.before):
            _sweep(plan, trees)
            raise conflict(step, found)
    carry_out(plan, todo, trees)
    _sweep(plan, trees)
    return Applied(plan.paths, plan.decided, plan.as_json())


def roll_back_plan(plan: Plan, trees: Trees) -> tuple[str, ...]:
    """Undo the steps that are done. Raises with those steps as they were before."""
    back = []
    for index, step in enumerate(plan.steps):
        _put_foreign_back(plan, index, trees)
        if fits(trees.found(step), step.after, step.before):
            back.append((index, Step(step.side, step.path, step.after, step.before, step.new_folders)))
    reverse = Plan("undo", tuple(step for _, step in back), (), ())
    carry_out(reverse, enumerate(reverse.steps), trees)
    set_base(trees, {step.path: step.before for step in plan.base_steps})
    _sweep(plan, trees)
    return tuple(sorted({step.path for _, step in back}))


def _sweep(plan: Plan, trees: Trees) -> None:
    """Remove staged files that hold nothing but the step's own contents, and folders made for what is not there."""
    for index, step in enumerate(plan.steps):
        folder, _, _ = step.path.rpartition("/")
        with suppress(WorkspaceError), trees.handles[step.side].folder(folder) as fd:
            for name in (plan.staged(index), f"{plan.staged(index)}.old"):
                state = entry_state(fd, name, step.path, trees.limits)[0]
                if state is not None and _is_own(state, step):
                    placing.drop(fd, name)
        if trees.found(step) is None:
            trees.handles[step.side].drop_folders(step.new_folders)


def _put_foreign_back(plan: Plan, index: int, trees: Trees) -> None:
    """A staged name that holds the user's own later content: a crash came between the swap and the look at it."""
    step = plan.steps[index]
    folder, _, name = step.path.rpartition("/")
    with suppress(WorkspaceError), trees.handles[step.side].folder(folder) as fd:
        staged = plan.staged(index)
        state = entry_state(fd, staged, step.path, trees.limits)[0]
        if state is None or _is_own(state, step):
            return
        with suppress(OSError):
            if trees.found(step) is None:
                placing.move_to_free(fd, staged, name)
            else:
                placing.exchange(fd, name, staged)


def _is_own(state: FileState, step: Step) -> bool:
    ends = [end for end in (step.before, step.after) if end is not None]
    return any((state.kind, state.digest) == (end.kind, end.digest) for end in ends)


def _place(step: Step, trees: Trees) -> Place:
    try:
        found = trees.found(step)
    except GloveportError:
        return "other"
    if fits(found, step.after, step.before):
        return "after"
    return "before" if fits(found, step.before, step.after) else "other"
