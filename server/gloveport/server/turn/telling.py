"""A call of which nobody knows what it did, and what its user says of it.

Purpose: let the user say "treat it as done", or that it did not happen.
Invariant: it is told to the model as the user's word, once a call; the record that nobody knows stays as it is.
Must never: begin or repeat anything, or put words of the call itself into the user's mouth.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import Draft, TurnError

_SAID: Final[Mapping[Literal["done", "not_done"], str]] = MappingProxyType(
    {
        "done": "is to be treated as done. Do not run it again",
        "not_done": "did not take effect. Ask for it again if the task needs it",
    }
)


def tell(draft: Draft, given: inp.TellOutcome) -> None:
    """Note what the user says of a call. Raises TurnError: a turn runs, or the call's outcome is not unknown."""
    if draft.state.turn is not None:
        words = "a turn is running in this session"
        raise TurnError(ErrorCode.TURN_BUSY, words, hint="Stop it, or say it when it has ended.")
    unknown = next((one for one in draft.state.unknowns if one.call_id == given.call_id), None)
    if unknown is None:
        words = f"the outcome of {given.call_id} is not unknown, or it was said already"
        raise TurnError(ErrorCode.TOOL_UNKNOWN, words, hint="gloveport why says how a call ended.")
    number = unknown.call_id.rpartition(".c")[2]
    text = (
        f"[The user says: {unknown.tool}, call {number} of its turn, whose outcome is unknown, {_SAID[given.said]}. "
        "This is the user's word; nobody else knows.]"
    )
    draft.emit(ev.OutcomeTold(call_id=unknown.call_id, tool=unknown.tool, said=given.said, text=text, by=given.by))
