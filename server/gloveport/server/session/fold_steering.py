"""The fold of messages that wait: in the queue, or for the running turn.

Purpose: what waits, in the order in which it was sent.
Invariant: a message waits in one place at a time.
Must never: deliver; that is the fold of UserMessageAdded.
"""

from dataclasses import replace

from gloveport.protocol.journal.events import SteeringDecided, UserMessageEdited
from gloveport.protocol.journal.events.steering import SteeringKind
from gloveport.server.session.evolve import evolve
from gloveport.server.session.series import Series
from gloveport.server.session.state import SessionState, Steered


def without_waiting(state: SessionState, message_id: str) -> SessionState:
    """The state in which this message does not wait."""
    return evolve(
        state,
        queue=tuple(queued for queued in state.queue if queued.message_id != message_id),
        steering=tuple(waiting for waiting in state.steering if waiting.message_id != message_id),
    )


def goals_with(goals: Series[str], text: str, kind: SteeringKind | None) -> Series[str]:
    """What the user wants, one text a goal: a supplement belongs to the goal before it, a question to none."""
    if kind == "ask":
        return goals
    return goals.with_last(f"{goals[-1]}\n{text}") if kind == "supplement" and goals else goals.plus(text)


def steering_decided(state: SessionState, body: SteeringDecided) -> SessionState:
    """The message waits for the turn; if it was queued, it is not any more."""
    state = without_waiting(state, body.message_id)
    steered = Steered(body.message_id, body.text, body.kind, body.next_turn_id)
    return evolve(state, steering=(*state.steering, steered), unanswered_look="")


def message_edited(state: SessionState, body: UserMessageEdited) -> SessionState:
    """The same message with another text, in its place."""
    return evolve(
        state,
        queue=tuple(replace(q, text=body.text) if q.message_id == body.message_id else q for q in state.queue),
        steering=tuple(replace(w, text=body.text) if w.message_id == body.message_id else w for w in state.steering),
    )
