"""Adapter for Anthropic Messages.

Purpose: speak the Messages API, at Anthropic or at a server that offers the same endpoint.
Invariant: a reply is whole when `message_stop` arrives; every tool result stands in the user message right
    after its call, ahead of other text, as the API demands.
Must never: send a whitespace-only text block or a `tool_use` whose input is no object; the API refuses both.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from gloveport.server.models.assembly import ReplyAssembler, history_arguments, sound_messages
from gloveport.server.models.contract import (
    AssistantTurn,
    ChatMessage,
    ErrorClass,
    ModelRequest,
    Part,
    ReasoningDelta,
    Stop,
    StopReason,
    SystemText,
    TextDelta,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    UsagePart,
    UserText,
)
from gloveport.server.models.failures import classify_event, model_error
from gloveport.server.models.guarded_http import build_client
from gloveport.server.models.loose_json import as_count, as_mapping, as_text
from gloveport.server.models.sdk_provider import NO_KEY, Sdk, SdkProvider
from gloveport.server.models.sse import Reader

ANTHROPIC_BASE_URL: Final = "https://api.anthropic.com"

_STOPS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "refusal": "refusal",
        "tool_use": "tool_calls",
    }
)


class AnthropicMessagesProvider(SdkProvider):
    """Messages at one base URL."""

    name = "anthropic"

    @property
    def label(self) -> str:
        """Names the host that answers."""
        return f"Anthropic Messages model at {self._endpoint.host}"

    def load_sdk(self) -> Sdk:
        """See `SdkProvider.load_sdk`."""
        import anthropic
        import httpx2
        from pydantic import ValidationError

        client = anthropic.AsyncAnthropic(
            api_key=NO_KEY,
            base_url=self._endpoint.base_url,
            max_retries=0,
            open_telemetry=False,
            http_client=build_client(self._endpoint),
        )
        return Sdk(
            client=client,
            status_error=anthropic.APIStatusError,
            api_error=anthropic.APIError,
            timeouts=(anthropic.APITimeoutError, httpx2.TimeoutException),
            transport_errors=(anthropic.APIConnectionError, httpx2.HTTPError, httpx2.StreamError),
            malformed=(json.JSONDecodeError, UnicodeDecodeError, httpx2.SSEError, ValidationError, RecursionError),
        )

    async def open_stream(self, sdk: Sdk, request: ModelRequest) -> Any:
        """See `SdkProvider.open_stream`."""
        return await sdk.client.messages.create(**render_request(request))

    def make_reader(self) -> Reader:
        """See `SdkProvider.make_reader`."""
        return MessagesReader()


def render_request(request: ModelRequest) -> dict[str, object]:
    """The body of a request; the standing part ends with a cache mark, so that a stable prefix is paid
    once.
    """
    messages = sound_messages(request.messages)
    body: dict[str, object] = {
        "model": request.model,
        "messages": _render_messages(messages),
        "stream": True,
        "max_tokens": request.max_output_tokens,
    }
    system = [_text_block(m.text) for m in messages if isinstance(m, SystemText) and m.text.strip()]
    if system:
        system[-1]["cache_control"] = {"type": "ephemeral"}
        body["system"] = system
    if request.tools:
        body["tools"] = [_render_tool(tool) for tool in request.tools]
    return body


def _render_tool(tool: ToolSpec) -> dict[str, object]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}


def _text_block(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def _render_messages(messages: Iterable[ChatMessage]) -> list[dict[str, object]]:
    """Neighbours of one role become one message; within a user message, tool results come first."""
    groups: list[tuple[Literal["user", "assistant"], list[dict[str, object]]]] = []
    for message in messages:
        role: Literal["user", "assistant"] = "assistant" if isinstance(message, AssistantTurn) else "user"
        blocks = list(_render_blocks(message))
        if not blocks:
            continue
        if not groups or groups[-1][0] != role:
            groups.append((role, []))
        groups[-1][1].extend(blocks)
    return [
        {"role": role, "content": sorted(blocks, key=_after_results) if role == "user" else blocks}
        for role, blocks in groups
    ]


def _after_results(block: Mapping[str, object]) -> bool:
    return block["type"] != "tool_result"


def _render_blocks(message: ChatMessage) -> Iterator[dict[str, object]]:
    match message:
        case UserText(text) if text.strip():
            yield _text_block(text)
        case AssistantTurn(text, calls):
            if text.strip():
                yield _text_block(text)
            yield from map(_render_call, calls)
        case ToolResultPart(call_id, text, is_error):
            yield {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}
        case _:
            return


def _render_call(call: ToolCallPart) -> dict[str, object]:
    return {
        "type": "tool_use",
        "id": call.call_id,
        "name": call.name,
        "input": history_arguments(call.arguments_json),
    }


class MessagesReader:
    """Pure reader of Messages stream events."""

    __slots__ = ("_call_of", "_ended", "_input_of", "_reply", "_stop", "_usage")

    def __init__(self) -> None:
        self._reply = ReplyAssembler()
        self._call_of: dict[int, int] = {}
        self._input_of: dict[int, Mapping[str, object]] = {}
        self._stop: StopReason = "end"
        self._usage: dict[str, int] = {}
        self._ended = False

    @property
    def complete(self) -> bool:
        """Whether `message_stop` was seen."""
        return self._ended

    def read(self, event: Mapping[str, object]) -> Iterator[Part]:
        """Parts of one event; kinds this adapter does not know are passed over. Raises `ModelError`."""
        match event.get("type"):
            case "message_start":
                yield from self._read_usage(as_mapping(event.get("message")).get("usage"))
            case "content_block_start":
                yield from self._read_start(as_count(event.get("index")), as_mapping(event.get("content_block")))
            case "content_block_delta":
                yield from self._read_delta(as_count(event.get("index")), as_mapping(event.get("delta")))
            case "content_block_stop":
                yield from self._read_block_end(as_count(event.get("index")))
            case "message_delta":
                reason = as_text(as_mapping(event.get("delta")).get("stop_reason"))
                self._stop = _STOPS.get(reason, "end")
                yield from self._read_usage(event.get("usage"))
            case "message_stop":
                self._ended = True
            case "error":
                raise classify_event(event, None)
            case str():
                return
            case _:
                raise model_error(ErrorClass.MALFORMED, "the provider sent an event without a type")

    def finish(self) -> Stop:
        """The end of the reply."""
        return self._reply.finish(self._stop)

    def _read_usage(self, usage: object) -> Iterator[Part]:
        """Later figures replace earlier ones field by field: the end of a message names only some of them."""
        said = as_mapping(usage)
        if not said:
            return
        self._usage |= {k: v for k, v in said.items() if isinstance(v, int) and not isinstance(v, bool) and v >= 0}
        cached = self._usage.get("cache_read_input_tokens", 0)
        stored = self._usage.get("cache_creation_input_tokens", 0)
        sent = self._usage.get("input_tokens", 0) + cached + stored
        yield UsagePart(sent, self._usage.get("output_tokens", 0), cached)

    def _read_start(self, block: int, content: Mapping[str, object]) -> Iterator[Part]:
        if content.get("type") == "text" and (text := self._reply.take_text(as_text(content.get("text")))):
            yield TextDelta(text)
        if content.get("type") == "tool_use":
            index = self._reply.begin_call(as_text(content.get("id")), as_text(content.get("name")))
            self._call_of[block] = index
            self._input_of[block] = as_mapping(content.get("input"))
            yield self._reply.add_fragment(index, "")

    def _read_delta(self, block: int, delta: Mapping[str, object]) -> Iterator[Part]:
        if text := self._reply.take_text(as_text(delta.get("text"))):
            yield TextDelta(text)
        if thinking := self._reply.take_reasoning(as_text(delta.get("thinking"))):
            yield ReasoningDelta(thinking)
        fragment = as_text(delta.get("partial_json"))
        if fragment and block in self._call_of:
            yield self._reply.add_fragment(self._call_of[block], fragment)

    def _read_block_end(self, block: int) -> Iterator[Part]:
        """A finished call without fragments has the input its start named: usually an empty object."""
        index = self._call_of.get(block)
        if index is not None and not self._reply.has_fragments(index):
            yield self._reply.add_fragment(index, json.dumps(self._input_of[block], default=str))
