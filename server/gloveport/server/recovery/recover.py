"""One session after a restart.

Purpose: check its record, find out the fate of everything that was under way, tell the user, and let it go on.
Invariant: findings are read-only; the summary is written before the turn goes on; every open end is looked at.
Must never: start anything by itself; what is due is returned as effects.
"""

import logging
from collections.abc import Iterable
from typing import Final

import anyio

from gloveport.protocol.errors import GloveportError
from gloveport.protocol.journal.events import DriftDetected
from gloveport.server.engine.actor import Actor, is_fatal
from gloveport.server.engine.apply_run import settle_apply
from gloveport.server.engine.tool_run import card_holds, discard_run, reconcile_call
from gloveport.server.journal.records import Loss
from gloveport.server.recovery.faults import tell_faults
from gloveport.server.recovery.findings import Card, Drift, Findings
from gloveport.server.recovery.mended import doubted
from gloveport.server.recovery.requests import find_fate
from gloveport.server.recovery.summary import summarise
from gloveport.server.session.state import Call, CallStage, SessionState
from gloveport.server.turn.effects import Effect
from gloveport.server.turn.inputs import ApprovalRechecked, Input, RecordLost, TakenUp
from gloveport.server.turn.machine import pending_effects

DRIFT_PATHS_MAX: Final = 100
DISCARD_S: Final = 15.0
_log = logging.getLogger("gloveport.recovery")


def needs_recovery(state: SessionState) -> bool:
    """Whether something was under way when the session was last written."""
    return state.turn is not None or bool(state.applying)


async def recover(actor: Actor, loss: Loss | None = None, mended: str = "") -> tuple[Effect, ...]:
    """Settle what was under way, and tell a loss and what was `mended`; returns the effects that are due.

    Raises GloveportError (NOT_SAVED, DATA_FULL; SESSION_READ_ONLY for a loss that cannot be written into it).
    """
    state = actor.state
    if not state.read_only:
        await tell_faults(actor)
    if actor.state.read_only or not needs_recovery(state):
        if loss is not None or (mended and not actor.state.read_only):
            await actor.record((summarise(state, Findings(), loss, mended),))
        return ()
    findings = await _look(actor, mended) if loss is None else Findings(drift=await _drift(actor))
    drift = findings.drift
    told = (DriftDetected(paths=drift.paths, paths_total=drift.total),) if drift is not None and drift.total else ()
    await actor.record((*told, summarise(state, findings, loss, mended)))
    return await _settle(actor, findings, loss)


async def _look(actor: Actor, mended: str) -> Findings:
    """Find everything out; nothing is changed."""
    state = actor.state
    calls = tuple([await reconcile_call(actor, call) for call in _running(state)])
    if mended:
        calls = tuple(doubted(call, state) for call in calls)
    request = await find_fate(actor)
    return Findings(request, calls, await _cards(actor), await _drift(actor))


def _running(state: SessionState) -> tuple[Call, ...]:
    calls = state.turn.calls if state.turn is not None else ()
    return tuple(call for call in calls if call.stage is CallStage.RUNNING)


async def _cards(actor: Actor) -> tuple[Card, ...]:
    found = []
    for asked in actor.state.approvals.values():
        call = actor.state.call(asked.call_id)
        holds = await card_holds(actor, asked, call) if call is not None else None
        found.append(Card(asked.approval_id, holds))
    return tuple(found)


async def _drift(actor: Actor) -> Drift | None:
    """What the user changed in the folder since it was last looked at; None outside a turn."""
    if actor.state.turn is None:
        return None
    try:
        paths = tuple(one.path for one in await actor.workspace.drift())
    except GloveportError as error:
        if is_fatal(error):
            raise
        return Drift((), 0, error.message)
    return Drift(paths[:DRIFT_PATHS_MAX], len(paths), "")


async def _settle(actor: Actor, findings: Findings, loss: Loss | None) -> tuple[Effect, ...]:
    """Bring the findings in, one input each, and collect what is due then."""
    effects: list[Effect] = []
    for started in tuple(actor.state.applying.values()):
        effects += await settle_apply(actor, started)
    running = {call.call_id: call for call in _running(actor.state)}
    for given in _inputs(findings, loss):
        effects += await actor.submit(given)
    for call in running.values():
        if actor.state.turn is None or _is_over(actor.state, call):
            await _discard(actor, call)
    effects += [effect for effect in pending_effects(actor.state) if effect not in effects]
    return tuple(effects)


def _is_over(state: SessionState, call: Call) -> bool:
    now = state.call(call.call_id)
    return now is None or now.stage is CallStage.FINISHED


def _inputs(findings: Findings, loss: Loss | None) -> Iterable[Input]:
    if loss is not None:
        yield RecordLost(loss.reason)
    if findings.request is not None:
        yield findings.request
    yield from findings.calls
    yield from (ApprovalRechecked(card.approval_id, holds=False) for card in findings.cards if card.holds is False)
    yield TakenUp()


async def _discard(actor: Actor, call: Call) -> None:
    """Leave nothing behind of a run whose outcome is unknown and stays so; a failure here is no outcome."""
    if call.started is None:
        return
    try:
        with anyio.move_on_after(DISCARD_S):
            await discard_run(actor, call.started)
    except GloveportError as error:
        _log.warning("what %s left could not be removed: %s", call.call_id, error.message)
