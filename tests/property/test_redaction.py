"""A known secret never survives redaction, whatever surrounds it and however the text was cut; ordinary text does."""

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.server.secrets.automaton import ROOT, Automaton
from gloveport.server.secrets.detect import KNOWN_CHARS_MIN, Redactor, find_secrets
from gloveport.server.secrets.encodings import SPELLED_BYTES_MIN
from gloveport.server.secrets.shapes import SHAPES
from gloveport.server.secrets.stream import KEY_BYTES_MAX, LINE_BYTES_MAX, StreamRedactor

ROOT_FOLDER = Path(__file__).resolve().parents[2]
NARROW = st.text("ab•]\n é\U0001f600", min_size=KNOWN_CHARS_MIN, max_size=9)
KNOWN = st.lists(NARROW | st.text(min_size=KNOWN_CHARS_MIN, max_size=40), min_size=1, max_size=4)
PIECES = st.lists(st.text("ab•]\n é\U0001f600", max_size=6) | st.text(max_size=20), max_size=8)

# Made up, in the shape of the real thing, and put together here so that no scanner takes this file for a leak.
LETTERS = "Zq3xW8vT1yB6nM4kR9sD2fG7hJ5pL0cE"
FAKES = {
    "aws access key": "AKIA" + "Q3XW8VT1YB6NM4KR",
    "github token": "ghp_" + LETTERS + "Aa1b",
    "gitlab token": "glpat-" + LETTERS[:20],
    "model key": "sk-proj-" + LETTERS,
    "slack token": "xoxb-" + "123456789012-" + LETTERS[:24],
    "stripe key": "sk_live_" + LETTERS[:24],
    "google key": "AIza" + LETTERS + "Aa1",
    "npm token": "npm_" + LETTERS + "Aa1b",
    "pypi token": "pypi-AgE" + LETTERS * 2,
    "hugging face token": "hf_" + LETTERS + "Aa",
    "sendgrid key": "SG." + LETTERS[:22] + "." + (LETTERS * 2)[:43],
    "digitalocean token": "dop_v1_" + "0123456789abcdef" * 4,
    "azure storage key": "AccountKey=" + (LETTERS * 3)[:86] + "==",
    "json web token": "eyJ" + LETTERS[:12] + ".eyJ" + LETTERS[:12] + "." + LETTERS,
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----\n" + (LETTERS + "\n") * 8 + "-----END RSA PRIVATE KEY-----",
    "password in an address": "postgres://app:" + LETTERS[:12] + "@db.example/x",
    "authorization header": "Authorization: Bearer " + LETTERS,
    "labelled value": 'client_secret = "' + LETTERS + '"',
}


@given(KNOWN, st.data())
def test_a_known_value_never_survives(known: list[str], data: st.DataObject) -> None:
    redactor = Redactor(known, shapes=data.draw(st.booleans()))
    parts = data.draw(st.lists(st.sampled_from(known) | st.text(max_size=12) | NARROW, max_size=8))
    clean = redactor.redact("".join(parts))
    assert not [value for value in known if value in clean]


@given(KNOWN, st.data())
def test_a_known_value_never_survives_a_stream_however_it_is_cut(known: list[str], data: st.DataObject) -> None:
    redactor = Redactor(known, shapes=data.draw(st.booleans()))
    text = "".join(data.draw(st.lists(st.sampled_from(known) | NARROW | st.text(max_size=12), max_size=8)))
    stream, shown = StreamRedactor(redactor), ""
    while text:
        size = data.draw(st.integers(1, 8))
        shown += stream.feed(text[:size])
        text = text[size:]
    shown += stream.finish()
    assert not [value for value in known if value in shown]


@given(st.text(min_size=SPELLED_BYTES_MIN, max_size=60), st.text(max_size=9), st.text(max_size=9))
def test_a_known_value_is_found_in_its_common_spellings(value: str, before: str, after: str) -> None:
    redactor = Redactor([value], shapes=False)
    whole = before + value + after
    in_base64 = base64.b64encode(whole.encode()).decode()
    left = redactor.redact(in_base64).replace(redactor.mark, "")
    assert len(left) <= len(base64.b64encode((before + after).encode())) + 4, "more than the neighbours is left"
    for spelled in (value.encode().hex(), quote(value, safe=""), json.dumps(value)[1:-1]):
        assert spelled not in redactor.redact(before + spelled + after)


@given(PIECES)
def test_text_without_secrets_passes_unchanged_in_whole_and_in_pieces(pieces: list[str]) -> None:
    redactor = Redactor(["not-in-any-piece-Q"])
    stream = StreamRedactor(redactor)
    shown = [stream.feed(piece) for piece in pieces]
    assert "".join([*shown, stream.finish()]) == "".join(pieces) == redactor.redact("".join(pieces))


@given(st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=6), st.binary(max_size=30), st.integers(0, 30))
def test_the_automaton_knows_the_longest_open_end(words: list[bytes], data: bytes, cut: int) -> None:
    automaton = Automaton(words)
    state = automaton.walk(automaton.walk(ROOT, data[:cut]), data[cut:])
    open_ends = [
        n for n in range(len(data) + 1) if any(w.startswith(data[len(data) - n :]) and len(w) > n for w in words)
    ]
    assert automaton.open_length(state) == max(open_ends)


@pytest.mark.parametrize("kind", sorted(FAKES))
def test_the_shape_of_a_credential_is_found_and_cut_out(kind: str) -> None:
    fake = FAKES[kind]
    text = f"before é {fake}\nafter"
    (found,) = find_secrets(text)
    assert found.kind == kind
    secret = text[found.start : found.end]
    assert secret in fake
    clean = Redactor().redact(text)
    assert secret not in clean
    assert clean.startswith("before é ")
    assert clean.endswith("after")


def test_every_shape_has_a_case() -> None:
    assert {shape.kind for shape in SHAPES} == set(FAKES)


@pytest.mark.parametrize("kind", sorted(FAKES))
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_shape_of_a_credential_is_found_in_a_stream(kind: str, size: int) -> None:
    text = f"before\nx {FAKES[kind]}\nafter\n"
    stream = StreamRedactor(Redactor())
    shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.finish()
    assert shown == Redactor().redact(text) != text


@pytest.mark.parametrize(
    "harmless",
    [
        "sk-learn-compatible-estimator-and-more-words",
        ".sk-fading-circle-with-many-little-dots { color: red }",
        "password = input('password: ')",
        'token = "{{ secrets.DEPLOY_TOKEN }}"',
        'api_key = "your-api-key-goes-here"',
        "https://user:${PASSWORD}@host.example/",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "git checkout 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "DATABASE_KEY=primary_key_of_table",
        "550e8400-e29b-41d4-a716-446655440000",
    ],
)
def test_harmless_text_is_left_alone(harmless: str) -> None:
    assert Redactor().redact(harmless) == harmless


def test_the_source_of_this_product_is_left_alone() -> None:
    """A large body of ordinary code: whatever is found in it is a false alarm."""
    redactor = Redactor()
    touched = [
        str(path)
        for path in sorted((ROOT_FOLDER / "server").rglob("*.py"))
        if (text := path.read_text(encoding="utf-8")) != redactor.redact(text)
    ]
    assert touched == []


def test_a_stream_without_breaks_is_not_held_for_ever() -> None:
    stream = StreamRedactor(Redactor(["known-value-123"]))
    fed = shown = 0
    for _ in range(200):
        fed += 1000
        shown += len(stream.feed("x" * 1000))
        assert fed - shown <= LINE_BYTES_MAX + 1000
    assert stream.feed("-----BEGIN RSA " + "PRIVATE KEY-----\n" + "y\n" * KEY_BYTES_MAX)


def test_without_shapes_words_pass_at_once() -> None:
    stream = StreamRedactor(Redactor(["sesame-open"], shapes=False))
    assert stream.feed("Hello wor") == "Hello wor"
    assert stream.feed("ld ses") == "ld "
    assert stream.feed("sion") == "session"


def test_lone_surrogates_and_bytes_pass() -> None:
    redactor = Redactor(["sesame-open"])
    assert redactor.redact("a\ud800b") == "a\ud800b"
    assert redactor.redact_bytes(b"\xff\xfesesame-open\x80") == b"\xff\xfe" + redactor.mark.encode() + b"\x80"


def test_it_shows_nothing_of_what_it_knows() -> None:
    redactor = Redactor(["sesame-open"])
    assert "sesame" not in repr(redactor) + str(redactor)


@given(st.lists(st.text(min_size=4, max_size=40), min_size=1, max_size=4), st.text(max_size=40), st.binary(min_size=1))
def test_places_of_one_secret_are_told_alike_and_hold_none(known: list[str], around: str, key: bytes) -> None:
    """With a key: the same in every spelling, another one for another secret or key, and again nothing changes."""
    redactor = Redactor(known, shapes=False, key=key)
    text = around.join(known)
    told = redactor.redact(text)
    assert not any(value in told for value in known)
    assert redactor.redact(told) == told


def test_spellings_of_a_secret_match_and_other_secrets_do_not() -> None:
    """Plain, in base64 and for a URL it is one; without the key the digest tells nothing that could be tried."""
    one, other = "first&secret=value", "second-secret-value"
    redactor = Redactor((one, other), key=b"k" * 32)
    spelled = [one, one.encode().hex(), quote(one, safe="")]
    assert len({redactor.redact(text) for text in spelled}) == 1
    assert redactor.redact(one) != redactor.redact(other)
    assert redactor.redact(one) != Redactor((one, other), key=b"j" * 32).redact(one)
    assert redactor.mark in redactor.redact(one)
    at = f"postgres://user:{redactor.redact(one)}@host/db"
    assert redactor.redact(at) == at
    assert Redactor((one,)).redact(one) == redactor.mark
