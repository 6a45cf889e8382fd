"""Which rules speak of a file that is to be accepted."""

import pytest

from gloveport.server.policy.accepting import Touch, rules_about_files, strictest
from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.rules.rule import Rule, Source, Verdict
from gloveport.server.policy.rules.ruleset import build_ruleset

W, D = EffectKind.write, EffectKind.delete


def rule(
    rule_id: str, verdict: Verdict, *paths: str, source: Source = Source.user, tools: tuple[str, ...] = ()
) -> Rule:
    """A rule about writing."""
    return Rule(rule_id, source, frozenset({W}), verdict, "Because.", tools=tools, paths=paths)


RULES = build_ruleset(
    [
        rule("deny", Verdict.deny, "db/**", "deep/er/*.sql"),
        rule("ask", Verdict.ask, "db/**", "docs/*"),
        rule("allow", Verdict.allow, "src/**"),
        rule("tool", Verdict.deny, tools=("write_file",)),
        rule("builtin", Verdict.deny, source=Source.builtin),
        rule("session", Verdict.deny, "Notes/**", source=Source.session),
    ]
)


@pytest.mark.parametrize(
    ("touch", "found"),
    [
        (Touch(W, "db/1.sql"), "user:deny"),
        (Touch(D, "db/1.sql"), None),
        (Touch(W, "docs/a.md"), "user:ask"),
        (Touch(W, "src/a.py"), None),
        (Touch(W, "NOTES/a"), "session:session"),
        (Touch(W, "deep"), None),
        (Touch(W, "deep", is_link=True), "user:deny"),
        (Touch(W, "deep/er", is_link=True), "user:deny"),
        (Touch(D, "deep", is_link=True), None),
        (Touch(W, "deep/other", is_link=True), None),
    ],
)
def test_the_strictest_rule_that_speaks_of_a_path(touch: Touch, found: str | None) -> None:
    """By path and by what is done; what allows, is built in, or is about a tool does not speak."""
    rule = strictest(rules_about_files(RULES), [touch])
    assert (None if rule is None else rule.qualified_id) == found


def test_of_several_names_the_strictest_counts() -> None:
    """Whatever their order."""
    touches = [Touch(W, "docs/a.md"), Touch(W, "db/a")]
    for given in (touches, touches[::-1]):
        rule = strictest(rules_about_files(RULES), given)
        assert rule is not None
        assert rule.verdict is Verdict.deny
