"""Writing a decided change into the user's files.

Purpose: carry out the plan whose intent is on disk, or find out after a crash how far it came.
Invariant: an apply ends as done with its hashes read back, or as refused with nothing written.
Must never: write what the plan does not name.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import ChangeApplyStarted, ChangeWithdrawn, EventBody, HunkDecided
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.server.engine.actor import FATAL, Actor
from gloveport.server.engine.proposals import Origin, changed_facts
from gloveport.server.session.state import SessionState
from gloveport.server.turn.effects import ApplyChanges, Effect
from gloveport.server.turn.inputs import ApplyDone, ApplyRefused
from gloveport.server.workspace.applying import Applied
from gloveport.server.workspace.plan import Plan

_REASONS: Final = MappingProxyType({"accept": "accepted", "reject": "rejected", "undo": "reverted"})
_DECISIONS: Final[Mapping[str, Literal["accepted", "rejected", "undone"]]] = MappingProxyType(
    {
        "accept": "accepted",
        "reject": "rejected",
        "undo": "undone",
    }
)


async def apply_changes(actor: Actor, effect: ApplyChanges) -> tuple[Effect, ...]:
    """Apply the plan of the started apply."""
    started = actor.state.applying.get(effect.apply_id)
    if started is None:
        return ()
    try:
        applied = await actor.workspace.apply(Plan.from_json(started.plan))
    except GloveportError as error:
        if error.code in FATAL:
            raise
        return await _submit_refused(actor, started, str(error.code), error.message)
    return await _submit_done(actor, started, applied)


async def _submit_done(actor: Actor, started: ChangeApplyStarted, applied: Applied) -> tuple[Effect, ...]:
    async with actor.reviewing:
        return await actor.submit(await done(actor, started, applied))


async def _submit_refused(actor: Actor, started: ChangeApplyStarted, code: str, message: str) -> tuple[Effect, ...]:
    async with actor.reviewing:
        return await actor.submit(await refused(actor, started, code, message))


async def settle_apply(actor: Actor, started: ChangeApplyStarted) -> tuple[Effect, ...]:
    """After a restart: finish or roll back an apply whose end was not recorded, by hashes alone."""
    plan = Plan.from_json(started.plan)
    found = await actor.workspace.reconcile(plan)
    if found.finding in ("done", "partial"):
        return await _submit_done(actor, started, await actor.workspace.finish(plan))
    words = "the daemon ended before this was written; nothing was changed"
    if found.finding == "unknown":
        words = f"a file is neither as before nor as intended, so nothing more was written: {found.words}"
    return await _submit_refused(actor, started, ErrorCode.CHANGE_CONFLICT, words)


async def done(actor: Actor, started: ChangeApplyStarted, applied: Applied) -> ApplyDone:
    """The outcome of a plan that holds: who decided what, and what is still pending."""
    facts = _decided(started) + await _pending(actor, started)
    return ApplyDone(apply_id=started.apply_id, paths=applied.paths, record=applied.record, facts=facts)


async def refused(actor: Actor, started: ChangeApplyStarted, code: str, message: str) -> ApplyRefused:
    """The outcome of a plan of which nothing was written."""
    paths = tuple(sorted(choice["path"] for choice in _choices(started)))
    facts = await _pending(actor, started)
    return ApplyRefused(apply_id=started.apply_id, code=code, message=message, paths=paths, facts=facts)


def _choices(started: ChangeApplyStarted) -> list[dict[str, Any]]:
    choices: Any = started.plan.get("decided", [])
    return list(choices)


def _decided(started: ChangeApplyStarted) -> tuple[EventBody, ...]:
    facts: list[EventBody] = []
    for choice in _choices(started):
        facts.append(
            HunkDecided(
                change_id=choice["change_id"],
                path=choice["path"],
                hunk_ids=tuple(choice["hunk_ids"]),
                digests=tuple(choice["digests"]),
                decision=_DECISIONS[started.action],
                by=started.by,
            )
        )
    return tuple(facts)


async def _pending(actor: Actor, started: ChangeApplyStarted) -> tuple[EventBody, ...]:
    state = actor.state
    origin = _origin(state, started)
    facts = await changed_facts(state, actor.workspace, origin)
    reason = _REASONS[started.action]
    return tuple(
        fact.model_copy(update={"reason": reason}) if isinstance(fact, ChangeWithdrawn) else fact for fact in facts
    )


def _origin(state: SessionState, started: ChangeApplyStarted) -> Origin:
    """The call that proposed what is decided here; an undone change comes back under the call it came from."""
    for choice in _choices(started):
        known = state.changes.get(choice["change_id"])
        if known is not None:
            return Origin(known.turn_id, known.goal_revision, known.call_id, known.label)
    label = LabelRecord(integrity=1, readers=None, provenance=("workspace",))
    return Origin(started.apply_id, max(1, state.goal_revision), started.apply_id, label)
