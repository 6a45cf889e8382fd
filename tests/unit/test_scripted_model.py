"""The scripted provider: what a script may ask of a conversation, how it waits, and what a wrong script is told."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.contract.test_models_contract import read_all, stop_of, text_of

from gloveport.protocol.text import GO_ON
from gloveport.server.models.contract import (
    AssistantTurn,
    ChatMessage,
    ErrorClass,
    ModelError,
    ModelRequest,
    TextDelta,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    UserText,
)
from gloveport.server.models.script_file import SCRIPT_BYTES_MAX, Script, load_script, parse_script
from gloveport.server.models.scripted import ScriptedProvider

TOOLS = (ToolSpec("search", "Searches.", {"type": "object"}),)


def script(*steps: dict[str, Any]) -> Script:
    """A script of these steps, read as a file would be."""
    return parse_script(json.dumps({"name": "t", "steps": steps}).encode(), "t.json")


def after(*results: tuple[str, str, bool]) -> tuple[ChatMessage, ...]:
    """A conversation whose latest reply made one call for each (tool, text, error)."""
    calls = tuple(ToolCallPart(f"c{n}", tool, "{}") for n, (tool, _, _) in enumerate(results))
    told = tuple(ToolResultPart(f"c{n}", text, is_error=bad) for n, (_, text, bad) in enumerate(results))
    return (UserText("please fix it"), AssistantTurn("", calls), *told)


async def answer(provider: ScriptedProvider, messages: tuple[ChatMessage, ...]) -> str:
    """The text of the reply."""
    parts, err = await read_all(provider, ModelRequest("script", messages, TOOLS))
    assert err is None
    return text_of(parts)


async def test_an_answer_that_broke_off_is_played_again() -> None:
    """The half answer and the line that asks to go on are no step of the conversation."""
    step = {"when": {"user_contains": "fix", "turn": 1, "turns_total": 1, "result_contains": "one"}, "text": "fits"}
    messages = (*after(("search", "one", False)), AssistantTurn("Half an"), UserText(GO_ON))
    assert await answer(ScriptedProvider(script(step, {"text": "lost"})), messages) == "fits"


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        ({"user_contains": "fix"}, True),
        ({"user_contains": "break"}, False),
        ({"turn": 1}, True),
        ({"turn": 0}, False),
        ({"turns_total": 1}, True),
        ({"last_tool": "search"}, True),
        ({"last_tool": "read_file", "result_contains": "two"}, True),
        ({"last_tool": "search", "result_contains": "two"}, False),
        ({"result_contains": "one"}, True),
        ({"result_matches": "^t.o$", "result_is_error": True}, True),
        ({"result_is_error": False, "result_contains": "two"}, False),
        ({"offers_tool": "search"}, True),
        ({"offers_tool": "send"}, False),
        ({}, True),
    ],
)
async def test_conditions_speak_of_the_conversation(when: dict[str, Any], fits: bool) -> None:
    """All that are given hold; those on results hold for one and the same of the newest results."""
    provider = ScriptedProvider(script({"when": when, "text": "yes"}, {"text": "no"}))
    messages = after(("search", "one", False), ("read_file", "two", True))
    assert await answer(provider, messages) == ("yes" if fits else "no")


async def test_results_of_earlier_replies_and_turns_are_not_the_newest() -> None:
    provider = ScriptedProvider(script({"when": {"result_contains": "one"}, "text": "yes"}, {"text": "no"}))
    old = after(("search", "one", False))
    assert await answer(provider, (*old, AssistantTurn("ok"), UserText("and now?"))) == "no"
    again = AssistantTurn("", (ToolCallPart("d", "search", "{}"),))
    assert await answer(provider, (*old, again, ToolResultPart("d", "two"))) == "no"


async def test_arguments_may_hold_what_a_tool_said() -> None:
    arguments = {"path": {"$from": {"tool": "search", "regex": r"(\w+\.py)"}}, "deep": [{"$from": {"regex": "x+"}}]}
    provider = ScriptedProvider(script({"calls": [{"name": "read_file", "arguments": arguments}]}))
    parts, _ = await read_all(
        provider, ModelRequest("script", after(("search", "see a.py", False), ("y", "xx", False)))
    )
    assert json.loads(stop_of(parts).calls[0].arguments_json) == {"path": "a.py", "deep": ["xx"]}
    parts, err = await read_all(provider, ModelRequest("script", after(("search", "nothing", False))))
    assert err is not None
    assert err.error_class is ErrorClass.MALFORMED


async def test_without_a_fitting_step_the_fallback_answers() -> None:
    provider = ScriptedProvider(script({"when": {"turn": 7}, "text": "x"}))
    assert "no step" in await answer(provider, (UserText("hi"),))


async def test_a_reply_stops_until_its_file_is_there(tmp_path: Path) -> None:
    """Deterministic: what comes before the gate has come, what comes after has not, until the file exists."""
    steps = script({"text": "abcdef", "chunk_chars": 2, "wait_for_file": "go", "wait_after_chunks": 2})
    polled = 0

    async def sleep(_seconds: float) -> None:
        nonlocal polled
        polled += 1
        if polled == 3:
            (tmp_path / "go").touch()
        await anyio.lowlevel.checkpoint()

    texts = []
    async with ScriptedProvider(steps, tmp_path, sleep=sleep).stream(ModelRequest("s", (UserText("x"),))) as parts:
        async for part in parts:
            if isinstance(part, TextDelta):
                texts.append((part.text, polled))
    assert texts == [("ab", 0), ("cd", 0), ("ef", 3)]


async def test_a_file_that_never_comes_is_a_typed_end(tmp_path: Path) -> None:
    async def sleep(_seconds: float) -> None:
        return

    parts, err = await read_all(ScriptedProvider(script({"text": "a", "wait_for_file": "no"}), tmp_path, sleep=sleep))
    assert err is not None
    assert err.error_class is ErrorClass.IDLE
    assert text_of(parts) == ""


async def test_delays_pass_through_the_given_sleep() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    await read_all(ScriptedProvider(script({"text": "abcd", "chunk_chars": 1, "delay_ms": 250}), sleep=sleep))
    assert slept == [0.25] * 6, "four pieces of text, usage and the stop"


def test_toml_and_json_are_the_same_script(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('name = "t"\n[[steps]]\nwhen = { turn = 0 }\ntext = "hi"\n')
    (tmp_path / "s.json").write_text('{"name": "t", "steps": [{"when": {"turn": 0}, "text": "hi"}]}')
    assert load_script(tmp_path / "s.toml") == load_script(tmp_path / "s.json")


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("s.json", b'{"name": "t",\n "steps": [}', "line 2"),
        ("s.toml", b'name = "t"\nsteps = ]\n', "line 2"),
        ("s.json", b'{"name": "t", "steps": [{"txt": "x"}]}', "steps[0].txt"),
        ("s.json", b'{"name": "t", "steps": [{"when": {"turn": "0"}}]}', "steps[0].when.turn"),
        ("s.json", b"\xff\xfe", "UTF-8"),
        ("s.json", b"[" * 100_000, "depth"),
        ("s.json", b"[]", "script"),
        ("s.json", b" " * (SCRIPT_BYTES_MAX + 1), "larger"),
    ],
)
def test_a_wrong_script_is_told_where_it_is_wrong(name: str, data: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ModelError) as caught:
        load_script(tmp_path / name)
    assert caught.value.error_class is ErrorClass.CONFIG
    assert words in caught.value.message
    assert name in caught.value.message


async def test_a_wrong_pattern_is_told() -> None:
    provider = ScriptedProvider(script({"when": {"result_matches": "("}, "text": "x"}))
    _, err = await read_all(provider, ModelRequest("script", after(("search", "x", False))))
    assert err is not None
    assert err.error_class is ErrorClass.CONFIG
