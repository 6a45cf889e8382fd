"""How every simulated session begins.

Purpose: the events that the commands write before the machine has its first input.
Invariant: no clock, no randomness.
"""

from gloveport.protocol.journal import events as ev
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import SessionState


def first_events() -> tuple[ev.EventBody, ...]:
    """Creation of the session `s1`."""
    return (
        ev.SessionCreated(
            session_id="s1",
            workspace_id="w1",
            root="/repo",
            title="Mend the test",
            trust_level="restricted",
            sandbox="memory",
            provider="scripted",
            model="script",
            model_label="Script",
        ),
    )


def opened() -> SessionState:
    """The state of a fresh session."""
    state = SessionState()
    for body in first_events():
        state = fold_event(state, body)
    return state
