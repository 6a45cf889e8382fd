"""Reading the events of an accepted answer.

Purpose: server-sent events of one response as plain objects, and the reader's contract that eats them.
Invariant: an event is given whole or not at all; once the reply is complete only a short, bounded tail is read,
    so that usage that comes last is seen and the connection can serve again.
Must never: know what the events of a provider mean, beyond the end mark.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final, Protocol

import anyio
import orjson

from gloveport.server.models.contract import ErrorClass, ModelError, Part, Stop
from gloveport.server.models.failures import bound_words, classify_event, model_error

END_MARK: Final = "[DONE]"
EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
TAIL_EVENTS_MAX: Final = 64
_EVENT_STREAM: Final = "text/event-stream"


class Reader(Protocol):
    """Pure: turns the events of one reply into parts."""

    @property
    def complete(self) -> bool:
        """Whether the provider said that the reply ends here."""

    def read(self, event: Mapping[str, object]) -> Iterable[Part]:
        """Parts of one event, none of them `Accepted` or `Stop`. Raises `ModelError`."""

    def finish(self) -> Stop:
        """The end; called once, only when complete."""


async def read_events(response: Any, reader: Reader, tail_wait_s: float) -> AsyncGenerator[Mapping[str, object], None]:
    """The events of a response (of httpx2) until `reader` is complete, and then what follows within the tail's
    bounds. Raises `ModelError` for an answer that is no event stream, and what the library raises.
    """
    import httpx2

    await _demand_event_stream(response)
    response.encoding = "utf-8"
    async with aclosing(aiter(httpx2.EventSource(response, EVENT_BYTES_MAX))) as source:  # type: ignore[type-var]  # - it is a generator
        async for sse in source:
            if sse.data == END_MARK:
                break
            if not sse.data:
                continue
            yield parse_event(sse.data)
            if reader.complete:
                break
        for event in await _read_tail(source, tail_wait_s):
            yield event


def parse_event(data: str) -> Mapping[str, object]:
    """The object of one event. Raises `ModelError` (malformed) for JSON that is none, and `ValueError` for no
    JSON. Halves of a surrogate pair, which some servers send as text of their own, are let through.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = json.loads(data)
    if not isinstance(value, dict):
        raise model_error(ErrorClass.MALFORMED, "the provider sent an event that is no object")
    return value


async def _read_tail(source: AsyncIterator[Any], wait_s: float) -> list[Mapping[str, object]]:
    events: list[Mapping[str, object]] = []
    with anyio.move_on_after(wait_s):
        async for sse in source:
            if sse.data and sse.data != END_MARK:
                events.append(parse_event(sse.data))
            if len(events) >= TAIL_EVENTS_MAX:
                break
    return events


async def _demand_event_stream(response: Any) -> None:
    """Some gateways answer a refusal with status 200; its words are worth more than its type."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == _EVENT_STREAM:
        return
    raise _refusal_in(await response.aread(), kind)


def _refusal_in(body: bytes, kind: str) -> ModelError:
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        said = None
    if isinstance(said, dict) and said.get("error"):
        return classify_event(said, None)
    return model_error(
        ErrorClass.MALFORMED, f"the provider answered with {bound_words(kind) or 'no type'} instead of a stream"
    )
