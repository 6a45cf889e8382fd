"""What became of a plan whose end was not recorded, and the two ways out.

Purpose: tell from hashes whether a plan was done, not begun, or done in part; finish it or take it back.
Invariant: "unknown" is a legal answer and names the paths that are neither before nor after; both ways out end with
all steps or none, and nothing of ours is left beside the user's files.
Must never: guess from times, or drop content that is neither a step's before nor its after.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from gloveport.protocol.errors import GloveportError
from gloveport.server.workspace import placing
from gloveport.server.workspace.applying import (
    Applied,
    Trees,
    carry_out,
    conflict,
    is_own,
    same_content,
    set_base,
    sync_names,
)
from gloveport.server.workspace.content import entry_state, fits
from gloveport.server.workspace.errors import WorkspaceError
from gloveport.server.workspace.plan import Plan, Step
from gloveport.server.workspace.state import FileState

Finding = Literal["done", "not_done", "partial", "unknown"]
Place = Literal["before", "after", "other"]


SECTOR_BYTES: Final = 512
"""What a disk writes whole or not at all."""

Holds = Literal["before", "after", "other", "suspect"]
Aside = Literal["nothing", "before", "after", "half", "foreign"]
Outcome = Literal["done", "not_done", "unsettled"]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The finding, and per path what was found ("base" rows speak of our own record)."""

    finding: Finding
    evidence: tuple[tuple[str, str, Place], ...]

    @property
    def places(self) -> tuple[Place, ...]:
        """What was found at each step's path, in the order of the steps."""
        return tuple(place for side, _, place in self.evidence if side != "base")

    @property
    def words(self) -> str:
        """The evidence in one line."""
        return "; ".join(f"{side} {path}: {place}" for side, path, place in self.evidence) or "nothing to do"


@dataclass(frozen=True, slots=True)
class Settled:
    """How a plan ended. `found` is what lies at each path now; `suspects` may hold parts of the plan."""

    outcome: Outcome
    found: Reconciled
    applied: Applied | None = None
    suspects: tuple[str, ...] = ()

    @property
    def states(self) -> dict[str, Holds]:
        """Per path what it holds now, in a word: `before`, `after`, `other`, or `suspect`."""
        rows: dict[str, Holds] = {path: place for side, path, place in self.found.evidence if side != "base"}
        for path in self.suspects:
            rows[path] = "suspect"
        return rows


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
            sweep(plan, trees)
            raise conflict(step, found)
    carry_out(plan, todo, trees)
    sync_names(plan, trees)  # also of what had its name before
    sweep(plan, trees)
    return Applied(plan.paths, plan.decided, plan.as_json())


def roll_back_plan(plan: Plan, trees: Trees) -> tuple[str, ...]:
    """Undo the steps that are done. Raises with those steps as they were before."""
    back = []
    for index, step in enumerate(plan.steps):
        _put_foreign_back(plan, index, trees)
        if _place(step, trees) == "after":
            back.append((index, Step(step.side, step.path, step.after, step.before, step.new_folders)))
    reverse = Plan("undo", tuple(step for _, step in back), (), ())
    carry_out(reverse, enumerate(reverse.steps), trees)
    set_base(trees, {step.path: step.before for step in plan.base_steps})
    sweep(plan, trees)
    return tuple(sorted({step.path for _, step in back}))


def settle_plan(plan: Plan, trees: Trees, suspects: Sequence[str] = ()) -> Settled:
    """End a plan whose end is not known: all of it, or nothing of it; else say what each path holds.

    `suspects` are paths that are known to have been written and not taken back.
    A base that was moved is the point of no return: what a path holds since then is a later edit of the user's.
    """
    for index in range(len(plan.steps)):
        _put_foreign_back(plan, index, trees)
    found = reconcile_plan(plan, trees)
    if found.finding == "done" or (found.finding == "partial" and not plan.buffers):
        with suppress(WorkspaceError):
            return Settled("done", found, finish_plan(plan, trees))
        found = reconcile_plan(plan, trees)
    if plan.base_steps and all(place == "after" for side, _, place in found.evidence if side == "base"):
        sweep(plan, trees)
        return Settled("done", found, Applied(plan.paths, plan.decided, plan.as_json()))
    # What an editor shows is not known any more, so a plan with steps there is taken back, and they are named.
    shown = tuple(step.path for step in plan.buffers)
    written = tuple(dict.fromkeys((*suspects, *_written_then_changed(plan, found, trees), *shown)))
    if found.finding != "not_done":
        with suppress(WorkspaceError):
            roll_back_plan(plan, trees)
        found = reconcile_plan(plan, trees)
    sweep(plan, trees)
    places = {place for _, _, place in found.evidence}
    outcome: Outcome = "unsettled" if written or "after" in places else "not_done"
    return Settled(outcome, found, None, written)


def _written_then_changed(plan: Plan, found: Reconciled, trees: Trees) -> tuple[str, ...]:
    """Paths that hold neither end, where it cannot be excluded that the plan had written them.

    What was put aside tells: the new content still waits there, or the former one lies there. Of a new file nothing
    stays aside; but where some step's new content does not lie there whole, no step was written at all.
    """
    asides = [_aside(plan, index, trees) for index in range(len(plan.steps))]
    seen = list(zip(plan.steps, found.places, asides, strict=True))
    unready = any(
        place == "before" and step.after is not None and aside in ("nothing", "half") for step, place, aside in seen
    )
    return tuple(
        step.path
        for step, place, aside in seen
        if place == "other"
        and (aside in ("before", "foreign") or (aside == "nothing" and step.before is None and not unready))
    )


def _aside(plan: Plan, index: int, trees: Trees) -> Aside:
    """What lies under a step's staged name."""
    step = plan.steps[index]
    with suppress(WorkspaceError), trees.handles[step.side].folder(step.path.rpartition("/")[0]) as fd:
        state, data = entry_state(fd, plan.staged(index), step.path, trees.limits)
        if state is None or data is None:
            return "nothing"
        if same_content(state, step.after):
            return "after"
        if same_content(state, step.before):
            return "before"
        return "half" if _is_half(state, data, step, trees) else "foreign"
    return "nothing"


def _is_half(state: FileState, data: bytes, step: Step, trees: Trees) -> bool:
    """True for new content that was being written aside when the daemon ended, or the machine: sectors may be zeros."""
    if step.after is None or (state.kind, step.after.kind) != ("file", "file"):
        return False
    whole = trees.store.get(step.after.digest)
    pieces = ((data[at : at + SECTOR_BYTES], at) for at in range(0, len(data), SECTOR_BYTES))
    return len(data) <= len(whole) and all(
        whole.startswith(piece, at) or not piece.strip(b"\0") for piece, at in pieces
    )


def sweep(plan: Plan, trees: Trees) -> None:
    """Remove staged files that hold nothing but the step's own contents, and folders made for what is not there."""
    sweep_staged(plan, trees)
    for step in plan.steps:
        with suppress(WorkspaceError):
            if trees.found(step) is None:
                trees.handles[step.side].drop_folders(step.new_folders)


def sweep_staged(plan: Plan, trees: Trees) -> None:
    """Remove staged files that hold nothing but the step's own contents."""
    for index, step in enumerate(plan.steps):
        staged = plan.staged(index)
        with suppress(WorkspaceError, OSError), trees.handles[step.side].folder(step.path.rpartition("/")[0]) as fd:
            if _aside(plan, index, trees) != "foreign":
                placing.drop(fd, staged)
            state = entry_state(fd, f"{staged}.old", step.path, trees.limits)[0]
            if state is not None and is_own(state, step):
                placing.drop(fd, f"{staged}.old")


def _put_foreign_back(plan: Plan, index: int, trees: Trees) -> None:
    """A staged name that holds the user's own later content: a crash came between the swap and the look at it.

    It came from there only if what the step was to bring is in its place; else it is new content, written in part.
    """
    step = plan.steps[index]
    folder, _, name = step.path.rpartition("/")
    if _aside(plan, index, trees) not in ("half", "foreign") or _place(step, trees) != "after":
        return
    with suppress(WorkspaceError, OSError), trees.handles[step.side].folder(folder) as fd:
        if step.after is None:
            placing.move_to_free(fd, plan.staged(index), name)
        else:
            placing.exchange(fd, name, plan.staged(index))


def _place(step: Step, trees: Trees) -> Place:
    try:
        found = trees.found(step)
    except GloveportError:
        return "other"
    if fits(found, step.after, step.before):
        return "after"
    return "before" if fits(found, step.before, step.after) else "other"
