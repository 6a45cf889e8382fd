"""What the answers suggest: words for a person, made from counts, that change nothing."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.protocol.journal import events as ev
from gloveport.server.commands.view_answers import metrics_answer
from gloveport.server.policy.tuning import ASKED_MIN, LASTING, Asked, suggestions
from gloveport.server.session.views.metrics import MetricsProjection
from gloveport.server.session.views.placed import Placed

RULE = "builtin:execute.default"
LABEL = ev.base.LabelRecord(integrity=1, readers=None, provenance=())


@pytest.mark.parametrize(
    ("rules", "accepted", "undone", "refused", "ran_later", "words"),
    [
        ((Asked(RULE, 10, 10, 0),), 0, 0, 0, 0, "you allowed each"),
        ((Asked(RULE, 10, 9, 1),), 0, 0, 0, 0, None),
        ((Asked(RULE, 9, 9, 0),), 0, 0, 0, 0, None),
        ((Asked("builtin:publish.default", 50, 50, 0),), 0, 0, 0, 0, None),
        ((Asked("builtin:install.default", 10, 4, 6),), 0, 0, 0, 0, "could refuse it"),
        ((Asked("builtin:install.default", 10, 5, 5),), 0, 0, 0, 0, None),
        ((), 10, 3, 0, 0, "were undone"),
        ((), 10, 2, 0, 0, None),
        ((), 9, 9, 0, 0, None),
        ((), 0, 0, 10, 3, "allowed later"),
        ((), 0, 0, 10, 2, None),
        ((), 0, 0, 9, 9, None),
    ],
)
def test_a_threshold_is_where_it_says(
    rules: Sequence[Asked], accepted: int, undone: int, refused: int, ran_later: int, words: str | None
) -> None:
    """Just beyond each threshold there are words, at it there are none."""
    found = suggestions(rules, accepted, undone, refused, ran_later)
    assert [words in one for one in found] == [True] if words else not found


@given(st.text(min_size=1), st.integers(0, 500))
def test_what_is_asked_each_time_is_never_suggested_to_be_milder(rule_id: str, asked: int) -> None:
    """However often it was allowed."""
    found = suggestions((Asked(rule_id, asked, asked, 0),), 0, 0, 0, 0)
    assert bool(found) == (rule_id in LASTING and asked >= ASKED_MIN)


def decided(call: str, verdict: str, digest: str) -> list[ev.EventBody]:
    """A call that is proposed and judged."""
    born: dict[str, Any] = {"turn_id": "t", "goal_revision": 1, "call_id": call}
    return [
        ev.ToolCallProposed(
            **born, provider_call_id="p", tool="run_command", arguments_json="{}", arguments_digest=digest * 64,
            label=LABEL,
        ),
        ev.PolicyDecided(
            **born, verdict=verdict, risk="low", reason="r", rule_ids=(RULE,), rules_hash="0" * 64, effects=(),
            grant_id=None,
        ),
    ]  # fmt: skip


def answered(call: str, decision: str) -> ev.EventBody:
    """Its card's end."""
    return ev.ApprovalResolved(
        turn_id="t", goal_revision=1, call_id=call, approval_id=f"{call}.a1", card_digest="0" * 64, decision=decision,
        scope=None, grant_id=None, by="user",
    )  # type: ignore[arg-type]  # - the decision is one of the names  # fmt: skip


def started(call: str) -> ev.EventBody:
    """Its beginning."""
    return ev.ToolExecutionStarted(
        turn_id="t", goal_revision=1, call_id=call, tool="run_command", title="", arguments_digest="0" * 64, effects=(),
        recovery="opaque", stop_class="killable", executor="daemon", fingerprint=(), label=LABEL, grant_id=None,
        security_context={},
    )  # fmt: skip


def test_rules_and_refusals_are_counted_from_events() -> None:
    """What asked, what became of it, and which refused call ran later after all."""
    bodies = [
        *decided("c1", "ask", "a"), answered("c1", "denied"),
        *decided("c2", "ask", "a"), answered("c2", "allowed"), *decided("c2", "allow", "a")[1:], started("c2"),
        *decided("c3", "deny", "b"),
        *decided("c4", "ask", "b"), answered("c4", "allowed"), started("c4"),
        *decided("c5", "allow", "b"), started("c5"),
    ]  # fmt: skip
    projection = MetricsProjection()
    for seq, body in enumerate(bodies, 1):
        projection.take(Placed(seq, seq, type(body).__name__, body))
    shown = metrics_answer(projection.finish(), 1)
    assert [(row.rule_id, row.asked, row.allowed, row.denied) for row in shown.rules] == [(RULE, 3, 2, 1)]
    rate = next(one for one in shown.rates if one.name == "refused calls that ran later")
    assert (rate.part, rate.whole) == (2, 2)
    assert not shown.suggestions
