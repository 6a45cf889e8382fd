"""The one HTTP client the adapters give to their SDKs.

Purpose: hold what an SDK would otherwise take from the environment or leave without a limit.
Invariant: a request carries only headers of a fixed list and the key it was built with, goes to the
    address it was built for (no redirect, no proxy of the environment), and its answer is capped in bytes,
    valid UTF-8 and not compressed.
Must never: retry, log, or bound the whole time of a stream that keeps sending.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from gloveport.server.models.contract import ApiKey, ErrorClass, ModelError
from gloveport.server.models.failures import model_error

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT_S: Final = 10.0
WRITE_TIMEOUT_S: Final = 60.0
POOL_TIMEOUT_S: Final = 30.0
IDLE_TIMEOUT_S: Final = 300.0
CONNECTIONS_MAX: Final = 16
USER_AGENT: Final = "gloveport"
WIRE_BYTES_MAX: Final = 64 * 1024 * 1024

_HEADERS_SENT: Final = frozenset(
    {"host", "accept", "connection", "content-type", "content-length", "transfer-encoding"} | {"anthropic-version"}
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a provider lives and how it is spoken to; `idle_timeout_s` is the longest silence borne, in
    seconds.
    """

    base_url: str
    api_key: ApiKey | None = field(default=None, repr=False)
    idle_timeout_s: float = IDLE_TIMEOUT_S
    wire_bytes_max: int = WIRE_BYTES_MAX

    def __post_init__(self) -> None:
        check_base_url(self.base_url)
        if self.api_key is not None:
            check_key(self.api_key)

    @property
    def host(self) -> str:
        """Host, and port if one is named, for people."""
        return urlsplit(self.base_url).netloc


def check_base_url(base_url: str) -> None:
    """Raises `ModelError` (config) unless the address is plain http(s) with a host and without
    credentials.
    """
    try:
        parts = urlsplit(base_url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    else:
        good = good and not (parts.username or parts.password or parts.query or parts.fragment)
    if not good:
        raise model_error(
            ErrorClass.CONFIG,
            "the model's base URL must be http(s)://host[:port][/path], without a key in it",
        )


def check_key(key: ApiKey) -> None:
    """Raises `ModelError` (auth) for a key that no header can carry: a pasted line break or a stray character."""
    if not all("!" <= char <= "~" for char in key.reveal()):
        raise model_error(ErrorClass.AUTH, "the model's key holds a space, a line break or a character outside ASCII")


def build_client(endpoint: Endpoint) -> httpx2.AsyncClient:
    """A client for one endpoint. Call it where imports may take time; it opens no connection yet."""
    import httpx2

    async def harden_request(request: httpx2.Request) -> None:
        for name in [n for n in request.headers if n.lower() not in _HEADERS_SENT]:
            del request.headers[name]
        request.headers.update({"accept-encoding": "identity", "user-agent": USER_AGENT})
        if endpoint.api_key is not None:
            request.headers.update(_key_headers(endpoint.api_key, "anthropic-version" in request.headers))

    async def cap_response(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise model_error(ErrorClass.MALFORMED, "the provider sent a compressed answer, which was not asked for")
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream):
            response.stream = _guarded(stream, endpoint.wire_bytes_max)

    return httpx2.AsyncClient(
        trust_env=False,
        follow_redirects=False,
        timeout=httpx2.Timeout(
            connect=CONNECT_TIMEOUT_S,
            read=endpoint.idle_timeout_s,
            write=WRITE_TIMEOUT_S,
            pool=POOL_TIMEOUT_S,
        ),
        limits=httpx2.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=CONNECTIONS_MAX),
        event_hooks={"request": [harden_request], "response": [cap_response]},
    )


def _key_headers(key: ApiKey, both: bool) -> dict[str, str]:
    """Gateways that speak Messages differ in which of the two headers they read, so that dialect sends
    both.
    """
    bearer = {"authorization": f"Bearer {key.reveal()}"}
    return {**bearer, "x-api-key": key.reveal()} if both else bearer


def _guarded(stream: httpx2.AsyncByteStream, bytes_max: int) -> httpx2.AsyncByteStream:
    import httpx2

    class Guarded(httpx2.AsyncByteStream):
        """Passes bytes on until there are too many, or they are no UTF-8: what follows would be guessed."""

        async def __aiter__(self) -> AsyncIterator[bytes]:
            seen = 0
            check = codecs.getincrementaldecoder("utf-8")()
            async for chunk in stream:
                seen += len(chunk)
                if seen > bytes_max:
                    raise model_error(ErrorClass.TOO_LARGE, f"the answer is larger than {bytes_max} bytes")
                check.decode(chunk)
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Guarded()


def own_error(err: BaseException | None) -> ModelError | None:
    """The `ModelError` of ours that an SDK may have wrapped in an error of its own."""
    for _ in range(8):
        if err is None or isinstance(err, ModelError):
            return err
        err = err.__cause__ or err.__context__
    return None
