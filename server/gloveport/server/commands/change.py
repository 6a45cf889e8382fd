"""change/*: list, preview, accept, reject, undo.

Purpose: the handlers of proposals.
Invariant: what is decided is what was shown: a selection names digests; the plan is on disk before the first byte.
Must never: answer before the outcome is on disk.
"""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final, Literal

import orjson

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import ChangeApplied, ChangeProposed, ChangeUnsettled
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import (
    ChangeDecideParams,
    ChangeDecideResult,
    ChangeInfo,
    ChangeListResult,
    ChangePreviewParams,
    ChangePreviewResult,
    ChangeUndoParams,
    HunkInfo,
)
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.perform import start as start_effects
from gloveport.server.engine.proposals import places
from gloveport.server.session.state import CallStage
from gloveport.server.transports.port import Caller
from gloveport.server.turn.inputs import ApplyRequested
from gloveport.server.workspace.plan import Plan, Selected
from gloveport.server.workspace.proposal import patch_of

DECISION_FILES_MAX: Final = 4_000
DECISION_BYTES_MAX: Final = 3 * 1024 * 1024
"""Of the plan of one decision: with it, and with what its outcome says, one event and one append can be written."""


def _info(change: ChangeProposed) -> ChangeInfo:
    return ChangeInfo(
        change_id=change.change_id,
        path=change.path,
        renamed_from=change.renamed_from,
        kind=change.kind,
        base_hash=change.base_hash,
        result_hash=change.result_hash,
        digest=change.digest,
        hunks=tuple(HunkInfo.model_validate(hunk.model_dump()) for hunk in change.hunks),
        runs_by_itself=change.runs_by_itself,
    )


async def listed(house: House, params: SessionParams, caller: Caller) -> ChangeListResult:
    """All pending proposals."""
    actor = await house.sessions.open(params.session_id)
    return ChangeListResult(changes=tuple(_info(change) for change in actor.state.changes.values()))


async def preview(house: House, params: ChangePreviewParams, caller: Caller) -> ChangePreviewResult:
    """One proposal as a unified diff."""
    actor = await house.sessions.open(params.session_id)
    change = actor.state.changes.get(params.change_id)
    if change is None:
        raise GloveportError(ErrorCode.CHANGE_UNKNOWN, "this proposal is not pending")
    shown = await actor.workspace.preview(params.change_id)
    if shown.proposal.digest != change.digest:
        raise GloveportError(ErrorCode.CHANGE_SUPERSEDED, "the proposal is just changing; look again")
    patch = b64encode(patch_of(shown.proposal)).decode() if params.exact else None
    return ChangePreviewResult(change=_info(change), diff=shown.diff, patch=patch)


def _selected(actor: Actor, params: ChangeDecideParams) -> tuple[Selected, ...]:
    chosen = []
    for one in params.selections:
        change = actor.state.changes.get(one.change_id)
        if change is None:
            raise GloveportError(ErrorCode.CHANGE_UNKNOWN, "a selected proposal is not pending")
        if change.digest != one.digest:
            raise GloveportError(
                ErrorCode.CHANGE_SUPERSEDED, f"the proposal of {change.path} changed since it was shown"
            )
        chosen.append(Selected(one.change_id, one.digest, one.hunk_digests))
    return tuple(chosen)


def _check_quiet(actor: Actor) -> None:
    """What changes the worktree: not while a call runs in it."""
    turn = actor.state.turn
    if turn is not None and any(call.stage is CallStage.RUNNING for call in turn.calls):
        raise GloveportError(ErrorCode.TURN_BUSY, "a tool is running in the worktree; wait for it or stop it")


def _old_name(change: ChangeProposed) -> tuple[str, ...]:
    return () if change.renamed_from is None else (change.renamed_from,)


async def _check_kinds(actor: Actor, params: ChangeDecideParams) -> None:
    """What runs by itself is accepted one by one, and what no change may touch not at all: as things lie now."""
    chosen = [change for one in params.selections if (change := actor.state.changes.get(one.change_id)) is not None]
    ends = {change.path: (change.path, *_old_name(change)) for change in chosen}
    links = {change.path: change.kind == "symlink" or change.result_mode == 0 for change in chosen}
    found = await places(actor.workspace, {name: links.get(name, False) for names in ends.values() for name in names})
    never = sorted(path for path, place in found.items() if place.is_never_written)
    if never:
        raise GloveportError(ErrorCode.PROTECTED_PATH, f"{never[0]} is never written by an accept", paths=never)
    alone = sorted(
        change.path for change in chosen if change.runs_by_itself or any(found[name].note for name in ends[change.path])
    )
    if alone and len(chosen) > 1:
        words = f"{', '.join(alone)}: what runs by itself is accepted one by one, not together with other files"
        hint = f"Accept {alone[0]} by itself, and the other files without it."
        raise GloveportError(ErrorCode.POLICY_DENIED, words, hint=hint, paths=alone)


async def accept(house: House, params: ChangeDecideParams, caller: Caller, once: Once) -> ChangeDecideResult:
    """Write the selected proposals into the user's files."""
    actor = await house.sessions.open(params.session_id)
    selected = _selected(actor, params)
    await _check_kinds(actor, params)
    house.buffers.heard(caller.connection_id)
    plan = await actor.workspace.plan_accept(selected)
    if plan.taken_over:
        _check_quiet(actor)
    return await _decide(actor, "accept", plan, caller, once)


async def reject(house: House, params: ChangeDecideParams, caller: Caller, once: Once) -> ChangeDecideResult:
    """Take the selected proposals out of the worktree."""
    actor = await house.sessions.open(params.session_id)
    _check_quiet(actor)
    return await _decide(actor, "reject", await actor.workspace.plan_reject(_selected(actor, params)), caller, once)


async def undo(house: House, params: ChangeUndoParams, caller: Caller, once: Once) -> ChangeDecideResult:
    """Put back what an accept or reject changed."""
    actor = await house.sessions.open(params.session_id)
    _check_quiet(actor)
    applied = _applied(actor, params.apply_id)
    house.buffers.heard(caller.connection_id)
    plan = await actor.workspace.plan_undo(applied.record)
    return await _decide(actor, "undo", plan, caller, once)


def _applied(actor: Actor, apply_id: str | None) -> ChangeApplied:
    applied = actor.state.applied
    found = [each for each in applied if each.apply_id == apply_id] if apply_id is not None else standing(applied)
    if not found:
        raise GloveportError(ErrorCode.CHANGE_UNKNOWN, "there is nothing to undo", hint="See gloveport show.")
    return found[-1]


def standing(applied: Sequence[ChangeApplied]) -> list[ChangeApplied]:
    """The decisions in force, in order: without those that were undone, with those whose undo was undone."""
    undone_by: dict[str, ChangeApplied] = {}
    stands: dict[str, bool] = {}
    for at, each in enumerate(applied):
        stands[each.apply_id] = True
        if each.action != "undo":
            continue
        turned = _turned(each)
        target = next((one for one in reversed(applied[:at]) if stands[one.apply_id] and _ends(one) == turned), None)
        if target is not None:
            stands[target.apply_id] = False
            undone_by[each.apply_id] = target
            again = undone_by.get(target.apply_id)
            if again is not None:
                stands[again.apply_id] = True
                stands[each.apply_id] = False
    return [each for each in applied if each.action != "undo" and stands[each.apply_id]]


def _ends(each: ChangeApplied) -> frozenset[tuple[str, str, str, str]]:
    """What a decision made of which file."""
    steps: Any = each.record.get("steps", [])
    return frozenset((step["side"], step["path"], str(step["before"]), str(step["after"])) for step in steps)


def _turned(each: ChangeApplied) -> frozenset[tuple[str, str, str, str]]:
    return frozenset((side, path, after, before) for side, path, before, after in _ends(each))


async def _decide(
    actor: Actor, action: Literal["accept", "reject", "undo"], plan: Plan, caller: Caller, once: Once
) -> ChangeDecideResult:
    for words in actor.waiting_applies.values():
        raise GloveportError(ErrorCode.TURN_BUSY, f"an earlier decision comes first: {words}")
    record = plan.as_json()
    if len(plan.decided) > DECISION_FILES_MAX or len(orjson.dumps(record)) > DECISION_BYTES_MAX:
        words = f"{len(plan.decided)} files are too many, or too long, for one decision; nothing was written"
        hint = f"Decide folder by folder, on {DECISION_FILES_MAX} files at most."
        raise GloveportError(ErrorCode.LIMIT, words, hint=hint)
    apply_id = actor.room.new_id("apply")
    paths = tuple(sorted({decided.path for decided in plan.decided}))
    result = ChangeDecideResult(apply_id=apply_id, paths=paths, in_editors=plan.in_editors)
    given = ApplyRequested(apply_id, action, record, caller.client_name or "client")
    start_effects(actor, await actor.submit(given, once.request(result)))
    return await settled(actor, result)


async def settled(actor: Actor, result: ChangeDecideResult) -> ChangeDecideResult:
    """Wait for the outcome. Raises what refused it."""
    await actor.wait_applied(result.apply_id)
    refusal = actor.refusals.get(result.apply_id)
    if refusal is None:
        return result
    if isinstance(refusal, ChangeUnsettled):
        states = {state.path: state.holds for state in refusal.states}
        raise GloveportError(ErrorCode(refusal.code), refusal.message, states=states)
    raise GloveportError(ErrorCode(refusal.code), refusal.message, paths=list(refusal.paths))
