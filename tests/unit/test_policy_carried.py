"""What a call could take along from the worktree, beside its own words."""

from dataclasses import replace

import pytest
from tests.kit import policy_cases as cases

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.tool import EffectRecord
from gloveport.server.policy.card import build_card
from gloveport.server.policy.intake import carries_words_alone
from gloveport.server.policy.labels import BOTTOM, Integrity, Label
from gloveport.server.session.views.metrics import MetricsProjection
from gloveport.server.session.views.placed import Placed

SECRET = Label(Integrity.USER, frozenset({"model:a"}), ("secret:.env",))
ASKED = "kernel:could-carry"
SENDS = cases.command("python3", "send.py")
SENDS = replace(SENDS, effects=(*SENDS.effects, cases.effect("network", "a.example:443")), carried=SECRET)
MAIL = cases.request(cases.effect("message", "a@example.org"), cases.effect("read", "notes.txt"), tool="edit_file")


@pytest.mark.parametrize("call", [SENDS, replace(MAIL, carried=SECRET)], ids=["a program", "a mail"])
def test_what_it_could_take_along_is_asked_about_and_told(call: cases.Request) -> None:
    decision = cases.judge(call)
    assert decision.verdict == "ask"
    assert ASKED in decision.rule_ids
    card = build_card(call, decision, cases.context())
    assert card["provenance"]["confidential"]
    assert "secret:.env" in card["provenance"]["sources"]
    assert [one["level"] for one in card["factors"] if one["name"] == "sensitivity"] == ["high"]
    assert {option["scope"] for option in card["options"]} == {"once"}


def test_whoever_may_read_it_may_get_it() -> None:
    shared = replace(SECRET, readers=frozenset({"model:a", "a.example"}))
    assert ASKED not in cases.judge(replace(SENDS, carried=shared)).rule_ids
    assert ASKED not in cases.judge(replace(SENDS, carried=BOTTOM)).rule_ids


def test_where_nothing_leaves_nothing_is_asked_of_it() -> None:
    assert ASKED not in cases.judge(cases.command("pytest", "-q", carried=SECRET)).rule_ids


@pytest.mark.parametrize(
    ("kinds", "argv", "alone"),
    [
        (("network",), None, True),
        (("message", "publish", "network"), None, True),
        (("network",), ("curl", "a.example"), False),
        (("network", "read"), None, False),
        (("message", "beam"), None, False),
        (("write",), None, False),
        ((), None, False),
    ],
)
def test_who_carries_nothing_but_its_words(kinds: tuple[str, ...], argv: tuple[str, ...] | None, alone: bool) -> None:
    effects = [EffectRecord(kind=kind, target="a.example:443") for kind in kinds]
    assert carries_words_alone(effects, argv) is alone


def test_questions_that_stand_together_interrupt_once() -> None:
    measured = MetricsProjection()
    for at, row in enumerate((None, {"at": 1, "of": 2}, {"at": 2, "of": 2})):
        card = {"title": "x"} if row is None else {"title": "x", "together": row}
        body = ev.ApprovalRequested(
            turn_id="t", goal_revision=1, call_id=f"c{at}", approval_id=f"a{at}", card=card, card_digest="0" * 64,
            expires_at=None,
        )  # fmt: skip
        measured.take(Placed(seq=at, at=at, type="ApprovalRequested", body=body, erased=False))
    counts = measured.finish().counts
    assert (counts["approvals_asked"], counts["cards_shown"]) == (3, 2)
