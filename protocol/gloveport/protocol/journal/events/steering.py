"""Facts about what the user says while a turn runs.

Purpose: how a message was read, what it does to the work under way, and what becomes of results that come too late.
Invariant: each message that is decided here is later delivered or goes back to the user, once.
Must never: leave a choice that was made by rule looking like the user's own.
"""

from typing import Literal

from gloveport.protocol.journal.events.base import CallBody, EventBody, Record, TurnBody

SteeringKind = Literal["supplement", "correct", "replace", "ask"]
"""What a message means for the goal: adds to it, changes it, takes its place, or only asks."""

StopManner = Literal["stopped", "finishes", "awaited"]
"""How a running call ends early: its programs are ended, its one write is finished, or its own end is waited for."""


class CallFate(Record):
    """What a message does to one call that has not ended."""

    call_id: str
    fate: Literal["goes on", "withdrawn", "stopped", "finishes", "awaited"]


class SteeringDecided(TurnBody):
    """A message reached the running turn; `goal_revision` is the one before it.

    `rule` says by which rule the kind was read, empty where the user chose it. `delivery`: `boundary` = when what is
    under way has ended, `next turn` = this turn ends first, and the message begins the turn `next_turn_id`.
    """

    message_id: str
    verb: Literal["steer", "interrupt"]
    kind: SteeringKind
    chosen_by: Literal["user", "rule"]
    rule: str
    text: str
    stream: Literal["kept", "cancelled", "none"]
    calls: tuple[CallFate, ...]
    plan: Literal["kept", "superseded", "none"]
    queue: Literal["kept", "left"]
    delivery: Literal["boundary", "next turn"]
    next_turn_id: str | None
    words: str
    by: str


class UserMessageEdited(EventBody):
    """A message that still waits has another text."""

    message_id: str
    text: str


class ToolStopRequested(CallBody):
    """A running call is to end early, in the manner that its stop class allows; `words` are for the user."""

    manner: StopManner
    words: str


class ResultSuperseded(CallBody):
    """The call ended after its goal was changed: its result is kept and shown, and nothing follows from it.

    `left_out` names the facts of the result that were not taken.
    """

    left_out: tuple[str, ...]
