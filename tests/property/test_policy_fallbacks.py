"""A default that a user's rule may speak before is the only thing that such a rule can weaken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.policy_cases import USER, WORKSPACE, builtin_text, default_rules, effect, request, verdict

from gloveport.server.policy.rules.rule import Source
from gloveport.server.policy.rules.ruleset import ruleset_from_texts

STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
PLACES = ("api.example.org:443", "other.example.org:443", "db.example.org:5432")
CALLS = {
    "network": lambda place: request(effect("network", place), tool="http_request", label=USER),
    "publish": lambda place: request(effect("publish", place), tool="http_request", label=USER),
    "message": lambda place: request(effect("message", place), tool="http_request", label=USER),
}


def rule(number: int, kind: str, verdict_: str, host: str) -> str:
    """A rule about one host, or about all of them."""
    hosts = f'hosts = ["{host}"]\n' if host else ""
    target = f"{host or 'x.example.org'}:443"
    return (
        f'[[rule]]\nid = "r{number}"\neffects = ["{kind}"]\nverdict = "{verdict_}"\n{hosts}justification = "said"\n'
        f'match = [{{ effect = "{kind}", target = "{target}" }}]\nnot_match = [{{ effect = "read", target = "a" }}]\n'
    )


rules = st.lists(
    st.tuples(
        st.sampled_from([Source.managed, Source.user, Source.session]),
        st.sampled_from(sorted(CALLS)),
        st.sampled_from(sorted(STRICTNESS)),
        st.sampled_from(["", "api.example.org", "other.example.org"]),
    ).filter(lambda one: not (one[0] is Source.session and one[2] == "allow")),
    max_size=6,
)


def judged(kind: str, place: str, given_rules: list[tuple[Source, str, str, str]]) -> str:
    """What is decided with these rules beside the built-in ones."""
    texts: dict[Source, str] = {Source.builtin: builtin_text()}
    for number, (source, about, said, host) in enumerate(given_rules):
        texts[source] = texts.get(source, "version = 1\n") + rule(number, about, said, host)
    return verdict(CALLS[kind](place), rules=ruleset_from_texts(texts))


@given(rules, st.sampled_from(sorted(CALLS)), st.sampled_from(PLACES))
def test_no_rule_weakens_another_but_the_default_of_the_network(
    given_rules: list[tuple[Source, str, str, str]], kind: str, place: str
) -> None:
    """Whatever is said beside it, a managed or built-in rule that speaks of the place keeps its strictness."""
    found = STRICTNESS[judged(kind, place, given_rules)]
    speaking = [
        STRICTNESS[said]
        for _source, about, said, host in given_rules
        if about == kind and (not host or place == f"{host}:443")
    ]
    assert found >= max(speaking, default=0)
    firm = 1 if kind != "network" else 0  # the built-in word on publishing and messages is no fallback
    assert found >= firm
    if not speaking:
        assert found == STRICTNESS[verdict(CALLS[kind](place))] >= 1, "the default still speaks"


def test_the_only_fallbacks_are_the_two_defaults() -> None:
    """Another one would be another thing that a user's rule may speak before."""
    found = {one.rule_id for one in default_rules().rules if one.fallback}
    assert found == {"network.default", "execute.default"}


@pytest.mark.parametrize("source", [Source.managed, Source.user, Source.session])
def test_no_rule_of_anybodys_is_a_fallback(source: Source) -> None:
    """Else a user could be made to be spoken before."""
    text = "version = 1\n" + rule(1, "network", "deny", "").replace("justification", "fallback = true\njustification")
    with pytest.raises(Exception, match="only built-in rules may be fallbacks"):
        ruleset_from_texts({Source.builtin: builtin_text(), source: text})


def test_a_managed_ask_stands_against_a_users_allow() -> None:
    """The plain case of the property."""
    both = [(Source.managed, "network", "ask", ""), (Source.user, "network", "allow", "api.example.org")]
    assert judged("network", PLACES[0], both[1:]) == "allow"
    assert judged("network", PLACES[0], both) == "ask"


def test_a_users_allow_is_no_word_against_the_kernels_own_checks() -> None:
    """What the workspace's own text may have chosen is asked about whatever rules say."""
    texts = {Source.builtin: builtin_text(), Source.user: "version = 1\n" + rule(1, "network", "allow", "")}
    call = request(effect("network", PLACES[0]), tool="http_request", label=WORKSPACE)
    assert verdict(call, rules=ruleset_from_texts(texts)) == "ask"
