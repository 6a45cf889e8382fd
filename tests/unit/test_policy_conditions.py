"""What each condition of a rule asks for, the set of rules with its hash, and what the rules say of a call."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from tests.kit.policy_cases import HEAD, RULE, command, effect, judge, request

from gloveport.server.policy import command_table
from gloveport.server.policy.capability import Scope
from gloveport.server.policy.commands import commands_digest
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.errors import RulesInvalidError
from gloveport.server.policy.findings import KERNEL, Finding, ask, deny, rule_findings
from gloveport.server.policy.protected import table_digest
from gloveport.server.policy.protected_table import PathClass
from gloveport.server.policy.rules.load import load_rules
from gloveport.server.policy.rules.rule import CommandLine, Rule, Source, Verdict, rule_matches, subject_of
from gloveport.server.policy.rules.ruleset import build_ruleset, ruleset_from_texts
from gloveport.server.policy.shell.looks import looks_digest

ALL = frozenset(EffectKind)
ANY = Rule("any", Source.user, ALL, Verdict.ask, "Why.")
WRITE = effect("write", "src/a.py")


def matches(rule: Rule, about: Effect | None = WRITE, line: CommandLine | None = None, **given: Any) -> bool:
    """Whether the rule speaks of the effect of one call."""
    return rule_matches(rule, subject_of(given.get("tool", "t"), about, line, given.get("total", 1)))


# ---- conditions ----


def test_a_rule_without_conditions_speaks_of_its_kinds_alone() -> None:
    for kind in EffectKind:
        assert matches(ANY, effect(kind, "x"))
        assert not matches(replace(ANY, kinds=ALL - {kind}), effect(kind, "x"))
    assert not matches(ANY, None)
    nameless = replace(ANY, kinds=frozenset())
    assert matches(nameless, None)
    assert not matches(nameless)


def test_tools_by_their_names() -> None:
    for about in (WRITE, None):
        rule = replace(ANY, kinds=ALL if about else frozenset(), tools=("t", "u"))
        assert matches(rule, about)
        assert matches(rule, about, tool="u")
        assert not matches(rule, about, tool="v")


@pytest.mark.parametrize(
    ("about", "total", "mass"),
    [
        (effect("write", "a"), 1, False),
        (effect("write", "a"), 9, False),
        (effect("write", "a"), 10, True),
        (effect("write", "a", count="9"), 1, False),
        (effect("write", "a", count="10"), 1, True),
        (effect("write", "a", count="1" * 30), 1, True),
        (effect("write", "a", count="000000000000"), 1, False),
        (effect("write", "a", count="many"), 1, True),
        (effect("write", "a", count="-1"), 1, True),
        (effect("write", "a", count=""), 1, False),
        (effect("write", "a", recursive="true"), 1, True),
        (effect("write", "a", recursive="false"), 1, False),
        (effect("write", "a", other="true"), 1, False),
    ],
    ids=str,
)
def test_many_files_are_ten_a_folder_or_what_cannot_be_counted(about: Effect, total: int, mass: bool) -> None:
    assert subject_of("t", about, None, total).mass is mass
    for wanted in (True, False):
        assert matches(replace(ANY, mass=wanted), about, total=total) is (wanted is mass)
    assert subject_of("t", None, None, total).mass is False


def test_a_line_that_only_looks() -> None:
    for only in (True, False):
        line = CommandLine(("ls",), (("ls",),), only)
        for wanted in (True, False):
            assert matches(replace(ANY, only_looks=wanted), line=line) is (wanted is only)
    assert matches(replace(ANY, only_looks=False))
    assert not matches(replace(ANY, only_looks=True))


ENV, GIT = ".env", ".git/config"


@pytest.mark.parametrize(
    ("path", "classes", "stricter", "allow"),
    [
        (ENV, {PathClass.sensitive}, True, True),
        (ENV, {PathClass.sensitive, PathClass.never}, True, True),
        (ENV, {PathClass.ordinary}, False, False),
        (GIT, {PathClass.sensitive}, True, False),
        (GIT, {PathClass.never}, True, False),
        (GIT, {PathClass.never, PathClass.sensitive}, True, True),
        ("a.py", {PathClass.ordinary}, True, True),
        ("../a", {PathClass.outside}, True, True),
    ],
)
def test_an_allow_rule_names_every_class_of_a_path_a_stricter_one_any(
    path: str, classes: set[PathClass], stricter: bool, allow: bool
) -> None:
    for verdict in Verdict:
        rule = replace(ANY, verdict=verdict, classes=frozenset(classes))
        assert matches(rule, effect("read", path)) is (allow if verdict is Verdict.allow else stricter)
        assert not matches(rule, effect("network", path)), "what is no path has no class"
        assert not matches(rule, effect("read", path, **{"from": "cat"}))


@pytest.mark.parametrize(
    ("globs", "path", "found"),
    [
        (("src/*.py",), "src/a.py", True),
        (("src/*.py",), "SRC/A.PY", True),
        (("SRC/*.py",), "src/a.py", True),
        (("src/*.py",), "src/x/a.py", False),
        (("src/**",), "src/x/a.py", True),
        (("b", "src/a.py"), "src/a.py", True),
        (("a.py",), "src/a.py", False),
        (("**",), "src/a.py", True),
        (("**/a.py",), "a.py", True),
    ],
)
def test_paths_by_their_globs(globs: tuple[str, ...], path: str, found: bool) -> None:
    assert matches(replace(ANY, paths=globs), effect("write", path)) is found
    assert not matches(replace(ANY, paths=("src",)), effect("execute", "src"))
    assert not matches(replace(ANY, paths=("src",)), effect("delete", "src", **{"from": "rm"}))


@pytest.mark.parametrize(
    ("pattern", "target", "found"),
    [
        ("a.example", "a.example:443", True),
        ("a.example", "A.Example.:443", True),
        ("A.example", "a.example:443", True),
        ("a.example", "a.example", True),
        ("a.example", "xa.example:443", False),
        ("a.example", "b.a.example:443", False),
        ("a.example:443", "a.example:443", True),
        ("a.example:443", "a.example:80", False),
        ("a.example:443", "a.example", False),
        ("a.example:https", "a.example:443", False),
        (":443", "a.example:443", False),
        ("*.a.example", "b.a.example:443", True),
        ("*.a.example", "c.b.a.example:443", True),
        ("*.a.example", "a.example:443", False),
        ("*.a.example", "b.x.example:443", False),
        ("*.a.example", "b.a.example.evil:443", False),
        ("*.a.example:443", "b.a.example:443", True),
        ("*.a.example:443", "b.a.example:80", False),
        ("*", "a.example:443", True),
        ("*", "localhost", True),
        ("*:443", "a.example:443", True),
        ("*:443", "a.example:80", False),
        ("*.*", "a.example:1", False),
        ("a*.example", "ab.example:1", True),
        ("a*.example", "a.b.example:1", False),
        ("a.*.example", "a.b.example:1", True),
        ("a.*", "a.b:1", True),
        ("a.*", "a:1", False),
        ("a.?", "a.b:1", True),
    ],
)
def test_hosts_by_label_and_port(pattern: str, target: str, found: bool) -> None:
    assert matches(replace(ANY, hosts=("other.host", pattern)), effect("network", target)) is found


@pytest.mark.parametrize(
    ("argv", "rule", "stricter", "allow"),
    [
        (("git", "push"), ("git", "push"), True, True),
        (("git", "push", "x"), ("git", "push"), True, False),
        (("/usr/bin/git", "push"), ("git", "push"), True, False),
        (("git", "-C", "d", "push"), ("git", "push"), True, False),
        (("env", "git", "push"), ("git", "push"), True, False),
        (("bash", "-c", "ls && git push"), ("git", "push"), True, False),
        (("git", "pull"), ("git", "push"), False, False),
        (("echo", "git", "push"), ("git", "push"), False, False),
    ],
)
def test_an_allow_rule_is_for_the_whole_command_a_stricter_one_for_any_within(
    argv: tuple[str, ...], rule: tuple[str, ...], stricter: bool, allow: bool
) -> None:
    for verdict in Verdict:
        found = replace(ANY, verdict=verdict, argv=(("make",), rule))
        assert matches(found, line=CommandLine(argv)) is (allow if verdict is Verdict.allow else stricter)
        assert not matches(found, line=CommandLine(None))
        assert not matches(found)


def test_the_views_of_a_line() -> None:
    """Where all is understood, the commands that were found and no others; else also what may be started."""
    line = CommandLine(("env", "ls"), (("ls",),), only_looks=True)
    assert list(line.views) == [("env", "ls"), ("ls",)]
    assert list(replace(line, only_looks=False).views) == [("env", "ls"), ("env", "ls"), ("ls",), ("ls",)]
    assert list(CommandLine(None, (("rm",),)).views) == [("rm",)]
    assert list(CommandLine(None).views) == []


def test_a_subject_whole() -> None:
    line = CommandLine(("x",))
    found = subject_of("t", effect("write", "Src/.ENV"), line, 3)
    assert (found.tool, found.line, found.parts, found.mass) == ("t", line, ("src", ".env"), False)
    assert found.classes == {PathClass.sensitive}
    for about in (effect("network", ".env"), effect("read", ".env", **{"from": "cat"})):
        other = subject_of("t", about)
        assert (other.effect, other.classes, other.parts, other.line) == (about, frozenset(), (), CommandLine(None))
    none = subject_of("t", None, line)
    assert (none.tool, none.effect, none.line, none.classes, none.parts, none.mass) == (
        "t", None, line, frozenset(), (), False,
    )  # fmt: skip


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


# ---- the set ----


def test_the_hash_is_that_of_every_field_and_every_table() -> None:
    """From the form that was recorded: one field left out, and two sets would have one hash."""
    rules = load_rules(FULL_TEXT, Source.builtin)
    rule = (
        '["full", "builtin", ["delete", "execute"], "deny", "Why.", ["t", "u"], ["outside", "sensitive"], '
        '["a/**", "**"], [["git", "push"], ["rm"]], [], true, false, "session", true]'
    )
    tables = f'"commands": "{commands_digest()}", "looks": "{looks_digest()}", "protected": "{table_digest()}"'
    text = f'{{{tables}, "rules": [{rule}]}}'
    assert build_ruleset(rules).hash == hashlib.sha256(text.encode()).hexdigest()


def test_the_digest_of_the_commands_is_that_of_every_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program, an option or a kind more, and the rules have another hash; an order of a set is none."""
    seen = {commands_digest()}
    tables = {
        "SHELLS": frozenset({"sh"}),
        "WRAPPERS": command_table.WRAPPERS | {"new"},
        "INTERPRETERS": frozenset(),
        "PLAIN_OPTIONS": {**command_table.PLAIN_OPTIONS, "node": frozenset({"--test"})},
        "CODE_MODULES": command_table.CODE_MODULES - {"pip"},
        "LOADER_VARIABLES": command_table.LOADER_VARIABLES[1:],
        "COMMANDS": command_table.COMMANDS[1:],
        "PREFIXES": command_table.PREFIXES[1:],
    }
    assert tables.keys() == {name for name in vars(command_table) if name.isupper() and not name.startswith("_")}
    for name, value in tables.items():
        with monkeypatch.context() as changed:
            changed.setattr(command_table, name, value)
            seen.add(commands_digest())
    assert len(seen) == len(tables) + 1
    with monkeypatch.context() as changed:
        changed.setattr(command_table, "SHELLS", frozenset(sorted(command_table.SHELLS, reverse=True)))
        assert commands_digest() in seen


def test_ids_are_unique_over_all_sources_and_a_refusal_names_the_second() -> None:
    one = replace(ANY, source=Source.managed)
    with pytest.raises(RulesInvalidError) as refused:
        build_ruleset([ANY, one])
    assert str(refused.value) == "user rule 'any': another rule has this id"
    texts = {Source.user: HEAD + RULE, Source.managed: HEAD + RULE.replace("mine", "other")}
    assert [rule.qualified_id for rule in ruleset_from_texts(texts).rules] == ["managed:other", "user:mine"]


def test_fallbacks_speak_only_where_no_other_rule_does() -> None:
    fallback = replace(ANY, rule_id="f", source=Source.builtin, fallback=True)
    other = replace(ANY, rule_id="o", kinds=frozenset({EffectKind.write}))
    nameless = replace(ANY, rule_id="n", kinds=frozenset())
    rules = build_ruleset([fallback, other, nameless])
    assert rules.matching(subject_of("t", WRITE)) == (other,)
    assert rules.matching(subject_of("t", effect("read", "a"))) == (fallback,)
    assert rules.matching(subject_of("t", None)) == (nameless,)
    assert build_ruleset([]).matching(subject_of("t", WRITE)) == ()
    assert rules.by_kind[None] == (nameless,)


# ---- findings ----


def test_findings_of_rules_word_by_word() -> None:
    rule = replace(ANY, rule_id="r", justification="Because.", ceiling=Scope.turn, kinds=frozenset({EffectKind.write}))
    rules = build_ruleset([rule, replace(rule, rule_id="m", mass=True)])
    read = effect("read", "a")
    one = Finding("user:r", Verdict.ask, "Because.", WRITE, Scope.turn)
    none = Finding("kernel:no-rule", Verdict.ask, "No rule speaks of this, so it is asked about.", read)
    assert list(rule_findings(request(), (WRITE, read), rules)) == [one, none]
    many = tuple(effect("write", f"a{at}") for at in range(10))
    assert len(list(rule_findings(request(), many, rules))) == 20
    assert len(list(rule_findings(request(), (*many[:9], read), rules))) == 10
    nothing = Finding("kernel:no-effect", Verdict.ask, "The tool does not say what it does.")
    assert list(rule_findings(request(), (), rules)) == [nothing]
    assert list(rule_findings(request(unknown=("x:y",)), (), rules)) == []
    named = build_ruleset([replace(rule, kinds=frozenset(), tools=("edit_file",))])
    assert list(rule_findings(request(), (), named)) == [Finding("user:r", Verdict.ask, "Because.", None, Scope.turn)]
    assert list(rule_findings(request(tool="other"), (), named)) == [nothing]


def test_findings_of_the_kernel_and_their_order() -> None:
    assert deny("x", "W.", WRITE) == Finding("kernel:x", Verdict.deny, "W.", WRITE, Scope.once)
    assert ask("x", "W.") == Finding("kernel:x", Verdict.ask, "W.", None, Scope.once)
    assert ask("x", "W.", WRITE, Scope.turn) == Finding("kernel:x", Verdict.ask, "W.", WRITE, Scope.turn)
    assert KERNEL == "kernel"
    ordered = [deny("z", "a"), ask("x", "b"), ask("x", "c"), ask("x", "a", WRITE), ask("y", "a")]
    mixed = [ordered[at] for at in (3, 0, 4, 2, 1)]
    assert sorted(mixed, key=lambda one: one.order) == ordered
    assert ask("x", "w", WRITE).order == (-1, "kernel:x", "write:src/a.py", "w")


def test_a_line_of_a_call_is_what_rules_see() -> None:
    """Argv, the commands within and whether it only looks: each reaches the rules."""
    by_command = build_ruleset([replace(ANY, argv=(("grep",),), verdict=Verdict.deny)])
    assert judge(command("bash", "-c", "ls | grep x"), rules=by_command).verdict is Verdict.deny
    looks = build_ruleset([replace(ANY, only_looks=True, verdict=Verdict.deny)])
    assert judge(command("ls"), rules=looks).verdict is Verdict.deny
    assert "user:any" not in judge(command("make"), rules=looks).rule_ids
