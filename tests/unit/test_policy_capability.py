"""What each kind of pattern names, when one lies within another, and in which words: complete over the kinds."""

from dataclasses import replace
from typing import Any

import pytest
from tests.kit.policy_cases import effect

from gloveport.server.policy.capability import (
    PATTERN_ITEMS_MAX,
    Capability,
    Pattern,
    PatternKind,
    Scope,
    capability_from_plain,
    narrowed_within,
    overbroad,
    pattern_covers,
    pattern_words,
)
from gloveport.server.policy.effects import Effect, EffectKind

PUSH, PYTEST = ("git", "push"), ("pytest",)
PATTERNS = {
    "call": Pattern(PatternKind.call_exact, ("write:a.py", "execute:ls")),
    "paths": Pattern(PatternKind.path_exact, ("src/a.py", "b.py")),
    "folder": Pattern(PatternKind.path_prefix, ("src",)),
    "argv": Pattern(PatternKind.argv_exact, PUSH),
    "prefix": Pattern(PatternKind.argv_prefix, PYTEST),
    "tests": Pattern(PatternKind.test_class, ("pytest",)),
}
NOTHING: set[str] = set()


def named(value: object) -> str | None:
    """A test's name, the same in every process; sets are numbered, because they have no order."""
    return None if isinstance(value, (set, frozenset, Capability)) else str(value)


def test_every_kind_of_pattern_has_its_rows() -> None:
    assert {one.kind for one in PATTERNS.values()} == set(PatternKind)


@pytest.mark.parametrize(
    ("target", "argv", "covered"),
    [
        (effect("write", "a.py"), None, {"call"}),
        (effect("read", "a.py"), None, NOTHING),
        (effect("execute", "ls"), ("ls",), {"call"}),
        (effect("write", "src/a.py"), None, {"paths", "folder"}),
        (effect("secret_read", "./src//a.py"), None, {"paths", "folder"}),
        (effect("search", "src\\x\\..\\a.py"), None, {"paths", "folder"}),
        (effect("delete", "b.py"), None, {"paths"}),
        (effect("write", "src/c.py"), None, {"folder"}),
        (effect("write", "src"), None, {"folder"}),
        (effect("write", "srcx/a.py"), None, NOTHING),
        (effect("write", "../src/a.py"), None, NOTHING),
        (effect("write", "../b.py"), None, NOTHING),
        (effect("write", "src/../../src/a.py"), None, NOTHING),
        (effect("execute", "src/a.py"), None, NOTHING),
        (effect("network", "b.py"), None, NOTHING),
        (effect("execute", "whatever it says"), PUSH, {"argv"}),
        (effect("execute", "git push"), None, NOTHING),
        (effect("execute", "git push"), ("git", "push", "x"), NOTHING),
        (Effect(EffectKind.publish, "git push", (("from", "git push"),)), PUSH, {"argv"}),
        (effect("publish", "elsewhere"), PUSH, NOTHING),
        (effect("publish", "git push"), PYTEST, NOTHING),
        (effect("execute", "x"), PYTEST, {"prefix"}),
        (effect("execute", "x"), ("pytest", "tests/a.py", "b"), {"prefix"}),
        (effect("execute", "x"), ("pytest", "-x"), NOTHING),
        (effect("execute", "x"), ("pytest", "../a"), NOTHING),
        (effect("execute", "x"), ("pytest", "A=1"), NOTHING),
        (effect("execute", "x"), ("mypy", "pytest"), NOTHING),
        (effect("execute", "x"), (), NOTHING),
        (effect("execute", "x"), None, NOTHING),
        (effect("install", "x"), PYTEST, NOTHING),
        (effect("execute", "x", test_class="pytest"), None, {"tests"}),
        (effect("execute", "x", test_class="pytest"), PYTEST, {"tests", "prefix"}),
        (effect("execute", "x", test_class="cargo"), None, NOTHING),
        (effect("execute", "x", framework="pytest"), None, NOTHING),
        (effect("write", "x", test_class="pytest"), None, NOTHING),
    ],
    ids=named,
)
def test_a_pattern_names_exactly_these_targets(target: Effect, argv: tuple[str, ...] | None, covered: set[str]) -> None:
    assert {name for name, one in PATTERNS.items() if pattern_covers(one, target, argv)} == covered


def test_a_pattern_without_words_names_nothing() -> None:
    """Also where the command has none either."""
    for kind in (PatternKind.argv_prefix, PatternKind.path_exact, PatternKind.call_exact):
        for argv in ((), PYTEST, None):
            assert not pattern_covers(Pattern(kind, ()), effect("execute", "x"), argv)


RUN = frozenset({EffectKind.execute})
WRITE = frozenset({EffectKind.write})


def of(kind: str, *value: str, tool: str = "t", kinds: frozenset[EffectKind] = WRITE) -> Capability:
    """A capability with this pattern."""
    return Capability(tool, kinds, Pattern(PatternKind(kind), value))


@pytest.mark.parametrize(
    ("narrow", "wide", "within"),
    [
        (("path_exact", "a"), ("path_exact", "a", "b"), True),
        (("path_exact", "b", "a"), ("path_exact", "a", "b"), True),
        (("path_exact", "a", "c"), ("path_exact", "a", "b"), False),
        (("path_exact",), ("path_exact", "a"), False),
        (("path_exact",), ("path_exact",), False),
        (("call_exact", "x"), ("call_exact", "x", "y"), True),
        (("call_exact", "z"), ("call_exact", "x", "y"), False),
        (("call_exact",), ("call_exact", "x"), False),
        (("call_exact", "a"), ("path_exact", "a"), False),
        (("path_exact", "a"), ("call_exact", "a"), False),
        (("path_exact", "src/a"), ("path_prefix", "src"), True),
        (("path_exact", "src/a", "src/b"), ("path_prefix", "src"), True),
        (("path_exact", "src/a", "b"), ("path_prefix", "src"), False),
        (("path_exact", "src/../b"), ("path_prefix", "src"), False),
        (("path_exact",), ("path_prefix", "src"), False),
        (("path_prefix", "src/sub"), ("path_prefix", "src"), True),
        (("path_prefix", "src"), ("path_prefix", "src"), True),
        (("path_prefix", "src2"), ("path_prefix", "src"), False),
        (("path_prefix", "src", "src/b"), ("path_prefix", "src"), False),
        (("path_prefix",), ("path_prefix", "src"), False),
        (("path_prefix", "src"), ("path_exact", "src"), False),
        (("argv_exact", "pytest"), ("argv_prefix", "pytest"), True),
        (("argv_exact", "pytest", "a.py"), ("argv_prefix", "pytest"), True),
        (("argv_exact", "pytest", "-x"), ("argv_prefix", "pytest"), False),
        (("argv_exact", "mypy"), ("argv_prefix", "pytest"), False),
        (("argv_prefix", "pytest", "a.py"), ("argv_prefix", "pytest"), True),
        (("argv_prefix", "pytest", "a=b"), ("argv_prefix", "pytest"), False),
        (("argv_prefix", "pytest"), ("argv_prefix",), False),
        (("argv_prefix", "pytest"), ("argv_exact", "pytest"), False),
        (("argv_exact", "pytest", "a"), ("argv_exact", "pytest"), False),
        (("argv_exact", "pytest"), ("argv_exact", "pytest"), True),
        (("test_class", "pytest"), ("test_class", "pytest"), True),
        (("test_class", "cargo"), ("test_class", "pytest"), False),
        (("test_class", "pytest"), ("argv_prefix", "pytest"), False),
        (("argv_exact", "pytest"), ("test_class", "pytest"), False),
        (("path_exact", "pytest"), ("argv_prefix", "pytest"), False),
        (("path_prefix", "a"), ("call_exact", "a"), False),
    ],
    ids=named,
)
def test_one_pattern_lies_within_another_or_not(narrow: tuple[str, ...], wide: tuple[str, ...], within: bool) -> None:
    assert narrowed_within(of(*narrow), of(*wide)) is within


def test_tool_and_kinds_are_narrowed_too_but_never_to_none() -> None:
    both = WRITE | RUN
    wide = of("path_exact", "a", kinds=both)
    assert narrowed_within(replace(wide, kinds=WRITE), wide)
    assert not narrowed_within(wide, replace(wide, kinds=WRITE))
    assert not narrowed_within(replace(wide, kinds=frozenset()), wide)
    assert not narrowed_within(replace(wide, tool="other"), wide)
    nameless = of("call_exact", "call:t", kinds=frozenset())
    assert narrowed_within(nameless, nameless)
    assert not narrowed_within(replace(nameless, kinds=WRITE), nameless)


EMPTY = "a grant names kinds of effect and targets"


@pytest.mark.parametrize(
    ("capability", "why"),
    [
        (of("path_exact", "a", kinds=frozenset()), EMPTY),
        (of("path_exact"), EMPTY),
        (of("path_exact", "a"), None),
        (of("path_exact", "../a"), None),  # it covers nothing
        (of("call_exact", "write:a"), None),
        (of("test_class", "pytest"), None),
        (of("path_prefix", "src"), None),
        (of("path_prefix", "../src"), "the folder lies outside the workspace"),
        (of("path_prefix", "/"), "the folder lies outside the workspace"),
        (of("argv_exact", "make"), None),
        (of("argv_exact", "env", "x"), "env can start other programs named in its arguments"),
        (of("argv_exact", "bash", "-c", "x"), "bash runs whatever text it is given"),
        (of("argv_exact", "python3", "-c", "x"), "python3 is given code, or an option that may carry code"),
        (of("argv_prefix", "pytest"), None),
        (of("argv_prefix", "pytest", "tests"), None),
        (of("argv_prefix", "make"), "this command has no safe beginning"),
        (of("argv_prefix", "env"), "env can start other programs named in its arguments"),
        (of("argv_prefix", "python"), "python is given code, or an option that may carry code"),
    ],
    ids=named,
)
def test_why_no_lasting_right_may_hold_it(capability: Capability, why: str | None) -> None:
    assert overbroad(capability) == why


HIDDEN = "a\u202eb"


@pytest.mark.parametrize(
    ("capability", "words"),
    [
        (of("argv_exact", "git", "push", kinds=RUN), "run exactly `git push`"),
        (
            of("argv_exact", "git", "push", HIDDEN, kinds=RUN | {EffectKind.publish, EffectKind.git_history}),
            "run exactly `git push 'a⟨U+202E⟩b'` (git history, publish)",
        ),
        (
            of("argv_prefix", "pytest", "-q", kinds=RUN),
            "run `pytest -q`, also with names of files or tests behind it (no further options)",
        ),
        (of("test_class", HIDDEN, kinds=RUN), "run the tests of this workspace with a⟨U+202E⟩b in the sandbox"),
        (
            of("path_prefix", HIDDEN, kinds=WRITE | {EffectKind.secret_read, EffectKind.delete}),
            "delete, secret read, write ordinary files under `a⟨U+202E⟩b/`",
        ),
        (of("path_exact", HIDDEN, "c"), "write `a⟨U+202E⟩b`, `c`"),
        (of("call_exact", "write:a:b", "execute:ls"), "write `a:b`; run `ls`"),
        (of("call_exact", "beam:mars", "x"), "`beam:mars`; `x`"),
    ],
    ids=named,
)
def test_a_capability_in_words(capability: Capability, words: str) -> None:
    assert pattern_words(capability) == words


PLAIN: dict[str, Any] = {"tool": "t", "kinds": ["write"], "pattern": {"kind": "path_exact", "value": ["a"]}}
SHAPE = "a capability names a tool, at least one kind and a bounded pattern"
STRINGS = "a list of strings is expected here"


def with_value(value: object) -> dict[str, Any]:
    """The form with this pattern's value."""
    return {**PLAIN, "pattern": {**PLAIN["pattern"], "value": value}}


@pytest.mark.parametrize(
    ("plain", "error", "words"),
    [
        ({**PLAIN, "pattern": []}, TypeError, "pattern is an object"),
        ({**PLAIN, "tool": 1}, ValueError, SHAPE),
        ({**PLAIN, "tool": ""}, ValueError, SHAPE),
        ({**PLAIN, "kinds": []}, ValueError, SHAPE),
        (with_value([]), ValueError, SHAPE),
        (with_value(["a"] * (PATTERN_ITEMS_MAX + 1)), ValueError, SHAPE),
        (with_value("a"), TypeError, STRINGS),
        (with_value(None), TypeError, STRINGS),
        (with_value(["a", 1]), TypeError, STRINGS),
        ({**PLAIN, "kinds": "write"}, TypeError, STRINGS),
        ({**PLAIN, "kinds": [None]}, TypeError, STRINGS),
        ({**PLAIN, "kinds": ["beam"]}, ValueError, "'beam' is not a valid EffectKind"),
        ({**PLAIN, "pattern": {"kind": "glob", "value": ["a"]}}, ValueError, "'glob' is not a valid PatternKind"),
        ({"tool": "t", "kinds": ["write"]}, KeyError, "pattern"),
        ({"tool": "t", "pattern": PLAIN["pattern"]}, KeyError, "kinds"),
        ({"kinds": ["write"], "pattern": PLAIN["pattern"]}, KeyError, "tool"),
        ({**PLAIN, "pattern": {"kind": "path_exact"}}, KeyError, "value"),
        ({**PLAIN, "pattern": {"value": ["a"]}}, KeyError, "kind"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_capability_is_refused_in_words(plain: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as refused:
        capability_from_plain(plain)
    assert refused.value.args == (words,)


def test_the_longest_pattern_is_taken_and_only_one_exact_call_is_without_a_kind() -> None:
    longest = capability_from_plain(with_value(["a"] * PATTERN_ITEMS_MAX))
    assert longest == Capability("t", WRITE, Pattern(PatternKind.path_exact, ("a",) * PATTERN_ITEMS_MAX))
    for kind in PatternKind:
        plain = {"tool": "t", "kinds": (), "pattern": {"kind": str(kind), "value": ("a",)}}
        if kind is PatternKind.call_exact:
            assert capability_from_plain(plain) == Capability("t", frozenset(), Pattern(kind, ("a",)))
        else:
            with pytest.raises(ValueError, match="at least one kind"):
                capability_from_plain(plain)


def test_scopes_are_ordered_by_how_long_they_hold() -> None:
    assert [scope.width for scope in (Scope.once, Scope.turn, Scope.session, Scope.workspace)] == [0, 1, 2, 3]
