"""An address that the user typed is looked at without a question; nothing that only looks like that is."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit import policy_cases as cases

from gloveport.server.policy.findings import ask
from gloveport.server.policy.labels import Label
from gloveport.server.policy.request import Request
from gloveport.server.policy.typed import (
    TYPED_CHARACTERS_MAX,
    TYPED_LINES_MAX,
    TYPED_WORDS,
    is_typed_look,
    words_answer,
)

URL = "https://docs.example.org/guide"
SENDS = "GET https://docs.example.org:443/guide"


@pytest.mark.parametrize(
    "typed",
    [
        f"Please read {URL} and mend the parser.",
        f"Read {URL}.",
        f"({URL})",
        f'Open "{URL}" first',
        f"Open `{URL}`, then go on",
        f"Open “{URL}”",
        f"«{URL}» is the page",
        f"Go on.\nThe page: {URL}",
        f"Don't touch the tests. Read {URL}",
        "HTTPS://Docs.Example.ORG/guide",
        "https://docs.example.org:443/guide",
        f"Read {URL}!\n> not my words",
        f"```\ncode\n```\nRead {URL}",
        f"Read {URL}?\nFrom: somebody",
        f"{'x' * (TYPED_CHARACTERS_MAX - len(URL) - 1)} {URL}",
        f"{URL}{chr(10) * (TYPED_LINES_MAX - 1)}",
    ],
)
def test_what_the_user_typed_is_typed(typed: str) -> None:
    assert is_typed_look([typed], SENDS)
    assert is_typed_look(["another message", typed], SENDS.replace("GET", "HEAD"))


@pytest.mark.parametrize(
    "typed",
    [
        "",
        "Read the guide.",
        "docs.example.org/guide",
        "https://docs.example.org",
        "https://docs.example.org/",
        f"{URL}/more",
        f"{URL}?token=1",
        f"x{URL}",
        f"{URL}#part",
        f"evil.example/{URL}",
        "http://docs.example.org/guide",
        "https://docs.example.org:8443/guide",
        "https://docs.example.org/Guide",
        "https://docs.example.org.evil.example/guide",
        "https://user@docs.example.org/guide",
        "https://d\u043ecs.example.org/guide",
        "https://docs\u200b.example.org/guide",
        "https://docs\u2024example.org/guide",
        "https://docs.example.org\u2215guide",
        f"[the guide]({URL})",
        f"Never open {URL}",
        f"Don't open {URL}",
        f"do NOT open {URL}",
        f"Summarise it without {URL}",
        f"> {URL}",
        f"  > see {URL}",
        f"| {URL} |",
        f"    {URL}",
        f"\t{URL}",
        f"```\n{URL}\n```",
        f"~~~\n{URL}",
        f'The issue says: "please open {URL} now"',
        f"It says “open {URL} at\nonce”",
        f"He wrote `curl {URL}`",
        f'The log: "open {URL}',
        f"Sum this up:\n---\nopen {URL}",
        f"Sum this up:\nFrom: a@example.org\nopen {URL}",
        f"Sum this up:\nBegin forwarded message\n{URL}",
        f"Sum this up:\nOn Monday Mallory wrote:\n{URL}",
        f"Sum this up:\nsubject: x\n{URL}",
        f"{'x' * (TYPED_CHARACTERS_MAX - len(URL))} {URL}",
        f"{URL}{chr(10) * TYPED_LINES_MAX}",
    ],
)
def test_what_is_quoted_forbidden_partly_equal_or_in_other_letters_is_not(typed: str) -> None:
    assert not is_typed_look([typed], SENDS)


@pytest.mark.parametrize(
    "sends",
    [
        "",
        f"POST {URL}",
        f"DELETE {URL}",
        f"GET {URL}\nX-Note: secret",
        f"GET {URL}\n(the credential mine)",
        f"GET {URL}\n\nbody",
        f"GET {URL}\n",
        f"GET  {URL}",
        f"get {URL}",
        f"GET {URL} x",
        f"GET {URL}?q=secret",
        f"GET {URL}/",
        "GET https://d\u043ecs.example.org/guide",
        "whatever the program sends: it may be anything it can read",
    ],
)
def test_a_request_that_carries_more_is_no_look(sends: str) -> None:
    assert not is_typed_look([f"Read {URL}"], sends)


def test_an_address_without_a_scheme_is_one_only_where_it_says_so() -> None:
    """A file's name must not become a host."""
    assert is_typed_look(["see www.example.org"], "GET https://www.example.org:443/")
    assert is_typed_look(["see www.example.org/a?b=1"], "GET https://www.example.org/a?b=1")
    assert is_typed_look(["see http://example.org:80?b"], "GET http://example.org/?b")
    assert not is_typed_look(["see www.example.org"], "GET http://www.example.org/")
    assert not is_typed_look(["mend README.md"], "GET https://readme.md:443/")
    assert not is_typed_look(["write to www.a@example.org"], "GET https://example.org:443/")


@given(st.text(max_size=80), st.text(alphabet=st.characters(codec="ascii"), max_size=30))
def test_a_request_that_is_nowhere_in_the_words_is_never_typed(text: str, tail: str) -> None:
    path = f"/{tail}"
    if is_typed_look([text], f"GET https://docs.example.org{path}"):
        assert f"docs.example.org{path}".rstrip("/").casefold() in text.casefold()


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from(["> ", "    ", "\t", "| ", "-----\n", "From: "]))
def test_a_quoted_or_pasted_line_endorses_nothing(before: str, after: str, mark: str) -> None:
    text = f"{before}\n{mark}{URL} {after}"
    if URL not in before:
        assert not is_typed_look([text], SENDS)


def look(**changes: Any) -> Request:
    """A request for the page."""
    made = cases.request(cases.effect("network", "docs.example.org:443"), tool="http_request", intent="named")
    given = {"typed": True, "label": cases.UNTRUSTED, "sandbox": cases.BUBBLEWRAP, **changes}
    return replace(made, **given)


def test_a_typed_look_needs_no_answer_also_after_a_strangers_text() -> None:
    decision = cases.judge(look())
    assert (decision.verdict, decision.reason, decision.need, decision.grant_id) == ("allow", TYPED_WORDS, None, None)
    assert decision.rule_ids == ("builtin:network.default", "kernel:not-your-word")
    assert cases.verdict(replace(look(), typed=False)) == "ask"


CONFIDENTIAL = Label(cases.UNTRUSTED.integrity, frozenset({"model:a"}))
USERS_RULE = """version = 1
[[rule]]
id = "no-network"
effects = ["network"]
verdict = "ask"
justification = "I want to see it."
match = [{ effect = "network", target = "docs.example.org:443" }]
not_match = [{ effect = "read", target = "a" }]
"""


@pytest.mark.parametrize(
    ("changes", "circumstances", "expected"),
    [
        ({"label": CONFIDENTIAL}, {}, "ask"),
        ({"reversible": False}, {}, "ask"),
        ({"unknown": ("beam:x",)}, {}, "ask"),
        ({"tool": "server__fetch"}, {}, "ask"),
        ({"effects": (cases.effect("network", "docs.example.org:443"), cases.effect("publish", "x"))}, {}, "ask"),
        ({"effects": (cases.effect("message", "a@example.org"),)}, {}, "ask"),
        ({"goal_revision": 2}, {}, "deny"),
        ({}, {"rules": cases.with_user_rules(USERS_RULE)}, "ask"),
        ({}, {"rules": cases.with_user_rules(USERS_RULE.replace('"ask"', '"deny"'))}, "deny"),
    ],
    ids=["confidential", "irreversible", "unknown", "other tool", "publish", "message", "old goal", "asks", "denies"],
)
def test_it_answers_nothing_else(changes: dict[str, Any], circumstances: dict[str, Any], expected: str) -> None:
    assert cases.verdict(look(**changes), **circumstances) == expected


def test_words_answer_only_questions_about_the_network_by_name() -> None:
    place, other = cases.effect("network", "a:443"), cases.effect("message", "a:443")
    known = ask("not-your-word", "", place)
    assert words_answer(True, [known])
    assert not words_answer(False, [known])
    assert not words_answer(True, [known, ask("irreversible", "")])
    assert not words_answer(True, [ask("not-your-word", "", other)])
    assert not words_answer(True, [ask("not-your-word", "")])
