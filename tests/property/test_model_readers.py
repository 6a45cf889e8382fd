"""Pure parts of the models room under whatever a server may send: typed results or typed errors, nothing else."""

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.protocol.errors import ErrorCode
from gloveport.server.models.anthropic_messages import MessagesReader
from gloveport.server.models.assembly import HalfPairs, history_arguments, sound_text
from gloveport.server.models.contract import (
    ErrorClass,
    ModelError,
    Part,
    ReasoningDelta,
    TextDelta,
    ToolArgsDelta,
    UsagePart,
)
from gloveport.server.models.failures import (
    RETRY_AFTER_S_MAX,
    bound_words,
    classify_answer,
    classify_event,
    model_error,
    parse_retry_after,
)
from gloveport.server.models.openai_chat import ChatReader
from gloveport.server.models.sse import Reader, parse_event

NAMES = re.findall(
    r"\w+",
    "choices delta content tool_calls index id function name arguments finish_reason usage error type message text "
    "content_block partial_json thinking input stop_reason prompt_tokens output_tokens code reasoning refusal",
)
KINDS = re.findall(
    r"\w+",
    "message_start content_block_start content_block_delta content_block_stop message_delta message_stop error ping "
    "tool_use text stop length tool_calls end_turn x",
)
LEAVES = st.none() | st.booleans() | st.integers(-3, 5) | st.sampled_from(KINDS) | st.text(max_size=5)
JSON = st.recursive(
    LEAVES,
    lambda deep: st.lists(deep, max_size=3) | st.dictionaries(st.sampled_from(NAMES), deep, max_size=5),
    max_leaves=20,
)
EVENTS = st.lists(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=5), max_size=6)
HALVES = st.text(st.sampled_from("aé\U0001f600\ud83d\ude00\udcff"), max_size=6)


def read(reader: Reader, events: Iterable[dict[str, Any]]) -> list[Part]:
    """What a reader gives before it ends or refuses."""
    parts: list[Part] = []
    try:
        for event in events:
            parts += reader.read(event)
        if reader.complete:
            parts.append(reader.finish())
    except ModelError:
        return parts
    return parts


@given(EVENTS, st.booleans())
def test_no_event_breaks_a_reader(events: list[dict[str, Any]], chat: bool) -> None:
    for part in read(ChatReader() if chat else MessagesReader(), events):
        match part:
            case TextDelta(text) | ReasoningDelta(text):
                assert text
                text.encode()
            case ToolArgsDelta(index, call_id, _, fragment):
                assert index >= 0
                assert call_id
                fragment.encode()
            case UsagePart(sent, got, cached):
                assert min(sent, got, cached) >= 0


@given(st.lists(HALVES, max_size=6))
def test_pairs_are_joined_over_any_cut(pieces: list[str]) -> None:
    """All but a half at the very end comes out as if it had never been cut."""
    joiner = HalfPairs()
    joined = "".join(joiner.join(piece) for piece in pieces)
    whole = "".join(pieces)
    expected = sound_text(whole[:-1] if whole[-1:] and "\ud800" <= whole[-1] <= "\udbff" else whole)
    assert joined == expected


@given(st.text(st.characters() | st.sampled_from("\ud83d\ude00")))
def test_sound_text_can_be_encoded_and_is_left_alone_when_it_could(text: str) -> None:
    sound = sound_text(text)
    sound.encode()
    try:
        text.encode()
    except UnicodeEncodeError:
        assert sound != text
    else:
        assert sound is text


@given(st.text() | JSON.map(json.dumps))
def test_history_arguments_are_an_object_that_can_be_sent(arguments: str) -> None:
    """F04: broken arguments stand in the history as an empty object."""
    value = history_arguments(arguments)
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    assert isinstance(value, dict)


@pytest.mark.parametrize(
    "broken", ['{"a":NaN}', '{"a":', "[]", "null", '"x"', "", "[" * 100_000, '{"a":1}}', '{"a":Infinity}']
)
def test_f04_arguments_that_are_no_object_become_an_empty_one(broken: str) -> None:
    assert history_arguments(broken) == {}


@given(
    st.integers(100, 599), JSON | st.text(max_size=900), st.dictionaries(st.sampled_from(["retry-after"]), st.text())
)
def test_every_answer_has_a_class_a_code_and_short_clean_words(status: int, body: object, headers: Any) -> None:
    for err in (classify_answer(status, headers, body, now_us=0), classify_event(body, "req")):
        assert err.error_class in ErrorClass
        assert err.code.value.startswith("model.")
        assert len(err.message) < 600
        assert err.message.isprintable()


@pytest.mark.parametrize(
    ("status", "body", "error_class"),
    [
        (401, {}, ErrorClass.AUTH),
        (403, {}, ErrorClass.AUTH),
        (402, {}, ErrorClass.QUOTA),
        (404, {"error": {"message": "no such model"}}, ErrorClass.REFUSED),
        (408, {}, ErrorClass.SERVER),
        (413, {}, ErrorClass.CONTEXT),
        (429, {}, ErrorClass.RATE),
        (429, {"error": {"code": "insufficient_quota", "message": "x"}}, ErrorClass.QUOTA),
        (400, {"error": {"code": "context_length_exceeded", "message": "x"}}, ErrorClass.CONTEXT),
        (400, {"error": {"type": "x", "message": "Your credit balance is too low"}}, ErrorClass.QUOTA),
        (400, {"error": {"type": "x", "message": "prompt is too long: 9 > 8"}}, ErrorClass.CONTEXT),
        (500, {}, ErrorClass.SERVER),
        (502, "<html>Bad gateway</html>", ErrorClass.SERVER),
        (503, {}, ErrorClass.OVERLOADED),
        (529, {}, ErrorClass.OVERLOADED),
        (307, {}, ErrorClass.REFUSED),
    ],
)
def test_a_status_has_its_class(status: int, body: object, error_class: ErrorClass) -> None:
    assert classify_answer(status, {}, body, now_us=0).error_class is error_class


def test_every_class_has_a_code() -> None:
    codes = {model_error(each, "x").code for each in ErrorClass}
    assert codes == {code for code in ErrorCode if code.value.startswith("model.")}


@given(st.text() | st.floats().map(str) | st.sampled_from(["inf", "-1", "nan", "1e999", "Fri, 99 Foo 2027"]))
def test_f01_retry_after_is_a_sane_pause_or_none(value: str) -> None:
    pause = parse_retry_after(value, 0)
    assert pause is None or 0 <= pause <= RETRY_AFTER_S_MAX


@given(st.text(max_size=60), st.integers(2, 20))
def test_foreign_words_are_one_clean_line_within_their_bound(words: str, most: int) -> None:
    shown = bound_words(words, most)
    assert len(shown) <= most
    assert shown.isprintable()


@given(st.text(max_size=30))
def test_an_event_is_an_object_or_an_error(data: str) -> None:
    try:
        assert isinstance(parse_event(data), dict)
    except (ModelError, ValueError):
        return
