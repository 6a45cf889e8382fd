"""change/undo, change/redo: decisions taken back, and taken again.

Purpose: find which decisions are meant, and have them taken back as one.
Invariant: what is in force follows from the record alone; a redo brings back exactly what its undo took.
Must never: take back what is not in force, unless it is named.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import ChangeApplied
from gloveport.protocol.journal.events.change import Decision
from gloveport.protocol.wire.change import ChangeDecideResult, ChangeRedoParams, ChangeUndoParams
from gloveport.server.commands.change import check_quiet, decide
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.engine.actor import Actor
from gloveport.server.transports.port import Caller
from gloveport.server.workspace.plan import Decided, Plan
from gloveport.server.workspace.taking_back import Part

BACK = frozenset({"undo", "redo"})
"""What takes decisions back, and is none itself."""
_VERBS: Final = MappingProxyType({"accept": "accepted", "reject": "rejected"})
_PLANNED: Final = "planned"


async def undo(house: House, params: ChangeUndoParams, caller: Caller, once: Once) -> ChangeDecideResult:
    """Put back what decisions changed."""
    actor = await house.sessions.open(params.session_id)
    check_quiet(actor)
    chosen = _chosen(actor, params)
    hunks = None if params.hunk_digests is None else frozenset(params.hunk_digests)
    part = Part(None if params.paths is None else frozenset(params.paths), hunks)
    house.buffers.heard(caller.connection_id)
    plan = await actor.workspace.plan_back("undo", [(one.apply_id, one.record) for one in chosen], part)
    rejects = _rejects(actor.state.applied, chosen)
    return await decide(actor, "undo", _told(actor.state.applied, "undo", plan), caller, once, rejects=rejects)


async def redo(house: House, params: ChangeRedoParams, caller: Caller, once: Once) -> ChangeDecideResult:
    """Take an undo back."""
    actor = await house.sessions.open(params.session_id)
    check_quiet(actor)
    found = [each for each in in_force(actor.state.applied).undos if params.apply_id in (None, each.apply_id)]
    if not found:
        raise GloveportError(ErrorCode.CHANGE_UNKNOWN, "there is nothing to redo", hint="See gloveport show.")
    house.buffers.heard(caller.connection_id)
    plan = await actor.workspace.plan_back("redo", [(found[-1].apply_id, found[-1].record)])
    rejects = _rejects(actor.state.applied, found[-1:])
    return await decide(actor, "redo", _told(actor.state.applied, "redo", plan), caller, once, rejects=rejects)


def _rejects(applied: Sequence[ChangeApplied], chosen: Sequence[ChangeApplied]) -> frozenset[str]:
    """The paths on which these, or what they took back, were rejects alone."""
    by_id = {each.apply_id: each for each in applied}
    paths: dict[bool, set[str]] = {True: set(), False: set()}
    left = list(chosen)
    while left:
        each = left.pop()
        if each.action in BACK or each.action == "restore":
            left += [by_id[name] for name in _names(each, "undoes") if name in by_id]
        else:
            choices: Any = each.record.get("decided", ())
            paths[each.action == "reject"] |= {choice["path"] for choice in choices}
    return frozenset(paths[True] - paths[False])


def _told(applied: Sequence[ChangeApplied], action: Decision, plan: Plan) -> Plan:
    """The plan with where each of its hunks stands after it: as the last decision on it that is in force then."""
    own = ChangeApplied(apply_id=_PLANNED, action=action, paths=plan.paths, record=plan.as_json(), by="")
    after = (*applied, own)
    holding = in_force(after).contents
    stands: dict[str, str] = {}
    for each in after:
        if each.apply_id in holding:
            stands |= dict.fromkeys(_digests(each), _VERBS.get(each.action, "undone"))
    decided: list[Decided] = []
    for choice in plan.decided:
        pairs = list(zip(choice.hunk_ids, choice.digests, strict=False))
        if len(pairs) != len(choice.digests):  # taken whole, it has a digest and no hunks
            decided.append(replace(choice, becomes=stands.get(choice.digests[0], "undone")))
            continue
        for verb in dict.fromkeys(stands.get(digest, "undone") for _, digest in pairs):
            names, digests = zip(*(one for one in pairs if stands.get(one[1], "undone") == verb), strict=True)
            decided.append(replace(choice, hunk_ids=names, digests=digests, becomes=verb))
    return replace(plan, decided=tuple(decided))


def _chosen(actor: Actor, params: ChangeUndoParams) -> list[ChangeApplied]:
    """The decisions that are meant, the newest first."""
    applied = actor.state.applied
    if params.apply_id is not None:
        found = [each for each in applied if each.apply_id == params.apply_id][-1:]
    else:
        # Of all that is in force a restore is no part: taken back, it would bring back what it took back itself.
        found = in_force(applied).made if params.all else standing(applied)
        _check_paths(found, params.paths or ())
        if params.turn_id is not None:
            found = [each for each in found if params.turn_id in _names(each, "turns")]
        elif params.hunk_digests is not None and not params.all:
            found = [each for each in found if not _digests(each).isdisjoint(params.hunk_digests)]
        elif params.paths is not None and not params.all:
            found = [each for each in found if set(params.paths) & set(each.paths)][-1:]
        elif not params.all:
            found = found[-1:]
    if not found:
        raise GloveportError(ErrorCode.CHANGE_UNKNOWN, _nothing(params), hint="See gloveport show.")
    return found[::-1]


def _nothing(params: ChangeUndoParams) -> str:
    """That nothing is in force of what was named."""
    if params.apply_id is not None:
        return f"there is no decision {params.apply_id}"
    if params.turn_id is not None:
        return f"no decision on what turn {params.turn_id} proposed is in force"
    return "there is nothing to undo"


def _check_paths(found: Sequence[ChangeApplied], paths: Sequence[str]) -> None:
    """Each named path has a decision in force, so that none is passed over in silence."""
    changed = {path for each in found for path in each.paths}
    for path in paths:
        if path not in changed:
            words = f"there is no change of {path} to undo"
            raise GloveportError(ErrorCode.CHANGE_UNKNOWN, words, hint="See gloveport show.")


@dataclass(frozen=True, slots=True)
class InForce:
    """Decisions that hold, and undos that were not taken back, in order."""

    decisions: list[ChangeApplied] = field(default_factory=list)
    undos: list[ChangeApplied] = field(default_factory=list)

    @property
    def made(self) -> list[ChangeApplied]:
        """The decisions that hold, without restores: those only took others back."""
        return [each for each in self.decisions if each.action != "restore"]

    @property
    def contents(self) -> frozenset[str]:
        """Names of what together makes the files what they are: what was made, and what was taken back in part."""
        parts = [each for each in self.undos if each.record.get("partial")]
        return frozenset(each.apply_id for each in (*self.made, *parts))


def standing(applied: Sequence[ChangeApplied]) -> list[ChangeApplied]:
    """The decisions in force, in order: without those that were undone, with those whose undo was undone."""
    return in_force(applied).decisions


def in_force(applied: Sequence[ChangeApplied]) -> InForce:
    """What holds after all that was applied."""
    stood_before: dict[str, dict[str, bool]] = {}
    actions = {each.apply_id: each.action for each in applied}
    stands: dict[str, bool] = {}
    for at, each in enumerate(applied):
        stood: dict[str, bool] = {}
        stands[each.apply_id] = True
        for target in tuple(_targets(applied, at, stands)):
            for former, was in stood_before.get(target, {}).items():
                stood.setdefault(former, stands[former])
                stands[former] = was
            stood.setdefault(target, stands[target])
            stands[target] = bool(each.record.get("partial"))
            if actions[target] in BACK and each.action in BACK:  # a redo, whatever it was called
                stands[each.apply_id] = False
        stood_before[each.apply_id] = {} if each.record.get("partial") else stood
    kept = [each for each in applied if stands[each.apply_id]]
    return InForce([each for each in kept if each.action not in BACK], [each for each in kept if each.action == "undo"])


def back_to(applied: Sequence[ChangeApplied], since: Container[str]) -> list[ChangeApplied]:
    """What must be turned round, the newest first, for the files to be as before all of `since`; none: they are.

    Of what was taken back in the meantime nothing is left to turn round, unless it had held before.
    """
    now = in_force(applied).contents
    then = in_force([each for each in applied if each.apply_id not in since]).contents
    if then <= now:
        return [each for each in reversed(applied) if each.apply_id in now - then]
    return [each for each in reversed(applied) if each.apply_id in since]


def _targets(applied: Sequence[ChangeApplied], at: int, stands: dict[str, bool]) -> Iterator[str]:
    """The decisions that one takes back; a record that does not name them is matched by what it turned round."""
    each = applied[at]
    if "undoes" in each.record:
        yield from (name for name in _names(each, "undoes") if name in stands)
    elif each.action in BACK:
        turned = _turned(each)
        found = (one for one in reversed(applied[:at]) if stands[one.apply_id] and _ends(one) == turned)
        yield from (one.apply_id for one in [next(found, None)] if one is not None)


def _digests(each: ChangeApplied) -> set[str]:
    """The hunks that a decision was on."""
    choices: Any = each.record.get("decided", ())
    return {digest for choice in choices for digest in choice["digests"]}


def _names(each: ChangeApplied, field_name: str) -> tuple[str, ...]:
    names: Any = each.record.get(field_name, ())
    return tuple(names)


def _ends(each: ChangeApplied) -> frozenset[tuple[str, str, str, str]]:
    """What a decision made of which file."""
    steps: Any = each.record.get("steps", [])
    return frozenset((step["side"], step["path"], str(step["before"]), str(step["after"])) for step in steps)


def _turned(each: ChangeApplied) -> frozenset[tuple[str, str, str, str]]:
    return frozenset((side, path, after, before) for side, path, before, after in _ends(each))
