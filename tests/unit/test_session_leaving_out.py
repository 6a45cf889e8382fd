"""Which events go when a text is erased: what may go, whole where half would act otherwise, and nothing beside."""

from typing import Any

from tests.kit.simulation import materials as mat

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.model import CallRecord
from gloveport.server.session.leaving_out import Choice, choose

BORN: dict[str, Any] = {"turn_id": "t1", "goal_revision": 1}
FROZEN = ev.SessionFrozen(freeze_id="f1", call_id="", evidence="what it tried", words="It stands still.")


def log(*bodies: ev.EventBody) -> dict[int, ev.EventBody]:
    """A log of these events, from seq 1 on."""
    return dict(enumerate(bodies, 1))


def queued(name: str, text: str = "do it") -> ev.EventBody:
    """A message that waits."""
    return ev.UserMessageQueued(message_id=name, turn_id=f"turn of {name}", text=text)


def edited(name: str, text: str) -> ev.EventBody:
    """It has another text."""
    return ev.UserMessageEdited(message_id=name, text=text)


def steered(name: str) -> ev.EventBody:
    """A message that waits for a turn."""
    return ev.SteeringDecided(
        **BORN, message_id=name, verb="steer", kind="supplement", chosen_by="user", rule="", text="and this",
        stream="none", calls=(), plan="kept", queue="kept", delivery="boundary", next_turn_id=None, words="", by="user",
    )  # fmt: skip


def test_all_of_a_message_goes_and_its_neighbours_stay() -> None:
    """Where one event of it holds the text; one that waits in the queue, one that waits for a turn."""
    bodies = log(queued("m1"), queued("m2"), edited("m1", "use the key"), edited("m2", "look"), steered("m3"))
    assert choose(bodies, {3}) == Choice((1, 3), (), ())
    assert choose(bodies, {5}) == Choice((5,), (), ())
    assert choose(bodies, {3, 5}) == Choice((1, 3, 5), (), ())


def test_a_right_goes_with_its_count_of_uses() -> None:
    """What was allowed is allowed no more; another right, and how often that was used, stays."""
    used = [ev.GrantUsed(grant_id=name, call_id=f"t1.{name}", uses_left=3) for name in ("g1", "g2")]
    bodies = log(mat.grant("g1", "session", "c"), mat.grant("g2", "session", "c"), *used)
    assert choose(bodies, {1}) == Choice((1,), (), ())
    assert choose(bodies, {1, 2}) == Choice((1, 2), (), ())
    assert choose(bodies, {4}) == Choice((), (4,), ()), "an allowed use that is forgotten would be one more"
    ended = log(mat.grant("g1", "session", "c"), ev.GrantRevoked(grant_id="g1", reason="no more"))
    assert choose(ended, {2}) == Choice((), (2,), ()), "a right that ended would be there again"


def test_what_holds_something_back_stays_and_the_rest_goes_beside_it() -> None:
    """Of two as of many; whatever stands first."""
    bodies = log(FROZEN, mat.grant("g1", "session", "c"), queued("m1"), edited("m1", "the key"))
    assert choose(bodies, {1}) == Choice((), (1,), ())
    assert choose(bodies, {1, 2}) == Choice((2,), (1,), ())
    assert choose(bodies, {1, 2, 4}) == Choice((2, 3, 4), (1,), ())


def test_a_call_is_told_with_its_end_where_its_result_alone_goes() -> None:
    """Not the one whose result stays, nor one that is gone itself."""
    label = mat.PLAIN_LABEL
    asked = tuple(
        CallRecord(
            call_id=name, provider_call_id=f"p-{name}", tool="read_file", arguments_json="{}", arguments_error=None
        )
        for name in ("t1.c1", "t1.c2")
    )
    proposed = [
        ev.ToolCallProposed(
            **BORN, call_id=one.call_id, provider_call_id=one.provider_call_id, tool=one.tool,
            arguments_json=one.arguments_json, arguments_digest=mat.sha("{}"), label=label,
        )
        for one in asked
    ]  # fmt: skip
    ended = [
        ev.ToolExecutionFinished(
            **BORN, call_id=one.call_id, tool=one.tool, outcome="failed", text="the key", evidence="", exit_code=None,
            output_blob=None, output_bytes=0, duration_us=None, label=label,
        )
        for one in asked
    ]  # fmt: skip
    answer = ev.ModelResponseReceived(
        **BORN, request_id="t1.r1", stop="tool_calls", text="", text_digest=mat.sha(""), calls=asked
    )
    begun = ev.TurnStarted(**BORN, message_id="m1")
    over = ev.TurnCompleted(**BORN, reason="end")
    bodies = log(begun, answer, *proposed, *ended, over)
    gone = ev.ErasedCall(call_id="t1.c1", outcome="failed")
    assert choose(bodies, {5}) == Choice((5,), (), (gone,))
    assert choose(bodies, {2, 5}) == Choice((2, 5), (), ())
