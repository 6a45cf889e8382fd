"""A local server that speaks the real SSE of chat completions and of Messages, with scripted behaviour.

Each request is answered by the first behaviour whose `when_contains` is found in its body and that has not
been used up; the last one that fits repeats. In a test: `async with ModelServer([Behaviour(text=("hi",))])
as server`. As a process: `python -m tests.kit.model_server --script behaviours.json` (a JSON list of
behaviour objects); it prints one line `{"port": N}` and ends when its stdin closes.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

HEAD_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX = 32 * 1024 * 1024
Dialect = Literal["openai", "anthropic"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, sent in the given fragments."""

    name: str
    fragments: tuple[str, ...]
    id: str = "call_1"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How one request is answered.

    `status` other than 200 answers with `body` as JSON and no stream. `cut_after` closes the connection in
    the middle of a chunk after so many events; `end_after` closes it cleanly there, without an end marker;
    `silence_after` stops sending there and keeps the connection open. `raw_events` replaces the whole
    stream by (event name, data) pairs, `raw_body` by bytes as they are. `chunk_bytes` cuts what is sent into pieces of
    that many bytes, wherever they fall. `repeat` text is sent `repeat` times. With `wait_for_file`, nothing is sent
    after `wait_after` events until that file exists.
    """

    text: tuple[str, ...] = ("Hello ", "world")
    reasoning: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    stop: Literal["end", "tool_calls", "length", "refusal"] | None = None
    usage: tuple[int, int, int] = (10, 9, 5)
    repeat: int = 1
    delay_ms: int = 0
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: object = None
    raw_events: tuple[tuple[str, str], ...] | None = None
    raw_body: bytes | None = None
    chunk_bytes: int | None = None
    cut_after: int | None = None
    end_after: int | None = None
    silence_after: int | None = None
    wait_for_file: str | None = None
    wait_after: int = 0
    error_after: tuple[int, object] | None = None
    silent_start: bool = False
    linger: bool = False
    when_contains: str = ""
    uses_max: int | None = None

    @property
    def stop_reason(self) -> str:
        """The reason given, or the natural one."""
        return self.stop or ("tool_calls" if self.calls else "end")

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """A behaviour from its JSON object; unknown fields are an error."""
        known = {f.name for f in fields(cls)}
        if unknown := raw.keys() - known:
            raise ValueError(f"unknown fields: {sorted(unknown)}")
        made = dict(raw)
        for name in ("text", "reasoning", "usage"):
            if name in made:
                made[name] = tuple(made[name])
        if "raw_body" in made:
            made["raw_body"] = made["raw_body"].encode()
        made["calls"] = tuple(
            Call(c["name"], tuple(c["fragments"]), c.get("id", "call_1")) for c in raw.get("calls", ())
        )
        return cls(**made)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """What a client sent."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class ModelServer:
    """The server; an async context manager. `requests` and `disconnects` are for assertions."""

    def __init__(self, behaviours: Sequence[Behaviour] = (Behaviour(),)) -> None:
        self.behaviours = list(behaviours)
        self.requests: list[RecordedRequest] = []
        self.disconnects = 0
        self.disconnected = asyncio.Event()
        self._uses: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port, on 127.0.0.1."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    def base_url(self, dialect: Dialect) -> str:
        """What the provider's settings get."""
        return f"http://127.0.0.1:{self.port}" + ("/v1" if dialect == "openai" else "")

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _read_request(reader)
        self.requests.append(request)
        behaviour = self._choose(json.dumps(request.body, ensure_ascii=False))
        watch = asyncio.ensure_future(reader.read(1))
        answer = asyncio.ensure_future(_answer(behaviour, request, writer))
        try:
            await asyncio.wait({watch, answer}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                self.disconnects += 1
                self.disconnected.set()
                return False
            return answer.result()
        finally:
            for task in (watch, answer):
                task.cancel()
            await asyncio.gather(watch, answer, return_exceptions=True)

    def _choose(self, body: str) -> Behaviour:
        fitting = [i for i, b in enumerate(self.behaviours) if b.when_contains in body]
        assert fitting, "no behaviour fits this request"
        fresh = [i for i in fitting if self._uses.get(i, 0) < (self.behaviours[i].uses_max or 1)]
        chosen = fresh[0] if fresh else fitting[-1]
        self._uses[chosen] = self._uses.get(chosen, 0) + 1
        return self.behaviours[chosen]


async def _read_request(reader: asyncio.StreamReader) -> RecordedRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
    length = int(headers.get("content-length", "0"))
    assert length <= BODY_BYTES_MAX
    body = json.loads(await reader.readexactly(length) or b"{}")
    return RecordedRequest(head[0].split(" ")[1], headers, body)


async def _answer(behaviour: Behaviour, request: RecordedRequest, writer: asyncio.StreamWriter) -> bool:
    """Sends the answer; gives whether the connection may carry another request."""
    if behaviour.silent_start:
        await asyncio.Event().wait()
    headers = {"x-request-id": "req_abc", "request-id": "req_abc", **behaviour.headers}
    if behaviour.status != 200:
        body = json.dumps(behaviour.body).encode()
        headers |= {"content-type": "application/json", "content-length": str(len(body))}
        writer.write(_head(behaviour.status, headers) + body)
        await writer.drain()
        return True
    headers = {"content-type": "text/event-stream", **headers, "transfer-encoding": "chunked"}
    writer.write(_head(200, headers))
    await writer.drain()
    whole = await _send_events(behaviour, request, writer)
    if not whole and behaviour.cut_after is not None:
        writer.write(b"ffff\r\ndata: {")
        await writer.drain()
        return False
    if behaviour.linger:
        await asyncio.Event().wait()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    return True


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _wait_for_file(path: Path) -> None:
    while not path.exists():
        await asyncio.sleep(0.005)


async def _send_bytes(data: bytes, behaviour: Behaviour, writer: asyncio.StreamWriter) -> None:
    size = behaviour.chunk_bytes or len(data)
    for at in range(0, len(data), size or 1):
        piece = data[at : at + size]
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        await writer.drain()


async def _send_events(behaviour: Behaviour, request: RecordedRequest, writer: asyncio.StreamWriter) -> bool:
    if behaviour.raw_body is not None:
        await _send_bytes(behaviour.raw_body, behaviour, writer)
        return True
    dialect: Dialect = "anthropic" if request.path.endswith("/messages") else "openai"
    for sent, (event_name, event_data) in enumerate(_events(behaviour, dialect)):
        name, data = event_name, event_data
        if sent in (behaviour.cut_after, behaviour.end_after):
            return False
        if sent == behaviour.wait_after and behaviour.wait_for_file is not None:
            await _wait_for_file(Path(behaviour.wait_for_file))
        if sent == behaviour.silence_after:
            await asyncio.Event().wait()
        if behaviour.error_after is not None and sent == behaviour.error_after[0]:
            name, data = "error", json.dumps(behaviour.error_after[1])
        await _send_bytes(((f"event: {name}\n" if name else "") + f"data: {data}\n\n").encode(), behaviour, writer)
        await asyncio.sleep(behaviour.delay_ms / 1000)
    return True


def _events(behaviour: Behaviour, dialect: Dialect) -> Iterator[tuple[str, str]]:
    if behaviour.raw_events is not None:
        yield from behaviour.raw_events
    elif dialect == "openai":
        yield from (("", data if isinstance(data, str) else json.dumps(data)) for data in chat_events(behaviour))
    else:
        yield from ((str(data["type"]), json.dumps(data)) for data in messages_events(behaviour))


def chat_events(behaviour: Behaviour) -> Iterator[dict[str, Any] | str]:
    """The chunks of chat completions, `[DONE]` included."""
    yield _chunk({"role": "assistant", "content": ""})
    for piece in behaviour.reasoning:
        yield _chunk({"reasoning_content": piece})
    for _ in range(behaviour.repeat):
        for piece in behaviour.text:
            yield _chunk({"content": piece})
    for index, call in enumerate(behaviour.calls):
        head = {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        yield _chunk({"tool_calls": [head]})
        for piece in call.fragments:
            yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    names = {"end": "stop", "refusal": "content_filter"}
    yield _chunk({}, names.get(behaviour.stop_reason, behaviour.stop_reason))
    sent, got, cached = behaviour.usage
    usage = {"prompt_tokens": sent, "completion_tokens": got, "total_tokens": sent + got}
    yield {
        **_chunk({}),
        "choices": [],
        "usage": {**usage, "prompt_tokens_details": {"cached_tokens": cached}},
    }
    yield "[DONE]"


def _chunk(delta: Mapping[str, object], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def messages_events(behaviour: Behaviour) -> Iterator[dict[str, Any]]:
    """The events of Messages."""
    sent, got, cached = behaviour.usage
    usage = {"input_tokens": sent - cached, "output_tokens": 1, "cache_read_input_tokens": cached}
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": []}
    yield {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}
    yield {"type": "ping"}
    block = 0
    if behaviour.reasoning:
        yield from _block(block, {"type": "thinking", "thinking": ""}, "thinking", behaviour.reasoning)
        block += 1
    if behaviour.text:
        yield from _block(block, {"type": "text", "text": ""}, "text", behaviour.text * behaviour.repeat)
        block += 1
    for call in behaviour.calls:
        head = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield from _block(block, head, "partial_json", call.fragments)
        block += 1
    names = {"end": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}
    stop = names.get(behaviour.stop_reason, behaviour.stop_reason)
    yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": got}}
    yield {"type": "message_stop"}


def _block(index: int, head: Mapping[str, object], key: str, pieces: Sequence[str]) -> Iterator[dict[str, Any]]:
    kinds = {"text": "text_delta", "thinking": "thinking_delta", "partial_json": "input_json_delta"}
    yield {"type": "content_block_start", "index": index, "content_block": head}
    for piece in pieces:
        yield {"type": "content_block_delta", "index": index, "delta": {"type": kinds[key], key: piece}}
    yield {"type": "content_block_stop", "index": index}


async def _stdin_lines() -> AsyncIterator[bytes]:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line


async def _serve_process(script: Path) -> None:
    behaviours = [Behaviour.from_json(raw) for raw in json.loads(script.read_bytes())]
    async with ModelServer(behaviours) as server:
        print(json.dumps({"port": server.port}), flush=True)
        async for _ in _stdin_lines():
            pass


def main() -> None:
    """Serves until stdin closes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--script", type=Path, required=True)
    asyncio.run(_serve_process(parser.parse_args().script))


if __name__ == "__main__":
    main()
