"""A session that stands still for safety, and how it goes on.

Purpose: what a frozen session refuses, the freeze that no call asked for, and the thaw.
Invariant: while a session is frozen no turn begins and no file of the user's is written; looking at it goes on.
Must never: thaw by itself, or begin what waited when it thaws.
"""

from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import SessionState
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.calls import FROZEN_BY, stop_turn
from gloveport.server.turn.draft import Draft, TurnError

WAITS_FOR_THAW: Final = (inp.SendMessage, inp.SteerMessage, inp.InterruptMessage, inp.ApplyRequested)
"""Inputs that would begin work or write the user's files."""


def frozen_refusal(state: SessionState) -> TurnError:
    """What is said to whoever would go on with a frozen session."""
    return TurnError(ErrorCode.SESSION_FROZEN, f"the session is frozen: {state.frozen_words}")


def freeze(draft: Draft, given: inp.FreezeSession) -> None:
    """Let the session stand still, and stop what runs of it; one that is frozen stays so for its first reason."""
    if draft.state.frozen:
        return
    told = ev.SessionFrozen(freeze_id=given.freeze_id, call_id="", evidence=given.evidence, words=given.words)
    draft.emit(told)
    if draft.state.turn is not None and draft.turn.cancelled_by is None:
        stop_turn(draft, FROZEN_BY)


def thaw(draft: Draft, given: inp.ThawSession) -> None:
    """Let the session go on; nothing begins by it. Raises TurnError where it is not frozen."""
    if not draft.state.frozen:
        raise TurnError(ErrorCode.TURN_MISMATCH, "the session is not frozen", hint="Nothing needs to be done.")
    draft.emit(ev.SessionThawed(freeze_id=draft.state.frozen, by=given.by))
