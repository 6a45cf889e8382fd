"""One suite for every provider: what a stream yields, how it fails, and how it ends when its reader goes
away.
"""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import anyio
import pytest
from tests.kit.model_server import Behaviour, Call, ModelServer

from gloveport.protocol.errors import ErrorCode
from gloveport.server.models.anthropic_messages import AnthropicMessagesProvider
from gloveport.server.models.contract import (
    Accepted,
    AssistantTurn,
    ErrorClass,
    ModelError,
    ModelRequest,
    Part,
    Provider,
    ReasoningDelta,
    Stop,
    SystemText,
    TextDelta,
    ToolArgsDelta,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    UsagePart,
    UserText,
)
from gloveport.server.models.guarded_http import Endpoint
from gloveport.server.models.openai_chat import OpenAIChatProvider
from gloveport.server.models.script_file import Script, ScriptedCall, ScriptedError, ScriptedUsage, Step
from gloveport.server.models.scripted import ScriptedProvider
from gloveport.server.secrets.value import Secret

NOW_US = 1_800_000_000_000_000
EDIT = ToolSpec("edit_file", "Edits.", {"type": "object", "properties": {"path": {"type": "string"}}})
REQUEST = ModelRequest("m", (SystemText("Be exact."), UserText("hi")), (EDIT,), 512)


@dataclass(slots=True)
class Bench:
    """A provider and the server behind it (None for the scripted one)."""

    provider: Provider
    server: ModelServer | None

    def play(self, behaviour: Behaviour) -> None:
        """Makes the provider's far side behave so from now on."""
        if self.server is not None:
            self.server.behaviours = [behaviour]
            return
        assert isinstance(self.provider, ScriptedProvider)
        self.provider = ScriptedProvider(_as_script(behaviour))


def _as_script(behaviour: Behaviour) -> Script:
    failed = {401: ErrorClass.AUTH, 429: ErrorClass.RATE, 503: ErrorClass.OVERLOADED}.get(behaviour.status)
    if behaviour.cut_after is not None:
        failed = ErrorClass.TRUNCATED
    calls = [ScriptedCall(name=c.name, arguments="".join(c.fragments)) for c in behaviour.calls]
    sent, got, cached = behaviour.usage
    step = Step(
        reasoning="".join(behaviour.reasoning),
        text="" if behaviour.status != 200 else "".join(behaviour.text) * behaviour.repeat,
        calls=calls,
        usage=ScriptedUsage(input_tokens=sent, output_tokens=got, cached_tokens=cached),
        stop=behaviour.stop if behaviour.stop in ("length", "refusal") else "end",
        error=ScriptedError(error_class=failed) if failed else None,
        chunk_chars=3,
        delay_ms=behaviour.delay_ms,
    )
    return Script(name="contract", steps=[step])


def make_adapter(name: str, base_url: str, key: str | None = "sk-test-0123456789", **more: float) -> Provider:
    """An adapter at an address."""
    endpoint = Endpoint(base_url, Secret(key) if key else None, **more)  # type: ignore[arg-type]  # floats only
    kind = {"openai": OpenAIChatProvider, "anthropic": AnthropicMessagesProvider}[name]
    return kind(endpoint, lambda: NOW_US)


@pytest.fixture(params=["scripted", "openai", "anthropic"])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """Every provider."""
    if request.param == "scripted":
        yield Bench(ScriptedProvider(Script(name="contract", steps=[])), None)
        return
    async with ModelServer() as server:
        provider = make_adapter(request.param, server.base_url(request.param))
        yield Bench(provider, server)
        await provider.close()


@pytest.fixture(params=["openai", "anthropic"])
async def wired(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """Providers with a wire."""
    async with ModelServer() as server:
        provider = make_adapter(request.param, server.base_url(request.param))
        yield Bench(provider, server)
        await provider.close()


@pytest.fixture(params=["openai", "anthropic"])
async def hasty(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """Providers with a wire that bear one second of silence."""
    async with ModelServer() as server:
        provider = make_adapter(request.param, server.base_url(request.param), idle_timeout_s=1.0)
        yield Bench(provider, server)
        await provider.close()


async def read_all(provider: Provider, request: ModelRequest = REQUEST) -> tuple[list[Part], ModelError | None]:
    """Everything a stream yields, and how it failed."""
    parts: list[Part] = []
    try:
        async with provider.stream(request) as stream:
            async for part in stream:
                parts.append(part)
    except ModelError as err:
        return parts, err
    return parts, None


def text_of(parts: list[Part]) -> str:
    """The answer's text."""
    return "".join(p.text for p in parts if isinstance(p, TextDelta))


def stop_of(parts: list[Part]) -> Stop:
    """The end, which must be last and alone."""
    assert [type(p) for p in parts].count(Stop) == 1
    last = parts[-1]
    assert isinstance(last, Stop)
    return last


async def test_text_streams_between_accepted_and_stop(bench: Bench) -> None:
    bench.play(Behaviour(text=("Grüße ", "𝔘n", "d mehr"), reasoning=("hm", "m")))
    parts, err = await read_all(bench.provider)
    assert err is None
    assert isinstance(parts[0], Accepted)
    assert parts[0].provider_request_id
    assert [type(p) for p in parts].count(Accepted) == 1
    assert text_of(parts) == "Grüße 𝔘nd mehr"
    assert sum(isinstance(p, TextDelta) for p in parts) > 1
    assert "".join(p.text for p in parts if isinstance(p, ReasoningDelta)) == "hmm"
    assert all(p.text for p in parts if isinstance(p, TextDelta | ReasoningDelta))
    assert stop_of(parts) == Stop("end", ())
    assert [p for p in parts if isinstance(p, UsagePart)][-1] == UsagePart(10, 9, 5)


async def test_calls_stream_in_fragments_and_come_whole_with_the_stop(bench: Bench) -> None:
    one = Call("edit_file", ('{"pa', 'th":"a.t', 'xt"}'), "call_a")
    two = Call("read_file", ('{"path": ', '"b"}'), "call_b")
    bench.play(Behaviour(text=("go",), calls=(one, two)))
    parts, err = await read_all(bench.provider)
    assert err is None
    stop = stop_of(parts)
    assert stop.reason == "tool_calls"
    assert [(c.name, c.arguments_json) for c in stop.calls] == [
        ("edit_file", '{"path":"a.txt"}'),
        ("read_file", '{"path": "b"}'),
    ]
    assert len({c.call_id for c in stop.calls}) == 2
    for index, call in enumerate(stop.calls):
        pieces = [p for p in parts if isinstance(p, ToolArgsDelta) and p.index == index]
        assert "".join(p.args_fragment for p in pieces) == call.arguments_json
        assert {(p.call_id, p.name) for p in pieces} == {(call.call_id, call.name)}
        assert len(pieces) > 1


@pytest.mark.parametrize("broken", ['{"command":"ls', "[]", "{'a': 1}", '{"a":\x01}', "null"])
async def test_f04_broken_arguments_arrive_as_they_were_sent(bench: Bench, broken: str) -> None:
    bench.play(Behaviour(text=(), calls=(Call("run_command", (broken[:2], broken[2:])),)))
    parts, err = await read_all(bench.provider)
    assert err is None
    assert stop_of(parts).calls[0].arguments_json == broken


async def test_f04_the_output_limit_inside_arguments_is_a_stop_by_length(bench: Bench) -> None:
    bench.play(Behaviour(text=(), calls=(Call("run_command", ('{"comm',)),), stop="length"))
    parts, err = await read_all(bench.provider)
    assert err is None
    assert stop_of(parts).reason == "length"
    assert stop_of(parts).calls[0].arguments_json == '{"comm'


async def test_a_refusal_is_told(bench: Bench) -> None:
    bench.play(Behaviour(text=("No.",), stop="refusal"))
    parts, _ = await read_all(bench.provider)
    assert stop_of(parts).reason == "refusal"


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, ErrorCode.MODEL_AUTH), (429, ErrorCode.MODEL_RATE), (503, ErrorCode.MODEL_UNREACHABLE)],
)
async def test_a_refused_request_is_a_typed_error_without_a_stop(bench: Bench, status: int, code: ErrorCode) -> None:
    bench.play(Behaviour(status=status, body={"error": {"message": "no", "type": "x"}}))
    parts, err = await read_all(bench.provider)
    assert err is not None
    assert err.code is code
    assert err.provider_request_id
    assert not [p for p in parts if isinstance(p, Stop | TextDelta)]


async def test_f07_a_cut_stream_keeps_what_arrived_and_is_broken(bench: Bench) -> None:
    bench.play(Behaviour(text=("half ",), repeat=9, cut_after=6))
    parts, err = await read_all(bench.provider)
    assert err is not None
    assert err.code is ErrorCode.MODEL_BROKEN
    assert text_of(parts).startswith("half ")
    assert not [p for p in parts if isinstance(p, Stop)]


async def test_cancelling_the_reader_ends_the_stream_at_once(bench: Bench) -> None:
    bench.play(Behaviour(text=("drip ",), repeat=10_000, delay_ms=10))
    seen = anyio.Event()

    async def read() -> None:
        async with bench.provider.stream(REQUEST) as parts:
            async for part in parts:
                if isinstance(part, TextDelta):
                    seen.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await seen.wait()
            group.cancel_scope.cancel()
        if bench.server is not None:
            await bench.server.disconnected.wait()


async def test_leaving_the_block_early_closes_the_connection(bench: Bench) -> None:
    bench.play(Behaviour(text=("drip ",), repeat=10_000, delay_ms=10))
    with anyio.fail_after(60):
        async with bench.provider.stream(REQUEST) as parts:
            async for part in parts:
                if isinstance(part, TextDelta):
                    break
        if bench.server is not None:
            await bench.server.disconnected.wait()


async def test_one_provider_serves_requests_side_by_side(bench: Bench) -> None:
    bench.play(Behaviour(text=("a", "b", "c")))
    texts: list[str] = []

    async def read() -> None:
        parts, err = await read_all(bench.provider)
        assert err is None
        texts.append(text_of(parts))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(read)
    assert texts == ["abc"] * 5


async def test_lookup_says_that_it_cannot_know(bench: Bench) -> None:
    assert await bench.provider.lookup("req_abc") is None


async def test_close_may_be_called_twice(bench: Bench) -> None:
    await read_all(bench.provider)
    await bench.provider.close()
    await bench.provider.close()


async def test_the_label_is_honest(bench: Bench) -> None:
    if bench.server is None:
        assert "no model" in bench.provider.label
    else:
        assert f"127.0.0.1:{bench.server.port}" in bench.provider.label


# ---- what only a wire can do ----


async def test_f07_a_close_without_end_marker_is_broken(wired: Bench) -> None:
    wired.play(Behaviour(text=("half ",), repeat=9, end_after=6))
    parts, err = await read_all(wired.provider)
    assert err is not None
    assert (err.code, err.error_class) == (ErrorCode.MODEL_BROKEN, ErrorClass.TRUNCATED)
    assert err.provider_request_id == "req_abc"
    assert text_of(parts).startswith("half ")


async def test_f07_a_cut_after_the_first_of_two_calls_yields_no_stop(wired: Bench) -> None:
    calls = (Call("a", ("{}",), "c1"), Call("b", ("{}",), "c2"))
    wired.play(Behaviour(text=(), calls=calls, cut_after=5))
    parts, err = await read_all(wired.provider)
    assert err is not None
    assert err.code is ErrorCode.MODEL_BROKEN
    assert [p.name for p in parts if isinstance(p, ToolArgsDelta)]
    assert not [p for p in parts if isinstance(p, Stop)]


async def test_f07_silence_in_mid_stream_ends_after_the_idle_limit(hasty: Bench) -> None:
    hasty.play(Behaviour(text=("half ",), repeat=9, silence_after=5))
    parts, err = await read_all(hasty.provider)
    assert err is not None
    assert (err.code, err.error_class) == (ErrorCode.MODEL_BROKEN, ErrorClass.IDLE)
    assert text_of(parts).startswith("half ")


async def test_f07_a_slow_but_healthy_stream_outlives_the_idle_limit(hasty: Bench) -> None:
    hasty.play(Behaviour(text=("x",), repeat=3, delay_ms=200))
    parts, err = await read_all(hasty.provider)
    assert err is None
    assert text_of(parts) == "x" * 3


async def test_silence_before_the_headers_is_unreachable(hasty: Bench) -> None:
    hasty.play(Behaviour(silent_start=True))
    parts, err = await read_all(hasty.provider)
    assert err is not None
    assert err.code is ErrorCode.MODEL_UNREACHABLE
    assert parts == []


async def test_a_reply_that_is_whole_does_not_hang_on_an_open_connection(hasty: Bench) -> None:
    hasty.play(Behaviour(linger=True))
    parts, err = await read_all(hasty.provider)
    assert err is None
    assert stop_of(parts).reason == "end"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "3600"}, 3600.0),
        ({"retry-after": "Fri, 15 Jan 2027 08:01:00 GMT"}, 60.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({}, None),
    ],
)
async def test_f01_retry_after_is_told_in_every_form(
    wired: Bench, headers: Mapping[str, str], seconds: float | None
) -> None:
    wired.play(Behaviour(status=429, headers=headers, body={"error": {"message": "slow down"}}))
    _, err = await read_all(wired.provider)
    assert err is not None
    assert (err.code, err.retry_after_s) == (ErrorCode.MODEL_RATE, seconds)
    assert wired.server is not None
    assert len(wired.server.requests) == 1, "retries belong to another owner"


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(status=500, body={}),
        Behaviour(status=503, body={}),
        Behaviour(status=408, body={}),
        Behaviour(status=409, body={}),
        Behaviour(cut_after=0),
    ],
)
async def test_f01_no_sdk_tries_again_by_itself(wired: Bench, behaviour: Behaviour) -> None:
    """Retries have one owner: what an SDK would repeat by itself reaches the server once."""
    wired.play(behaviour)
    _, err = await read_all(wired.provider)
    assert err is not None
    assert wired.server is not None
    assert len(wired.server.requests) == 1


async def test_f01_an_exhausted_quota_is_not_throttling(wired: Bench) -> None:
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    wired.play(Behaviour(status=429, body=body))
    _, err = await read_all(wired.provider)
    assert err is not None
    assert err.code is ErrorCode.MODEL_QUOTA


async def test_a_refusal_quotes_bounded_words(wired: Bench) -> None:
    body = {"error": {"message": "bad\x1b[31m request " + "x" * 5000, "type": "invalid_request_error"}}
    wired.play(Behaviour(status=400, body=body))
    _, err = await read_all(wired.provider)
    assert err is not None
    assert err.code is ErrorCode.MODEL_REFUSED
    assert "bad" in err.message
    assert "\x1b" not in err.message
    assert len(err.message) < 600


async def test_an_error_event_in_mid_stream_is_typed(wired: Bench) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    wired.play(Behaviour(text=("half ",), repeat=9, error_after=(5, error)))
    parts, err = await read_all(wired.provider)
    assert err is not None
    assert (err.code, err.error_class) == (ErrorCode.MODEL_UNREACHABLE, ErrorClass.OVERLOADED)
    assert text_of(parts).startswith("half ")
    assert err.provider_request_id == "req_abc"


@pytest.mark.parametrize("data", ['{"half', "[]", '"text"', "1", "{}", '{"choices": 3, "type": 3}', "[" * 100_000])
async def test_malformed_events_are_broken_not_a_crash(wired: Bench, data: str) -> None:
    wired.play(Behaviour(raw_events=(("message_start", data),)))
    _, err = await read_all(wired.provider)
    assert err is not None
    assert err.code is ErrorCode.MODEL_BROKEN


async def test_an_answer_over_the_byte_limit_is_stopped() -> None:
    for name in ("openai", "anthropic"):
        async with ModelServer([Behaviour(text=("x" * 1000,), repeat=1000)]) as server:
            provider = make_adapter(name, server.base_url(name), wire_bytes_max=50_000)  # type: ignore[arg-type]  # - a literal
            parts, err = await read_all(provider)
            await provider.close()
            assert err is not None
            assert err.error_class is ErrorClass.TOO_LARGE
            assert 0 < len(text_of(parts)) < 50_000


async def test_nobody_at_the_address_is_unreachable() -> None:
    for name in ("openai", "anthropic"):
        provider = make_adapter(name, "http://127.0.0.1:9")
        parts, err = await read_all(provider)
        await provider.close()
        assert err is not None
        assert (err.code, err.error_class) == (ErrorCode.MODEL_UNREACHABLE, ErrorClass.CONNECT)
        assert "127.0.0.1:9" in err.message
        assert parts == []


async def test_g06_nothing_of_the_environment_reaches_the_wire(wired: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = {
        "HTTP_PROXY": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "OPENAI_API_KEY": "sk-planted",
        "OPENAI_ADMIN_KEY": "sk-planted",
        "ANTHROPIC_API_KEY": "sk-planted",
        "ANTHROPIC_AUTH_TOKEN": "sk-planted",
        "OPENAI_ORG_ID": "org-planted",
        "OPENAI_PROJECT_ID": "proj-planted",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Planted: planted\nAuthorization: Bearer sk-planted",
        "OPENAI_CUSTOM_HEADERS": "X-Planted: planted\nAuthorization: Bearer sk-planted",
    }
    for name, value in planted.items():
        monkeypatch.setenv(name, value)
    wired.play(Behaviour())
    _, err = await read_all(wired.provider)
    assert err is None
    assert wired.server is not None
    (request,) = wired.server.requests
    assert "planted" not in json.dumps(dict(request.headers))
    assert request.headers["authorization"] == "Bearer sk-test-0123456789"
    assert not [name for name in request.headers if name.startswith("x-stainless")]


async def test_without_a_key_none_is_sent() -> None:
    for name in ("openai", "anthropic"):
        async with ModelServer() as server:
            provider = make_adapter(name, server.base_url(name), key=None)  # type: ignore[arg-type]  # - a literal
            _, err = await read_all(provider)
            await provider.close()
            assert err is None
            assert not {"authorization", "x-api-key"} & server.requests[0].headers.keys()


async def test_a_redirect_is_not_followed(wired: Bench) -> None:
    async with ModelServer() as other:
        wired.play(Behaviour(status=307, headers={"location": f"http://127.0.0.1:{other.port}/v1/messages"}, body={}))
        _, err = await read_all(wired.provider)
        assert err is not None
        assert err.code is ErrorCode.MODEL_REFUSED
        assert other.requests == []


async def test_a_compressed_answer_is_refused(wired: Bench) -> None:
    wired.play(Behaviour(headers={"content-encoding": "gzip"}))
    _, err = await read_all(wired.provider)
    assert err is not None
    assert err.error_class is ErrorClass.MALFORMED
    assert wired.server is not None
    assert wired.server.requests[0].headers["accept-encoding"] == "identity"


async def test_f04_history_with_broken_arguments_goes_out_valid(wired: Bench) -> None:
    calls = (
        ToolCallPart("c1", "run_command", '{"command":"ls'),
        ToolCallPart("c2", "read_file", '{"path":"a"}'),
    )
    history = (
        UserText("hi"),
        AssistantTurn("", calls),
        ToolResultPart("c1", "arguments are no JSON", is_error=True),
        ToolResultPart("c2", "text"),
        AssistantTurn("", ()),
        UserText("go on"),
    )
    wired.play(Behaviour())
    _, err = await read_all(wired.provider, ModelRequest("m", history, (EDIT,)))
    assert err is None
    assert wired.server is not None
    sent = wired.server.requests[0].body["messages"]
    if wired.provider.name == "openai":
        assert [m["role"] for m in sent] == ["user", "assistant", "tool", "tool", "user"]
        assert [c["function"]["arguments"] for c in sent[1]["tool_calls"]] == ["{}", '{"path": "a"}']
        assert "[error]" in sent[2]["content"]
    else:
        assert [m["role"] for m in sent] == ["user", "assistant", "user"]
        assert [b["input"] for b in sent[1]["content"]] == [{}, {"path": "a"}]
        assert [b["type"] for b in sent[2]["content"]] == ["tool_result", "tool_result", "text"]
        assert sent[2]["content"][0]["is_error"] is True
