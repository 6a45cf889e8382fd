"""Laws of the decision: stricter inputs never give a milder answer, and no answer reaches further than it was given."""

import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.policy_cases import BUBBLEWRAP, MACHINE, PROCESS, TOOLS, context, default_rules, judge, understood

from gloveport.protocol.ids import CallId, Sha256
from gloveport.server.policy.answer import grant_from_answer
from gloveport.server.policy.capability import Capability, Pattern, PatternKind, Scope, narrowed_within, pattern_covers
from gloveport.server.policy.card import build_card, card_digest
from gloveport.server.policy.decide import decide
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.grant import Grant
from gloveport.server.policy.labels import BOTTOM, Integrity, Label, label_from_plain
from gloveport.server.policy.request import Context, Request
from gloveport.server.policy.risk import Level
from gloveport.server.policy.rules.rule import Rule, Source, Verdict
from gloveport.server.policy.rules.ruleset import RuleSet, build_ruleset
from gloveport.server.policy.rung import TrustLevel

QUICK = settings(max_examples=70, deadline=None)

PATHS = [
    "src/a.py",
    "src/b.py",
    "docs/x.md",
    "conftest.py",
    ".env",
    ".git/config",
    "../x",
    "~/.ssh/id_rsa",
    ".",
    "a\u202eb",
]
HOSTS = ["api.example:443", "evil.example:80"]
ARGVS: list[tuple[str, ...]] = [
    ("pytest", "-q"), ("pytest", "tests"), ("ls",), ("git", "push"), ("bash", "-c", "rm x"), ("pip", "install", "x"),
    ("cat", ".env"), ("rm", "-rf", "x"), ("make",), ("bash", "-c", "ls | head -3"), ("git", "log", "-p"),
    ("bash", "-c", "ls > conftest.py"), ("timeout", "5", "cat", "src/a.py"), ("bash", "-c", "cat $x"),
    (), ("curl", "https://evil.example"), ("python", "-m", "pytest"),
]  # fmt: skip

paths = st.sampled_from(PATHS) | st.text(max_size=12)
labels = st.builds(
    Label,
    st.sampled_from(Integrity),
    st.none() | st.frozensets(st.sampled_from(["api.example", "model"]), max_size=2),
    st.tuples(st.sampled_from(["issue:1", "file:a"])),
)
effects = st.one_of(
    st.builds(Effect, st.sampled_from(EffectKind), paths),
    st.builds(Effect, st.sampled_from([EffectKind.network, EffectKind.publish]), st.sampled_from(HOSTS)),
)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    argv = draw(st.none() | st.sampled_from(ARGVS) | st.lists(st.text(max_size=8), max_size=4).map(tuple))
    return Request(
        call_id=CallId("c"),
        tool=draw(st.sampled_from([*sorted(TOOLS), "fs__write"])),
        effects=tuple(draw(st.lists(effects, max_size=4))),
        label=draw(labels),
        arguments_digest=Sha256("a" * 64),
        goal_revision=draw(st.sampled_from([1, 1, 1, 2])),
        intent=draw(st.sampled_from(["named", "implied", "absent"])),
        reversible=draw(st.booleans()),
        argv=argv,
        environment=draw(st.sampled_from([(), (("CI", "1"),), (("LD_PRELOAD", "x"),)])),
        sandbox=draw(st.sampled_from([None, PROCESS, BUBBLEWRAP, MACHINE])),
        unknown=draw(st.sampled_from([(), (), ("teleport:x",)])),
        understood=understood(argv) if argv is not None and draw(st.booleans()) else None,
    )


contexts = st.builds(
    context,
    trust_level=st.sampled_from([None, *TrustLevel]),
    worktree=st.sampled_from([None, *Integrity]),
    now=st.integers(0, 10_000_000),
    goal_revision=st.just(1),
)
rules = st.builds(
    Rule,
    rule_id=st.text("abc", min_size=1, max_size=6).map(lambda name: f"added.{name}"),
    source=st.sampled_from([Source.managed, Source.user, Source.session]),
    kinds=st.frozensets(st.sampled_from(EffectKind), min_size=1),
    verdict=st.sampled_from([Verdict.ask, Verdict.deny]),
    justification=st.just("Added."),
    tools=st.sampled_from([(), ("run_command",), ("edit_file", "write_file")]),
    paths=st.sampled_from([(), ("src/**",), ("**",)]),
    argv=st.sampled_from([(), (("pytest",),), (("rm",), ("git", "push"))]),
    ceiling=st.sampled_from(Scope),
)


def granted(call: Request, where: Context, ruleset: RuleSet) -> Iterator[Grant]:
    """A grant of every option of the card of this call, if it is asked about."""
    decision = decide(call, ruleset, (), where)
    if decision.verdict is Verdict.ask:
        card = build_card(call, decision, where)
        for option in range(len(card["options"])):
            answer: dict[str, Any] = {"grant_id": f"g{option}", "approval_id": "a", "issued_at": where.now}
            yield grant_from_answer(card, option=option, **answer)


@QUICK
@given(requests(), contexts)
def test_b17_what_works_for_another_may_do_no_more_than_it(call: Request, where: Context) -> None:
    """Where the child may, the parent may; the child's own rights alone give nothing, nor do its parent's."""
    child = replace(where, agent="main/child", ancestors=("main",))
    parents = tuple(granted(call, where, default_rules()))
    own = tuple(granted(call, replace(child, ancestors=()), default_rules()))
    alone = decide(call, default_rules(), (), where).verdict
    for rights in ((), parents, own, (*parents, *own)):
        of_child = decide(call, default_rules(), rights, child).verdict
        of_parent = decide(call, default_rules(), rights, where).verdict
        assert of_child.strictness >= of_parent.strictness
    assert decide(call, default_rules(), own, child).verdict is alone
    assert decide(call, default_rules(), parents, child).verdict is alone
    lasting = [one for one in own if one.uses_left is None]
    shared = decide(call, default_rules(), (*parents, *own), child)
    assert (shared.verdict is Verdict.allow) == (alone is Verdict.allow or bool(lasting))


@QUICK
@given(requests(), contexts, st.integers(1, 4))
def test_a_right_of_counted_uses_is_used_no_oftener(call: Request, where: Context, uses: int) -> None:
    """Affine: each use takes one, and none is left over."""
    for offered in granted(call, where, default_rules()):
        grant = replace(offered, uses_left=uses)
        seen = [decide(call, default_rules(), (grant.used(times),), where) for times in range(uses + 2)]
        assert [one.verdict is Verdict.allow for one in seen] == [True] * uses + [False] * 2
        assert [one.grant_uses_left for one in seen[:uses]] == list(reversed(range(uses)))


@QUICK
@given(requests(), contexts)
def test_what_nobody_looked_at_is_never_milder(call: Request, where: Context) -> None:
    """Unknown is the worst: a command line that was not taken apart is judged at least as strictly."""
    if call.argv is not None and not understood(call.argv).doubts:
        unknown = replace(call, understood=None)
        assert decide(unknown, default_rules(), (), where).verdict is not Verdict.allow


@QUICK
@given(requests(), contexts, rules)
def test_a_stricter_rule_never_allows_more(call: Request, where: Context, rule: Rule) -> None:
    grants = tuple(granted(call, where, default_rules()))
    before = decide(call, default_rules(), grants, where)
    after = decide(call, build_ruleset([*default_rules().rules, rule]), grants, where)
    assert after.verdict.strictness >= before.verdict.strictness


@QUICK
@given(requests(), contexts, st.randoms(use_true_random=False))
def test_order_changes_nothing(call: Request, where: Context, random: Any) -> None:
    grants, ordered = list(granted(call, where, default_rules())), list(default_rules().rules)
    before = decide(call, default_rules(), grants, where)
    random.shuffle(grants)
    random.shuffle(ordered)
    mixed = replace(call, effects=tuple(random.sample(call.effects, len(call.effects))))
    after = decide(call, build_ruleset(ordered), grants, where)
    assert after == before
    assert decide(mixed, default_rules(), (), where).verdict == decide(call, default_rules(), (), where).verdict
    assert decide(mixed, default_rules(), (), where).risk == decide(call, default_rules(), (), where).risk


@QUICK
@given(requests(), contexts)
def test_ended_grants_never_count(call: Request, where: Context) -> None:
    ended = [
        changed
        for grant in granted(call, where, default_rules())
        for changed in (
            replace(grant, expires_at=where.now),
            replace(grant, expires_at=0),
            replace(grant, uses_left=0),
            replace(grant, revoked_at=where.now),
            replace(grant, workspace_id="other"),
            replace(grant, trust_generation=7),
            replace(grant, agent="other"),
        )
    ]
    assert decide(call, default_rules(), ended, where) == decide(call, default_rules(), (), where)


@QUICK
@given(requests(), contexts)
def test_every_offer_answers_and_a_grant_only_turns_ask_into_allow(call: Request, where: Context) -> None:
    without = decide(call, default_rules(), (), where)
    for grant in granted(call, where, default_rules()):
        decision = decide(call, default_rules(), (grant,), where)
        assert decision.verdict is Verdict.allow
        assert decision.grant_id == grant.grant_id
        assert Level[decision.risk] <= Level[without.risk]
        assert decide(replace(call, goal_revision=9), default_rules(), (grant,), where).verdict is Verdict.deny
    if without.verdict is Verdict.ask:
        assert without.need is not None
    else:
        assert without.need is None


@QUICK
@given(requests(), contexts, requests())
def test_a_grant_lets_nothing_through_but_its_own_tool_and_rung(call: Request, where: Context, other: Request) -> None:
    """Whatever else is asked, a once grant answers nothing; a lasting one never carries a sink, a secret or a shell."""
    same = replace(other, call_id=CallId("other"))
    if decide(same, default_rules(), (), where).verdict is not Verdict.ask:
        return
    for grant in granted(call, where, default_rules()):
        decision = decide(same, default_rules(), (grant,), where)
        if decision.verdict is Verdict.allow:
            assert grant.scope is not Scope.once
            assert grant.capability.tool == same.tool
            kinds = {
                finding.effect.kind for finding in decision.findings if finding.effect and finding.verdict == "ask"
            }
            assert not kinds & {EffectKind.network, EffectKind.publish, EffectKind.message, EffectKind.secret_read}


WORSE = ("label", "sandbox", "trust", "worktree", "reversible", "effect", "intent", "readers")


@QUICK
@given(requests(), contexts, st.sampled_from(WORSE), labels, effects)
def test_worse_is_never_milder(call: Request, where: Context, what: str, label: Label, more: Effect) -> None:
    """R2.1: more sensitive, less reversible, wider, less wanted or less confined never lowers risk or verdict."""
    base = replace(call, effects=call.effects or (Effect(EffectKind.read, "a.py"),))
    worse, there = base, where
    match what:
        case "label":
            worse = replace(base, label=base.label.join(label))
        case "readers":
            worse = replace(base, label=replace(base.label, readers=frozenset()))
        case "sandbox":
            weaker = {MACHINE: BUBBLEWRAP, BUBBLEWRAP: PROCESS}
            worse = replace(base, sandbox=weaker.get(base.sandbox) if base.sandbox else None)
        case "trust":
            lower = {TrustLevel.trusted: TrustLevel.restricted, TrustLevel.restricted: TrustLevel.untrusted}
            there = replace(where, trust_level=lower.get(where.trust_level) if where.trust_level else None)
        case "worktree":
            there = replace(where, worktree=None)
        case "reversible":
            worse = replace(base, reversible=False)
        case "effect":
            worse = replace(base, effects=(*base.effects, more))
        case "intent":
            worse = replace(base, intent="absent")
    before, after = decide(base, default_rules(), (), where), decide(worse, default_rules(), (), there)
    assert after.verdict.strictness >= before.verdict.strictness
    assert Level[after.risk] >= Level[before.risk]


@QUICK
@given(requests(), contexts)
def test_a_card_shows_no_hidden_character_and_no_time(call: Request, where: Context) -> None:
    decision = decide(call, default_rules(), (), where)
    if decision.verdict is not Verdict.ask:
        return
    card = build_card(call, decision, where, summary="x\u202ey")
    later = replace(where, now=where.now + 1)
    assert card_digest(card) == card_digest(
        build_card(call, decide(call, default_rules(), (), later), later, summary="x\u202ey")
    )
    shown = {key: value for key, value in card.items() if key not in {"options", "binding"}}
    texts = [*_texts(shown), *(option["sentence"] for option in card["options"])]
    for text in texts:
        assert not [
            character for character in text if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        ]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


names = st.sampled_from(
    ["a.py", "b.py", "src", "src/a.py", "src/sub/a.py", "pytest", "-q", "x", "../up", "-k", "@f", "a=b"]
)
patterns = st.builds(Pattern, st.sampled_from(PatternKind), st.lists(names, min_size=1, max_size=3).map(tuple))
capabilities = st.builds(
    Capability,
    st.sampled_from(["edit", "run_command"]),
    st.frozensets(st.sampled_from(EffectKind), max_size=3),
    patterns,
)


@settings(max_examples=250, deadline=None)
@given(capabilities, capabilities, effects | st.builds(Effect, st.sampled_from(EffectKind), names), st.data())
def test_narrowing_never_widens(narrow: Capability, wide: Capability, target: Effect, data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        narrow = replace(
            narrow, tool=wide.tool, kinds=wide.kinds, pattern=replace(wide.pattern, value=narrow.pattern.value)
        )
    if not narrowed_within(narrow, wide):
        return
    argv = data.draw(st.none() | st.lists(names, max_size=4).map(tuple) | st.just(narrow.pattern.value))
    if target.kind in narrow.kinds and pattern_covers(narrow.pattern, target, argv):
        assert target.kind in wide.kinds
        assert pattern_covers(wide.pattern, target, argv)
    assert narrowed_within(narrow, narrow)


@QUICK
@given(labels, labels, labels)
def test_join_is_a_join(one: Label, two: Label, three: Label) -> None:
    assert one.join(two) == two.join(one)
    assert one.join(two.join(three)) == one.join(two).join(three)
    assert one.join(one) == one
    assert one.join(BOTTOM) == one
    assert one.flows_to(one.join(two))
    assert label_from_plain(one.to_plain()) == one


@QUICK
@given(requests(), contexts)
def test_the_same_question_has_the_same_answer(call: Request, where: Context) -> None:
    assert decide(call, default_rules(), (), where) == decide(call, default_rules(), (), where)


def test_the_ordinary_case_is_not_vacuous() -> None:
    """The laws above would hold for a decision that denies everything; this one does not."""
    call = Request(CallId("c"), "edit_file", (Effect(EffectKind.write, "a.py"),), BOTTOM, Sha256("a" * 64), 1)
    assert judge(call).verdict is Verdict.allow
