"""Hints at injections, as facts.

Purpose: look at what a call brought from outside or from the workspace, and record what looks like an injection.
Invariant: a hint is recorded with the result it is about, and changes neither.
Must never: keep a result from being told, or be read for a decision.
"""

from typing import Final

from gloveport.protocol.journal.events import Hint, InjectionSuspected
from gloveport.server.policy.hints import suspicions
from gloveport.server.session.state import Call

_OF_OURS: Final = frozenset({"update_plan"})
"""Tools whose results are the model's own words."""


def hint_facts(call: Call, turn_id: str, text: str) -> tuple[InjectionSuspected, ...]:
    """What a result that the model is told looks like; nothing for most."""
    if call.tool in _OF_OURS:
        return ()
    found, left_out = suspicions(text)
    if not found:
        return ()
    hints = tuple(Hint(kind=one.kind, line=one.line, excerpt=one.excerpt) for one in found)
    return (
        InjectionSuspected(
            turn_id=turn_id,
            goal_revision=call.goal_revision,
            call_id=call.call_id,
            tool=call.tool,
            hints=hints,
            left_out=left_out,
        ),
    )
