"""What an answer may say, to the word and to the last unit; a stored right is read whole or not at all."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.policy_cases import BUBBLEWRAP, command, context, judge

from gloveport.protocol.ids import ApprovalId, GrantId, SessionId, Sha256, TurnId, WorkspaceId
from gloveport.server.policy.answer import grant_from_answer, grant_from_issued, grant_sentence, option_for
from gloveport.server.policy.capability import Capability, Pattern, PatternKind, Scope
from gloveport.server.policy.card import build_card
from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.errors import TooWideError
from gloveport.server.policy.grant import Bound, Grant, bound_from_plain, grant_from_plain
from gloveport.server.policy.labels import Integrity

NOW = 1_000_000
SECOND = 1_000_000
HOUR = 3600 * SECOND
TESTS = {"tool": "run_tests", "kinds": ["execute"], "pattern": {"kind": "test_class", "value": ["pytest"]}}
CALL = command("pytest", "-q", tool="run_tests", environment=(("CI", "1"),))


def card(**changes: Any) -> dict[str, Any]:
    """The card of a run of tests in the ordinary circumstances."""
    return build_card(CALL, judge(CALL, **changes), context(**changes))


def option(shown: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The card with its option for the session changed."""
    at = option_for(shown, Scope.session)
    return {**shown, "options": [{**one, **changes} if at == n else one for n, one in enumerate(shown["options"])]}


def answer(shown: dict[str, Any], scope: Scope = Scope.session, **changes: Any) -> Grant:
    """The grant of an answer to the first option of this scope."""
    given_ = {"option": option_for(shown, scope), "grant_id": "g", "approval_id": "a", "issued_at": NOW}
    return grant_from_answer(shown, **{**given_, **changes})


NARROWING = "an answer may name capability, scope, uses and nothing else"
UNREADABLE = "the narrowed capability can't be read"
FURTHER = "the narrowed capability reaches further than the option"
USES = "uses is a whole number from 1 up to what the option holds"
END = "the end lies in the past or later than the option's"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"option": 99}, "the card offers 10 answers, and this is not one of them"),
        ({"option": 10}, "the card offers 10 answers, and this is not one of them"),
        ({"option": -1}, "the card offers 10 answers, and this is not one of them"),
        ({"narrowed_to": {"kinds": ["network"]}}, NARROWING),
        ({"narrowed_to": {"scope": "session", "tool": "x"}}, NARROWING),
        ({"narrowed_to": {"scope": "workspace"}}, "the option holds for session, and 'workspace' is not within that"),
        ({"narrowed_to": {"scope": "x" * 99}}, f"the option holds for session, and '{'x' * 39} is not within that"),
        ({"narrowed_to": {"scope": None}}, "the option holds for session, and None is not within that"),
        (
            {"narrowed_to": {"scope": "once"}},
            "to allow it once, take the option that says so; it is bound to this one call",
        ),
        ({"narrowed_to": {"capability": "all"}}, UNREADABLE),
        ({"narrowed_to": {"capability": {"tool": "run_tests"}}}, UNREADABLE),
        ({"narrowed_to": {"capability": {**TESTS, "kinds": ["beam"]}}}, UNREADABLE),
        ({"narrowed_to": {"capability": {**TESTS, "pattern": []}}}, UNREADABLE),
        ({"narrowed_to": {"capability": {**TESTS, "tool": "run_command"}}}, FURTHER),
        ({"narrowed_to": {"capability": {**TESTS, "kinds": ["execute", "network"]}}}, FURTHER),
        ({"narrowed_to": {"uses": 0}}, USES),
        ({"narrowed_to": {"uses": -1}}, USES),
        ({"narrowed_to": {"uses": True}}, USES),
        ({"narrowed_to": {"uses": "2"}}, USES),
        ({"expires_at": NOW}, END),
        ({"expires_at": NOW + 8 * HOUR + 1}, END),
    ],
    ids=str,
)
def test_what_is_too_wide_is_told_in_words(said: dict[str, Any], words: str) -> None:
    """Each refusal says which word of the answer went too far."""
    with pytest.raises(TooWideError) as refused:
        answer(card(), **said)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"narrowed_to": None}, {}),
        ({"narrowed_to": {}}, {}),
        ({"narrowed_to": {"scope": "session"}}, {}),
        ({"narrowed_to": {"capability": TESTS}}, {}),
        ({"narrowed_to": {"capability": None}}, {}),
        ({"narrowed_to": {"uses": 1}}, {"uses_left": 1}),
        ({"narrowed_to": {"uses": 5000}}, {"uses_left": 5000}),
        ({"expires_at": NOW + 1}, {"expires_at": NOW + 1}),
        ({"expires_at": NOW + 8 * HOUR}, {"expires_at": NOW + 8 * HOUR}),
    ],
    ids=str,
)
def test_what_lies_within_is_taken_as_it_is_said(said: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Up to the last unit of what the option holds; what is not named stays the option's."""
    found, plain = answer(card(), **said), answer(card())
    for name in Grant.__dataclass_fields__:
        assert getattr(found, name) == wanted.get(name, getattr(plain, name)), name


def test_counted_uses_and_a_short_life_of_an_option_are_held() -> None:
    """An option may hold for fewer uses or a shorter time than its scope's."""
    few = option(card(), uses=3)
    assert answer(few).uses_left == 3
    assert answer(few, narrowed_to={"uses": 3}).uses_left == 3
    assert answer(few, narrowed_to={"uses": 2}).uses_left == 2
    with pytest.raises(TooWideError):
        answer(few, narrowed_to={"uses": 4})
    shown = card()
    endless = {**shown, "options": [{**shown["options"][0], "uses": None}]}
    assert answer(endless, Scope.once).uses_left == 1, "once is once, whatever the option says"
    short = option(card(), lifetime_s=60)
    assert answer(short).expires_at == NOW + 60 * SECOND
    with pytest.raises(TooWideError):
        answer(short, expires_at=NOW + 60 * SECOND + 1)
    assert answer(option(card(), lifetime_s=10**9)).expires_at == NOW + 8 * HOUR


def test_a_wider_option_that_is_narrowed_lives_as_long_as_its_new_scope() -> None:
    assert answer(card(), Scope.workspace).expires_at == NOW + 30 * 24 * HOUR
    assert answer(card(), Scope.workspace, narrowed_to={"scope": "session"}).expires_at == NOW + 8 * HOUR
    assert answer(card(), Scope.workspace, narrowed_to={"scope": "turn"}).turn_id == "t-1"


def test_what_no_lasting_right_may_hold_is_refused_though_a_card_should_offer_it() -> None:
    """Each layer looks for itself: for this once it is what was shown, for longer it is refused in words."""
    wide = {"tool": "run_tests", "kinds": ["execute"], "pattern": {"kind": "argv_exact", "value": ["env", "x"]}}
    with pytest.raises(TooWideError) as refused:
        answer(option(card(), capability=wide), narrowed_to={"capability": wide})
    assert "env can start other programs named in its arguments" in str(refused.value)
    shown = card()
    once = {**shown, "options": [{**shown["options"][0], "capability": wide}]}
    assert answer(once, Scope.once, narrowed_to={"capability": wide}).capability.pattern.value == ("env", "x")


@pytest.mark.parametrize("scope", list(Scope))
def test_a_grant_is_all_that_its_card_says(scope: Scope) -> None:
    """Every field, of every scope: whose it is, from where, bound to what, until when."""
    shown = card(agent="main/child", trust_generation=3)
    found = answer(shown, scope)
    by_turn = scope in {Scope.once, Scope.turn}
    offered = next(one for one in shown["options"] if one["scope"] == scope)
    lasting = Capability("run_tests", frozenset({EffectKind.execute}), Pattern(PatternKind.test_class, ("pytest",)))
    this = Capability("run_tests", lasting.kinds, Pattern(PatternKind.call_exact, ("execute:pytest -q",)))
    assert found == Grant(
        grant_id=GrantId("g"),
        capability=this if scope is Scope.once else lasting,
        scope=scope,
        workspace_id=WorkspaceId("w-1"),
        session_id=SessionId("s-1"),
        agent="main/child",
        issued_at=NOW,
        issued_from=ApprovalId("a"),
        bound=Bound(
            request=Sha256(offered["bound"]["request"]) if scope is Scope.once else None,
            files=() if scope is Scope.once else None,
            cwd=".",
            environment=(("CI", "1"),),
            strength_min=2,
            network=False,
            integrity_max=Integrity.WORKSPACE,
        ),
        expires_at=NOW + {"once": HOUR // 6, "turn": 8 * HOUR, "session": 8 * HOUR, "workspace": 720 * HOUR}[scope],
        uses_left=1 if scope is Scope.once else None,
        turn_id=TurnId("t-1") if by_turn else None,
        goal_revision=1 if by_turn else None,
        trust_generation=3,
    )
    assert grant_sentence(found) == offered["sentence"]


def test_a_sentence_tells_counted_uses_and_an_open_network() -> None:
    """What a grant holds beside what the option's own sentence says."""
    few = answer(card(), narrowed_to={"uses": 2})
    assert grant_sentence(few) == (
        "run the tests of this workspace with pytest in the sandbox, in this session, for at most 8 hours, at most 2 "
        "times, in a sandbox as strong as this one or stronger"
    )
    call = command("pytest", tool="run_tests", sandbox=type(BUBBLEWRAP)("bubblewrap", 2, True))
    open_ = build_card(call, judge(call), context())["options"][1]["sentence"]
    assert open_.endswith(", in a sandbox as strong as this one or stronger, which leaves the network open")


def test_a_scope_that_is_not_offered_has_no_option() -> None:
    shown = card()
    assert [option_for(shown, scope) for scope in Scope] == [0, 1, 2, 3]
    assert option_for({"options": shown["options"][:2]}, Scope.session) is None
    assert option_for({"options": [*shown["options"], *shown["options"]]}, Scope.session) == 2


# ---- the stored form ----

words = st.text(min_size=1, max_size=8)
numbers = st.integers(-(2**60), 2**60)
digests = st.text("0123456789abcdef", min_size=64, max_size=64).map(Sha256)
bounds = st.builds(
    Bound,
    request=st.none() | digests,
    files=st.none() | st.lists(st.tuples(words, digests), max_size=2).map(tuple),
    cwd=st.none() | words,
    environment=st.lists(st.tuples(words, st.text(max_size=4)), max_size=2).map(tuple),
    strength_min=st.integers(0, 3),
    network=st.booleans(),
    integrity_max=st.sampled_from(Integrity),
)
patterns = st.builds(Pattern, st.sampled_from(PatternKind), st.lists(words, min_size=1, max_size=3).map(tuple))
capabilities = st.builds(Capability, words, st.frozensets(st.sampled_from(EffectKind), min_size=1), patterns)
grants = st.builds(
    Grant,
    grant_id=words.map(GrantId),
    capability=capabilities,
    scope=st.sampled_from(Scope),
    workspace_id=words.map(WorkspaceId),
    session_id=words.map(SessionId),
    agent=words,
    issued_at=numbers,
    issued_from=words.map(ApprovalId),
    bound=bounds,
    expires_at=st.none() | numbers,
    uses_left=st.none() | numbers,
    turn_id=st.none() | words.map(TurnId),
    goal_revision=st.none() | numbers,
    revoked_at=st.none() | numbers,
    trust_generation=numbers,
)


@given(grants)
def test_any_grant_is_read_back_as_it_was_written(grant: Grant) -> None:
    plain = grant.to_plain()
    assert set(plain) == set(Grant.__dataclass_fields__)
    assert set(grant.bound.to_plain()) == set(Bound.__dataclass_fields__)
    assert grant_from_plain(plain) == grant
    assert bound_from_plain(grant.bound.to_plain()) == grant.bound


@given(grants, st.integers(0, 9))
def test_uses_are_counted_down_to_none_and_no_further(grant: Grant, times: int) -> None:
    left = grant.used(times).uses_left
    assert left == (None if grant.uses_left is None else max(0, grant.uses_left - times))


WHOLE = Bound(Sha256("a" * 64), (("f", Sha256("b" * 64)),), "sub", (("N", ""),), 2, True, Integrity.WORKSPACE)
OBJECT, TEXT, NUMBER = "an object is expected here", "a string is expected here", "a whole number is expected here"
PAIRS = "a list of pairs is expected here"


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("network", None, "network is true or false"),
        ("network", 1, "network is true or false"),
        ("request", 1, TEXT),
        ("request", "", TEXT),
        ("files", "ab", PAIRS),
        ("files", {}, PAIRS),
        ("files", [["", "a" * 64]], TEXT),
        ("files", [["f", 1]], TEXT),
        ("cwd", "", TEXT),
        ("cwd", False, TEXT),
        ("environment", None, PAIRS),
        ("environment", [["", "x"]], TEXT),
        ("environment", [["N", None]], TEXT),
        ("strength_min", True, NUMBER),
        ("strength_min", 2.0, NUMBER),
        ("strength_min", "2", NUMBER),
        ("integrity_max", "1", NUMBER),
    ],
    ids=str,
)
def test_a_bound_of_another_shape_is_refused_in_words(field: str, value: object, words: str) -> None:
    """Nothing is taken for what it only looks like: no number for a flag, no flag for a number, no empty name."""
    with pytest.raises(TypeError) as refused:
        bound_from_plain({**WHOLE.to_plain(), field: value})
    assert refused.value.args == (words,)


def test_what_is_no_integrity_or_no_pair_is_refused() -> None:
    for change in ({"integrity_max": 3}, {"files": [["f", "a", "b"]]}, {"environment": [["N"]]}):
        with pytest.raises(ValueError, match=r"3|unpack"):
            bound_from_plain({**WHOLE.to_plain(), **change})
    for name in WHOLE.to_plain():
        with pytest.raises(KeyError, match=name):
            bound_from_plain({key: value for key, value in WHOLE.to_plain().items() if key != name})
    tuples = {"files": (("f", "b" * 64),), "environment": (("N", ""),)}
    assert bound_from_plain({**WHOLE.to_plain(), **tuples}) == WHOLE


WRONG: dict[str, tuple[object, ...]] = {
    "grant_id": ("", None, 1),
    "capability": (None, [], "x"),
    "scope": ("", "ever", None, 1),
    "workspace_id": ("", None),
    "session_id": ("", None),
    "agent": ("", None),
    "issued_at": (None, "1", True),
    "issued_from": ("", None),
    "bound": (None, [], "x"),
    "expires_at": ("1", True, 1.5),
    "uses_left": ("1", True),
    "turn_id": ("", 1),
    "goal_revision": ("1", True),
    "revoked_at": ("1", True),
    "trust_generation": (None, "1", True),
}


def test_each_field_of_a_stored_grant_has_one_shape() -> None:
    """The table names every field; a wrong value in any one of them, and there is no grant."""
    plain = answer(card(), Scope.turn).to_plain()
    assert set(WRONG) == set(plain)
    for name, values in WRONG.items():
        for value in values:
            assert grant_from_plain({**plain, name: value}) is None, (name, value)


def test_a_record_that_is_no_grant_is_none_however_often_it_was_used() -> None:
    whole = answer(card(), Scope.once)
    assert grant_from_issued(SimpleNamespace(grant=whole.to_plain()), 0) == whole
    spent = grant_from_issued(SimpleNamespace(grant=whole.to_plain()), 1)
    assert spent is not None
    assert spent.uses_left == 0
    for uses in (0, 1):
        assert grant_from_issued(SimpleNamespace(grant={}), uses) is None
