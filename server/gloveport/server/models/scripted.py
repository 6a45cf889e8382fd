"""The scripted provider: replies from a script, without a model.

Purpose: a full provider whose replies follow from the conversation alone; the default of the demo and of
    tests.
Invariant: the same script and conversation give the same parts, ids included; time and files only delay them.
Must never: pose as a model (its label says script), or use chance.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import re2  # type: ignore[import-untyped]  # the library ships no types

from gloveport.protocol.text import GO_ON
from gloveport.server.models.assembly import sound_text
from gloveport.server.models.contract import (
    Accepted,
    AssistantTurn,
    ChatMessage,
    ErrorClass,
    Fate,
    ModelError,
    ModelRequest,
    Part,
    PartStream,
    ReasoningDelta,
    Stop,
    TextDelta,
    ToolArgsDelta,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
    UserText,
)
from gloveport.server.models.failures import model_error
from gloveport.server.models.script_file import Script, ScriptedCall, Step, When

CHARS_PER_TOKEN: Final = 4
FILE_POLL_S: Final = 0.01
FILE_POLLS_MAX: Final = 60_000
_PLACEHOLDER: Final = "$from"

Sleep: TypeAlias = Callable[[float], Awaitable[None]]


class ScriptedProvider:
    """Plays one script; any number of conversations at once, since it keeps nothing between requests."""

    name = "scripted"

    def __init__(self, script: Script, folder: Path | None = None, *, sleep: Sleep = anyio.sleep) -> None:
        """`folder` is where relative paths of the script begin (the working directory by default); `sleep` lets its
        delays pass.
        """
        self._script = script
        self._folder = folder or Path()
        self._sleep = sleep

    @property
    def label(self) -> str:
        """Says that this is no model."""
        return f"Script “{self._script.name}” (no model)"

    def stream(self, request: ModelRequest) -> PartStream:
        """See `Provider.stream`."""
        return self._stream(request)

    async def lookup(self, provider_request_id: str) -> Fate | None:
        """A script keeps nothing between requests; it may have been told what to say."""
        return self._script.lookup

    async def close(self) -> None:
        """Nothing to give back."""

    @asynccontextmanager
    async def _stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Part]]:
        async with aclosing(self._parts(request)) as parts:
            yield parts

    async def _parts(self, request: ModelRequest) -> AsyncGenerator[Part, None]:
        told = Conversation(request)
        step = choose_step(self._script, told)
        request_id = f"script-{self._script.name}-{told.turns_total}"
        yield Accepted(request_id)
        for count, part in enumerate(play_step(step, told)):
            if count == step.wait_after_chunks and step.wait_for_file is not None:
                await self._wait_for_file(self._folder / step.wait_for_file)
            if step.delay_ms:
                await self._sleep(step.delay_ms / 1000)
            yield part
        if step.error is not None:
            base = model_error(step.error.error_class, step.error.message)
            raise ModelError(
                base.code,
                base.message,
                error_class=step.error.error_class,
                retry_after_s=step.error.retry_after_s,
                provider_request_id=request_id,
            )

    async def _wait_for_file(self, path: Path) -> None:
        for _ in range(FILE_POLLS_MAX):
            if path.exists():
                return
            await self._sleep(FILE_POLL_S)
        raise model_error(ErrorClass.IDLE, f"the file {path.name!r} that the script waits for did not appear")


class Conversation:
    """What a script may ask about a conversation; computed once per request."""

    __slots__ = ("_before", "_results", "newest", "prompt_chars", "tools", "turn", "turns_total", "user")

    def __init__(self, request: ModelRequest) -> None:
        self.tools = frozenset(tool.name for tool in request.tools)
        self.user = ""
        self.turn = self.turns_total = self.prompt_chars = 0
        self.newest: list[tuple[str, ToolResultPart]] = []
        self._results: list[tuple[str, str]] = []
        self._before = (0, 0, self.newest)
        names: dict[str, str] = {}
        for message in request.messages:
            self._hear(message, names)

    def _hear(self, message: ChatMessage, names: dict[str, str]) -> None:
        self.prompt_chars += len(message.text)
        match message:
            case UserText(text) if text == GO_ON:
                self.turn, self.turns_total, self.newest = self._before  # the broken answer is asked for again
            case UserText(text):
                self.user, self.turn, self.newest = text, 0, []
            case AssistantTurn(_, calls):
                self._before = self.turn, self.turns_total, self.newest
                self.newest = []
                self.turn += 1
                self.turns_total += 1
                names |= {call.call_id: call.name for call in calls}
            case ToolResultPart(call_id, text):
                tool = names.get(call_id, "")
                self.newest.append((tool, message))
                self._results.append((tool, text))
            case _:
                return

    def latest_result(self, tool: str | None) -> str:
        """Text of the latest result of a tool, or of any tool; empty when there is none."""
        return next((text for name, text in reversed(self._results) if tool in (None, name)), "")


def choose_step(script: Script, told: Conversation) -> Step:
    """The first step whose conditions all hold, else the fallback."""
    return next((step for step in script.steps if holds(step.when, told)), script.fallback)


def holds(when: When, told: Conversation) -> bool:
    """Whether all conditions that are given hold; no condition always holds."""
    facts: Iterable[tuple[object, bool]] = (
        (when.turn, when.turn == told.turn),
        (when.turns_total, when.turns_total == told.turns_total),
        (when.user_contains, (when.user_contains or "") in told.user),
        (when.offers_tool, when.offers_tool in told.tools),
    )
    asks_results = (when.last_tool, when.result_contains, when.result_matches, when.result_is_error) != (None,) * 4
    return all(is_so for given, is_so in facts if given is not None) and (
        not asks_results or any(_fits(when, tool, result) for tool, result in told.newest)
    )


def _fits(when: When, tool: str, result: ToolResultPart) -> bool:
    """Whether one result fits all the conditions on results."""
    return (
        when.last_tool in (None, tool)
        and (when.result_contains or "") in result.text
        and when.result_is_error in (None, result.is_error)
        and (when.result_matches is None or _find(when.result_matches, result.text) is not None)
    )


def play_step(step: Step, told: Conversation) -> Iterator[Part]:
    """The parts of a step, cut into chunks; without `Stop` when the step ends in an error. Raises
    `ModelError`.
    """
    yield from (ReasoningDelta(chunk) for chunk in _chunks(step.reasoning, step.chunk_chars))
    yield from (TextDelta(chunk) for chunk in _chunks(step.text, step.chunk_chars))
    calls = tuple(_make_call(call, told, index) for index, call in enumerate(step.calls))
    for index, call in enumerate(calls):
        for chunk in _chunks(call.arguments_json, step.chunk_chars) or [""]:
            yield ToolArgsDelta(index, call.call_id, call.name, chunk)
    yield _usage(step, told, calls)
    if step.error is None:
        yield Stop("tool_calls" if calls and step.stop == "end" else step.stop, calls)


def _usage(step: Step, told: Conversation, calls: tuple[ToolCallPart, ...]) -> UsagePart:
    if step.usage is not None:
        return UsagePart(step.usage.input_tokens, step.usage.output_tokens, step.usage.cached_tokens)
    said = len(step.text) + len(step.reasoning) + sum(len(call.arguments_json) for call in calls)
    return UsagePart(told.prompt_chars // CHARS_PER_TOKEN, said // CHARS_PER_TOKEN)


def _chunks(text: str, chars: int) -> list[str]:
    return [text[at : at + chars] for at in range(0, len(text), chars)]


def _make_call(call: ScriptedCall, told: Conversation, index: int) -> ToolCallPart:
    call_id = f"script_{told.turns_total}_{index}"
    if isinstance(call.arguments, str):
        return ToolCallPart(call_id, call.name, call.arguments)
    return ToolCallPart(call_id, call.name, json.dumps(_fill(call.arguments, told), ensure_ascii=False))


def _fill(value: object, told: Conversation) -> object:
    """Puts what earlier results said in the place of placeholders. Raises `ModelError` when a pattern
    finds nothing.
    """
    if isinstance(value, Mapping):
        if value.keys() == {_PLACEHOLDER}:
            return _look_up(value[_PLACEHOLDER], told)
        return {key: _fill(item, told) for key, item in value.items()}
    return [_fill(item, told) for item in value] if isinstance(value, list) else value


def _look_up(spec: object, told: Conversation) -> str:
    match spec:
        case {"regex": str(pattern), **rest} if rest.keys() <= {"tool"}:
            tool = rest.get("tool")
            found = _find(pattern, told.latest_result(tool if isinstance(tool, str) else None))
            if found is not None:
                return found
    raise model_error(ErrorClass.MALFORMED, f"the script's placeholder {json.dumps(spec)} found nothing")


def _find(pattern: str, text: str) -> str | None:
    """The first group (or all) of the first match, in linear time. Raises `ModelError` for a pattern that
    is none.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        found = re2.search(pattern, sound_text(text), options)
    except re2.error as err:
        raise model_error(ErrorClass.CONFIG, f"the script's pattern {pattern!r} is wrong: {err}") from err
    if found is None:
        return None
    return str(found.group(1 if found.re.groups else 0) or "")
