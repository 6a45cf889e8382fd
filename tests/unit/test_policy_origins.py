"""Where words come from, as a card says it: the sources of a label, and what of a body was read before."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.policy_cases import context, effect, judge, request

from gloveport.server.policy.card import build_card
from gloveport.server.policy.labels import Integrity, Label
from gloveport.server.policy.origins import (
    ORIGINS_MAX,
    READ_IN_MAX,
    RUN_CHARACTERS_MIN,
    Told,
    origins_of,
    runs_of,
)
from gloveport.server.policy.request import Request, Sending
from gloveport.server.policy.rung import TrustLevel

SOURCE = "def pause(response):\n    floor = parse_retry_after(response.headers, now)\n    return max(floor, jitter)\n"
FILE = Told("file", "retry.py", SOURCE)
LINE = "floor = parse_retry_after(response.headers, now)"


def found(body: str, *told: Told) -> list[tuple[str, str]]:
    """The runs that stand elsewhere, and where."""
    lines, sources = runs_of(body, told)
    return [(run.text, sources[run.told].name) for line in lines for run in line if run.told is not None]


def test_a_line_that_was_read_is_found_in_words_of_the_models_own() -> None:
    assert found(f"Cause: {LINE}!", FILE) == [(LINE, "retry.py")]
    assert found("nothing of it stands here, however long it is", FILE) == []


def test_in_json_what_a_string_says_counts() -> None:
    """The runs are cut out of the spelled form: an escaped line break parts two of them."""
    body = json.dumps({"body": f"Cause:\n{SOURCE}Done."})
    runs = found(body, FILE)
    assert [text for text, _ in runs] == [
        "def pause(response):", LINE, "return max(floor, jitter)",
    ]  # fmt: skip
    quoted = Told("file", "a.py", 'say("a long enough word", 1)')
    assert found(json.dumps(quoted.text), quoted) == [(json.dumps(quoted.text)[1:-1], "a.py")]


@pytest.mark.parametrize("plain", ["-" * 40, " " * 40, LINE[: RUN_CHARACTERS_MIN - 1]])
def test_what_stands_in_many_texts_tells_nothing(plain: str) -> None:
    assert found(f"{plain}", Told("file", "x", f"{plain} {plain}")) == []


def test_the_first_text_is_named_and_no_more_than_so_many() -> None:
    other = Told("message", "", SOURCE)
    assert {name for _, name in found(LINE, FILE, other)} == {"retry.py"}
    many = [Told("file", f"{n}.py", f"line {n} of a text that is long") for n in range(READ_IN_MAX + 3)]
    body = "\n".join(one.text for one in many)
    lines, sources = runs_of(body, many)
    assert len(sources) == READ_IN_MAX
    assert "\n".join("".join(run.text for run in line) for line in lines) == body


@given(st.text(alphabet='ab\\n"u0 \n', max_size=80), st.lists(st.text(alphabet="ab\\n \n", max_size=60), max_size=3))
def test_the_runs_are_the_text(body: str, texts: list[str]) -> None:
    """Whatever was read, and however it is spelled, nothing is lost, doubled or moved."""
    lines, _ = runs_of(body, [Told("result", str(at), text) for at, text in enumerate(texts)])
    assert "\n".join("".join(run.text for run in line) for line in lines) == body


@given(st.text(alphabet="abcdefghij ", max_size=90), st.text(alphabet="abcdefghij \n", max_size=60), st.data())
def test_what_is_told_to_stand_in_a_text_does(head: str, text: str, data: st.DataObject) -> None:
    """Each character of such a run is one of so many in a row that stand there."""
    start = data.draw(st.integers(0, len(text)))
    body = head + text[start : start + data.draw(st.integers(0, 40))]
    lines, _ = runs_of(body, [Told("result", "", text)])
    at = 0
    for line in lines:
        for run in line:
            for here in range(at, at + len(run.text)) if run.told is not None else ():
                begins = range(max(0, here - RUN_CHARACTERS_MIN + 1), here + 1)
                assert any(
                    len(body[one : one + RUN_CHARACTERS_MIN]) == RUN_CHARACTERS_MIN
                    and body[one : one + RUN_CHARACTERS_MIN] in text
                    for one in begins
                )
            at += len(run.text)
        at += 1


def test_a_source_says_its_kind_and_no_integrity_that_it_has_not() -> None:
    ids = ("database:shop", "gloveport", "http:api.example:443", "issue:9\u202e", "not-looked-through:a", "secret:.env",
           "secret-like:search", "smtp:m:25", "unknown", "user", "workspace")  # fmt: skip
    label = Label(Integrity.UNTRUSTED, None, ids)
    assert [tuple(one.values()) for one in origins_of(label, workspace=Integrity.WORKSPACE)] == [
        ("database", "shop", "untrusted"), ("gloveport", "", "user"), ("http", "api.example:443", "untrusted"),
        ("other", "issue:9⟨U+202E⟩", None), ("unseen", "a", None), ("secret_like", "search", None),
        ("secret", ".env", None), ("mail", "m:25", "untrusted"), ("unknown", "", "untrusted"),
        ("user", "", "user"), ("workspace", "", "workspace"),
    ]  # fmt: skip


def test_a_card_names_so_many_sources_and_counts_the_rest() -> None:
    label = Label(Integrity.UNTRUSTED, None, tuple(f"http:{n}:1" for n in range(ORIGINS_MAX + 5)))
    call = replace(request(effect("write", "conftest.py")), sources=label)
    said = build_card(call, judge(call), context())["provenance"]
    assert (len(said["origins"]), said["origins_left_out"]) == (ORIGINS_MAX, 5)


@pytest.mark.parametrize(
    ("level", "word"), [(TrustLevel.trusted, "workspace"), (TrustLevel.restricted, "workspace"), (None, "untrusted")]
)
def test_the_projects_text_is_trusted_as_the_user_trusts_it(level: TrustLevel | None, word: str) -> None:
    call = replace(request(effect("write", "conftest.py")), sources=Label(Integrity.UNTRUSTED, None, ("workspace",)))
    card = build_card(call, judge(call), context(trust_level=level))
    assert [one["integrity"] for one in card["provenance"]["origins"]] == [word]


def sending(body: str, *told: Told, is_scanned: bool = True) -> Request:
    """A request that sends this body."""
    shown = Sending(("POST /a\u202e", "X: y"), body, is_scanned, told)
    return request(effect("network", "api.example.org:443"), tool="http_request", sending=shown)


def test_what_leaves_is_on_the_card_whole_line_by_line() -> None:
    call = sending(f"{' ' * 12}{LINE}\nzero\u200bwidth é{' ' * 12}end\n", FILE)
    sends = build_card(call, judge(call), context())["sends"]
    assert sends["head"] == ["POST /a⟨U+202E⟩", "X: y"]
    assert [(run["text"], run["source"]) for run in sends["lines"][0]] == [(" " * 12, None), (LINE, 0)]
    assert sends["lines"][1:] == [[{"text": "zero⟨U+200B⟩width é⟨12 spaces⟩end", "source": None}], []]
    assert sends["bytes"] == len(f"{' ' * 12}{LINE}\nzero\u200bwidth é{' ' * 12}end\n".encode())
    assert (sends["hidden_characters"], sends["scan"]) == (1, "none_found")
    assert sends["sources"] == [{"kind": "file", "name": "retry.py"}]


def test_nobody_says_that_nothing_was_found_where_nobody_looked() -> None:
    call = sending("words", is_scanned=False)
    assert build_card(call, judge(call), context())["sends"]["scan"] is None
    call = request(effect("write", "conftest.py"))
    assert build_card(call, judge(call), context())["sends"] is None
