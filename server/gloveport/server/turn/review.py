"""Decisions about proposed changes.

Purpose: intent before the first byte, outcome after the last one was read back.
Invariant: one apply at a time in a session; every started apply ends as applied, refused, or told path by path.
Must never: write a decision before its outcome is known.
"""

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import CallStage
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import Draft, TurnError
from gloveport.server.turn.effects import ApplyChanges


def requested(draft: Draft, given: inp.ApplyRequested) -> None:
    """Write the intent; the engine applies once it is on disk."""
    if draft.state.applying:
        hint = "Wait until it is written, then decide again."
        raise TurnError(ErrorCode.TURN_BUSY, "another decision about changes is being written", hint=hint)
    turn = draft.state.turn
    if given.action != "accept" and turn is not None and any(call.stage is CallStage.RUNNING for call in turn.calls):
        hint = "Wait for it or stop it, then decide again."
        raise TurnError(ErrorCode.TURN_BUSY, "a tool is running in the worktree", hint=hint)
    draft.emit(ev.ChangeApplyStarted(apply_id=given.apply_id, action=given.action, plan=dict(given.plan), by=given.by))
    draft.need(ApplyChanges(given.apply_id))


def done(draft: Draft, given: inp.ApplyDone) -> None:
    """The files hold what the plan said."""
    started = draft.state.applying.get(given.apply_id)
    if started is None:
        return
    draft.emit(
        ev.ChangeApplied(
            apply_id=given.apply_id,
            action=started.action,
            paths=given.paths,
            record=dict(given.record),
            by=started.by,
        )
    )
    draft.emit_all(given.facts)


def refused(draft: Draft, given: inp.ApplyRefused) -> None:
    """Nothing was written."""
    started = draft.state.applying.get(given.apply_id)
    if started is None:
        return
    draft.emit(
        ev.ChangeRefused(
            apply_id=given.apply_id,
            action=started.action,
            code=given.code,
            message=given.message,
            paths=given.paths,
        )
    )
    draft.emit_all(given.facts)


def unsettled(draft: Draft, given: inp.ApplyUnsettled) -> None:
    """Not known yet, or neither whole nor nothing."""
    started = draft.state.applying.get(given.apply_id)
    if started is None:
        return
    states = tuple(ev.PathState(path=path, holds=holds) for path, holds in sorted(given.states.items()))
    draft.emit(
        ev.ChangeUnsettled(
            apply_id=given.apply_id,
            action=started.action,
            code=given.code,
            message=given.message,
            states=states,
            waits=given.waits,
        )
    )
    draft.emit_all(given.facts)
