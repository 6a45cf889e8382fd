"""A model's tool arguments: exactly one strict JSON object or nothing."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kit.simulation.materials import BROKEN_ARGUMENTS

from gloveport.server.turn.arguments import (
    ARGUMENTS_CHARACTERS_MAX,
    ARGUMENTS_DEPTH_MAX,
    ERROR_EXCERPT_CHARACTERS,
    ArgumentsError,
    canonical_arguments,
    parse_arguments,
    text_digest,
)

TEXT = st.text(max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=4)


def same(left: Any, right: Any) -> bool:
    """Equal, and of equal types all the way down: 1, 1.0 and true are three things."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


@settings(deadline=None)
@given(OBJECTS, st.booleans(), st.sampled_from([None, 1, 4]))
def test_every_object_is_read_as_it_is(value: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    """Nothing is repaired, coerced or lost, however it is spelled."""
    assert same(parse_arguments(json.dumps(value, ensure_ascii=ascii_only, indent=indent)), value)


@settings(deadline=None)
@given(OBJECTS)
def test_canonical_form_is_one_spelling(value: dict[str, Any]) -> None:
    """Equal objects give equal bytes whatever their order; what is digested parses to what runs."""
    canonical = canonical_arguments(value)
    assert canonical_arguments(dict(reversed(value.items()))) == canonical
    assert same(parse_arguments(canonical), value)
    assert canonical_arguments(parse_arguments(canonical)) == canonical
    assert len(text_digest(canonical)) == 64


def test_the_one_spelling_is_for_ever() -> None:
    """Digests of arguments stand in logs and cards: names sorted, no spaces, characters as they are."""
    assert canonical_arguments({"b": [1, 2.5, None], "a": {"c": "é😀"}}) == '{"a":{"c":"é😀"},"b":[1,2.5,null]}'
    assert text_digest("é😀") == "1184d1f608158eea09d297565575892231550c403aaa913008d867a97cfd5c76"


@settings(deadline=None)
@given(st.text(max_size=60) | st.sampled_from(BROKEN_ARGUMENTS))
@example('{"a":1}x')
@example("\ufeff{}")
@example('{"a":"\x00"}')
@example("[" * 100_000)
@example('{"a":' * 100_000)
def test_anything_else_is_refused_with_words(raw: str) -> None:
    """Either an object comes out or ArgumentsError with a text that can be stored; nothing else is ever raised."""
    value, words = None, ""
    try:
        value = parse_arguments(raw)
    except ArgumentsError as refused:
        words = str(refused)
    words.encode("utf-8")
    assert len(words) < ERROR_EXCERPT_CHARACTERS * 11 + 200
    if not words:
        assert isinstance(value, dict)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")


@settings(deadline=None)
@given(OBJECTS, TEXT)
def test_a_name_twice_is_refused_at_any_depth(value: dict[str, Any], name: str) -> None:
    """Two readers of a doubled name could disagree on what runs."""
    key, inner = json.dumps(name), json.dumps(value)
    for raw in (f"{{{key}:1,{key}:1}}", f'{{"o":[{{{key}:{inner},{key}:{inner}}}]}}'):
        with pytest.raises(ArgumentsError, match="twice"):
            parse_arguments(raw)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400 + ".0"])
def test_numbers_that_are_none_are_refused(number: str) -> None:
    """Not by name and not by overflow: what would be digested could not be read back."""
    for raw in (f'{{"a":{number}}}', f'{{"a":[{{"b":{number}}}]}}'):
        with pytest.raises(ArgumentsError):
            parse_arguments(raw)
    with pytest.raises(ValueError):
        canonical_arguments({"a": math.inf})


@pytest.mark.parametrize("raw", ["null", "1", '"x"', "[]", "[{}]", "true"])
def test_other_json_is_refused(raw: str) -> None:
    """An object is needed, and the words say what came instead."""
    with pytest.raises(ArgumentsError, match="an object is needed, not"):
        parse_arguments(raw)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_depth_has_a_limit(opening: str) -> None:
    """At the limit it is read; beyond it the answer is the same at any depth of our own stack."""
    closing = "]" if opening == "[" else "}"

    def nested(levels: int) -> str:
        return '{"o":' + opening * levels + ("1" if closing == "}" else "") + closing * levels + "}"

    assert parse_arguments(nested(ARGUMENTS_DEPTH_MAX - 1))
    for levels in (ARGUMENTS_DEPTH_MAX, 500, 20_000):
        with pytest.raises(ArgumentsError):
            parse_arguments(nested(levels))


def test_length_has_a_limit() -> None:
    """The limit itself is read, one more is refused before it is parsed."""
    filler = ARGUMENTS_CHARACTERS_MAX - len('{"a":""}')
    assert len(parse_arguments('{"a":"' + "x" * filler + '"}')["a"]) == filler
    with pytest.raises(ArgumentsError, match="over the limit"):
        parse_arguments('{"a":"' + "x" * (filler + 1) + '"}')


def test_broken_text_is_never_an_empty_object() -> None:
    """Field report on tools that ran with {} because their arguments could not be read."""
    for raw in BROKEN_ARGUMENTS:
        with pytest.raises(ArgumentsError):
            parse_arguments(raw)
