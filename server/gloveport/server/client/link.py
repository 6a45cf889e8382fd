"""One connection to the daemon, below the types.

Purpose: frames out and in, answers to their questions, events to their inbox.
Invariant: every question ends: answered, refused, cancelled, or told that the daemon went away.
Must never: grow an inbox beyond what its window lets the daemon send, or touch a view.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import orjson

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.framing import MESSAGE_BYTES_MAX, Body, FrameReader, encode_frame

READ_BYTES: Final = 1 << 16

Raw = Mapping[str, Any]
OnResult = Callable[[Raw], None]


class Inbox:
    """Batches of one subscription that were received and not taken yet."""

    def __init__(self) -> None:
        self._batches: deque[Raw] = deque()
        self._news = anyio.Event()
        self._failure: GloveportError | None = None

    def put(self, batch: Raw) -> None:
        """Add one batch."""
        self._batches.append(batch)
        self._news.set()

    def fail(self, failure: GloveportError) -> None:
        """Nothing more will come."""
        self._failure = failure
        self._news.set()

    async def take(self) -> Raw:
        """The next batch. Raises what `fail` was given once the inbox is empty."""
        while not self._batches:
            if self._failure is not None:
                raise self._failure
            self._news = anyio.Event()
            await self._news.wait()
        return self._batches.popleft()


class Link:
    """Questions, notices and inboxes over one socket. `run` reads until the daemon goes away."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._count = 0
        self._open: dict[int, tuple[asyncio.Future[Any], OnResult | None]] = {}
        self._inboxes: dict[str, Inbox] = {}
        self._notices: list[Inbox] = []
        self._notice: Raw | None = None
        self._failure: GloveportError | None = None

    async def ask(self, method: str, params: Raw, on_result: OnResult | None = None) -> Any:
        """The result as plain JSON; `on_result` sees it before any later message is read.

        Raises:
            GloveportError: the daemon's refusal, UNREACHABLE, TOO_LARGE for what it would not read, or
                INVALID_PARAMS for what no message can hold.
        """
        if self._failure is not None:
            raise self._failure
        self._count += 1
        name, answer = self._count, asyncio.get_running_loop().create_future()
        self._open[name] = (answer, on_result)
        try:
            await self._send({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
            return await answer
        except asyncio.CancelledError:
            self._write(_frame({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": name}}))
            raise
        finally:
            self._open.pop(name, None)
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # it came while nobody waited any more, and is no news

    async def tell(self, method: str, params: Raw) -> None:
        """Send a notification; to a daemon that is gone it is lost."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def open_inbox(self, name: str) -> Inbox:
        """Where the events of a subscription go from now on."""
        inbox = self._inboxes[name] = Inbox()
        return inbox

    def open_notices(self) -> Inbox:
        """Where what the daemon tells everybody goes from now on; the newest comes first when it still stands."""
        inbox = Inbox()
        if self._failure is not None:
            inbox.fail(self._failure)
        if self._notice is not None and not self._notice["accepting"]:
            inbox.put(self._notice)
        self._notices.append(inbox)
        return inbox

    def close_inbox(self, name: str) -> None:
        """Let later events of a subscription fall."""
        self._inboxes.pop(name, None)

    async def run(self) -> None:
        """Read until the connection ends; then every question and inbox learns of it."""
        words = "the daemon closed the connection"
        frames = FrameReader()
        try:
            while chunk := await self._reader.read(READ_BYTES):
                for item in frames.feed(chunk):
                    if not isinstance(item, Body):
                        words = "the daemon sent what is no message"
                        return
                    self._take(orjson.loads(item.data))
        except (OSError, orjson.JSONDecodeError) as error:
            words = f"the connection broke ({type(error).__name__})"
        finally:
            self._end(GloveportError(ErrorCode.UNREACHABLE, words))

    def close(self) -> None:
        """Leave: what is written goes out, nothing is read any more."""
        self._writer.close()

    async def _send(self, message: Raw) -> None:
        frame = _frame(message)
        if len(frame) > MESSAGE_BYTES_MAX:  # its refusal could not name the question
            words = f"a message of {len(frame)} bytes is over the limit of {MESSAGE_BYTES_MAX}"
            raise GloveportError(ErrorCode.TOO_LARGE, words)
        self._write(frame)
        try:
            await self._writer.drain()
        except OSError:
            raise GloveportError(ErrorCode.UNREACHABLE, "the daemon closed the connection") from None

    def _write(self, frame: bytes) -> None:
        if not self._writer.is_closing():
            self._writer.write(frame)

    def _take(self, message: Any) -> None:
        if not isinstance(message, dict):
            return
        if "method" not in message:
            self._answer(message)
        elif "id" in message:
            refusal = {"code": -32601, "message": "this client answers no requests"}
            self._write(_frame({"jsonrpc": "2.0", "id": message["id"], "error": refusal}))
        elif message["method"] == "session/events":
            batch = message["params"]
            if (inbox := self._inboxes.get(batch["subscriptionId"])) is not None:
                inbox.put(batch)
        elif message["method"] == "daemon/told":
            self._notice = message["params"]
            for inbox in self._notices:
                inbox.put(message["params"])

    def _answer(self, message: Raw) -> None:
        answer, on_result = self._open.pop(message.get("id", 0), (None, None))
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(to_error(message["error"]))
            return
        if on_result is not None:
            on_result(message["result"])
        answer.set_result(message["result"])

    def _end(self, failure: GloveportError) -> None:
        self._failure = failure
        for answer, _ in self._open.values():
            if not answer.done():
                answer.set_exception(failure)
        self._open.clear()
        for inbox in (*self._inboxes.values(), *self._notices):
            inbox.fail(failure)
        self._writer.close()


def _frame(message: Raw) -> bytes:
    try:
        return encode_frame(orjson.dumps(message))
    except orjson.JSONEncodeError as error:  # a whole number beyond 64 bits, half a surrogate pair
        words = f"the question cannot be written as a message: {error}"
        raise GloveportError(ErrorCode.INVALID_PARAMS, words) from None


def to_error(raw: Any) -> GloveportError:
    """The typed failure of a JSON-RPC error object; a code of a newer daemon becomes INTERNAL and keeps its words."""
    body = raw if isinstance(raw, dict) else {}
    data = dict(body["data"]) if isinstance(body.get("data"), dict) else {}
    known = {code.value: code for code in ErrorCode}
    code = known.get(str(data.pop("code", "")), ErrorCode.INTERNAL)
    hint = data.pop("hint", None)
    data.pop("message", None)
    return GloveportError(code, str(body.get("message", "")), hint=hint if isinstance(hint, str) else None, **data)
