"""A call as it comes in: its request, its effects, its digest, whether it was asked for, how it ends early."""

import hashlib
from dataclasses import fields, replace
from typing import Any, ClassVar

import pytest
from tests.kit.policy_cases import BUBBLEWRAP, UNTRUSTED, command, default_rules, effect, request, with_user_rules

from gloveport.protocol.ids import CallId, Sha256
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.tool import EffectRecord
from gloveport.server.policy.awaited import AWAITED_KINDS, MIGRATIONS, is_migration, stop_class_of
from gloveport.server.policy.effects import Effect, EffectKind
from gloveport.server.policy.intake import carries_words_alone, request_from_plan
from gloveport.server.policy.intent import TYPED_CHARACTERS_MAX, VERBS, intent_of
from gloveport.server.policy.labels import (
    BOTTOM,
    PROVENANCE_IDS_MAX,
    TOP,
    Integrity,
    Label,
    join_all,
    label_from_plain,
    label_from_record,
)
from gloveport.server.policy.reading import Reading
from gloveport.server.policy.request import Leaving, Request, effects_of, framework_of, request_digest
from gloveport.server.policy.rules.ruleset import RuleSet
from gloveport.server.policy.shell.understood import Understood
from gloveport.server.policy.tuning import Asked, suggestions

SHA, OTHER = Sha256("a" * 64), Sha256("b" * 64)
PUBLIC = LabelRecord(integrity=1, readers=None, provenance=("w",))
ISSUE = LabelRecord(integrity=2, readers=("m", "n"), provenance=("i",))
PLAN: dict[str, Any] = {
    "call_id": "c", "tool": "run_command", "effects": [], "labels": [], "arguments_digest": SHA, "goal_revision": 3,
}  # fmt: skip


# ---- intake ----


def test_the_smallest_plan_is_a_request_of_defaults() -> None:
    assert request_from_plan(**PLAN) == Request(CallId("c"), "run_command", (), BOTTOM, SHA, 3)


def test_every_word_of_a_plan_is_in_its_request() -> None:
    """Sorted where an order says nothing; what leaves is told beside each effect by which something leaves."""
    known = Understood((("npm", "test"),), ("npm",), (Effect(EffectKind.read, "r"),), ("a doubt",), True)
    found = request_from_plan(
        **{**PLAN, "labels": [PUBLIC, ISSUE]},
        argv=["npm", "test"], cwd="sub", environment=[("B", "2"), ("A", "1")],
        file_digests=[("g", OTHER), ("f", SHA)], unbound=["z", "y"], reversible=False, sandbox=BUBBLEWRAP,
        intent="named", sends="words", understood=known,
    )  # fmt: skip
    assert found == Request(
        call_id=CallId("c"), tool="run_command",
        effects=(Effect(EffectKind.execute, "npm test", (("from", "argv"),)), Effect(EffectKind.read, "r")),
        label=Label(Integrity.UNTRUSTED, frozenset({"m", "n"}), ("i", "w")), arguments_digest=SHA, goal_revision=3,
        intent="named", reversible=False, argv=("npm", "test"), cwd="sub", environment=(("A", "1"), ("B", "2")),
        file_digests=(("f", SHA), ("g", OTHER)), unbound=("y", "z"), sandbox=BUBBLEWRAP, understood=known,
    )  # fmt: skip


@pytest.mark.parametrize("kind", list(EffectKind))
def test_what_is_sent_is_a_fact_of_what_leaves_alone(kind: EffectKind) -> None:
    plan = {**PLAN, "effects": [EffectRecord(kind=str(kind), target="t")], "sends": "GET x"}
    leaves = kind in {EffectKind.network, EffectKind.publish, EffectKind.message}
    assert request_from_plan(**plan).effects == (Effect(kind, "t", (("data", "GET x"),) if leaves else ()),)
    assert request_from_plan(**{**plan, "sends": ""}).effects == (Effect(kind, "t"),)


def test_a_call_carries_words_alone_where_all_of_it_leaves_and_nothing_starts() -> None:
    leaves = [EffectRecord(kind=kind, target="x") for kind in ("network", "publish", "message")]
    assert carries_words_alone(leaves, None)
    assert not carries_words_alone([], None)
    assert not carries_words_alone(leaves, ())
    for kind in (*EffectKind, "beam"):
        one = EffectRecord(kind=str(kind), target="x")
        assert carries_words_alone([*leaves, one], None) is (kind in {"network", "publish", "message"})


def test_unknown_effects_are_kept_once_and_in_order() -> None:
    records = [EffectRecord(kind=kind, target=at) for kind, at in (("y", "1"), ("x", "2"), ("y", "1"), ("read", "a"))]
    found = request_from_plan(**{**PLAN, "effects": records, "labels": [None]})
    assert (found.unknown, found.effects) == (("x:2", "y:1"), (Effect(EffectKind.read, "a"),))
    assert found.label == TOP


# ---- effects ----


def targets(call: Request) -> list[str]:
    """The keys of all effects."""
    return [one.key for one in effects_of(call)]


def test_the_argv_says_what_runs_and_not_the_tools_words_for_it() -> None:
    said = (effect("execute", "the tests"), effect("read", "a"), effect("execute", "x", **{"from": "argv"}))
    assert targets(command("make", effects=said)) == ["read:a", "execute:x", "execute:make"]
    assert targets(request(*said)) == ["execute:the tests", "read:a", "execute:x"]


def test_each_kind_and_target_is_one_effect_and_the_first_said_counts() -> None:
    first, again = effect("write", "a", count="2"), effect("write", "a", count="9")
    assert effects_of(request(first, again, effect("read", "a"))) == (first, effect("read", "a"))


PUSH = ("bash", "-c", "git push")
SEEN = Understood((("git", "push"),), ("git",), (Effect(EffectKind.read, "r"),), ("a doubt",), True)


@pytest.mark.parametrize(
    ("understood", "found"),
    [
        (None, ["execute:bash -c 'git push'", "publish:bash -c 'git push'"]),
        (SEEN, ["execute:bash -c 'git push'", "publish:bash -c 'git push'", "publish:git push", "read:r"]),
        (replace(SEEN, doubts=()), ["execute:bash -c 'git push'", "read:r"]),
    ],
)
def test_a_command_line_has_all_that_it_may_do_unless_it_is_understood(understood: Any, found: list[str]) -> None:
    assert targets(replace(command("x"), argv=PUSH, understood=understood)) == found


@pytest.mark.parametrize(
    ("argv", "framework"),
    [
        (("python", "-m", "pytest", "-q"), "pytest"),
        (("python", "-B", "-m", "unittest", "-m", "x"), "unittest"),
        (("/usr/bin/Cargo.exe", "test"), "cargo"),
        (("python", "-m"), "python"),
        ((), ""),
    ],
)
def test_the_class_of_a_test_run_is_its_framework(argv: tuple[str, ...], framework: str) -> None:
    """Of every run among its effects, but one that names its own class; for the tool that runs tests alone."""
    assert framework_of(argv) == framework
    own = effect("execute", "x", **{"from": "argv", "test_class": "mine"})
    call = replace(command("x", tool="run_tests"), argv=argv, understood=None, effects=(own, effect("read", "a")))
    classes = {one.target: one.fact("test_class") for one in effects_of(call)}
    ran = [one for one in effects_of(call) if one.kind is EffectKind.execute and one.target != "x"]
    assert classes["x"] == "mine"
    assert classes["a"] is None
    assert [one.detail for one in ran] == [(("from", "argv"), ("test_class", framework))]
    assert all(one.fact("test_class") in {None, "mine"} for one in effects_of(replace(call, tool="run_command")))
    without = request(effect("execute", "y"), tool="run_tests")
    assert effects_of(without) == without.effects


# ---- the digest ----

WHOLE = Request(
    CallId("c"), "t", (effect("write", "b"), effect("read", "a")), UNTRUSTED, SHA, 7, argv=("x", "y"), cwd="d",
    environment=(("B", "2"), ("A", "1")), file_digests=(("g", OTHER), ("f", SHA)), unknown=("z:1", "y:2"),
    payload=Leaving("network", "https", "h", 443, OTHER, 5),
)  # fmt: skip


def test_the_digest_is_that_of_the_canonical_text() -> None:
    """From literals: one name or separator changed, and stored answers of before would answer no more."""
    text = (
        '{"arguments":"%A","argv":["x","y"],"call_id":"c","cwd":"d","effects":["read:a","write:b"],'
        '"environment":[["A","1"],["B","2"]],"files":[["f","%A"],["g","%B"]],"goal_revision":7,"payload":"%B",'
        '"tool":"t"%U,"unknown":["y:2","z:1"]}'
    ).replace("%A", SHA).replace("%B", OTHER)  # fmt: skip
    assert request_digest(WHOLE) == hashlib.sha256(text.replace("%U", "").encode()).hexdigest()
    bound = text.replace("%U", ',"unbound":["p","q"]')
    assert request_digest(replace(WHOLE, unbound=("q", "p"))) == hashlib.sha256(bound.encode()).hexdigest()
    least = (
        '{"arguments":"%A","argv":null,"call_id":"c","cwd":".","effects":[],"environment":[],"files":[],'
        '"goal_revision":1,"payload":null,"tool":"t","unknown":[]}'
    ).replace("%A", SHA)
    plain = Request(CallId("c"), "t", (), BOTTOM, SHA, 1)
    assert request_digest(plain) == hashlib.sha256(least.encode()).hexdigest()


CHANGES: dict[str, Any] = {
    "call_id": "c2", "tool": "u", "effects": (), "arguments_digest": OTHER, "goal_revision": 8, "argv": ("x",),
    "cwd": "e", "environment": (), "file_digests": (), "unbound": ("f",), "unknown": (), "payload": None,
}  # fmt: skip
NOT_BOUND = {
    "label", "intent", "reversible", "sandbox", "understood", "typed", "carried", "unseen", "sending", "sources",
}  # fmt: skip
"""What an answer's own bound or the decision looks at each time, and what only words the card; the bytes that leave are
bound by `payload`. The digest leaves it out."""


@pytest.mark.parametrize("name", [one.name for one in fields(Request)])
def test_each_field_is_in_the_digest_or_looked_at_elsewhere(name: str) -> None:
    assert set(CHANGES) | NOT_BOUND == {one.name for one in fields(Request)}
    values = {"label": BOTTOM, "intent": "absent", "reversible": False, "sandbox": BUBBLEWRAP, "understood": SEEN}
    changed = replace(WHOLE, **{name: CHANGES.get(name, values.get(name, True))})
    assert changed != WHOLE
    assert (request_digest(changed) == request_digest(WHOLE)) is (name in NOT_BOUND)


# ---- how it ends early ----


@pytest.mark.parametrize("declared", ["killable", "atomic", "opaque"])
@pytest.mark.parametrize("kind", list(EffectKind))
def test_what_has_left_in_part_is_waited_for(declared: Any, kind: EffectKind) -> None:
    """Only what was killable becomes more careful, and only where a command is known."""
    awaited = kind in {EffectKind.publish, EffectKind.message}
    assert (kind in AWAITED_KINDS) is awaited
    effects = (effect("read", "a"), effect(kind, "x"))
    assert stop_class_of(declared, None, effects) == declared
    assert stop_class_of(declared, (), ()) == declared
    wanted = "opaque" if awaited and declared == "killable" else declared
    assert stop_class_of(declared, ("ls",), effects) == wanted
    changed = "opaque" if declared == "killable" else declared
    assert stop_class_of(declared, ("alembic", "upgrade"), ()) == changed


@pytest.mark.parametrize("words", MIGRATIONS, ids=" ".join)
def test_every_migration_is_known_in_every_place_where_it_may_stand(words: tuple[str, ...]) -> None:
    assert is_migration((*words, "head"))
    assert is_migration(("python", *words))
    assert is_migration(("python", "-m", *words))
    assert is_migration(("env", "A=1", *words))
    assert is_migration(("bash", "-c", f"cd x && {' '.join(words)} head"))
    assert not is_migration(("make", "a", "b", *words))
    assert not is_migration(("echo", "-n", "a", "b", words[0] + "x"))


def test_other_commands_are_no_migrations() -> None:
    for argv in ((), ("ls",), ("alembic", "history"), ("flask", "run"), ("python", "manage.py", "runserver")):
        assert not is_migration(argv)
    assert len(MIGRATIONS) == 28
    assert ("flask", "db") in MIGRATIONS


# ---- whether it was asked for ----


@pytest.mark.parametrize("kind", list(EffectKind))
def test_a_kind_is_named_by_any_of_its_words_or_belongs_to_any_task(kind: EffectKind) -> None:
    for word in VERBS.get(kind, ()):
        for text in (word, word.upper(), f"Do it: {word}.", f"x_{word}_y"):
            assert intent_of([text], [effect(kind, "zz")]) == "named"
        assert intent_of([f"{word}x"], [effect(kind, "zz")]) == ("absent" if f"{word}x" not in VERBS[kind] else "named")
    assert intent_of(["mend it"], [effect(kind, "zz")]) == ("absent" if kind in VERBS else "implied")
    assert intent_of([], [effect(kind, "zz")]) == ("absent" if kind in VERBS else "implied")


@pytest.mark.parametrize(
    ("text", "one", "named"),
    [
        ("see src/Old.py there", effect("delete", "lib/OLD.py"), True),
        ("see old.py", effect("delete", "old.py"), True),
        ("see old.py.", effect("delete", "old.py"), True),
        ("see old.pyc", effect("delete", "old.py"), False),
        ("see old.py.bak", effect("delete", "old.py"), False),
        ("see old.py-x", effect("delete", "old.py"), False),
        ("see x-old.py", effect("delete", "old.py"), False),
        ("see x.old.py", effect("delete", "old.py"), False),
        ("see oldxpy", effect("delete", "old.py"), False),
        ("see ab", effect("delete", "ab"), False),
        ("see abc", effect("delete", "abc"), True),
        ("see here", effect("delete", "."), False),
        ("see old.py", effect("delete", "old.py", **{"from": "rm"}), False),
        ("see make", effect("install", "make"), False),
        ("see Api.example", effect("message", "api.EXAMPLE:25"), True),
        ("see api.example", effect("publish", "xapi.example"), False),
        ("see\nold.py", effect("secret_read", "old.py"), True),
    ],
    ids=str,
)
def test_a_target_is_named_as_a_word_of_its_own(text: str, one: Effect, named: bool) -> None:
    assert intent_of([text], [one]) == ("named" if named else "absent")
    assert intent_of(["first", text], [one]) == ("named" if named else "absent")


def test_only_so_much_of_what_was_typed_is_looked_at() -> None:
    """Messages are lines of one text; what lies behind its limit names nothing."""
    delete = [effect("delete", "zz")]
    assert intent_of(["a" * (TYPED_CHARACTERS_MAX - 7) + " remove"], delete) == "named"
    assert intent_of(["a" * (TYPED_CHARACTERS_MAX - 6) + " remove"], delete) == "absent"
    assert intent_of(["re", "move"], delete) == "absent"
    assert intent_of(["remove", "it"], [*delete, effect("read", "a")]) == "implied"
    assert intent_of(["a.py"], [effect("write", "a.py")]) == "named"


# ---- labels ----


def test_a_label_is_read_whole_or_is_the_worst() -> None:
    good = {"integrity": 1, "readers": ["b", "a"], "provenance": ["y", "x"]}
    assert label_from_plain(good) == Label(Integrity.WORKSPACE, frozenset({"a", "b"}), ("x", "y"))
    assert label_from_plain({**good, "readers": None}).readers is None
    assert label_from_plain({"integrity": 0, "readers": ()}) == Label(Integrity.USER, frozenset())
    assert label_from_plain({"integrity": 2, "readers": None}) == Label(Integrity.UNTRUSTED, None)
    wrong: tuple[tuple[str, object], ...] = (
        ("integrity", True), ("integrity", 3), ("integrity", -1), ("integrity", None), ("integrity", "1"),
        ("readers", "ab"), ("readers", [1]), ("readers", {"a": 1}), ("readers", 0), ("provenance", None),
        ("provenance", "ab"), ("provenance", [1]),
    )  # fmt: skip
    for name, value in wrong:
        assert label_from_plain({**good, name: value}) == TOP, (name, value)
    assert label_from_plain({"readers": [], "provenance": []}) == TOP
    assert label_from_plain([good]) == TOP
    assert label_from_plain({"integrity": 0}) == Label(Integrity.USER, frozenset()), "no readers named: nobody reads"


def test_a_recorded_label_is_read_like_a_stored_one() -> None:
    assert label_from_record(None) == TOP
    assert label_from_record(ISSUE) == Label(Integrity.UNTRUSTED, frozenset({"m", "n"}), ("i",))
    assert label_from_record(PUBLIC) == Label(Integrity.WORKSPACE, None, ("w",))
    assert label_from_record(replace_record(integrity=0, readers=())) == Label(Integrity.USER, frozenset(), ("w",))


def replace_record(**changes: Any) -> LabelRecord:
    """The public record, changed."""
    return LabelRecord(**{"integrity": 1, "readers": None, "provenance": ("w",), **changes})


def test_joins_of_nothing_of_none_and_at_the_limit() -> None:
    assert join_all([]) == BOTTOM == Label(Integrity.USER, None, ())
    assert join_all([None]) == TOP == Label(Integrity.UNTRUSTED, frozenset(), ())
    one, two = Label(Integrity.USER, frozenset("ab"), ("b",)), Label(Integrity.WORKSPACE, frozenset("bc"), ("a", "b"))
    assert join_all([one, two]) == Label(Integrity.WORKSPACE, frozenset("b"), ("a", "b"))
    assert join_all([one, None]).readers == frozenset()
    ids = tuple(f"{at:04}" for at in range(PROVENANCE_IDS_MAX + 1))
    assert Label(Integrity.USER, None, tuple(reversed(ids))).provenance == ids[:-1]


@pytest.mark.parametrize("low", list(Integrity))
@pytest.mark.parametrize("high", list(Integrity))
def test_data_flows_to_worse_words_and_fewer_readers_only(low: Integrity, high: Integrity) -> None:
    """For every pair of readers: None is everybody."""
    sets = (None, frozenset(), frozenset("a"), frozenset("ab"))
    for before in sets:
        for after in sets:
            fewer = before is None or (after is not None and after <= before)
            assert Label(low, before).flows_to(Label(high, after)) is (low <= high and fewer)
    assert [Label(low, one).readable_by("b") for one in sets] == [True, False, False, True]


# ---- which paths are open ----

OWN = """
version = 1
[[rule]]
id = "mine"
effects = ["search"]
paths = ["private/**"]
verdict = "ask"
justification = "mine"
match = [{ effect = "search", target = "private/a" }]
"""


class Counted(RuleSet):
    """The rules, telling how often they were asked."""

    asked: ClassVar[list[str]] = []

    def matching(self, subject: Any) -> Any:
        """Count, and ask."""
        self.asked.append(subject.effect.target)
        return super().matching(subject)


def counted(rules: RuleSet) -> Counted:
    """The same rules, counted anew."""
    Counted.asked.clear()
    return Counted(rules.rules, rules.hash, rules.by_kind)


def test_a_class_of_paths_is_asked_about_once_where_no_rule_names_paths() -> None:
    """A search over a large project asks the rules as often as there are classes, not as there are files."""
    reading = Reading(counted(default_rules()))
    assert [reading.is_kept(f"src/{at}.py") for at in range(20)] == [False] * 20
    assert [reading.is_kept(f"src/{at}/.env") for at in range(20)] == [True] * 20
    assert Counted.asked == ["src/0.py", "src/0.py", "src/0/.env"]


def test_where_a_rule_names_paths_each_path_is_asked_about_by_itself_and_once() -> None:
    reading = Reading(counted(with_user_rules(OWN)))
    assert [reading.is_kept(path) for path in ("a", "private/b", "c", "private/d", "a")] == [
        False, True, False, True, False,
    ]  # fmt: skip
    assert Counted.asked == ["a", "a", "private/b", "private/b", "c", "c", "private/d", "private/d"]


def test_a_rule_about_other_classes_of_path_leaves_the_rest_remembered() -> None:
    text = OWN.replace('"ask"', '"ask"\nclasses = ["sensitive"]').replace("private/a", "private/.env")
    reading = Reading(counted(with_user_rules(text)))
    assert not any(reading.is_kept(path) for path in ("a", "b", "private/c"))
    assert len(Counted.asked) == 2
    assert reading.is_kept("private/.env")
    assert reading.is_kept("x/.env")
    assert [path for path in Counted.asked if path.endswith(".env")] == ["private/.env", "x/.env"]


def test_what_no_rule_speaks_of_is_kept() -> None:
    empty = RuleSet((), default_rules().hash, {})
    assert Reading(empty).is_kept("a.py")
    for kind in (EffectKind.read, EffectKind.search):
        one = {kind: default_rules().by_kind[kind]}
        assert Reading(RuleSet((), default_rules().hash, one)).is_kept("a.py"), "both ways of looking are asked"


# ---- what the answers suggest ----


def test_suggestions_word_by_word() -> None:
    rules = (
        Asked("user:x", 11, 2, 9), Asked("builtin:execute.default", 12, 12, 0), Asked("kernel:trust-unset", 10, 10, 0),
        Asked("user:y", 9, 0, 9),
    )  # fmt: skip
    assert suggestions(iter(rules), 20, 5, 30, 7) == (
        "5 of 20 accepted hunks were undone: look at each change before you accept it.",
        "user:x asked 11 times and you denied 9: a rule of yours could refuse it.",
        "builtin:execute.default asked 12 times and you allowed each: an answer for the session or the workspace would "
        "ask less often.",
        "kernel:trust-unset asked 10 times and you allowed each: an answer for the session or the workspace would ask "
        "less often.",
        "7 of 30 refused calls were allowed later: a narrower answer may fit at once.",
    )
    assert suggestions((), 0, 0, 0, 0) == ()
