"""Writing a decided change into the user's files.

Purpose: carry out the plan whose intent is on disk, or find out after a crash how far it came.
Invariant: an apply ends as done with its hashes read back, as refused with nothing written, or path by path.
Must never: write what the plan does not name.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import ChangeApplyStarted, ChangeWithdrawn, EventBody, HunkDecided
from gloveport.server.engine.actor import Actor, is_fatal
from gloveport.server.engine.handing import hand_over, take_back
from gloveport.server.engine.labelling import note_labels, written_label
from gloveport.server.engine.looking import look
from gloveport.server.engine.proposals import Origin
from gloveport.server.turn.effects import ApplyChanges, Effect
from gloveport.server.turn.inputs import ApplyDone, ApplyRefused, ApplyUnsettled, Input
from gloveport.server.workspace.applying import Applied
from gloveport.server.workspace.plan import Plan
from gloveport.server.workspace.reconcile import Settled

PATHS_TOLD_MAX: Final = 10
Verb = Literal["accepted", "rejected", "undone"]


def _verb(started: ChangeApplyStarted) -> Verb:
    """What was done with the decided changes; what is taken again is what it was before."""
    match started.action:
        case "accept":
            return "accepted"
        case "reject":
            return "rejected"
        case "redo":
            return "accepted" if Plan.from_json(started.plan).user_steps else "rejected"
        case _:
            return "undone"


async def apply_changes(actor: Actor, effect: ApplyChanges) -> tuple[Effect, ...]:
    """Apply the plan of the started apply."""
    started = actor.state.applying.get(effect.apply_id)
    if started is None:
        return ()
    try:
        plan = Plan.from_json(started.plan)
        await note_labels(actor, plan)
        applied = await _carried_out(actor, plan)
    except GloveportError as error:
        if is_fatal(error):
            raise
        if error.code is ErrorCode.CHANGE_UNSETTLED:
            return await settle_apply(actor, started, _paths_of(error))
        return await _submit(actor, partial(refused, actor, started, str(error.code), error.message))
    return await _submit(actor, partial(done, actor, started, applied))


async def _carried_out(actor: Actor, plan: Plan) -> Applied:
    """First what editors show, which they may refuse, then the files; all of it or nothing, as far as editors allow."""
    if not plan.buffers:
        return await actor.workspace.apply(plan)
    await actor.workspace.check(plan)
    handed = await hand_over(actor, plan)
    try:
        return await actor.workspace.apply(plan)
    except GloveportError:
        await take_back(actor, handed)
        raise


async def _submit(actor: Actor, outcome: Callable[[], Awaitable[Input]]) -> tuple[Effect, ...]:
    async with actor.reviewing:
        return await actor.submit(await outcome())


async def settle_apply(actor: Actor, started: ChangeApplyStarted, suspects: tuple[str, ...] = ()) -> tuple[Effect, ...]:
    """After a restart: finish or take back an apply whose end was not recorded, by hashes alone.

    One that cannot be looked at now is told, stays open and is looked at again. Raises the journal's refusals alone.
    """
    try:
        found = await actor.workspace.settle(Plan.from_json(started.plan), suspects=suspects)
    except GloveportError as error:
        if is_fatal(error):
            raise
        return await _wait(actor, started, error)
    actor.waiting_applies.pop(started.apply_id, None)
    if found.applied is not None:
        return await _submit(actor, partial(done, actor, started, found.applied))
    if found.outcome == "not_done":
        code, words = _why_not(found)
        return await _submit(actor, partial(refused, actor, started, code, words))
    return await _submit(actor, partial(_unsettled, actor, started, found))


def _paths_of(error: GloveportError) -> tuple[str, ...]:
    paths: Any = error.data.get("paths", ())
    return tuple(paths)


def _why_not(found: Settled) -> tuple[str, str]:
    changed = [path for path, holds in found.states.items() if holds == "other"]
    if not changed:
        return ErrorCode.CHANGE_CONFLICT, "this was interrupted before it was whole; no file is changed by it"
    words = f"this was interrupted; of it nothing is left, as {', '.join(changed[:PATHS_TOLD_MAX])} changed meanwhile"
    return ErrorCode.CHANGE_CONFLICT, words


async def _wait(actor: Actor, started: ChangeApplyStarted, error: GloveportError) -> tuple[Effect, ...]:
    words = f"whether this was written is not known yet, and is looked at again: {error.message}"
    if actor.waiting_applies.get(started.apply_id) == words:
        return ()
    actor.waiting_applies[started.apply_id] = words
    return await actor.submit(ApplyUnsettled(started.apply_id, str(error.code), words, {}, waits=True))


async def settle_waiting(actor: Actor) -> tuple[Effect, ...]:
    """Look again at applies whose end could not be found out before."""
    effects: list[Effect] = []
    for apply_id in tuple(actor.waiting_applies):
        started = actor.state.applying.get(apply_id)
        if started is None:
            del actor.waiting_applies[apply_id]
            continue
        effects += await settle_apply(actor, started)
    return tuple(effects)


async def sweep_leftovers(actor: Actor, begun: Iterable[ChangeApplyStarted]) -> None:
    """Remove what ended decisions left beside the files; what cannot be removed now is tried at the next opening."""
    for started in begun:
        if started.apply_id in actor.state.applying or actor.state.read_only:
            continue
        with suppress(GloveportError):
            await actor.workspace.sweep(Plan.from_json(started.plan))


async def done(actor: Actor, started: ChangeApplyStarted, applied: Applied) -> ApplyDone:
    """The outcome of a plan that holds: who decided what, and what is still pending."""
    facts = _decided(started) + await _pending(actor, started, holds=True)
    return ApplyDone(apply_id=started.apply_id, paths=applied.paths, record=applied.record, facts=facts)


async def refused(actor: Actor, started: ChangeApplyStarted, code: str, message: str) -> ApplyRefused:
    """The outcome of a plan of which nothing was written."""
    paths = tuple(sorted(choice["path"] for choice in _choices(started)))
    facts = await _pending(actor, started, holds=False)
    return ApplyRefused(apply_id=started.apply_id, code=code, message=message, paths=paths, facts=facts)


async def _unsettled(actor: Actor, started: ChangeApplyStarted, found: Settled) -> ApplyUnsettled:
    """The outcome of a plan of which a part is left that cannot be taken back."""
    suspects = ", ".join(
        [path for path, holds in found.states.items() if holds in ("after", "suspect")][:PATHS_TOLD_MAX]
    )
    words = f"this was written in part, and what was changed since cannot be taken back: look at {suspects}"
    if Plan.from_json(started.plan).buffers:
        words = f"whether an editor holds a part of this is not known, and no file does: look at {suspects}"
    return ApplyUnsettled(
        apply_id=started.apply_id,
        code=ErrorCode.CHANGE_UNSETTLED,
        message=words,
        states=found.states,
        waits=False,
        facts=await _pending(actor, started, holds=False),
    )


def _choices(started: ChangeApplyStarted) -> list[dict[str, Any]]:
    choices: Any = started.plan.get("decided", [])
    return list(choices)


def _becomes(choice: Mapping[str, Any]) -> Verb | None:
    """Where the hunks of a choice stand after it, where its plan says so."""
    match choice.get("becomes"):
        case "accepted":
            return "accepted"
        case "rejected":
            return "rejected"
        case "undone":
            return "undone"
        case _:
            return None


def _decided(started: ChangeApplyStarted) -> tuple[EventBody, ...]:
    facts: list[EventBody] = []
    for choice in _choices(started):
        facts.append(
            HunkDecided(
                change_id=choice["change_id"],
                path=choice["path"],
                hunk_ids=tuple(choice["hunk_ids"]),
                digests=tuple(choice["digests"]),
                decision=_becomes(choice) or _verb(started),
                by=started.by,
            )
        )
    return tuple(facts)


async def _pending(actor: Actor, started: ChangeApplyStarted, *, holds: bool) -> tuple[EventBody, ...]:
    """What is still pending; when the decision `holds`, what it ended is withdrawn also where no look is possible."""
    state = actor.state
    looked = await look(actor, _origin(actor, started))
    verb = _verb(started)
    reason: Literal["accepted", "rejected", "reverted"] = "reverted" if verb == "undone" else verb
    facts = [
        fact.model_copy(update={"reason": reason})
        if isinstance(fact, ChangeWithdrawn) and fact.reason == "reverted"
        else fact
        for fact in looked.facts
    ]
    if holds and not looked.whole and reason != "reverted":
        told = {fact.change_id for fact in facts if isinstance(fact, ChangeWithdrawn)}
        ended = {one["change_id"]: one["path"] for one in _choices(started) if one["whole"]}
        facts += [
            ChangeWithdrawn(change_id=name, path=path, reason=reason)
            for name, path in ended.items()
            if name in state.changes and name not in told
        ]
    return tuple(facts)


def _origin(actor: Actor, started: ChangeApplyStarted) -> Origin:
    """The call that proposed what is decided here; an undone change comes back under the call it came from."""
    state, label = actor.state, written_label(actor)
    for choice in _choices(started):
        known = state.changes.get(choice["change_id"])
        if known is not None:
            return Origin(known.turn_id, known.goal_revision, known.call_id, label)
    return Origin(started.apply_id, max(1, state.goal_revision), started.apply_id, label)
