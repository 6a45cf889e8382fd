"""What is offered for a call, and which grant covers one: by tables over every state."""

from dataclasses import replace
from typing import Any

import pytest
from tests.kit.policy_cases import BUBBLEWRAP, PROCESS, UNTRUSTED, command, context, effect, judge, request

from gloveport.protocol.ids import ApprovalId, GrantId, SessionId, Sha256, TurnId, WorkspaceId
from gloveport.server.policy.capability import Capability, Pattern, PatternKind, Scope
from gloveport.server.policy.commands import (
    run_effect,
)
from gloveport.server.policy.coverage import covering_grant, is_in_force
from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.findings import ask
from gloveport.server.policy.grant import Bound, Grant
from gloveport.server.policy.labels import Integrity
from gloveport.server.policy.offers import LIFETIME_S, OPTIONS_MAX, SCOPE_WORDS, Offer, Refusal, sentence_of, suggest
from gloveport.server.policy.request import Request, request_digest
from gloveport.server.policy.rules.rule import Rule, Source, Verdict
from gloveport.server.policy.rules.ruleset import build_ruleset

SHA = Sha256("a" * 64)

# ---- offers ----


def offered(call: Request, **changes: Any) -> tuple[list[tuple[str, str, tuple[str, ...]]], list[tuple[str, str]]]:
    """The offers as scope, kind of pattern and value; the refusals as scope and reason."""
    offers, refused = suggest(call, judge(call, **changes), context(**changes))
    shown = [(str(one.scope), str(one.capability.pattern.kind), one.capability.pattern.value) for one in offers]
    return shown, [(str(one.scope), one.reason) for one in refused]


def lasting(*patterns: tuple[str, tuple[str, ...]], scopes: tuple[str, ...] = ("turn", "session", "workspace")) -> Any:
    """The lasting offers of these patterns, each for every scope."""
    return [(scope, kind, value) for kind, value in patterns for scope in scopes]


NARROW = "nothing wider than this call can be named safely"
NOT_YET = "You have not yet said how far you trust this workspace."
UNSET = {"trust_level": None}


@pytest.mark.parametrize(
    ("call", "changes", "once", "lasts"),
    [
        (
            command("pytest", "-q", "a", tool="run_tests"), {}, ("execute:pytest -q a",),
            lasting(
                ("test_class", ("pytest",)), ("argv_exact", ("pytest", "-q", "a")), ("argv_prefix", ("pytest", "-q"))
            ),
        ),
        (
            command("make", "x"), {}, ("execute:make x",), lasting(("argv_exact", ("make", "x"))),
        ),
        (command("bash", "-c", "make"), {}, ("execute:bash -c make",), []),
        (
            request(effect("write", "a/b/x"), effect("write", "a/c/y"), effect("read", "a/b/z")), UNSET,
            ("write:a/b/x",),
            lasting(("path_exact", ("a/b/x",)), ("path_prefix", ("a/b",)), scopes=("turn", "session")),
        ),
        (
            request(effect("write", "x")), UNSET, ("write:x",),
            lasting(("path_exact", ("x",)), scopes=("turn", "session")),
        ),
        (request(unknown=("b:2", "a:1")), {}, ("b:2", "a:1"), []),
        (request(tool="edit_file"), {}, ("call:edit_file",), []),
        (request(effect("write", "a"), reversible=False), {}, ("write:a",), []),
    ],
)  # fmt: skip
def test_what_is_offered(call: Request, changes: dict[str, Any], once: tuple[str, ...], lasts: Any) -> None:
    """This call first, then what is shown first first; scopes from the narrowest."""
    shown, refused = offered(call, **changes)
    assert shown == [("once", "call_exact", once), *lasts]
    scopes = {scope for scope, _, _ in shown}
    assert [scope for scope, _ in refused] == [str(scope) for scope in Scope if scope not in scopes]


@pytest.mark.parametrize(
    ("call", "changes", "refused"),
    [
        (command("make"), {}, []),
        (request(effect("write", "x")), UNSET, [("workspace", NOT_YET)]),
        (
            request(effect("write", "x"), reversible=False), {},
            [(scope, "It can't be undone.") for scope in ("turn", "session", "workspace")],
        ),
        (command("make", sandbox=PROCESS), {}, [("workspace", "not in the process rung")]),
        (
            command("make", sandbox=PROCESS, unbound=("a",)), {},
            [
                (scope, "not where a named file can't be bound to what it holds")
                for scope in ("turn", "session", "workspace")
            ],
        ),
        (
            request(effect("write", "../../x")), {},
            [],
        ),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(call: Request, changes: dict[str, Any], refused: list[tuple[str, str]]) -> None:
    """The reason of the ceiling, the narrowest one; nothing where nothing is asked."""
    assert offered(call, **changes)[1] == refused


def test_what_cannot_be_named_safely_is_said_so() -> None:
    """The rules would let an answer last, and no pattern may hold it."""
    call = command("make", environment=(("A", "1"),), understood=None)
    decision = judge(call)
    assert decision.need is not None
    wide = replace(decision, need=replace(decision.need, effects=()))
    offers, refused = suggest(call, wide, context())
    assert [one.scope for one in offers] == [Scope.once]
    assert refused == tuple(Refusal(scope, NARROW) for scope in (Scope.turn, Scope.session, Scope.workspace))
    assert suggest(call, replace(decision, need=None), context()) == ((), ())


def test_what_no_lasting_right_may_hold_is_not_offered_though_the_rules_would_let_it_last() -> None:
    """A shell whose text only looks is asked about by a rule of the user's alone."""
    rule = Rule("mine", Source.user, frozenset({EffectKind.execute}), Verdict.ask, "Mine.", ceiling=Scope.workspace)
    for argv, lasts in ((("bash", "-c", "ls"), False), (("ls",), True)):
        decision = judge(command(*argv), rules=build_ruleset([rule]))
        assert decision.need is not None
        assert decision.need.ceiling is Scope.workspace
        offers, _ = suggest(command(*argv), decision, context())
        assert (len(offers) > 1) is lasts


def test_an_offer_whole() -> None:
    call = command(
        "mypy", "a", cwd="d", environment=(("A", "1"),), file_digests=(("f", SHA),),
        sandbox=replace(BUBBLEWRAP, network=True),
    )  # fmt: skip
    offers, _ = suggest(call, judge(call), context())
    kinds = frozenset({EffectKind.execute})
    bound = Bound(None, (("f", SHA),), "d", (("A", "1"),), 2, True, Integrity.WORKSPACE)
    once = replace(bound, request=request_digest(call))
    this = Capability("run_command", kinds, Pattern(PatternKind.call_exact, ("execute:mypy a",)))
    exact = Capability("run_command", kinds, Pattern(PatternKind.argv_exact, ("mypy", "a")))
    prefix = Capability("run_command", kinds, Pattern(PatternKind.argv_prefix, ("mypy",)))
    exactly = "run exactly `mypy a`,"
    end = ", in a sandbox as strong as this one or stronger, which leaves the network open"
    assert offers == (
        Offer(Scope.once, this, once, 1, f"run `mypy a`, once, within 10 minutes{end}"),
        Offer(Scope.turn, exact, bound, None, f"{exactly} until this turn ends{end}"),
        Offer(Scope.session, exact, bound, None, f"{exactly} in this session, for at most 8 hours{end}"),
        Offer(Scope.workspace, exact, bound, None, f"{exactly} in this workspace, for at most 30 days{end}"),
        *(
            Offer(
                scope, prefix, replace(bound, files=None), None,
                f"run `mypy`, also with names of files or tests behind it (no further options), "
                f"{SCOPE_WORDS[scope]}{end}",
            )
            for scope in (Scope.turn, Scope.session, Scope.workspace)
        ),
    )  # fmt: skip


def test_what_names_paths_is_bound_to_no_folder_but_for_this_once() -> None:
    call = request(effect("write", "s/a"), cwd="d", file_digests=(("s/a", SHA),))
    offers, _ = suggest(call, judge(call, trust_level=None), context(trust_level=None))
    bounds = [(str(one.scope), str(one.capability.pattern.kind), one.bound.cwd, one.bound.files) for one in offers]
    assert bounds == [
        ("once", "call_exact", "d", (("s/a", SHA),)),
        ("turn", "path_exact", None, None),
        ("session", "path_exact", None, None),
        ("turn", "path_prefix", None, None),
        ("session", "path_prefix", None, None),
    ]
    assert {(one.bound.strength_min, one.bound.network) for one in offers} == {(0, False)}


def test_sentences_tell_uses_but_for_one_call() -> None:
    capability = Capability("t", frozenset({EffectKind.read}), Pattern(PatternKind.path_exact, ("a",)))
    assert sentence_of(capability, Scope.once, Bound(), 3) == "read `a`, once, within 10 minutes"
    assert sentence_of(capability, Scope.turn, Bound(), 3) == "read `a`, until this turn ends, at most 3 times"
    assert sentence_of(capability, Scope.turn, Bound()) == "read `a`, until this turn ends"
    assert sentence_of(capability, Scope.turn, Bound(strength_min=1)).endswith("as strong as this one or stronger")
    assert sentence_of(capability, Scope.turn, Bound(network=True)).endswith("ends, which leaves the network open")
    assert dict(LIFETIME_S) == {"once": 600, "turn": 28_800, "session": 28_800, "workspace": 2_592_000}
    assert OPTIONS_MAX == 32


# ---- which grant covers ----

CALL = command("make", cwd="d", environment=(("A", "1"),), file_digests=(("f", SHA),))
MAKE = Capability("run_command", frozenset({EffectKind.execute}), Pattern(PatternKind.argv_exact, ("make",)))
GRANT = Grant(
    GrantId("g"), MAKE,
    Scope.turn, WorkspaceId("w-1"), SessionId("s-1"), "main", 5, ApprovalId("a"),
    Bound(None, (("f", SHA),), "d", (("A", "1"),), 2, False, Integrity.WORKSPACE), 2_000_000, 3, TurnId("t-1"), 1,
    None, 0,
)  # fmt: skip
ASKS = (ask("x", "W.", run_effect(("make",)), Scope.workspace), ask("y", "W.", None, Scope.workspace))


def covers(
    grant: Grant, call: Request = CALL, ceiling: Scope = Scope.workspace, asks: Any = ASKS, **given: Any
) -> bool:
    """Whether this grant alone answers."""
    return covering_grant((grant,), call, context(**given), asks, ceiling) is grant


def bound(**changes: Any) -> Grant:
    """The grant with its bound changed."""
    return replace(GRANT, bound=replace(GRANT.bound, **changes))


@pytest.mark.parametrize(
    ("grant", "answers"),
    [
        (GRANT, True),
        (replace(GRANT, expires_at=None), True),
        (replace(GRANT, expires_at=1_000_001), True),
        (replace(GRANT, expires_at=1_000_000), False),
        (replace(GRANT, uses_left=None), True),
        (replace(GRANT, uses_left=1), True),
        (replace(GRANT, uses_left=0), False),
        (replace(GRANT, revoked_at=0), False),
        (replace(GRANT, agent="other"), False),
        (replace(GRANT, trust_generation=1), False),
        (replace(GRANT, workspace_id=WorkspaceId("w-2")), False),
        (replace(GRANT, session_id=SessionId("s-2")), False),
        (replace(GRANT, turn_id=TurnId("t-2")), False),
        (replace(GRANT, turn_id=None), False),
        (replace(GRANT, goal_revision=2), False),
        (replace(GRANT, goal_revision=None), False),
        (replace(GRANT, scope=Scope.session, turn_id=None, goal_revision=None), True),
        (replace(GRANT, scope=Scope.session, goal_revision=2), False),
        (replace(GRANT, scope=Scope.session, session_id=SessionId("s-2"), goal_revision=None), False),
        (replace(GRANT, scope=Scope.workspace, session_id=SessionId("s-2"), turn_id=None, goal_revision=None), True),
        (replace(GRANT, scope=Scope.workspace, workspace_id=WorkspaceId("w-2"), goal_revision=None), False),
        (replace(GRANT, scope=Scope.workspace, goal_revision=None, trust_generation=1), False),
        (replace(GRANT, scope=Scope.once), False),
        (replace(bound(request=request_digest(CALL)), scope=Scope.once), True),
        (replace(bound(request=SHA), scope=Scope.once), False),
        (bound(request=request_digest(CALL)), True),
        (bound(request=SHA), False),
        (bound(files=None), True),
        (bound(files=()), False),
        (bound(cwd=None), True),
        (bound(cwd="."), False),
        (bound(environment=()), False),
        (bound(strength_min=0), True),
        (bound(strength_min=3), False),
        (bound(network=True), True),
        (bound(integrity_max=Integrity.UNTRUSTED), True),
        (bound(integrity_max=Integrity.USER), False),
        (replace(GRANT, capability=replace(GRANT.capability, tool="t")), False),
        (replace(GRANT, capability=replace(GRANT.capability, kinds=frozenset({EffectKind.write}))), False),
        (
            replace(GRANT, capability=replace(MAKE, pattern=Pattern(PatternKind.argv_exact, ("make", "x")))),
            False,
        ),
    ],
    ids=range(40),
)  # fmt: skip
def test_a_grant_answers_here_and_now_or_not(grant: Grant, answers: bool) -> None:
    assert covers(grant) is answers


def test_a_grant_answers_the_call_it_names_as_it_is_bound() -> None:
    """The same grant, and one thing of the call or of the circumstances changed."""
    for change, answers in (
        ({"sandbox": replace(BUBBLEWRAP, network=True)}, False),
        ({"sandbox": PROCESS}, False),
        ({"sandbox": None}, False),
        ({"label": UNTRUSTED}, False),
        ({"tool": "run_tests"}, False),
        ({"environment": (("A", "2"),)}, False),
        ({"call_id": "c9"}, True),
        ({"argv": ("make", "x")}, False),
    ):
        assert covers(GRANT, replace(CALL, **change)) is answers, change  # type: ignore[arg-type]  # - fields of a call
    free = bound(strength_min=0)
    assert covers(free, replace(CALL, sandbox=None))
    for given in (
        {"now": 2_000_000},
        {"turn_id": "t-2"},
        {"goal_revision": 2},
        {"agent": "x"},
        {"trust_generation": 1},
    ):
        assert not covers(GRANT, **given)
        assert covers(GRANT, now=1_999_999)
    assert is_in_force(GRANT, context())
    assert not is_in_force(GRANT, context(workspace_id="w-2"))


def test_no_grant_is_wider_than_a_ceiling() -> None:
    """Neither than that of all nor than that of each question; all questions are answered by one."""
    for scope in (Scope.turn, Scope.session, Scope.workspace):
        grant = replace(GRANT, scope=scope)
        for ceiling in Scope:
            within = scope.width <= ceiling.width
            assert covers(grant, ceiling=ceiling) is within
            asks = (ASKS[0], replace(ASKS[1], ceiling=ceiling))
            assert covers(grant, asks=asks) is within
            assert covers(grant, asks=asks[::-1]) is within
    other = replace(ASKS[0], effect=effect("network", "x:1"))
    assert not covers(GRANT, asks=(*ASKS, other))
    assert not covers(GRANT, asks=(other, *ASKS))
    assert covers(GRANT, asks=())


def test_of_several_the_narrowest_then_the_oldest_answers() -> None:
    wide = replace(GRANT, scope=Scope.session, grant_id=GrantId("a"), issued_at=1)
    young, old = replace(GRANT, grant_id=GrantId("a"), issued_at=9), replace(GRANT, grant_id=GrantId("z"), issued_at=2)
    twin = replace(old, grant_id=GrantId("b"))
    for grants, found in (((wide, young), young), ((young, old, wide), old), ((old, twin), twin), ((), None)):
        for order in (grants, grants[::-1]):
            assert covering_grant(order, CALL, context(), ASKS, Scope.workspace) is found
            assert covering_grant(iter(order), CALL, context(), ASKS, Scope.workspace) is found


def test_every_ancestor_needs_a_lasting_right_of_its_own() -> None:
    own = replace(GRANT, agent="child")
    parent, grand = (
        replace(GRANT, uses_left=None),
        replace(GRANT, agent="middle", uses_left=None, grant_id=GrantId("m")),
    )

    def answers(*grants: Grant) -> bool:
        where = context(agent="child", ancestors=("middle", "main"))
        return covering_grant(iter(grants), CALL, where, ASKS, Scope.workspace) is own

    assert answers(own, parent, grand)
    assert answers(grand, parent, own)
    assert not answers(own, parent)
    assert not answers(own, grand)
    assert not answers(parent, grand)
    assert not answers(own, replace(parent, uses_left=9), grand)
    assert not answers(own, parent, replace(grand, capability=replace(GRANT.capability, tool="t")))
    assert not answers(own, parent, replace(grand, scope=Scope.once))
