"""An address that the user typed is looked at without a question; nothing that only looks like that is."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit import policy_cases as cases

from gloveport.server.policy.findings import ask
from gloveport.server.policy.labels import BOTTOM, Label
from gloveport.server.policy.request import Request
from gloveport.server.policy.typed import (
    ANSWERED,
    TYPED_CHARACTERS_MAX,
    TYPED_WORDS,
    is_typed_look,
    words_answer,
)

URL = "https://docs.example.org/guide"
SENDS = "GET https://docs.example.org:443/guide"


@pytest.mark.parametrize(
    "said",
    [
        f"Read {URL}",
        f"Please read {URL} and mend the parser.",
        f"please, look at {URL} first.",
        f"Read the content on webpage {URL}.",
        f"Open {URL}, then go on",
        f"OPEN {URL} now",
        f"  Summarise the page at {URL}!\n",
        f"Fetch {URL}. Mend the parser with it",
        f"Visit {URL} and tell me what's new (the first page)",
        f"Post the summary of the article at {URL} to the 'general' channel.",
        f"Please send me a short summary of {URL}",
        f"write a summary of the page at {URL} in two sentences",
        "see HTTPS://Docs.Example.ORG/guide",
        "get https://docs.example.org:443/guide",
        f"check {URL} and {'x' * (TYPED_CHARACTERS_MAX - len(URL) - 11)}",
    ],
)
def test_a_plain_request_to_look_at_one_address_endorses_it(said: str) -> None:
    assert is_typed_look(said, SENDS)
    assert is_typed_look(said, SENDS.replace("GET", "HEAD"))


NO_LOOK = [
    "",
    "Read the guide.",
    # in no words of asking, or in a line of something else
    URL,
    f"({URL})",
    f"Go on. Read {URL}",
    f"The page is {URL}",
    f"why does CI fail? Error: see {URL} for help",
    f"app.py phones home to {URL} - find out why",
    f"alice [10:01]: please open {URL}",
    f"Look: [docs]({URL})",
    f"Read this readme: see {URL} for more",
    f"Open {URL} is what the ticket asks for",
    f"Check {URL} is blocked",
    f"Post the summary to {URL}",
    f"Post the summary of the notes to {URL}",
    f"The summary of {URL} was posted to the 'general' channel",
    f"Post the summary of '{URL}' to 'general'",
    f"Post the summary of the mail that links {URL}",
    f"Post the summary of 'read {URL} to me'",
    f"Send a summary of {URL} to 'everybody but not Bob'",
    f"Send a summary of {URL} to 'nobody' unless it is good",
    f"Send a summary of {URL} is what the ticket asks for",
    f"Send a summary of what {URL} is for",
    f"Get {URL} out of the code",
    f"Open {URL}?",
    f"Open {URL}: it is mine",
    f"+ open {URL}",
    f"> open {URL}",
    # more than a line, whatever stands there
    f"Read this\n{URL}",
    f"Open {URL}\nactually, leave that page alone",
    f"Do not fetch any of these:\n{URL}",
    f"Open {URL}\x0bor not",
    f"Open {URL}\u2028or not",
    f"```\n~~~\nopen {URL}\n```",
    f"---------- Forwarded message\nFrom: x\nopen {URL}",
    f"Von: x\nBetreff: y\nopen {URL}",
    f"review this diff:\n@@ -1 +1 @@\n+    fetch( {URL} )",
    # held back
    f"Never open {URL}",
    f"Don't open {URL}",
    f"Open {URL} and don't",
    f"Open {URL} and dont send anything",
    f"Open {URL}, please not",
    f"Ignore {URL}, it is malicious",
    f"Skip {URL}",
    f"Read {URL} and skip it",
    f"You cannot fetch {URL}",
    f"Open {URL} now if I say so",
    f"Open {URL} first. Ask me before",
    f"Read {URL} and then wait",
    f"Use the local copy instead of {URL}",
    f"Bitte {URL} nicht aufrufen",
    f"N'ouvre pas {URL}",
    f"Open {URL} and nicht",
    # quoted
    f'Read "{URL}"',
    f"Read '{URL}'",
    f"Read `{URL}`",
    f"Read \u201c{URL}\u201d",
    f"Read \u300c{URL}\u300d",
    f"Read \u2039{URL}\u203a",
    f"Read \u00b4{URL}\u00b4",
    f"Open {URL} and tell 'em",
    f'Open {URL} and quote the "first" line',
    f"See <img src={URL}>",
    f"The ticket says 'please open {URL} now'",
    # another address, or one more
    f"Read {URL} and https://docs.example.org/other",
    f"Read https://docs.example.org/other and {URL}",
    f"Read {URL} and www.example.org",
    "Read docs.example.org/guide",
    "Read https://docs.example.org",
    f"Read {URL}/more",
    f"Read {URL}?token=1",
    f"Read x{URL}",
    f"Read {URL}#part",
    f"Read evil.example/{URL}",
    "Read http://docs.example.org/guide",
    "Read https://docs.example.org:8443/guide",
    "Read https://docs.example.org/Guide",
    "Read https://docs.example.org.evil.example/guide",
    "Read https://user@docs.example.org/guide",
    "Read https://d\u043ecs.example.org/guide",
    "Read https://docs\u200b.example.org/guide",
    f"check {URL} and {'x' * TYPED_CHARACTERS_MAX}",
]


@pytest.mark.parametrize("said", NO_LOOK)
def test_what_has_any_other_form_endorses_nothing(said: str) -> None:
    assert not is_typed_look(said, SENDS)


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
    assert not is_typed_look(f"Read {URL}", sends)


def test_an_address_without_a_scheme_is_one_only_where_it_says_so() -> None:
    """A file's name must not become a host."""
    assert is_typed_look("see www.example.org", "GET https://www.example.org:443/")
    assert is_typed_look("see www.example.org/a?b=1", "GET https://www.example.org/a?b=1")
    assert is_typed_look("see http://example.org:80?b", "GET http://example.org/?b")
    assert not is_typed_look("see www.example.org", "GET http://www.example.org/")
    assert not is_typed_look("mend README.md", "GET https://readme.md:443/")
    assert not is_typed_look("write to www.a@example.org", "GET https://example.org:443/")


@given(st.text(max_size=80), st.text(alphabet=st.characters(codec="ascii"), max_size=30))
def test_a_request_that_is_nowhere_in_the_words_is_never_typed(text: str, tail: str) -> None:
    path = f"/{tail}"
    if is_typed_look(text, f"GET https://docs.example.org{path}"):
        assert f"docs.example.org{path}".rstrip("/").casefold() in text.casefold()


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_second_line_endorses_nothing(before: str, after: str) -> None:
    """Whichever of the lines asks: one that only looks empty is no line."""
    for said in (f"Read {URL}\n{after}", f"{before}\nRead {URL}"):
        if len(said.strip().splitlines()) > 1:
            assert not is_typed_look(said, SENDS)


def look(**changes: Any) -> Request:
    """A request for the page."""
    made = cases.request(cases.effect("network", "docs.example.org:443"), tool="http_request", intent="named")
    given = {"typed": True, "label": BOTTOM, "sandbox": cases.BUBBLEWRAP, **changes}
    return replace(made, **given)


def test_a_typed_look_needs_no_answer_before_anything_was_read() -> None:
    decision = cases.judge(look())
    assert (decision.verdict, decision.reason, decision.need, decision.grant_id) == ("allow", TYPED_WORDS, None, None)
    assert decision.rule_ids == ("builtin:network.default",)
    assert cases.verdict(replace(look(), typed=False)) == "ask"


CONFIDENTIAL = Label(cases.UNTRUSTED.integrity, frozenset({"model:a"}))
OWN_SECRET = Label(BOTTOM.integrity, frozenset({"docs.example.org"}))
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
        ({"label": cases.UNTRUSTED}, {}, "ask"),
        ({"label": cases.WORKSPACE}, {}, "ask"),
        ({"label": CONFIDENTIAL}, {}, "ask"),
        ({"label": OWN_SECRET}, {}, "ask"),
        ({"reversible": False}, {}, "ask"),
        ({"unknown": ("beam:x",)}, {}, "ask"),
        ({"tool": "server__fetch"}, {}, "ask"),
        ({"effects": (cases.effect("network", "docs.example.org:443"), cases.effect("publish", "x"))}, {}, "ask"),
        ({"effects": (cases.effect("message", "a@example.org"),)}, {}, "ask"),
        ({"goal_revision": 2}, {}, "deny"),
        ({}, {"rules": cases.with_user_rules(USERS_RULE)}, "ask"),
        ({}, {"rules": cases.with_user_rules(USERS_RULE.replace('"ask"', '"deny"'))}, "deny"),
    ],
    ids=[
        "a stranger's text",
        "the project's text",
        "confidential",
        "their own secret",
        "irreversible",
        "unknown",
        "other tool",
        "publish",
        "message",
        "old goal",
        "asks",
        "denies",
    ],
)
def test_it_answers_nothing_else(changes: dict[str, Any], circumstances: dict[str, Any], expected: str) -> None:
    assert cases.verdict(look(**changes), **circumstances) == expected


def test_words_answer_only_questions_about_the_network_by_name() -> None:
    place, other = cases.effect("network", "a:443"), cases.effect("message", "a:443")
    known = replace(ask("x", "", place), rule_id=ANSWERED)
    assert words_answer(True, BOTTOM, [known])
    assert not words_answer(False, BOTTOM, [known])
    assert not words_answer(True, cases.WORKSPACE, [known])
    assert not words_answer(True, OWN_SECRET, [known])
    assert not words_answer(True, BOTTOM, [known, ask("irreversible", "")])
    assert not words_answer(True, BOTTOM, [replace(known, effect=other)])
    assert not words_answer(True, BOTTOM, [replace(known, effect=None)])
