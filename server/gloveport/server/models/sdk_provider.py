"""What the adapters of official SDKs have in common.

Purpose: load an SDK late, let it open one stream, hand the stream's events to a pure reader, and turn every
    failure into `ModelError`.
Invariant: parts that arrived are yielded before the error; the connection is closed when the iteration
    ends, however it ends; an SDK is imported in a worker thread, never on the event loop; no error quotes the
    key, nor does the chain behind it.
Must never: retry, or end a stream that keeps sending for taking long.

The SDK builds and sends the request and judges the status. The events are read from its response directly, since
the typed object an SDK builds for each of them costs several times what all the rest of a delta does.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync

from gloveport.server.models.contract import (
    Accepted,
    ErrorClass,
    Fate,
    ModelError,
    ModelRequest,
    Part,
    PartStream,
)
from gloveport.server.models.failures import (
    INSTALL_HINT,
    bound_words,
    classify_answer,
    classify_event,
    find_request_id,
    model_error,
)
from gloveport.server.models.guarded_http import Endpoint, own_error
from gloveport.server.models.sse import Reader, read_events
from gloveport.server.secrets.detect import Redactor

TAIL_WAIT_S: Final = 5.0
"""How long the rest of a stream is waited for once the reply itself is whole (and never longer than silence is)."""

NO_KEY: Final = "none"
"""Given to an SDK in place of a key; the guarded client decides what is really sent."""


@dataclass(frozen=True, slots=True)
class Sdk:
    """An SDK at work: its client, and which of its exceptions mean what."""

    client: Any
    status_error: type[Exception]
    api_error: type[Exception]
    timeouts: tuple[type[Exception], ...]
    transport_errors: tuple[type[Exception], ...]
    malformed: tuple[type[Exception], ...]

    @property
    def caught(self) -> tuple[type[Exception], ...]:
        """Every exception that `SdkProvider` translates."""
        return (ModelError, self.api_error, *self.timeouts, *self.transport_errors, *self.malformed)


class SdkProvider(ABC):
    """Base of the adapters; a subclass supplies the three abstract methods, `name` and `label`."""

    def __init__(self, endpoint: Endpoint, clock_us: Callable[[], int]) -> None:
        """`clock_us` gives UTC microseconds; it is read only to understand a Retry-After date."""
        self._endpoint = endpoint
        self._clock_us = clock_us
        self._sdk: Sdk | None = None
        self._loading = anyio.Lock()

    @abstractmethod
    def load_sdk(self) -> Sdk:
        """Imports the SDK and builds its client; runs in a worker thread. May raise `ImportError`."""

    @abstractmethod
    async def open_stream(self, sdk: Sdk, request: ModelRequest) -> Any:
        """Sends the request; gives the SDK's stream object once headers are there."""

    @abstractmethod
    def make_reader(self) -> Reader:
        """A fresh reader for one reply."""

    def stream(self, request: ModelRequest) -> PartStream:
        """See `Provider.stream`."""
        return self._stream(request)

    async def lookup(self, provider_request_id: str) -> Fate | None:
        """Neither API can be asked about an earlier streamed request."""
        return None

    async def close(self) -> None:
        """See `Provider.close`."""
        sdk, self._sdk = self._sdk, None
        if sdk is not None:
            await sdk.client.close()

    @asynccontextmanager
    async def _stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Part]]:
        async with aclosing(self._parts(request)) as parts:
            yield parts

    async def _ready(self) -> Sdk:
        async with self._loading:
            if self._sdk is None:
                try:
                    self._sdk = await run_sync(self.load_sdk, abandon_on_cancel=True)
                except ImportError as err:
                    raise ModelError(
                        model_error(ErrorClass.CONFIG, "").code,
                        f"the program library of this provider is not installed: {err.name or err}",
                        error_class=ErrorClass.CONFIG,
                        hint=INSTALL_HINT,
                    ) from err
            return self._sdk

    async def _parts(self, request: ModelRequest) -> AsyncGenerator[Part, None]:
        sdk = await self._ready()
        reader = self.make_reader()
        try:
            stream = await self.open_stream(sdk, request)
        except sdk.caught as err:
            raise self._translate(sdk, err) from None
        request_id = self._without_key(find_request_id(stream.response.headers))
        try:
            async with stream, aclosing(read_events(stream.response, reader, self._tail_wait_s)) as events:
                yield Accepted(request_id)
                async for event in events:
                    for part in reader.read(event):
                        yield part
        except sdk.caught as err:
            if not reader.complete:
                raise self._translate(sdk, err, accepted=True, request_id=request_id) from None
        if not reader.complete:
            raise model_error(
                ErrorClass.TRUNCATED, "the stream ended before the reply was whole", request_id=request_id
            )
        yield reader.finish()

    @property
    def _tail_wait_s(self) -> float:
        return min(TAIL_WAIT_S, self._endpoint.idle_timeout_s)

    def _translate(
        self, sdk: Sdk, err: Exception, *, accepted: bool = False, request_id: str | None = None
    ) -> ModelError:
        """The error of ours, without the key: a server may quote it, and what an SDK raises holds the answer."""
        found = self._classify(sdk, err, accepted=accepted, request_id=request_id)
        return ModelError(
            found.code,
            self._without_key(found.message) or "",
            error_class=found.error_class,
            retry_after_s=found.retry_after_s,
            provider_request_id=self._without_key(found.provider_request_id or request_id),
            hint=found.hint,
        )

    def _without_key(self, text: str | None) -> str | None:
        key = self._endpoint.api_key
        return text if key is None or not text else Redactor((key.reveal(),)).redact(text)

    def _classify(self, sdk: Sdk, err: Exception, *, accepted: bool, request_id: str | None) -> ModelError:
        ours = own_error(err)
        if ours is not None:
            return ours
        if isinstance(err, sdk.status_error):
            response = getattr(err, "response", None)
            status = getattr(response, "status_code", 0)
            if not accepted:
                headers = getattr(response, "headers", {})
                return classify_answer(status, headers, getattr(err, "body", None), now_us=self._clock_us())
            return classify_event(getattr(err, "body", None), request_id)
        return self._translate_transport(sdk, err, accepted=accepted, request_id=request_id)

    def _translate_transport(self, sdk: Sdk, err: Exception, *, accepted: bool, request_id: str | None) -> ModelError:
        why = bound_words(f"{type(err.__cause__ or err).__name__}: {err.__cause__ or err}")
        if isinstance(err, sdk.timeouts):
            kind = ErrorClass.IDLE if accepted else ErrorClass.CONNECT
            return model_error(kind, f"{self._endpoint.host} was silent for too long ({why})", request_id=request_id)
        if isinstance(err, sdk.malformed):
            return model_error(
                ErrorClass.MALFORMED, f"the provider's answer is malformed ({why})", request_id=request_id
            )
        if isinstance(err, sdk.transport_errors):
            kind = ErrorClass.TRUNCATED if accepted else ErrorClass.CONNECT
            what = "the connection broke off" if accepted else f"{self._endpoint.host} cannot be reached"
            return model_error(kind, f"{what} ({why})", request_id=request_id)
        return classify_event(getattr(err, "body", None), request_id)
