"""What a text of rules may say: every key, every refusal in its words, every limit, every example."""

import pytest
from tests.kit.policy_cases import HEAD, RULE

from gloveport.protocol.errors import ErrorCode
from gloveport.server.policy.capability import Scope
from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.errors import RulesInvalidError
from gloveport.server.policy.protected_table import PathClass
from gloveport.server.policy.rules.load import ITEMS_MAX, RULES_MAX, RULES_TEXT_CHARS_MAX, load_rules
from gloveport.server.policy.rules.rule import Rule, Source, Verdict

# ---- texts ----


def refusal(text: str, source: Source = Source.user) -> str:
    """The words of the refusal of a text."""
    with pytest.raises(RulesInvalidError) as refused:
        load_rules(text, source)
    assert refused.value.code is ErrorCode.RULES_INVALID
    assert refused.value.data["source"] is source
    assert repr(refused.value.data["rule"]) in str(refused.value)
    return str(refused.value)


def changed(old: str, new: str) -> str:
    """The refusal of the rule with one thing changed."""
    assert old in RULE
    return refusal(HEAD + RULE.replace(old, new))


SHAPE = "user rule '-': expected version = 1 and [[rule]] tables only"
MINE = "user rule 'mine': "
MATCH = 'match = [{ effect = "read", target = "a" }]'
EXAMPLE_KEYS = "an example is a table of ['argv', 'count', 'effect', 'recursive', 'target', 'tool']"


def test_a_text_that_is_no_list_of_rules_is_refused_in_words() -> None:
    assert refusal("x" * (RULES_TEXT_CHARS_MAX + 1)) == (
        f"user rule '-': the text is longer than {RULES_TEXT_CHARS_MAX} characters"
    )
    assert refusal("x").startswith("user rule '-': not TOML: Expected '=' after a key")
    for text in (RULE, "version = 2\n", "version = 1\nx = 1\n", "version = 1\nrule = 1\n", 'version = "1"\n'):
        assert refusal(text) == SHAPE
    assert refusal("version = 1\n" + "[[rule]]\n" * (RULES_MAX + 1)) == f"user rule '-': more than {RULES_MAX} rules"
    for table in ("[[rule]]\n", "[[rule]]\nid = 1\n", '[[rule]]\nid = " "\n'):
        assert refusal(HEAD + table, Source.managed) == "managed rule '?': every rule has an id"
    assert refusal("version = 1\nrule = [1]\n") == "user rule '?': every rule has an id"
    assert load_rules("", Source.user) == ()
    assert load_rules("# nothing" + " " * (RULES_TEXT_CHARS_MAX - 9), Source.user) == ()
    assert load_rules(HEAD, Source.user) == ()
    many = "".join(RULE.replace("mine", f"r{at}") for at in range(RULES_MAX))
    assert len(load_rules(HEAD + many, Source.user)) == RULES_MAX


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"Mine."', '"Mine."\nzebra = 1\nextra = 1', "unknown key 'extra'"),
        ('justification = "Mine."', "", "justification is missing"),
        ('effects = ["read"]', "", "effects is missing"),
        ('verdict = "ask"', "", "verdict is missing"),
        ('"Mine."', '" "', "a rule says why it is there"),
        ('"Mine."', "7", "expected a string, not 7"),
        ('"Mine."', f"[{'1,' * 99}]", f"expected a string, not {[1] * 99!r:.80}"),
        ('["read"]', '["raed"]', f"'raed' is not one of {', '.join(EffectKind)}"),
        ('["read"]', "[7]", "expected a string, not 7"),
        ('["read"]', '"read"', "expected a list of at most 256 items, not 'read'"),
        ('["read"]', "[]", "a rule for calls without effects names the tools"),
        ('"ask"', '"aks"', "'aks' is not one of allow, ask, deny"),
        ('"ask"', '"ask"\nceiling = "ever"', "'ever' is not one of once, turn, session, workspace"),
        ('"ask"', '"ask"\nclasses = ["odd"]', f"'odd' is not one of {', '.join(PathClass)}"),
        ('"ask"', '"ask"\nmass = 1', "expected true or false, not 1"),
        ('"ask"', '"ask"\nonly_looks = "x"', "expected true or false, not 'x'"),
        ('"ask"', '"ask"\nfallback = 0', "expected true or false, not 0"),
        ('"ask"', '"ask"\nfallback = true', "only built-in rules may be fallbacks"),
        ('"ask"', '"ask"\nargv = [[]]', "a command has at least a program"),
        ('"ask"', '"ask"\nargv = [["make"], [""]]', "a command has at least a program"),
        ('"ask"', '"ask"\nargv = ["make"]', "expected a list of at most 256 items, not 'make'"),
        ('"ask"', '"ask"\ntools = "t"', "expected a list of at most 256 items, not 't'"),
        ('"ask"', '"ask"\npaths = [1]', "expected a string, not 1"),
        ('"ask"', '"ask"\nhosts = [1]', "expected a string, not 1"),
        (MATCH, "", "a rule carries at least one match example"),
        (MATCH, "match = []", "a rule carries at least one match example"),
        (MATCH, "match = 1", "expected a list of at most 256 items, not 1"),
        (MATCH, f"{MATCH}\nnot_match = 1", "expected a list of at most 256 items, not 1"),
        (MATCH, "match = [1]", EXAMPLE_KEYS),
        (MATCH, 'match = [{ effect = "read", path = "a" }]', EXAMPLE_KEYS),
        (MATCH, 'match = [{ effect = "beam" }]', "'beam' is not a valid EffectKind"),
        (MATCH, 'match = [{ effect = 1, target = "a" }]', "expected a string, not 1"),
        (MATCH, 'match = [{ effect = "read", target = 1 }]', "expected a string, not 1"),
        (MATCH, 'match = [{ effect = "read", tool = 1 }]', "expected a string, not 1"),
        (MATCH, 'match = [{ effect = "read", argv = "a" }]', "expected a list of at most 256 items, not 'a'"),
        (MATCH, 'match = [{ effect = "write" }]', "its match example does not match: {'effect': 'write'}"),
        (
            MATCH,
            f'{MATCH}\nnot_match = [{{ effect = "write" }}, {{ effect = "read" }}]',
            "its not_match example matches: {'effect': 'read'}",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_rule_of_another_shape_is_refused_with_its_name(old: str, new: str, words: str) -> None:
    assert changed(old, new) == MINE + words


def test_a_list_holds_so_many_items_and_no_more() -> None:
    def with_tools(count: int) -> str:
        tools = ", ".join(f'"t{at}"' for at in range(count))
        return HEAD + RULE.replace('"ask"', f'"ask"\ntools = [{tools}]').replace(
            'target = "a"', 'target = "a", tool = "t0"'
        )

    assert len(load_rules(with_tools(ITEMS_MAX), Source.user)[0].tools) == ITEMS_MAX
    assert f"expected a list of at most {ITEMS_MAX} items, not ['t0', 't1'" in refusal(with_tools(ITEMS_MAX + 1))


def test_a_session_may_only_be_stricter() -> None:
    allow = HEAD + RULE.replace('"ask"', '"allow"')
    words = "session rule 'mine': a session may only make rules stricter; use a grant to allow"
    assert refusal(allow, Source.session) == words
    assert load_rules(HEAD + RULE, Source.session)[0].verdict is Verdict.ask
    assert [load_rules(allow, source)[0].verdict for source in (Source.user, Source.managed)] == [Verdict.allow] * 2


FULL_TEXT = """
version = 1
[[rule]]
id = "full"
effects = ["execute", "delete"]
verdict = "deny"
justification = "Why."
tools = ["t", "u"]
classes = ["sensitive", "outside"]
paths = ["a/**", "**"]
argv = [["git", "push"], ["rm"]]
mass = true
only_looks = false
ceiling = "session"
fallback = true
match = [{ effect = "delete", target = "../.env" , tool = "t", argv = ["rm", "x"], count = 12, recursive = true }]
"""


def test_every_key_is_read() -> None:
    """A rule with all of them, read whole; and one with as few as there may be."""
    (rule,) = load_rules(FULL_TEXT, Source.builtin)
    wanted = Rule(
        "full", Source.builtin, frozenset({EffectKind.execute, EffectKind.delete}), Verdict.deny, "Why.", ("t", "u"),
        frozenset({PathClass.sensitive, PathClass.outside}), ("a/**", "**"), (("git", "push"), ("rm",)), (), True,
        False, Scope.session, True,
    )  # fmt: skip
    assert rule == wanted
    assert rule.globs == (("a", "**"), ("**",))
    assert rule.qualified_id == "builtin:full"
    (least,) = load_rules(HEAD + RULE, Source.user)
    assert least == Rule("mine", Source.user, frozenset({EffectKind.read}), Verdict.ask, "Mine.")
    hosted = RULE.replace('"ask"', '"ask"\nhosts = ["b.example", "a"]').replace('"a" }]', '"a:1" }]')
    assert load_rules(HEAD + hosted, Source.user)[0].hosts == ("b.example", "a")


@pytest.mark.parametrize(
    ("example", "condition", "found"),
    [
        ('effect = "execute", argv = ["git", "push"]', 'argv = [["git", "push"]]', True),
        ('effect = "execute", argv = ["bash", "-c", "git push"]', 'argv = [["git", "push"]]', True),
        ('effect = "execute", target = "git push"', 'argv = [["git", "push"]]', False),
        ('effect = "execute", argv = ["ls", "-l"]', "only_looks = true", True),
        ('effect = "execute", argv = ["make"]', "only_looks = true", False),
        ('effect = "execute", argv = ["bash", "-c", "ls"]', "only_looks = true", False),
        ('effect = "execute"', "only_looks = false", True),
        ('effect = "delete", count = 10', "mass = true", True),
        ('effect = "delete", count = 9', "mass = true", False),
        ('effect = "delete", recursive = true', "mass = true", True),
        ('effect = "delete", recursive = false', "mass = true", False),
        ('effect = "delete", recursive = 1', "mass = true", False),
        ('effect = "delete", target = "src/a"', 'paths = ["src/*"]', True),
        ('effect = "delete", argv = ["src/a"]', 'paths = ["src/*"]', False),
        ('effect = "delete", argv = [".env"]', 'classes = ["sensitive"]', False),
        ('effect = "delete", target = ".env", argv = ["x"]', 'classes = ["sensitive"]', True),
        ('effect = "network", target = "h:1"', 'hosts = ["h"]', True),
        ('effect = "network", argv = ["h"]', 'hosts = ["h"]', True),
        ('effect = "network", argv = ["curl", "h"]', 'hosts = ["curl h"]', True),
        ('effect = "delete"', 'tools = ["t"]', True),
        ('effect = "delete", tool = "t"', 'tools = ["s", "t"]', True),
        ('effect = "delete"', 'tools = ["s", "t"]', True),
        ('effect = "delete", tool = "u"', 'tools = ["s", "t"]', False),
        ('tool = "s"', 'tools = ["s"]', False),
    ],
)
def test_an_example_is_a_call_of_its_own(example: str, condition: str, found: bool) -> None:
    """What it leaves out is taken from the rule or is ordinary; both kinds of example are held to it."""
    kinds = 'effects = ["execute", "delete", "network"]'
    for name, holds in (("match", found), ("not_match", not found)):
        begin = RULE.replace('effects = ["read"]', kinds).replace('"ask"', f'"ask"\n{condition}')
        match = f"match = [{{ {example} }}]" if name == "match" else None
        if match is None:
            good = _matching(condition)
            match = f"match = [{good}]\nnot_match = [{{ {example} }}]"
        text = HEAD + begin.replace(MATCH, match)
        if holds:
            assert len(load_rules(text, Source.user)) == 1
        else:
            assert "example" in refusal(text)


def _matching(condition: str) -> str:
    """An example that matches the rule with this condition."""
    return {
        "argv": '{ effect = "execute", argv = ["git", "push"] }',
        "only_looks": '{ effect = "execute", argv = ["ls"] }' if "true" in condition else '{ effect = "execute" }',
        "mass": '{ effect = "delete", count = 99 }',
        "paths": '{ effect = "delete", target = "src/x" }',
        "classes": '{ effect = "delete", target = ".env" }',
        "hosts": '{ effect = "network", target = "h" }' if "curl" not in condition else
        '{ effect = "network", target = "curl h" }',
        "tools": '{ effect = "delete" }',
    }[condition.split(" ")[0]]  # fmt: skip


def test_an_example_of_a_call_without_effects() -> None:
    text = HEAD + RULE.replace('["read"]', "[]").replace('"ask"', '"ask"\ntools = ["t"]')
    good = text.replace(MATCH, 'match = [{ tool = "t" }]\nnot_match = [{ tool = "u" }, { effect = "read" }]')
    assert load_rules(good, Source.user)[0].kinds == frozenset()
    assert "does not match" in refusal(text.replace(MATCH, 'match = [{ tool = "u" }]'))
