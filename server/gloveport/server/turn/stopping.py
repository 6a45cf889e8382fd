"""Ending early what runs: each call as its stop class allows.

Purpose: one place that says, in the record and to the user, how a running call ends when it is not wanted any more.
Invariant: a call is asked once in the record; asking the world again after a restart is harmless.
Must never: promise that something is dead that is only waited for.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.steering import StopManner
from gloveport.server.session.state import Call, CallStage, Turn
from gloveport.server.turn.draft import Draft
from gloveport.server.turn.effects import StopTool

MANNERS: Final[Mapping[str, StopManner]] = MappingProxyType(
    {"killable": "stopped", "atomic": "finishes", "opaque": "awaited"}
)
_WORDS: Final[Mapping[StopManner, str]] = MappingProxyType(
    {
        "stopped": "is being stopped",
        "finishes": "finishes its one write, which is then looked at; you decide on it as on any change",
        "awaited": "can't be stopped halfway; its end is waited for, and nothing else starts",
    }
)


def running_calls(turn: Turn) -> tuple[Call, ...]:
    """The calls that run now."""
    return tuple(call for call in turn.calls if call.stage is CallStage.RUNNING)


def manner_of(call: Call) -> StopManner:
    """How a running call ends early."""
    return MANNERS[call.started.stop_class if call.started is not None else "killable"]


def stop_words(call: Call) -> str:
    """What is said of a running call that is to end early."""
    title = call.started.title if call.started is not None else call.tool
    return f"{title}: {_WORDS[manner_of(call)]}"


def stop_running(draft: Draft) -> None:
    """Ask everything that runs to end early."""
    for call in running_calls(draft.turn):
        if not call.stop_requested:
            draft.emit(
                ev.ToolStopRequested(
                    turn_id=draft.turn.turn_id,
                    goal_revision=call.goal_revision,
                    call_id=call.call_id,
                    manner=manner_of(call),
                    words=stop_words(call),
                )
            )
        draft.need(StopTool(call.call_id))
