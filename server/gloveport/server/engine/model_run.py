"""One request to a model, from intent to its end.

Purpose: stream a reply into inputs of the machine.
Invariant: a request that was begun ends in exactly one of ResponseEnded and RequestFailed, unless the journal refuses.
Must never: retry, or read the arguments of a call.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.text import scrub_surrogates
from gloveport.server.engine.actor import Actor, is_fatal
from gloveport.server.engine.coalesce import Coalescer, coalescing
from gloveport.server.engine.drift import take_over_edits
from gloveport.server.engine.pacing import Passage
from gloveport.server.engine.prompt import model_request, part_bytes, request_bytes
from gloveport.server.models.contract import (
    Accepted,
    ErrorClass,
    ModelError,
    Part,
    PartStream,
    Stop,
    TextDelta,
    UsagePart,
)
from gloveport.server.models.failures import model_error
from gloveport.server.policy.sinks import provider_reader
from gloveport.server.session.state import SessionState
from gloveport.server.turn.effects import CallModel, Effect
from gloveport.server.turn.inputs import (
    ModelCall,
    RequestAccepted,
    RequestFailed,
    ResponseEnded,
    TextArrived,
    Trouble,
)


class _Reply:
    """What has arrived besides text, and how many bytes of words were sent, and arrived."""

    def __init__(self) -> None:
        self.sent_bytes = self.received_bytes = 0
        self.usage: UsagePart | None = None
        self.stop: Stop | None = None


async def call_model(actor: Actor, effect: CallModel, scope: anyio.CancelScope) -> tuple[Effect, ...]:
    """Send the request of the session's state; returns the effects that its end asks for.

    Cancelling `scope` closes the connection; what arrived is kept.
    """
    request_id, reply = effect.request_id, _Reply()
    failure = RequestFailed(request_id, ErrorCode.CANCELLED, "stopped by the user", "")
    with scope:
        try:
            await _ask_on_todays_files(actor, request_id, reply)
        except GloveportError as error:
            if is_fatal(error):
                raise
            trouble = _trouble(error, actor.room.now_us()) if isinstance(error, ModelError) else None
            failure = RequestFailed(request_id, error.code, error.message, error.hint, trouble)
    outcome = _spent(failure, reply.usage) if reply.stop is None else _ended(request_id, reply.stop, reply.usage)
    return await actor.submit(replace(outcome, sent_bytes=reply.sent_bytes, received_bytes=reply.received_bytes))


async def _ask_on_todays_files(actor: Actor, request_id: str, reply: _Reply) -> None:
    """Ask with the user's edits taken over: before the first request, beside any later one, so that a large folder
    costs no time; the next tools run after both."""
    turn = actor.state.turn
    if turn is None or turn.calls_made == 0:
        await take_over_edits(actor)
        await _ask(actor, request_id, reply)
        return
    faults: list[GloveportError] = []

    async def held(call: Callable[[], Awaitable[None]]) -> None:
        try:
            await call()
        except GloveportError as error:
            faults.append(error)

    async with anyio.create_task_group() as beside:
        beside.start_soon(held, partial(take_over_edits, actor))
        await held(partial(_ask, actor, request_id, reply))
    if faults:
        raise next((fault for fault in faults if is_fatal(fault)), faults[0])


def _spent(failure: RequestFailed, usage: UsagePart | None) -> RequestFailed:
    if usage is None:
        return failure
    return replace(
        failure,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
    )


def _trouble(error: ModelError, now_us: int) -> Trouble:
    pause_us = None if error.retry_after_s is None else math.ceil(error.retry_after_s * 1e6)
    return Trouble(error.error_class.value, now_us, pause_us, error.provider_request_id)


async def _ask(actor: Actor, request_id: str, reply: _Reply) -> None:
    """Send the request once it may be sent. Raises ModelError, also for a stream without an end."""
    state, room = actor.state, actor.room
    _check_reader(state)
    provider = room.providers.provider(state.provider, state.model)
    lane = room.providers.lane(state.provider, state.model)
    await room.toolbox.get_ready()
    async with room.pacing.passage(lane, actor.session_id) as passage:
        request = model_request(state, room.toolbox.specs())
        reply.sent_bytes = request_bytes(request)
        stream = provider.stream(request)
        await _read(actor, request_id, stream, reply, passage)
        if reply.stop is None:
            raise model_error(ErrorClass.TRUNCATED, "the stream ended without an end")


def _check_reader(state: SessionState) -> None:
    """What the user let one provider's model read is not sent to another one. Raises GloveportError."""
    readers = state.label.readers
    if readers is not None and provider_reader(state.provider) not in readers:
        words = f"this conversation holds what {state.provider} may not read ({', '.join(readers) or 'nobody may'})"
        raise GloveportError(
            ErrorCode.POLICY_DENIED, words, hint="Choose the provider that read it, or begin a new session."
        )


async def _read(actor: Actor, request_id: str, stream: PartStream, reply: _Reply, passage: Passage | None) -> None:
    async def write(text: str) -> None:
        await actor.submit(TextArrived(request_id, text))

    async with coalescing(write) as pieces, stream as parts:
        async for part in parts:
            if passage is not None and isinstance(part, Accepted):
                await passage.answered()
            await _take(actor, request_id, part, pieces, reply)


async def _take(actor: Actor, request_id: str, part: Part, pieces: Coalescer, reply: _Reply) -> None:
    reply.received_bytes += part_bytes(part)
    match part:
        case Accepted(provider_request_id):
            await actor.submit(RequestAccepted(request_id, provider_request_id))
        case TextDelta(text):
            await pieces.add(scrub_surrogates(text))
        case UsagePart():
            reply.usage = part
        case Stop():
            reply.stop = part
        case _:
            pass


def _ended(request_id: str, stop: Stop, usage: UsagePart | None) -> ResponseEnded:
    # A reply that was cut at its length limit may end in half a call: such a call is never run.
    calls = () if stop.reason == "length" else stop.calls
    return ResponseEnded(
        request_id=request_id,
        calls=tuple(ModelCall(call.call_id, call.name, scrub_surrogates(call.arguments_json)) for call in calls),
        stop=stop.reason,
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        cached_tokens=usage.cached_tokens if usage else None,
    )
