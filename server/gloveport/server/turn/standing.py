"""Where a session stands, in a sentence or two.

Purpose: the answer to "how far are you?" that needs no model.
Invariant: a function of the state; it claims nothing that the state does not hold.
Must never: guess how long something will take.
"""

from collections.abc import Iterator

from gloveport.protocol.text import counted
from gloveport.server.session.state import Phase, SessionState
from gloveport.server.turn.stopping import running_calls


def standing_words(state: SessionState) -> str:
    """What runs, what waits, how far the plan is."""
    return " ".join(_sentences(state))


def _sentences(state: SessionState) -> Iterator[str]:
    turn = state.turn
    if turn is None:
        yield "Nothing runs."
    elif state.phase is Phase.STOPPING:
        yield "It is stopping."
    elif state.approvals:
        yield f"It waits for your answer to {counted(len(state.approvals), 'question')}."
    elif turn.request is not None:
        yield "The model is answering."
    elif turn.retry is not None:
        yield f"The model is asked again after a pause, attempt {turn.retry.attempt} of {turn.retry.attempts_max}."
    elif turn.compaction is not None:
        yield "The conversation is being shortened for the model."
    else:
        running = [call.started.title for call in running_calls(turn) if call.started is not None]
        yield f"It runs: {', '.join(running)}." if running else "A call is being looked at before it runs."
    steps = [item for item in state.plan if item.state not in ("dropped", "superseded")]
    if steps:
        yield f"{sum(item.state == 'done' for item in steps)} of {len(steps)} steps of the plan are done."
    if state.changes:
        yield f"Proposed: {counted(len(state.changes), 'file')}."
