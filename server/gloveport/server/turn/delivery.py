"""Messages that wait: into the turn, or back to the user.

Purpose: the two ways in which waiting ends.
Invariant: a message leaves its place in the step that delivers or returns it, so none is lost between the two.
Must never: deliver into a turn that was stopped.
"""

from gloveport.protocol.journal import events as ev
from gloveport.server.session.state import USER_LABEL
from gloveport.server.turn.draft import Draft


def deliver_steering(draft: Draft) -> None:
    """Everything that was said to the running turn becomes part of it, in the order in which it was said."""
    turn = draft.turn
    for waiting in draft.state.steering:
        draft.emit(
            ev.UserMessageAdded(
                turn_id=turn.turn_id,
                goal_revision=turn.goal_revision,
                message_id=waiting.message_id,
                text=waiting.text,
                label=USER_LABEL,
            )
        )


def return_steering(draft: Draft, reason: str, *, but: str = "") -> None:
    """What was said to the turn goes back to the user, `but` the message of that id."""
    for waiting in draft.state.steering:
        if waiting.message_id != but:
            draft.emit(ev.UserMessageUnqueued(message_id=waiting.message_id, text=waiting.text, reason=reason))


def return_all(draft: Draft, reason: str) -> None:
    """Everything that waits goes back to the user."""
    return_steering(draft, reason)
    for queued in draft.state.queue:
        draft.emit(ev.UserMessageUnqueued(message_id=queued.message_id, text=queued.text, reason=reason))
