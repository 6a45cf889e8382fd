"""turn/*: what the user types, and stop.

Purpose: the handlers of turns and of messages to them.
Invariant: an accepted message is on disk when it is answered; the answer says what was decided, also when it is asked
    for again.
Must never: wait for a turn.
"""

from typing import Final

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import SteeringDecided, ToolStopRequested
from gloveport.protocol.text import scrub_surrogates
from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.turn import (
    TurnCancelParams,
    TurnCancelResult,
    TurnEditParams,
    TurnInterruptParams,
    TurnQueueParams,
    TurnQueueResult,
    TurnStartParams,
    TurnStartResult,
    TurnSteerParams,
    TurnSteerResult,
    TurnUnqueueParams,
)
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.engine.actor import Actor
from gloveport.server.engine.perform import start as start_effects
from gloveport.server.journal.records import ClientRequest
from gloveport.server.transports.port import Caller
from gloveport.server.turn.draft import Step
from gloveport.server.turn.inputs import (
    CancelTurn,
    EditMessage,
    InterruptMessage,
    SendMessage,
    SteerMessage,
    UnqueueMessage,
)

_ONE_OF_TWO: Final = "give either text, or messageId of a queued message"


async def start(house: House, params: TurnStartParams, caller: Caller, once: Once) -> TurnStartResult:
    """Begin a turn."""
    actor = await house.sessions.open(params.session_id)
    new_id = house.sessions.room.new_id
    result = TurnStartResult(turn_id=new_id("turn"), message_id=new_id("message"))
    given = SendMessage(result.message_id, result.turn_id, scrub_surrogates(params.text), queue=False)
    start_effects(actor, await actor.submit(given, once.request(result)))
    return result


async def queue(house: House, params: TurnQueueParams, caller: Caller, once: Once) -> TurnQueueResult:
    """Let a message wait for the end of the turn."""
    actor = await house.sessions.open(params.session_id)
    new_id = house.sessions.room.new_id
    message_id, turn_id = new_id("message"), new_id("turn")
    told: list[TurnQueueResult] = []

    def answer(decided: Step) -> ClientRequest:
        turn, waiting = decided.state.turn, len(decided.state.queue)
        began = turn is not None and turn.turn_id == turn_id
        position = None if began else waiting
        told.append(TurnQueueResult(turn_id=turn_id if began else None, message_id=message_id, position=position))
        return once.request(told[0])

    given = SendMessage(message_id, turn_id, scrub_surrogates(params.text), queue=True)
    start_effects(actor, await actor.submit(given, answer))
    return told[0]


def _message(house: House, text: str | None, message_id: str | None) -> tuple[str, str | None]:
    """The id of the message and its text, null for a queued one. Raises INVALID_PARAMS."""
    if (text is None) == (message_id is None):
        raise GloveportError(ErrorCode.INVALID_PARAMS, _ONE_OF_TWO)
    if message_id is not None:
        return message_id, None
    return house.sessions.room.new_id("message"), scrub_surrogates(text or "")


async def steer(house: House, params: TurnSteerParams, caller: Caller, once: Once) -> TurnSteerResult:
    """Say something to the running turn."""
    actor = await house.sessions.open(params.session_id)
    message_id, text = _message(house, params.text, params.message_id)
    given = SteerMessage(message_id, params.expected_turn_id, text, params.kind, caller.client_name or "client")
    return await _decided(actor, given, once)


async def interrupt(house: House, params: TurnInterruptParams, caller: Caller, once: Once) -> TurnSteerResult:
    """Stop the running turn and begin the next one with this."""
    actor = await house.sessions.open(params.session_id)
    message_id, text = _message(house, params.text, params.message_id)
    turn_id, by = house.sessions.room.new_id("turn"), caller.client_name or "client"
    given = InterruptMessage(message_id, turn_id, params.expected_turn_id, text, by)
    return await _decided(actor, given, once)


async def _decided(actor: Actor, given: SteerMessage | InterruptMessage, once: Once) -> TurnSteerResult:
    """Decide, and answer with what was decided."""
    told: list[TurnSteerResult] = []

    def answer(decided: Step) -> ClientRequest:
        body = next(body for body in decided.events if isinstance(body, SteeringDecided))
        told.append(
            TurnSteerResult(
                turn_id=body.next_turn_id or body.turn_id,
                message_id=body.message_id,
                kind=body.kind,
                chosen_by=body.chosen_by,
                words=body.words,
            )
        )
        return once.request(told[0])

    start_effects(actor, await actor.submit(given, answer))
    return told[0]


async def edit(house: House, params: TurnEditParams, caller: Caller, once: Once) -> Empty:
    """Give a waiting message another text."""
    actor = await house.sessions.open(params.session_id)
    given = EditMessage(params.message_id, scrub_surrogates(params.text))
    start_effects(actor, await actor.submit(given, once.request(Empty())))
    return Empty()


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
    told: list[TurnCancelResult] = []

    def answer(decided: Step) -> ClientRequest:
        words = " ".join(body.words + "." for body in decided.events if isinstance(body, ToolStopRequested))
        told.append(TurnCancelResult(turn_id=turn.turn_id if turn is not None else None, words=words))
        return once.request(told[0])

    stopped = params.turn_id or (turn.turn_id if turn is not None else None)
    try:
        start_effects(actor, await actor.submit(CancelTurn(stopped, caller.client_name or "client"), answer))
    except GloveportError as error:
        if params.turn_id is None and error.code is ErrorCode.TURN_MISMATCH:
            return TurnCancelResult(turn_id=None)  # it ended by itself meanwhile: nothing is left to stop
        raise
    return told[0]
