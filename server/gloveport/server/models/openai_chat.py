"""Adapter for OpenAI-compatible chat completions.

Purpose: speak to OpenAI and to every server that offers the same streaming endpoint (Ollama, vLLM, LM
    Studio, …).
Invariant: a reply is whole when the first choice has a finish reason; fragments without an index or with a
    repeated one still land in the right call, since servers differ in how they number calls.
Must never: ask for more than one choice, or send an empty assistant message.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

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
from gloveport.server.models.loose_json import as_count, as_list, as_mapping, as_text
from gloveport.server.models.sdk_provider import NO_KEY, Sdk, SdkProvider
from gloveport.server.models.sse import Reader

OPENAI_BASE_URL: Final = "https://api.openai.com/v1"

_NO_INDEX: Final = -1
_STOPS: Final[Mapping[str, StopReason]] = MappingProxyType(
    {
        "length": "length",
        "content_filter": "refusal",
        "tool_calls": "tool_calls",
        "function_call": "tool_calls",
    }
)


class OpenAIChatProvider(SdkProvider):
    """Chat completions at one base URL."""

    name = "openai"

    @property
    def label(self) -> str:
        """Names the host, since a compatible server is not OpenAI."""
        return f"OpenAI-compatible model at {self._endpoint.host}"

    def load_sdk(self) -> Sdk:
        """See `SdkProvider.load_sdk`."""
        import httpx2
        import openai
        from pydantic import ValidationError

        client = openai.AsyncOpenAI(
            api_key=NO_KEY,
            base_url=self._endpoint.base_url,
            max_retries=0,
            http_client=build_client(self._endpoint),
        )
        return Sdk(
            client=client,
            status_error=openai.APIStatusError,
            api_error=openai.APIError,
            timeouts=(openai.APITimeoutError, httpx2.TimeoutException),
            transport_errors=(openai.APIConnectionError, httpx2.HTTPError, httpx2.StreamError),
            malformed=(json.JSONDecodeError, UnicodeDecodeError, httpx2.SSEError, ValidationError, RecursionError),
        )

    async def open_stream(self, sdk: Sdk, request: ModelRequest) -> Any:
        """See `SdkProvider.open_stream`."""
        official = self._endpoint.base_url.rstrip("/") == OPENAI_BASE_URL
        return await sdk.client.chat.completions.create(**render_request(request, official=official))

    def make_reader(self) -> Reader:
        """See `SdkProvider.make_reader`."""
        return ChatReader()


def render_request(request: ModelRequest, *, official: bool = False) -> dict[str, object]:
    """The body of a request. The official service names the token limit otherwise than the servers made
    after it.
    """
    limit = "max_completion_tokens" if official else "max_tokens"
    body: dict[str, object] = {
        "model": request.model,
        "messages": [m for message in sound_messages(request.messages) for m in _render_message(message)],
        "stream": True,
        "stream_options": {"include_usage": True},
        limit: request.max_output_tokens,
    }
    if request.tools:
        body["tools"] = [_render_tool(tool) for tool in request.tools]
    return body


def _render_tool(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _render_message(message: ChatMessage) -> Iterator[dict[str, object]]:
    match message:
        case SystemText(text):
            yield {"role": "system", "content": text}
        case UserText(text):
            yield {"role": "user", "content": text}
        case AssistantTurn(text, calls):
            if calls:
                yield {
                    "role": "assistant",
                    "content": text or None,
                    "tool_calls": [_render_call(c) for c in calls],
                }
            elif text:
                yield {"role": "assistant", "content": text}
        case ToolResultPart(call_id, text, is_error):
            # The endpoint has no error flag of its own, so the words must say it.
            yield {
                "role": "tool",
                "tool_call_id": call_id,
                "content": f"[error] {text}" if is_error else text,
            }


def _render_call(call: ToolCallPart) -> dict[str, object]:
    arguments = json.dumps(history_arguments(call.arguments_json), ensure_ascii=False)
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


class ChatReader:
    """Pure reader of `chat.completion.chunk` objects."""

    __slots__ = ("_refused", "_reply", "_slot_of", "_stop")

    def __init__(self) -> None:
        self._reply = ReplyAssembler()
        self._slot_of: dict[int, tuple[str, int]] = {}
        self._stop: StopReason | None = None
        self._refused = False

    @property
    def complete(self) -> bool:
        """Whether a finish reason was seen."""
        return self._stop is not None

    def read(self, event: Mapping[str, object]) -> Iterator[Part]:
        """Parts of one chunk. Raises `ModelError` for an error object and over the limits of a reply."""
        if event.get("error"):
            raise classify_event(event, None)
        if not ("choices" in event or "usage" in event):
            raise model_error(ErrorClass.MALFORMED, "the provider sent an event that is no chunk of a reply")
        for choice in as_list(event.get("choices"))[:1]:
            yield from self._read_choice(as_mapping(choice))
        usage = as_mapping(event.get("usage"))
        if usage:
            cached = as_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")
            yield UsagePart(
                as_count(usage.get("prompt_tokens")),
                as_count(usage.get("completion_tokens")),
                as_count(cached),
            )

    def finish(self) -> Stop:
        """The end of the reply."""
        return self._reply.finish("refusal" if self._refused else self._stop or "end")

    def _read_choice(self, choice: Mapping[str, object]) -> Iterable[Part]:
        delta = as_mapping(choice.get("delta"))
        reasoning = as_text(delta.get("reasoning_content")) or as_text(delta.get("reasoning"))
        if reasoning := self._reply.take_reasoning(reasoning):
            yield ReasoningDelta(reasoning)
        refusal = as_text(delta.get("refusal"))
        self._refused = self._refused or bool(refusal)
        if text := self._reply.take_text(as_text(delta.get("content")) + refusal):
            yield TextDelta(text)
        for call in as_list(delta.get("tool_calls")):
            yield self._read_call(as_mapping(call))
        reason = as_text(choice.get("finish_reason"))
        if reason:
            self._stop = _STOPS.get(reason, "end")

    def _read_call(self, call: Mapping[str, object]) -> Part:
        function = as_mapping(call.get("function"))
        name = as_text(function.get("name"))
        slot = self._find_slot(call.get("index"), as_text(call.get("id")), name)
        self._reply.name_call(slot, name)
        return self._reply.add_fragment(slot, as_text(function.get("arguments")))

    def _find_slot(self, index: object, call_id: str, name: str) -> int:
        key = index if isinstance(index, int) else _NO_INDEX
        known = self._slot_of.get(key)
        if known is not None and (not call_id or known[0] in ("", call_id)):
            return known[1]
        slot = self._reply.begin_call(call_id, name)
        self._slot_of[key] = (call_id, slot)
        return slot
