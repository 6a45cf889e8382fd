"""Cards that stand together: of one kind, one risk and one label alone, each whole and by itself."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit import policy_cases as cases

from gloveport.protocol.ids import CallId
from gloveport.server.policy.card import build_card, card_digest
from gloveport.server.policy.labels import Label
from gloveport.server.policy.request import Context, Request
from gloveport.server.policy.together import LINES_MAX, TOGETHER_MAX, may_join, placed_like, put_together

CONFIDENTIAL = Label(cases.WORKSPACE.integrity, frozenset({"model:a"}), cases.WORKSPACE.provenance)


def asks(number: int = 1, path: str = "conftest.py", **changes: Any) -> Request:
    """A call that is asked about: a file that runs by itself is written."""
    made = cases.request(cases.effect("write", path))
    return replace(made, call_id=CallId(f"c{number}"), **changes)


def card(request: Request, context: Context | None = None, diff: str = "") -> dict[str, Any]:
    """Its card."""
    where = context or cases.context()
    decision = cases.decide(request, cases.default_rules(), (), where)
    assert decision.verdict == "ask", decision.reason
    return build_card(request, decision, where, diff=diff)


MESSAGE = cases.effect("message", "a@example.org")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (asks(1), asks(2, "package.json")),
        (
            replace(asks(1), effects=(MESSAGE,), reversible=False),
            replace(asks(2), effects=(cases.effect("message", "b@example.org"),), reversible=False, tool="read_file"),
        ),
    ],
)
def test_calls_of_one_kind_stand_together(one: Request, other: Request) -> None:
    assert may_join([card(one)], card(other))


@pytest.mark.parametrize(
    "other",
    [
        asks(2, label=cases.UNTRUSTED),
        asks(2, label=replace(cases.WORKSPACE, provenance=("workspace:other.py",))),
        asks(2, label=CONFIDENTIAL),
        asks(2, reversible=False),
        asks(2, ".env"),
        asks(2, unknown=("beam:x",)),
        asks(2, intent="named"),
        asks(2, effects=(cases.effect("write", "conftest.py"), MESSAGE)),
        asks(2, effects=(cases.effect("message", "a@example.org"),)),
        asks(2, effects=()),
    ],
    ids=[
        "another word", "another provenance", "confidential", "irreversible", "sensitive", "unknown", "other intent",
        "one effect more", "another effect", "no effect",
    ],
)  # fmt: skip
def test_what_differs_in_risk_label_or_kind_stands_alone(other: Request) -> None:
    assert not may_join([card(asks(1))], card(other))
    assert not may_join([card(other)], card(asks(1)))


def test_what_is_answered_by_itself_may_be_meant_in_another_way() -> None:
    """Each part says on its own card whether the user's words name it; none is answered by another's words."""
    meant = replace(asks(1), effects=(MESSAGE,), reversible=False, intent="named")
    not_meant = replace(meant, call_id=CallId("c2"), intent="absent")
    row = [card(meant), card(not_meant)]
    assert may_join(row[:1], row[1])
    assert all(one["together"]["each"] for one in put_together(row))
    assert [one["intent"] for one in put_together(row)] == ["named", "absent"]


@pytest.mark.parametrize("second", [1, 2])
def test_a_tool_that_is_not_ours_is_always_asked_about_by_itself(second: int) -> None:
    same = [card(asks(number, tool="server__write")) for number in (1, 2)]
    assert not may_join(same[:1], same[second - 1])


@pytest.mark.parametrize("kind", ["secret_read", "memory_write", "execute"])
@pytest.mark.parametrize("second", [1, 2])
def test_a_secret_a_memory_or_a_run_is_always_asked_about_by_itself(kind: str, second: int) -> None:
    effects = [(cases.effect(kind, f"note{number}"),) for number in (1, 2)]
    same = [card(asks(number, effects=one, sandbox=cases.BUBBLEWRAP)) for number, one in enumerate(effects)]
    assert not may_join(same[:1], same[second - 1])


@pytest.mark.parametrize(
    "change", [{"confidential": True}, {"agent": "child"}, {"turn_id": "t9"}, {"trust_generation": 3}]
)
def test_cards_of_another_reader_agent_turn_or_trust_stand_alone(change: dict[str, Any]) -> None:
    first, other = card(asks(1)), card(asks(2, "package.json"))
    [(name, value)] = change.items()
    place = "provenance" if name == "confidential" else "binding"
    changed = {**other, place: {**other[place], name: value}}
    assert may_join([first], other)
    assert not may_join([first], changed)


def test_so_many_and_no_more() -> None:
    row = [card(asks(number)) for number in range(TOGETHER_MAX)]
    assert may_join(row[:-1], row[-1])
    assert not may_join(row, card(asks(99)))
    line = "+x\n"
    first, other = card(asks(1), diff=line * (LINES_MAX - 3)), card(asks(2))
    assert may_join([first], card(asks(2), diff=line))
    assert not may_join([first], card(asks(2), diff=line * 2))
    assert may_join([other], first)


@given(st.integers(1, TOGETHER_MAX), st.data())
def test_every_part_is_whole_says_which_it_is_and_has_a_digest_of_its_own(count: int, data: st.DataObject) -> None:
    high = data.draw(st.booleans())
    effects = [
        (cases.effect("message", f"a{n}@example.org") if high else cases.effect("write", "conftest.py"),)
        for n in range(count)
    ]
    alone = [card(asks(number, effects=effects[number])) for number in range(count)]
    parts = put_together(alone)
    assert len(parts) == count
    assert len({card_digest(part) for part in parts}) == count
    for at, (part, one) in enumerate(zip(parts, alone, strict=True), start=1):
        row = part.get("together")
        assert {name: value for name, value in part.items() if name != "together"} == one
        calls = [f"c{number}" for number in range(count)]
        assert row == (None if count == 1 else {"at": at, "of": count, "calls": calls, "each": high})
        assert placed_like(one, part) == part


def test_one_part_that_cannot_be_undone_makes_each_a_question_of_its_own() -> None:
    first = card(asks(1))
    marked = {**first, "reversible": False}
    assert [one["together"]["each"] for one in put_together([first, marked])] == [True, True]
    assert [one["together"]["each"] for one in put_together([first, first])] == [False, False]


HIGH = {"name": "sensitivity", "level": "high", "words": ""}
ALONE: tuple[tuple[str, Any], ...] = (
    ("unknown_effects", ["beam:x"]),
    ("rule_ids", ["a:b", "kernel:unknown-tool"]),
    ("factors", [HIGH]),
)


@pytest.mark.parametrize(("name", "value"), ALONE, ids=[name for name, _ in ALONE])
def test_one_thing_in_one_card_is_enough_to_stand_alone(name: str, value: Any) -> None:
    """Though all that is compared is the same: whichever of the two it is, and both."""
    first, other = card(asks(1)), card(asks(2, "package.json"))
    marked = [{**one, name: value} for one in (first, other)]
    assert may_join([first], other)
    assert not may_join([first], marked[1])
    assert not may_join([marked[0]], other)
    assert not may_join(marked[:1], marked[1])
    for mild in ([{**HIGH, "level": "medium"}], [{**HIGH, "name": "scope"}], []):
        assert may_join([{**first, "factors": mild}], {**other, "factors": mild})


def test_every_word_of_caution_is_compared() -> None:
    """One of them other, and the two are two questions."""
    first, other = card(asks(1)), card(asks(2, "package.json"))
    for name in ("agent", "provenance", "risk", "reversible", "intent", "sandbox"):
        changed = {**first[name], "x": 1} if isinstance(first[name], dict) else "another"
        assert not may_join([first], {**other, name: changed}), name
    for name in first["binding"]:
        assert may_join([first], {**other, "binding": {**other["binding"], name: "x"}}) is (name == "call_id")


def test_the_users_intent_may_differ_only_where_each_is_answered_by_itself() -> None:
    first, other = card(asks(1)), {**card(asks(2)), "intent": "named"}
    assert not may_join([first], other)
    for change in ({"risk": "high"}, {"reversible": False}):
        assert may_join([{**first, **change}], {**other, **change})


def test_lines_are_those_of_all_cards_of_words_files_effects_and_diff() -> None:
    first, other = card(asks(1)), card(asks(2))
    lines = {
        "diff": ["x"] * (LINES_MAX - 2), "effects": first["effects"] * (LINES_MAX - 1),
        "files": [{}] * (LINES_MAX - 2), "command": {"words": ["x"] * (LINES_MAX - 2)},
    }  # fmt: skip
    for name, value in lines.items():
        assert may_join([{**first, name: value}], other), name
        more = {"words": [*value["words"], "x"]} if isinstance(value, dict) else [*value, value[0]]
        assert not may_join([{**first, name: more}], other), name
        assert not may_join([first, {**first, name: value}], other), name
    assert may_join([first] * (TOGETHER_MAX - 1), other)
    assert not may_join([first] * TOGETHER_MAX, other)


def test_a_row_whole() -> None:
    one, two = {**card(asks(1)), "risk": "low"}, {**card(asks(2)), "risk": "low"}
    calls = ["c1", "c2"]
    assert put_together([one]) == (one,)
    assert put_together([one, two]) == (
        {**one, "together": {"at": 1, "of": 2, "calls": calls, "each": False}},
        {**two, "together": {"at": 2, "of": 2, "calls": calls, "each": False}},
    )
    for change in ({"risk": "high"}, {"reversible": False}):
        for cards in ([{**one, **change}, two], [one, {**two, **change}]):
            assert [part["together"]["each"] for part in put_together(cards)] == [True, True]
    assert placed_like(one, two) == one
    assert placed_like(one, {**two, "together": 1}) == {**one, "together": 1}
