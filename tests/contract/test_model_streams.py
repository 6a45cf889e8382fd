"""Awkward streams as servers really send them, each cut at every size: what is read does not depend on the cuts."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.contract.test_models_contract import REQUEST, make_adapter, read_all, text_of
from tests.kit.model_server import Behaviour, Dialect, ModelServer

from gloveport.protocol.errors import ErrorCode
from gloveport.server.models.contract import (
    AssistantTurn,
    ErrorClass,
    ModelError,
    ModelRequest,
    Part,
    ReasoningDelta,
    Stop,
    TextDelta,
    ToolArgsDelta,
    ToolCallPart,
    ToolResultPart,
    UsagePart,
    UserText,
)

STREAMS = sorted((Path(__file__).parent / "streams").glob("*/*.sse"), key=str)
DIALECTS: tuple[Dialect, ...] = ("openai", "anthropic")


def dialect_of(stream: Path) -> Dialect:
    """Whose stream a file is: its folder says it."""
    return "openai" if stream.parent.name == "openai" else "anthropic"


def seen(parts: list[Part], err: ModelError | None) -> dict[str, Any]:
    """What was read, in the form of the expectations."""
    stop = next((p for p in parts if isinstance(p, Stop)), None)
    usage = next((p for p in reversed(parts) if isinstance(p, UsagePart)), None)
    return {
        "text": text_of(parts),
        "reasoning": "".join(p.text for p in parts if isinstance(p, ReasoningDelta)),
        "calls": [[c.name, c.arguments_json] for c in (stop.calls if stop else ())],
        "stop": stop.reason if stop else None,
        "error": err.error_class.value if err else None,
        "usage": [usage.input_tokens, usage.output_tokens, usage.cached_tokens] if usage else None,
    }


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_awkward_streams_are_read_whole_however_they_are_cut(dialect: Dialect) -> None:
    """F04, F07: text, arguments, end and failure are the same in pieces of one byte, of 61, and uncut."""
    async with ModelServer() as server:
        provider = make_adapter(dialect, server.base_url(dialect))
        for stream in (s for s in STREAMS if dialect_of(s) == dialect):
            expected = json.loads(stream.with_suffix(".json").read_bytes())
            for size in (1, 61, None):
                server.behaviours = [Behaviour(raw_body=stream.read_bytes(), chunk_bytes=size)]
                parts, err = await read_all(provider)
                assert seen(parts, err) == expected, f"{stream.name} in pieces of {size}"
                check_deltas(parts)
        await provider.close()


def check_deltas(parts: list[Part]) -> None:
    """Deltas joined are the calls; every text can be encoded."""
    stop = next((p for p in parts if isinstance(p, Stop)), None)
    for index, call in enumerate(stop.calls if stop else ()):
        pieces = [p.args_fragment for p in parts if isinstance(p, ToolArgsDelta) and p.index == index]
        assert "".join(pieces) == call.arguments_json
    repr(parts).encode()
    if stop is not None:
        assert len({c.call_id for c in stop.calls}) == len(stop.calls)


def test_the_streams_are_there() -> None:
    assert {s.parent.name for s in STREAMS} == set(DIALECTS)
    assert len(STREAMS) > 30


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("body", "headers", "error_class"),
    [
        (b'{"error": {"message": "no such model", "type": "invalid_request_error"}}', "application/json", "refused"),
        (b'{"ok": true}', "application/json", "malformed"),
        (b"<html>Sign in</html>", "text/html; charset=utf-8", "malformed"),
        (b"data: \xff\xfe\n\n", "text/event-stream", "malformed"),
        (b"", "text/event-stream", "truncated"),
        (b"\n\n\n: only a comment\n\n", "text/event-stream", "truncated"),
        (b"nothing of the kind", "text/event-stream", "truncated"),
    ],
)
async def test_an_answer_that_is_no_stream_is_told_for_what_it_is(
    dialect: Dialect, body: bytes, headers: str, error_class: str
) -> None:
    async with ModelServer([Behaviour(raw_body=body, headers={"content-type": headers})]) as server:
        provider = make_adapter(dialect, server.base_url(dialect))
        parts, err = await read_all(provider)
        await provider.close()
    assert err is not None
    assert err.error_class.value == error_class
    assert err.provider_request_id == "req_abc"
    assert not [p for p in parts if isinstance(p, Stop)]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_event_without_end_is_stopped_at_a_limit(dialect: Dialect) -> None:
    body = b"data: " + b"x" * 20_000_000
    async with ModelServer([Behaviour(raw_body=body, chunk_bytes=1_000_000)]) as server:
        provider = make_adapter(dialect, server.base_url(dialect))
        _, err = await read_all(provider)
        await provider.close()
    assert err is not None
    assert err.code is ErrorCode.MODEL_BROKEN
    assert err.error_class in (ErrorClass.MALFORMED, ErrorClass.TOO_LARGE)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_text_that_cannot_be_encoded_goes_out_mended(dialect: Dialect) -> None:
    """Lone surrogates come from files and commands; they neither crash the request nor reach the wire."""
    call = ToolCallPart("c1", "read_file", '{"path": "\\ud800x"}')
    history = (UserText("a\ud800b"), *turn_with(call, "out\udcff"), UserText("go on"))
    async with ModelServer() as server:
        provider = make_adapter(dialect, server.base_url(dialect))
        _, err = await read_all(provider, ModelRequest("m", history))
        await provider.close()
    assert err is None
    sent = json.dumps(server.requests[0].body, ensure_ascii=False)
    assert sent.encode().decode() == sent
    assert "a\ufffdb" in sent
    assert "out\ufffd" in sent


def turn_with(call: ToolCallPart, result: str) -> tuple[AssistantTurn, ToolResultPart]:
    """One call and its result."""
    return AssistantTurn("", (call,)), ToolResultPart(call.call_id, result)


@pytest.mark.parametrize(("dialect", "wait_after"), [("openai", 2), ("anthropic", 4)])
async def test_the_server_of_the_tests_waits_for_a_file(dialect: Dialect, wait_after: int, tmp_path: Path) -> None:
    """So that a test can stop a stream at one place without a clock: what follows comes only after the file."""
    gate = tmp_path / "go"
    behaviour = Behaviour(text=("one", "two"), wait_for_file=str(gate), wait_after=wait_after)
    async with ModelServer([behaviour]) as server:
        provider = make_adapter(dialect, server.base_url(dialect))
        texts = []
        async with provider.stream(REQUEST) as parts:
            async for part in parts:
                if isinstance(part, TextDelta):
                    texts.append((part.text, gate.exists()))
                    gate.touch()
        await provider.close()
    assert texts == [("one", False), ("two", True)]
