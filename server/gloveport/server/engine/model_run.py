"""One request to a model, from intent to its end.

Purpose: stream a reply into inputs of the machine.
Invariant: a request that was begun ends in exactly one of ResponseEnded and RequestFailed, unless the journal refuses.
Must never: retry, or read the arguments of a call.
"""

import anyio

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.text import scrub_surrogates
from gloveport.server.engine.actor import Actor, is_fatal
from gloveport.server.engine.coalesce import Coalescer, coalescing
from gloveport.server.engine.drift import take_over_edits
from gloveport.server.engine.prompt import model_request
from gloveport.server.models.contract import Accepted, PartStream, Stop, TextDelta, UsagePart
from gloveport.server.turn.effects import CallModel, Effect
from gloveport.server.turn.inputs import ModelCall, RequestAccepted, RequestFailed, ResponseEnded, TextArrived


class _Reply:
    """What has arrived besides text."""

    def __init__(self) -> None:
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
            if actor.state.turn is not None and actor.state.turn.calls_made == 0:
                await take_over_edits(actor)
            provider = actor.room.providers.provider(actor.state.provider, actor.state.model)
            stream = provider.stream(model_request(actor.state, actor.room.toolbox.specs()))
            await _read(actor, request_id, stream, reply)
            failure = RequestFailed(request_id, ErrorCode.MODEL_BROKEN, "the stream ended without an end", "")
        except GloveportError as error:
            if is_fatal(error):
                raise
            failure = RequestFailed(request_id, error.code, error.message, error.hint)
    outcome = failure if reply.stop is None else _ended(request_id, reply.stop, reply.usage)
    return await actor.submit(outcome)


async def _read(actor: Actor, request_id: str, stream: PartStream, reply: _Reply) -> None:
    async def write(text: str) -> None:
        await actor.submit(TextArrived(request_id, text))

    async with coalescing(write) as pieces, stream as parts:
        async for part in parts:
            await _take(actor, request_id, part, pieces, reply)


async def _take(actor: Actor, request_id: str, part: object, pieces: Coalescer, reply: _Reply) -> None:
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
