"""change/*: list, preview, accept, reject.

Purpose: the handlers of proposals.
Invariant: what is decided is what was shown: a selection names digests; the plan is on disk before the first byte.
Must never: answer before the outcome is on disk.
"""

import dataclasses
from base64 import b64encode
from collections.abc import Callable, Container
from dataclasses import replace
from typing import Final

import orjson

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import ArtifactSuspected, ChangeProposed, ChangeUnsettled
from gloveport.protocol.journal.events.change import Decision
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.change import (
    ChangeDecideParams,
    ChangeDecideResult,
    ChangeDocuments,
    ChangeInfo,
    ChangeListResult,
    ChangePreviewParams,
    ChangePreviewResult,
    EndedHunkInfo,
    HunkInfo,
    Suspected,
    SuspectedPlace,
)
from gloveport.server.commands.documents import SIDES, document_uri
from gloveport.server.commands.house import House
from gloveport.server.commands.hunks import standing
from gloveport.server.commands.once import Once
from gloveport.server.engine.accepting import is_made_link, rule_info, rules_on
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.perform import start as start_effects
from gloveport.server.engine.proposals import places
from gloveport.server.policy.rules.rule import Rule, Verdict
from gloveport.server.session.state import CallStage
from gloveport.server.transports.port import Caller
from gloveport.server.turn.inputs import ApplyRequested
from gloveport.server.workspace.plan import Plan, Selected
from gloveport.server.workspace.proposal import patch_of

DECISION_FILES_MAX: Final = 4_000
DECISION_BYTES_MAX: Final = 3 * 1024 * 1024
"""Of the plan of one decision: with it, and with what its outcome says, one event and one append can be written."""


def _found_in(told: ArtifactSuspected | None) -> Suspected | None:
    if told is None:
        return None
    secrets = tuple(SuspectedPlace(kind=one.kind, line=one.line) for one in told.secrets)
    hints = tuple(SuspectedPlace(kind=one.kind, line=one.line, excerpt=one.excerpt) for one in told.hints)
    return Suspected(secrets=secrets, hints=hints, left_out=told.left_out, looked_at=told.looked_at)


def _info(actor: Actor, change: ChangeProposed, is_kept: Callable[[str], bool], rule: Rule | None) -> ChangeInfo:
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
        turn_id=change.turn_id,
        may_hold_secrets=any(is_kept(path) for path in (change.path, change.renamed_from) if path is not None),
        suspected=_found_in(actor.state.suspected.get(change.change_id)),
        rule=rule_info(rule),
    )


def _ended(actor: Actor, change_id: str | None = None) -> tuple[EndedHunkInfo, ...]:
    """The hunks that are pending no more, of one proposal or of all; those that ended last stand last."""
    return tuple(
        EndedHunkInfo.model_validate(dataclasses.asdict(hunk))
        for hunk in actor.state.ended_hunks.values()
        if change_id in (None, hunk.change_id)
    )


def _is_kept(house: House, actor: Actor) -> Callable[[str], bool]:
    return house.sessions.room.session_rules.reading(actor.state.rules).is_kept


async def listed(house: House, params: SessionParams, caller: Caller) -> ChangeListResult:
    """All pending proposals."""
    actor = await house.sessions.open(params.session_id)
    is_kept = _is_kept(house, actor)
    pending = tuple(actor.state.changes.values())
    rules = await rules_on(actor, pending)
    changes = tuple(_info(actor, change, is_kept, rules.get(change.change_id)) for change in pending)
    return ChangeListResult(changes=changes, ended=_ended(actor))


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
    documents = ChangeDocuments(**{side: document_uri(actor.session_id, change, side) for side in SIDES})
    states = await standing(actor, change)
    rule = (await rules_on(actor, (change,))).get(change.change_id)
    info = _info(actor, change, _is_kept(house, actor), rule)
    hunks = tuple(one.model_copy(update={"state": how.value}) for one, how in zip(info.hunks, states, strict=True))
    info, ended = info.model_copy(update={"hunks": hunks}), _ended(actor, change.change_id)
    return ChangePreviewResult(change=info, ended=ended, diff=shown.diff, patch=patch, documents=documents)


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
        replaces = tuple((each.hunk_digest, each.user_digest) for each in one.replaces)
        chosen.append(Selected(one.change_id, one.digest, one.hunk_digests, replaces))
    return tuple(chosen)


def check_quiet(actor: Actor) -> None:
    """What changes the worktree: not while a call runs in it."""
    turn = actor.state.turn
    if turn is not None and any(call.stage is CallStage.RUNNING for call in turn.calls):
        raise GloveportError(ErrorCode.TURN_BUSY, "a tool is running in the worktree; wait for it or stop it")


def _old_name(change: ChangeProposed) -> tuple[str, ...]:
    return () if change.renamed_from is None else (change.renamed_from,)


async def _check_kinds(actor: Actor, params: ChangeDecideParams) -> None:
    """What no change may touch, or a rule of the user's refuses, is not accepted at all; what runs by itself, or a rule
    asks about, one by one: as things lie now."""
    chosen = [change for one in params.selections if (change := actor.state.changes.get(one.change_id)) is not None]
    ends = {change.path: (change.path, *_old_name(change)) for change in chosen}
    links = {change.path: is_made_link(change) for change in chosen}
    found = await places(actor.workspace, {name: links.get(name, False) for names in ends.values() for name in names})
    never = sorted(path for path, place in found.items() if place.is_never_written)
    if never:
        raise GloveportError(ErrorCode.PROTECTED_PATH, f"{never[0]} is never written by an accept", paths=never)
    rules = await rules_on(actor, chosen)
    ruled = {change.path: rule for change in chosen if (rule := rules.get(change.change_id)) is not None}
    denied = {path: rule for path, rule in sorted(ruled.items()) if rule.verdict is Verdict.deny}
    if denied:
        rule = next(iter(denied.values()))
        words = f"{', '.join(denied)}: the rule {rule.qualified_id} refuses it: {rule.justification} Nothing is written"
        hint = "Reject it, or accept the other files without it. The rules in force: gloveport policy rules."
        raise GloveportError(ErrorCode.POLICY_DENIED, words, hint=hint, paths=list(denied))
    why = {change.path: note for change in chosen if (note := change.runs_by_itself) is not None}
    why |= {path: note for path, names in ends.items() for name in names if (note := found[name].note) is not None}
    why |= {path: rule.justification for path, rule in ruled.items()}
    if why and len(chosen) > 1:
        alone = sorted(why)
        words = f"{', '.join(alone)}: accepted one by one, not together with other files ({why[alone[0]]})"
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
        check_quiet(actor)
    return await decide(actor, "accept", plan, caller, once)


async def reject(house: House, params: ChangeDecideParams, caller: Caller, once: Once) -> ChangeDecideResult:
    """Take the selected proposals out of the worktree."""
    actor = await house.sessions.open(params.session_id)
    check_quiet(actor)
    return await decide(actor, "reject", await actor.workspace.plan_reject(_selected(actor, params)), caller, once)


async def decide(
    actor: Actor, action: Decision, plan: Plan, caller: Caller, once: Once, *, rejects: Container[str] = ()
) -> ChangeDecideResult:
    """Journal the plan as intent, have it carried out, and wait for the outcome. Raises what refused it.

    Of the paths `rejects` an undo or a redo is about rejects alone.
    """
    for words in actor.waiting_applies.values():
        raise GloveportError(ErrorCode.TURN_BUSY, f"an earlier decision comes first: {words}")
    changes = [actor.state.changes.get(one.change_id) for one in plan.decided]
    turns = tuple(dict.fromkeys(change.turn_id for change in changes if change is not None))
    record = replace(plan, turns=turns).as_json()
    if len(plan.decided) > DECISION_FILES_MAX or len(orjson.dumps(record)) > DECISION_BYTES_MAX:
        words = f"{len(plan.decided)} files are too many, or too long, for one decision; nothing was written"
        hint = f"Decide folder by folder, on {DECISION_FILES_MAX} files at most."
        raise GloveportError(ErrorCode.LIMIT, words, hint=hint)
    apply_id = actor.room.new_id("apply")
    paths = tuple(sorted({decided.path for decided in plan.decided}))
    kept = tuple(path for path in paths if path in rejects)
    result = ChangeDecideResult(apply_id=apply_id, paths=paths, in_editors=plan.in_editors, rejects=kept)
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
