"""turn/*, tool/why: messages, stop, and why a call ended as it did.

Purpose: the handlers of turns.
Invariant: an accepted message is on disk when it is answered.
Must never: wait for a turn.
"""

from types import MappingProxyType
from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.ids import session_stream
from gloveport.protocol.journal.events import (
    EventBody,
    PolicyDecided,
    ToolCallProposed,
    ToolExecutionFinished,
    ToolExecutionStarted,
    ToolReconciled,
)
from gloveport.protocol.text import scrub_surrogates
from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.turn import (
    TurnCancelParams,
    TurnCancelResult,
    TurnStartParams,
    TurnStartResult,
    TurnUnqueueParams,
    WhyParams,
    WhyResult,
)
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.folding import body_of
from gloveport.server.engine.perform import start as start_effects
from gloveport.server.journal.records import ClientRequest
from gloveport.server.session.state import SessionState
from gloveport.server.transports.port import Caller
from gloveport.server.turn.inputs import CancelTurn, SendMessage, UnqueueMessage

READ_EVENTS = 500
READ_BYTES = 4 * 1024 * 1024

_HINTS: Final = MappingProxyType(
    {
        "denied": "Allow it when asked, or ask for another way.",
        "timeout": "Give it more time, or narrow what it runs.",
        "oom": "It used more memory than its limit; narrow what it runs.",
        "policy": "The sandbox refused what it tried; see the evidence.",
        "lost": "Whether it took effect is unknown; look before you run it again.",
        "unknown": "Whether it took effect is unknown; look before you run it again.",
    }
)


async def start(house: House, params: TurnStartParams, caller: Caller, once: Once) -> TurnStartResult:
    """Deliver or queue a message."""
    actor = await house.sessions.open(params.session_id)
    new_id = house.sessions.room.new_id
    message_id, turn_id = new_id("message"), new_id("turn")
    told: list[TurnStartResult] = []

    def answer(decided: SessionState) -> ClientRequest:
        queued = decided.turn is None or decided.turn.turn_id != turn_id
        told.append(TurnStartResult(turn_id=None if queued else turn_id, message_id=message_id, queued=queued))
        return once.request(told[0])

    given = SendMessage(message_id, turn_id, scrub_surrogates(params.text), params.queue)
    start_effects(actor, await actor.submit(given, answer))
    return told[0]


async def unqueue(house: House, params: TurnUnqueueParams, caller: Caller, once: Once) -> Empty:
    """Take a waiting message back."""
    actor = await house.sessions.open(params.session_id)
    start_effects(actor, await actor.submit(UnqueueMessage(params.message_id), once.request(Empty())))
    return Empty()


async def cancel(house: House, params: TurnCancelParams, caller: Caller, once: Once) -> TurnCancelResult:
    """Stop the running turn; answered as soon as the stop is on disk."""
    actor = await house.sessions.open(params.session_id)
    turn = actor.state.turn
    if turn is None and params.turn_id is None:
        return TurnCancelResult(turn_id=None)
    result = TurnCancelResult(turn_id=turn.turn_id if turn is not None else None)
    given = CancelTurn(result.turn_id if params.turn_id is None else params.turn_id, caller.client_name or "client")
    try:
        start_effects(actor, await actor.submit(given, once.request(result)))
    except GloveportError as error:
        if params.turn_id is None and error.code is ErrorCode.TURN_MISMATCH:
            return TurnCancelResult(turn_id=None)  # it ended by itself meanwhile: nothing is left to stop
        raise
    return result


async def why(house: House, params: WhyParams, caller: Caller) -> WhyResult:
    """The decision, the evidence of the outcome, and what can be done."""
    actor = await house.sessions.open(params.session_id)
    found = await _facts_of(house, actor, params.call_id)
    if not found:
        raise GloveportError(
            ErrorCode.TOOL_UNKNOWN, f"there is no call {params.call_id!r} in this session", hint="See gloveport show."
        )
    tool = next((body.tool for body in found if isinstance(body, ToolCallProposed)), "")
    decisions = [
        f"{body.verdict} ({body.risk} risk): {body.reason} [{', '.join(body.rule_ids)}]"
        for body in found
        if isinstance(body, PolicyDecided)
    ]
    ended = [body for body in found if isinstance(body, ToolExecutionFinished)]
    notes = [f"{body.finding}: {body.evidence}" for body in found if isinstance(body, ToolReconciled)]
    began = any(isinstance(body, ToolExecutionStarted) for body in found)
    outcome = ended[-1].outcome if ended else ("running" if began else "waiting")
    return WhyResult(
        call_id=params.call_id,
        tool=tool,
        decision=" then ".join(decisions) or "not judged yet",
        outcome=outcome,
        evidence="; ".join([*notes, *(body.evidence for body in ended)]),
        hint=_HINTS.get(outcome, ""),
    )


async def _facts_of(house: House, actor: Actor, call_id: str) -> list[EventBody]:
    stream, after = session_stream(actor.session_id), 0
    found: list[EventBody] = []
    while events := await house.sessions.room.journal.read(stream, after, READ_EVENTS, READ_BYTES):
        after = events[-1].seq
        for event in events:
            body = body_of(event)
            if body is not None and getattr(body, "call_id", None) == call_id:
                found.append(body)
    return found
