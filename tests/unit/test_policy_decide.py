"""A decision whole, for each way it can end; and what a command line is understood as, word by word."""

from dataclasses import replace
from typing import Any

import pytest
from tests.kit.policy_cases import (
    BUBBLEWRAP,
    MACHINE,
    PROCESS,
    UNTRUSTED,
    USER,
    command,
    context,
    default_rules,
    effect,
    judge,
    request,
)

from gloveport.server.parsing.bash import parse_bash
from gloveport.server.policy.answer import grant_from_answer
from gloveport.server.policy.capability import Scope
from gloveport.server.policy.card import build_card
from gloveport.server.policy.decide import Decision, Need, decide
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.findings import Finding
from gloveport.server.policy.labels import Integrity
from gloveport.server.policy.request import Request, effects_of
from gloveport.server.policy.risk import risk_factors, risk_level
from gloveport.server.policy.rules.rule import Rule, Source, Verdict
from gloveport.server.policy.rules.ruleset import build_ruleset
from gloveport.server.policy.rung import (
    MINIMUM_STRENGTH,
    TrustLevel,
    least_trusting,
    minimum_strength,
    strength_words,
    trust_in_force,
)
from gloveport.server.policy.shell.understood import ANYWHERE, Inside, Understood, understand, with_places
from gloveport.server.policy.typed import TYPED_WORDS

WRITE, READ = effect("write", "a"), effect("read", "b")
RULES = build_ruleset(
    [
        Rule("w", Source.user, frozenset({EffectKind.write}), Verdict.ask, "Writes.", ceiling=Scope.session),
        Rule("v", Source.user, frozenset({EffectKind.write}), Verdict.ask, "Also.", ceiling=Scope.turn),
        Rule("r", Source.user, frozenset({EffectKind.read}), Verdict.allow, "Reads."),
        Rule("d", Source.user, frozenset({EffectKind.delete}), Verdict.deny, "Never."),
    ]
)
ALSO = Finding("user:v", Verdict.ask, "Also.", WRITE, Scope.turn)
WRITES = Finding("user:w", Verdict.ask, "Writes.", WRITE, Scope.session)
READS = Finding("user:r", Verdict.allow, "Reads.", READ)
NEVER = Finding("user:d", Verdict.deny, "Never.", effect("delete", "c"))


def decided(call: Request, found: "tuple[Finding, ...]", granted: bool = False, **fields: Any) -> Decision:
    """A decision with the fields that follow from the call filled in."""
    effects = effects_of(call)
    factors = risk_factors(call, effects, context(), granted)
    given: dict[str, Any] = {
        "risk": risk_level(factors).name, "rules_hash": RULES.hash, "factors": factors, "findings": found,
        "effects": effects,
    }  # fmt: skip
    return Decision(**{**given, **fields})


ASKED = request(WRITE, READ)
NEED = Need((WRITE,), Scope.turn, "Also.", 0)


def test_a_call_that_is_asked_about() -> None:
    """What asks decides; what allows is told behind it; the shortest ceiling counts with its reason."""
    assert judge(ASKED, rules=RULES) == decided(
        ASKED, (ALSO, WRITES, READS), verdict=Verdict.ask, reason="Also. Writes.", rule_ids=("user:v", "user:w"),
        need=NEED,
    )  # fmt: skip


def test_calls_that_are_allowed_and_refused() -> None:
    reads, all_three = request(READ), request(WRITE, READ, effect("delete", "c"))
    assert judge(reads, rules=RULES) == decided(
        reads, (READS,), verdict=Verdict.allow, reason="Reads.", rule_ids=("user:r",)
    )
    assert judge(all_three, rules=RULES) == decided(
        all_three, (NEVER, ALSO, WRITES, READS), verdict=Verdict.deny, reason="Never.", rule_ids=("user:d",)
    )


@pytest.mark.parametrize(
    ("uses", "left", "scope", "words"), [(3, 2, "turn", "for this turn"), (None, None, "turn", "for this turn")]
)
def test_a_call_that_a_grant_answers(uses: int | None, left: int | None, scope: str, words: str) -> None:
    decision = judge(ASKED, rules=RULES)
    card = build_card(ASKED, decision, context())
    at = [one["scope"] for one in card["options"]].index(scope)
    grant = grant_from_answer(
        card, option=at, narrowed_to={"uses": uses}, grant_id="g", approval_id="a", issued_at=1_000_000
    )
    assert decide(ASKED, RULES, (grant,), context()) == decided(
        ASKED, (ALSO, WRITES, READS), granted=True, verdict=Verdict.allow,
        reason=f"You allowed it {words}: write `a`.", rule_ids=("user:v", "user:w"), grant_id="g",
        grant_uses_left=left,
    )  # fmt: skip
    once = grant_from_answer(card, option=0, grant_id="o", approval_id="a", issued_at=1_000_000)
    found = decide(ASKED, RULES, (grant, once), context())
    assert (found.reason, found.grant_id, found.grant_uses_left) == ("You allowed it once: write `a`.", "o", 0)


def test_a_typed_look_is_answered_by_its_words_and_by_no_grant() -> None:
    call = request(effect("network", "h.example:443"), tool="http_request", label=USER, typed=True)
    asked = replace(call, typed=False)
    card = build_card(asked, judge(asked), context())
    grant = grant_from_answer(card, option=0, grant_id="g", approval_id="a", issued_at=1_000_000)
    found = judge(call, grant)
    assert (found.verdict, found.reason, found.grant_id, found.grant_uses_left, found.need) == (
        Verdict.allow, TYPED_WORDS, None, None, None,
    )  # fmt: skip
    assert found.rule_ids == ("builtin:network.default",)
    assert found.factors[-1].words == "no grant of yours covers it"
    assert judge(asked, grant).grant_id == "g"


@pytest.mark.parametrize(
    ("call", "need"),
    [
        (command("make"), Need((Effect(EffectKind.execute, "make", (("from", "argv"),)),), Scope.workspace, "", 1)),
        (command("make", label=UNTRUSTED), Need((), Scope.once, "", 3)),
        (request(unknown=("x:y",)), Need((), Scope.once, "It declares an effect nobody knows: x:y.", 0)),
    ],
)
def test_what_an_answer_has_to_cover(call: Request, need: Need) -> None:
    found = judge(call).need
    assert found is not None
    assert (found.ceiling, found.strength_min) == (need.ceiling, need.strength_min)
    if need.effects:
        assert found.effects == need.effects
    if need.ceiling_reason:
        assert found.ceiling_reason == need.ceiling_reason


def test_effects_asked_about_are_told_once_and_in_order() -> None:
    call = request(effect("write", "z"), effect("write", "b"), effect("read", "y"))
    need = judge(call, rules=RULES).need
    assert need is not None
    assert [one.target for one in need.effects] == ["b", "z"]
    assert default_rules().hash != RULES.hash


# ---- trust and strength ----


def test_the_level_in_force_is_the_least_trusting_word() -> None:
    """Over every choice of the user's, every word that was read and all that may lie in the worktree."""
    order = [TrustLevel.trusted, TrustLevel.restricted, TrustLevel.untrusted]
    implied = {Integrity.USER: 0, Integrity.WORKSPACE: 0, Integrity.UNTRUSTED: 2, None: 2}
    for level in (None, *TrustLevel):
        chosen = 2 if level is None else order.index(level)
        assert least_trusting(level) is order[chosen]
        for read, of_read in implied.items():
            for lies, of_lies in implied.items():
                assert trust_in_force(level, read, lies) is order[max(chosen, of_read, of_lies)]
    assert least_trusting() is TrustLevel.untrusted
    assert [minimum_strength(level) for level in order] == [1, 2, 3] == list(MINIMUM_STRENGTH.values())


def test_strengths_in_words() -> None:
    words = ["no sandbox", "the process rung", "bubblewrap or a container", "gVisor, a microVM or a remote machine"]
    assert [strength_words(strength) for strength in range(-1, 5)] == [words[0], *words, words[3]]
    assert [one.strength for one in (PROCESS, BUBBLEWRAP, MACHINE)] == [1, 2, 3]


# ---- command lines ----

PLACE = Inside("/project", "/tmp/run")


def test_what_is_scratch() -> None:
    assert PLACE.is_scratch("/tmp/run/a")
    assert PLACE.is_scratch("/tmp/run/a/b..c")
    assert not PLACE.is_scratch("/tmp/run")
    assert not PLACE.is_scratch("/tmp/run2/a")
    assert not PLACE.is_scratch("/tmp/run/../a")
    assert not PLACE.is_scratch("tmp/run/a")
    assert not Inside("/project").is_scratch("/a")
    assert not ANYWHERE.is_scratch("/a")
    assert Inside() == ANYWHERE


def of(kind: str, *paths: str) -> tuple[Effect, ...]:
    """Effects of one kind."""
    return tuple(Effect(EffectKind(kind), path) for path in paths)


TOLD = "what the command starts can't be told"
LOOKS_AFTER_CD = "where the commands after cd run can't be told"


@pytest.mark.parametrize(
    ("argv", "known"),
    [
        ((), Understood(((),), doubts=(TOLD,))),
        (("env", "-S", "ls"), Understood((("env", "-S", "ls"),), doubts=(TOLD,))),
        (("nice",), Understood((("nice",),), doubts=(TOLD,))),
        (("ls",), Understood((("ls",),), ("ls",))),
        (("cat", "a", "./b/", "/project/c", "/project", "~/d", "/e", "-"), Understood(
            (("cat", "a", "./b/", "/project/c", "/project", "~/d", "/e", "-"),), ("cat",),
            of("read", "a", "b", "c", ".", "~/d", "/e"),
        )),
        (("cat", "/projectx/a", "a/../b", "/tmp/run/x", "/dev/null"), Understood(
            (("cat", "/projectx/a", "a/../b", "/tmp/run/x", "/dev/null"),), ("cat",),
            of("read", "/projectx/a", "a/../b"),
        )),
        (("timeout", "5", "env", "LANG=C", "cat", "a"), Understood(
            (("timeout", "5", "env", "LANG=C", "cat", "a"), ("cat", "a")), ("timeout", "env", "cat"), of("read", "a"),
        )),
        (("env", "A=1", "LC_ALL=x", "ls"), Understood(
            (("env", "A=1", "LC_ALL=x", "ls"), ("ls",)), ("env", "ls"),
            doubts=("A is set, which may choose what runs", "LC_ALL is set, which may choose what runs"),
        )),
        (("env",), Understood((("env",),), ("env",))),
        (("timeout", "5", "cat", "nice", "env"), Understood(
            (("timeout", "5", "cat", "nice", "env"), ("cat", "nice", "env")), ("timeout", "cat"),
            of("read", "nice", "env"),
        )),
        (("nice", "-n", "x", "ls"), Understood((("nice", "-n", "x", "ls"),), doubts=(TOLD,))),
        (("rm", "a"), Understood(
            (("rm", "a"),), ("rm",), of("delete", "a"), ("rm changes files", "it would delete a"),
        )),
        (("bash", "-c", "cd src && cat a /project/b; pwd"), Understood(
            (("cd", "src"), ("cat", "a", "/project/b"), ("pwd",)), ("bash", "cat"), of("read", "a", "b"),
            (LOOKS_AFTER_CD,), True,
        )),
        (("bash", "-c", "cd src && cd sub && cat a && cd .. && cat b"), Understood(
            (("cd", "src"), ("cd", "sub"), ("cat", "a"), ("cd", ".."), ("cat", "b")), ("bash", "cat"),
            of("read", "src/sub/a", "src/sub/b"), ("it goes to a folder outside the workspace",), True,
        )),
        (("bash", "-c", "cd . && cat a"), Understood(
            (("cd", "."), ("cat", "a")), ("bash", "cat"), of("read", "a"), (), True,
        )),
        (("bash", "-c", "cd src && git log"), Understood(
            (("cd", "src"), ("git", "log")), ("bash", "git"), (), ("git obeys what it finds in src",), True,
        )),
        (("bash", "-c", ": && ls >/tmp/run/x; cat <a >b"), Understood(
            ((":",), ("ls",), ("cat",)), ("bash", "ls", "cat"), (*of("read", "a"), *of("write", "b")),
            ("it writes temporary files, which what runs next may obey", "it would write b"), True,
        )),
        (("bash", "-c", "cd src && cat '~/d' /e ''"), Understood(
            (("cd", "src"), ("cat", "~/d", "/e", "")), ("bash", "cat"), of("read", "~/d", "/e", ""), (), True,
        )),
        (("bash", "-c", "cat $x"), Understood((), ("bash",), (), ("it holds a variable",), True)),
        (("bash", "-c", "\u202e"), Understood(
            (), ("bash",), (), ("it holds the character U+202E, which can't be seen as what it is",), True,
        )),
        (("bash", "a.sh"), Understood(
            (("bash", "a.sh"),), ("bash",), doubts=("bash runs whatever text it is given",),
        )),
        (("bash", "-c", "cd . && git log"), Understood((("cd", "."), ("git", "log")), ("bash", "git"), (), (), True)),
        (("bash", "-c", "git config --get a.b; git log"), Understood(
            (("git", "config", "--get", "a.b"), ("git", "log")), ("bash", "git"), (),
            ("what git runs may have been chosen before in this line",), True,
        )),
        (("rg", "--type-list", "a"), Understood((("rg", "--type-list", "a"),), ("rg",), of("read", "a"))),
        (("rg", "--files", "a"), Understood((("rg", "--files", "a"),), ("rg",), of("read", "a"))),
        (("rg", "x", "a"), Understood((("rg", "x", "a"),), ("rg",), of("read", "a"))),
        (("grep", "-e", "x", "a"), Understood((("grep", "-e", "x", "a"),), ("grep",), of("read", "a"))),
        (("bash", "--version"), Understood((("bash", "--version"),), ("bash",))),
    ],
    ids=range(28),
)  # fmt: skip
def test_a_command_line_taken_apart(argv: tuple[str, ...], known: Understood) -> None:
    """Commands with and without what starts them, programs, effects from the workspace's root, and every doubt."""
    assert understand(argv, parse_bash, PLACE) == known


def test_the_workspaces_own_path_may_end_with_a_slash() -> None:
    for root in ("/project", "/project/", "/project//"):
        found = understand(("cat", "/project/a", "/project//b/", "/projec", "/project"), parse_bash, Inside(root))
        assert found.effects == of("read", "a", "b", "/projec", ".")
    assert understand(("cat", "/a", " a"), parse_bash, Inside("/")).effects == of("read", "/a", " a")


KNOWN = Understood((("cat", "a", "../x"),), ("cat", "ls"), of("read", "a", "b", "../x"), ("before",), True)
USR = {"cat": "/usr/bin/cat", "ls": "/usr/bin/ls"}


@pytest.mark.parametrize(
    ("trusted", "leads", "doubts", "more"),
    [
        (USR, {"a": "a", "b": "b"}, (), ()),
        ({"cat": "/usr/bin/cat"}, {"a": "a", "b": "b"}, ("ls is not a program of the system",), ()),
        ({**USR, "cat": "bin/cat"}, {"a": "a", "b": "b"}, ("cat is not a program of the system",), ()),
        (USR, {"a": "a"}, ("where b leads can't be told",), ()),
        (USR, {"a": None, "b": "c"}, ("where a leads can't be told",), ("c",)),
        (USR, {"a": "b", "b": ".env", "../x": "y"}, (), (".env",)),
    ],
)
def test_what_the_machine_says_of_it(trusted: Any, leads: Any, doubts: tuple[str, ...], more: tuple[str, ...]) -> None:
    """All that was known stays; what lies outside is not looked up."""
    assert with_places(KNOWN, trusted, leads) == replace(
        KNOWN, effects=(*KNOWN.effects, *of("read", *more)), doubts=("before", *doubts)
    )
