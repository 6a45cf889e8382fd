"""Each of the eight factors in every state it can be in, with its words; and how factors add up."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.policy_cases import (
    BUBBLEWRAP,
    MACHINE,
    PROCESS,
    UNTRUSTED,
    USER,
    WORKSPACE,
    command,
    context,
    effect,
    request,
)

from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.labels import Integrity, Label
from gloveport.server.policy.protected_table import PathClass
from gloveport.server.policy.request import Request, effects_of
from gloveport.server.policy.risk import CLASS_LEVELS, EFFECT_LEVELS, Factor, Level, risk_factors, risk_level
from gloveport.server.policy.rung import TrustLevel

NAMES = ("effect", "scope", "reversibility", "sensitivity", "destination", "intent", "sandbox", "history")
SECRET = replace(WORKSPACE, readers=frozenset({"model:a"}))
OPEN = replace(BUBBLEWRAP, network=True)


def factors(call: Request, granted: bool = False, **changes: Any) -> dict[str, str]:
    """The factors of a call, each as `level: words`."""
    found = risk_factors(call, effects_of(call), context(**changes), granted)
    return {one.name: f"{one.level.name}: {one.words}" for one in found}


def many(kind: str, count: int) -> Request:
    """A call with so many targets."""
    return request(*(effect(kind, f"d/a{number}.py") for number in range(count)))


RUN = command("make")
LOOK = command("ls", "-l")
FROM_COMMAND = Effect(EffectKind.read, ".env", (("from", "x"),))
STORE = "it is a repository's own store, whose settings and hooks run programs"
STRONGEST = "gVisor, a microVM or a remote machine"
STATES: tuple[tuple[str, Request, str], ...] = (
    ("effect", request(), "low: no effect"),
    ("effect", request(effect("read", "a"), effect("delete", "b")), "medium: it would delete"),
    ("effect", request(effect("delete", "b"), effect("read", "a")), "medium: it would delete"),
    ("effect", request(effect("publish", "a"), effect("delete", "b")), "high: it would publish"),
    ("effect", request(effect("publish", "a"), unknown=("x:y",)), "high: it declares an effect nobody knows"),
    ("effect", RUN, "medium: it would run"),
    ("effect", LOOK, "low: it would run"),
    ("scope", request(), "low: only what it names"),
    ("scope", request(effect("network", "x:1")), "low: only what it names"),
    ("scope", request(effect("write", "a.py")), "low: an ordinary file of the project"),
    ("scope", many("write", 10), "medium: many files at once"),
    ("scope", many("write", 9), "low: an ordinary file of the project"),
    ("scope", many("read", 10), "low: an ordinary file of the project"),
    ("scope", many("delete", 10), "medium: many files at once"),
    ("scope", request(effect("delete", "d", recursive="true")), "medium: many files at once"),
    ("scope", request(*many("write", 5).effects, *many("delete", 5).effects), "low: an ordinary file of the project"),
    ("scope", request(effect("write", "../a")), "high: a: it lies outside the workspace"),
    ("scope", request(effect("read", ".git/a")), f"low: .git: {STORE}"),
    ("scope", command("rm", "conftest.py", understood=None), "low: only what it names"),
    ("reversibility", request(effect("network", "x:1"), reversible=False), "high: it can't be undone"),
    ("reversibility", request(reversible=False), "high: it can't be undone"),
    ("reversibility", request(effect("message", "x")), "high: what has left can't be called back"),
    ("reversibility", request(effect("delete", "x")), "low: it stays a proposal until you accept it"),
    ("reversibility", request(effect("delete", "/")), "high: what lies outside the workspace is no proposal"),
    ("reversibility", request(effect("read", "../x")), "low: it stays a proposal until you accept it"),
    ("sensitivity", request(effect("secret_read", "x")), "high: what it names usually holds secrets"),
    ("sensitivity", request(effect("write", "a"), effect("read", ".env")), "high: what it names usually holds secrets"),
    ("sensitivity", request(effect("network", ".env")), "low: nothing confidential has been read"),
    ("sensitivity", request(FROM_COMMAND), "low: nothing confidential has been read"),
    ("sensitivity", request(effect("read", "a")), "low: nothing confidential has been read"),
    ("sensitivity", request(effect("read", "a"), label=SECRET), "medium: confidential data has been read"),
    ("sensitivity", request(effect("network", "x:1"), label=SECRET), "high: confidential data has been read"),
    ("destination", request(effect("read", "a")), "low: nothing leaves this machine"),
    ("destination", request(effect("network", "A\u202e.example:443")), "high: it goes to a⟨U+202E⟩.example"),
    ("destination", request(effect("publish", "git push")), "high: it goes to git push"),
    ("destination", replace(RUN, sandbox=OPEN), "medium: the sandbox leaves the network open"),
    ("destination", request(effect("read", "a"), sandbox=OPEN), "low: nothing leaves this machine"),
    ("destination", RUN, "low: nothing leaves this machine"),
    ("destination", replace(RUN, effects=(effect("network", "x:1"),), sandbox=OPEN), "high: it goes to x"),
    ("intent", request(effect("network", "x"), label=USER), "low: only your words led here"),
    ("intent", request(effect("network", "x")), "low: the project's own text may have led here, too"),
    ("intent", request(effect("read", "x"), label=UNTRUSTED), "medium: untrusted text may have chosen the arguments"),
    (
        "intent",
        request(effect("read", "x"), effect("configure", "y"), label=UNTRUSTED),
        "high: untrusted text may have chosen the arguments",
    ),
    ("intent", request(effect("read", "x"), intent="absent"), "medium: nothing you wrote for this goal asks for it"),
    (
        "intent",
        request(effect("read", "x"), intent="absent", label=UNTRUSTED),
        "medium: nothing you wrote for this goal asks for it",
    ),
    ("intent", request(effect("read", "x"), intent="named"), "low: the project's own text may have led here, too"),
    ("sandbox", request(effect("read", "a")), "low: no program is started"),
    ("sandbox", replace(RUN, sandbox=None), "high: it would run in no sandbox, less than trusted code needs"),
    ("sandbox", replace(RUN, sandbox=PROCESS), "medium: it would run in the process rung"),
    ("sandbox", RUN, "low: it would run in bubblewrap or a container"),
    (
        "sandbox",
        replace(RUN, label=UNTRUSTED),
        "high: it would run in bubblewrap or a container, less than untrusted code needs",
    ),
    ("sandbox", replace(RUN, label=UNTRUSTED, sandbox=MACHINE), f"low: it would run in {STRONGEST}"),
    ("sandbox", request(effect("install", "x")), "high: it would run in no sandbox, less than trusted code needs"),
    ("history", request(effect("read", "a")), "low: no grant of yours covers it"),
    ("history", request(effect("delete", "a")), "medium: no grant of yours covers it"),
    ("history", LOOK, "low: no grant of yours covers it"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "call", "said"), STATES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_factor_says_its_level_and_why(name: str, call: Request, said: str) -> None:
    found = factors(call)
    assert tuple(found) == NAMES, "always eight, in this order"
    assert found[name] == said


def test_every_factor_has_rows() -> None:
    assert {name for name, _, _ in STATES} == set(NAMES)


def test_a_grant_makes_history_alone_milder() -> None:
    for call in (RUN, request(effect("delete", "a"))):
        with_, without = factors(call, granted=True), factors(call)
        assert with_["history"] == "low: a grant of yours covers it"
        assert {name: with_[name] for name in NAMES[:-1]} == {name: without[name] for name in NAMES[:-1]}


@pytest.mark.parametrize("level", [None, *TrustLevel])
@pytest.mark.parametrize("worktree", [None, *Integrity])
@pytest.mark.parametrize("sandbox", [None, PROCESS, BUBBLEWRAP, MACHINE])
def test_the_sandbox_is_held_against_the_least_trusting_word(level: Any, worktree: Any, sandbox: Any) -> None:
    """The user's level, what was read and what lies in the worktree: the worst of them counts."""
    needs = {TrustLevel.trusted: 1, TrustLevel.restricted: 2, TrustLevel.untrusted: 3, None: 3}[level]
    needs = 3 if worktree in {None, Integrity.UNTRUSTED} else needs
    said = factors(replace(RUN, sandbox=sandbox), trust_level=level, worktree=worktree)["sandbox"]
    strength = 0 if sandbox is None else sandbox.strength
    assert said.startswith("high" if strength < needs else "medium" if strength == 1 else "low")
    assert ("less than" in said) == (strength < needs)


@pytest.mark.parametrize("kind", list(EffectKind))
def test_each_kind_of_effect_has_its_level(kind: EffectKind) -> None:
    """Changing a level is a decision; this is the table that was reviewed."""
    low = {"read", "search", "write"}
    medium = {"delete", "execute", "memory_write"}
    wanted = Level.low if kind in low else Level.medium if kind in medium else Level.high
    assert EFFECT_LEVELS[kind] is wanted
    assert factors(request(effect(kind, "x")))["effect"].startswith(f"{wanted.name}: it would ")
    assert factors(request(effect(kind, "x")))["history"].startswith("low" if wanted is Level.low else "medium")


@pytest.mark.parametrize(
    ("path", "cls", "reading", "writing"),
    [
        ("a.py", PathClass.ordinary, "low", "low"),
        ("conftest.py", PathClass.runs_by_itself, "low", "medium"),
        (".env", PathClass.sensitive, "high", "high"),
        ("../a", PathClass.outside, "high", "high"),
        (".git/HEAD", PathClass.never, "low", "high"),
    ],
)
def test_each_class_of_path_has_its_level(path: str, cls: PathClass, reading: str, writing: str) -> None:
    """Reading what runs by itself is reading; changing it is more."""
    assert set(CLASS_LEVELS) == set(PathClass)
    assert CLASS_LEVELS[cls].name == writing
    for kind, wanted in (("read", reading), ("search", reading), ("write", writing), ("delete", writing)):
        assert factors(request(effect(kind, path)))["scope"].partition(":")[0] == wanted, kind


@given(st.lists(st.sampled_from(Level), max_size=8))
def test_the_highest_counts_and_four_medium_ones_are_high(levels: "list[Level]") -> None:
    found = risk_level(Factor("x", level, "") for level in levels)
    assert found is (Level.high if sum(level > 0 for level in levels) >= 4 else max(levels, default=Level.low))


def test_three_medium_ones_are_medium_and_four_are_high() -> None:
    """At the very edge, in every place among eight."""
    for places in itertools.combinations(range(8), 3):
        three = [Factor("x", Level.medium if at in places else Level.low, "") for at in range(8)]
        assert risk_level(three) is Level.medium
        rest = next(at for at in range(8) if at not in places)
        assert risk_level([*three[:rest], Factor("x", Level.medium, ""), *three[rest + 1 :]]) is Level.high


def test_confidential_data_makes_what_leaves_high_whatever_its_kind() -> None:
    confidential = Label(Integrity.USER, frozenset())
    for kind in EffectKind:
        said = factors(request(effect(kind, "x"), label=confidential))["sensitivity"]
        leaves = kind in {EffectKind.network, EffectKind.publish, EffectKind.message}
        assert said.startswith("high" if leaves or kind is EffectKind.secret_read else "medium")
