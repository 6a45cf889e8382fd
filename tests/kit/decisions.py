"""The table of decisions: every input in every state, what is written and what is asked of the world.

`python -m tests.kit.decisions --write` writes the golden file anew.

Purpose: hold each cell of the machine's table against a reviewed one, field by field.
Invariant: states are made by the real machine; inputs name what the state holds and differ in every field from each
    other. A cell in which nothing happens is left out of the file.
Must never: hold an expectation itself.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.kit.simulation import materials as mat
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.steering import SteeringKind
from gloveport.protocol.journal.events.tool import EffectRecord, FileFingerprint, PlanItem
from gloveport.server.session.state import SessionState
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.draft import TurnError
from gloveport.server.turn.machine import pending_effects, step

GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden" / "decisions.json"
SECOND_US: Final = 1_000_000
LABEL: Final = LabelRecord(integrity=2, readers=("me",), provenance=("web",))
STEPS: Final = (
    PlanItem(title="look", state="done", goal_revision=1),
    PlanItem(title="mend", state="running", goal_revision=1),
    PlanItem(title="tell", state="pending", goal_revision=1),
)
PLAN: Final = inp.Plan(
    title="run it",
    effects=(EffectRecord(kind="write", target="b.py"),),
    recovery="fingerprinted",
    stop_class="atomic",
    executor="worktree",
    fingerprint=(FileFingerprint(path="b.py", base_hash=mat.sha("b"), result_hash=mat.sha("c")),),
    label=LABEL,
    security_context={"network": "some"},
)
Json = Any
FREEZE: Final = ev.SessionFrozen(
    freeze_id="t1.c1", call_id="t1.c1", evidence="mount, ptrace", words="It tried to get out."
)


def planned() -> Story:
    """A turn with a plan and a proposed change, in its second request."""
    story = Story().user_says().model_answers(call("update_plan")).policy_says("allow")
    plan = ev.PlanUpdated(turn_id="t1", goal_revision=1, items=STEPS)
    return story.tool_ends("ok", "planned", plan, mat.change("t1", 1, "t1.c1", 1))


def waiting(story: Story) -> Story:
    """A message in the queue, one for the turn."""
    return story.user_says("later", queue=True).user_steers("and docs", "supplement")


def running(stop_class: str = "killable") -> Story:
    """One call runs, one has not begun."""
    story = Story().user_says().model_answers(call(), call("run_command", provider_id="p2"))
    return story.policy_says("allow", stop_class=stop_class)


def asked() -> Story:
    """One call waits for an answer, one has not begun."""
    return Story().user_says().model_answers(call(), call("run_command", provider_id="p2")).policy_says("ask")


STATES: Final[Mapping[str, Callable[[], Story]]] = {
    "idle": Story,
    "answering": lambda: planned().model_streams("I ", "look 😀"),
    "answering, with messages": lambda: waiting(planned().model_streams("I look")),
    "answering for an old goal": lambda: planned().model_streams("I look").user_steers("no", "correct"),
    "answering in a stop": lambda: waiting(planned().model_streams("I look")).user_stops(),
    "judging": lambda: Story().user_says().model_answers(call(), call("run_command", provider_id="p2")),
    "asking": lambda: waiting(asked()),
    "running": lambda: waiting(running()),
    "running what is awaited": lambda: running("opaque"),
    "running for an old goal": lambda: running().user_steers("no", "correct"),
    "running in a stop": lambda: waiting(running()).user_stops(),
    "running before an interruption": lambda: waiting(running()).user_interrupts("that instead"),
    "in a pause": lambda: waiting(Story().user_says().model_breaks("server")),
    "shortening": lambda: waiting(Story().user_says().model_breaks("context_overflow")),
    "frozen": lambda: running().tool_ends("policy", "refused", FREEZE),
    "after what nobody knows": lambda: running().tool_ends("lost", "gone"),
    "writing a decision": lambda: planned().when(inp.ApplyRequested("a1", "undo", {"steps": []}, "the CLI")),
}


KINDS: Final[tuple[SteeringKind, ...]] = ("ask", "supplement", "correct", "replace")


FROM_OUTSIDE = inp.FreezeSession("audit-7", "line 7 was edited", "Look at it.")


def inputs(state: SessionState) -> dict[str, inp.Input]:
    """Every input, about what the state holds or might."""
    turn = state.turn
    turn_id = turn.turn_id if turn is not None else "t1"
    request_id = turn.request.request_id if turn is not None and turn.request is not None else "t1.r1"
    paused = turn.retry.request_id if turn is not None and turn.retry is not None else "t1.r1"
    compaction = turn.compaction if turn is not None and turn.compaction is not None else "t1.k1"
    card = next(iter(state.approvals.values()), None)
    card_id, shown = (card.approval_id, card.card_digest) if card is not None else ("a", mat.sha("x"))
    grant = mat.grant("g7", "turn", "t1.c1")
    trouble = {name: inp.Trouble(name, 7 * SECOND_US, None, "req_8") for name in ("rate", "auth", "context_overflow")}
    trouble["long"] = inp.Trouble("rate", 7 * SECOND_US, 200 * SECOND_US, None)
    trouble["short"] = inp.Trouble("paused", 7 * SECOND_US, 3 * SECOND_US, None)
    late = ev.PlanUpdated(turn_id=turn_id, goal_revision=1, items=STEPS[:1])
    return {
        "send": inp.SendMessage("m8", "t8", "hello", queue=False),
        "queue": inp.SendMessage("m8", "t8", "hello", queue=True),
        "take back": inp.UnqueueMessage("m2"),
        "edit the queued": inp.EditMessage("m2", "other"),
        "edit the steered": inp.EditMessage("m3", "other"),
        "steer what is queued": inp.SteerMessage("m2", turn_id, None, "correct", "the CLI"),
        "interrupt": inp.InterruptMessage("m8", "t8", turn_id, "that", "the CLI"),
        "interrupt with what is queued": inp.InterruptMessage("m2", "t2", turn_id, None, "the CLI"),
        "stop": inp.CancelTurn(turn_id, "the CLI"), "say it is done": inp.TellOutcome("t1.c1", "done", "the CLI"),
        "stop another": inp.CancelTurn("t99", "the CLI"), "thaw": inp.ThawSession("the CLI"), "freeze": FROM_OUTSIDE,
        "accepted": inp.RequestAccepted(request_id, "req_5"),
        "text": inp.TextArrived(request_id, "more 😀"),
        "answered": inp.ResponseEnded(request_id, (), "length", 11, 12, 3),
        "answered with calls": inp.ResponseEnded(
            request_id, (inp.ModelCall("q1", "edit_file", '{"b":1,"a":2}'), inp.ModelCall("q2", "x", "{")),
            "tool_calls", 11, 12, 3,
        ),
        "failed": inp.RequestFailed(request_id, "model.refused", "it said no", "Ask otherwise.", None, 21, None, 2),
        **{f"failed: {name}": inp.RequestFailed(request_id, "model.unreachable", "broke.", "Wait.", one, None, 5, None)
           for name, one in trouble.items()},
        "due": inp.RetryDue(paused),
        "shrunk": inp.ContextShrunk(compaction, (ev.ShortenedResult(call_id="t1.c1", kept_chars=7),), 90, 80),
        "shrunk to nothing less": inp.ContextShrunk(compaction, (ev.ShortenedResult(call_id="c", kept_chars=7),), 9, 9),
        "not shrunk": inp.ShrinkFailed(compaction, "no room"),
        "allow": inp.CallJudged("t1.c1", PLAN, mat.judgement("allow", "g1", 2), None),
        "deny": inp.CallJudged("t1.c1", PLAN, mat.judgement("deny"), None),
        "ask": inp.CallJudged("t1.c1", PLAN, mat.judgement("ask"), mat.card("t1.c1", 99)),
        "no such call": inp.CallRejected("t1.c1", "no such tool"),
        "say yes": inp.ApprovalAnswered(card_id, shown, "allowed", grant, "the CLI"),
        "say yes without a right": inp.ApprovalAnswered(card_id, shown, "allowed", None, "the CLI"),
        "say no": inp.ApprovalAnswered(card_id, shown, "denied", None, "the CLI"),
        "say no with a right": inp.ApprovalAnswered(card_id, shown, "denied", grant, "the CLI"),
        "answer another card": inp.ApprovalAnswered(card_id, mat.sha("y"), "denied", None, "the CLI"),
        "progress": inp.ToolProgressed("t1.c1", "line 😀"),
        "ended": inp.ToolEnded("t1.c1", "failed", "no", "exit 3", 3, mat.sha("out"), 77, 88, LABEL, (late,)),
        "ended by nobody knows": inp.ToolEnded("t1.c1", "lost", "gone", "no folder", None, None, 0, None, LABEL),
        **{f"found {one}": inp.CallReconciled("t1.c1", one, "its folder") for one in (
            "succeeded", "failed", "still_running", "not_started", "unknown",
        )},
        **{f"broke off, {one}": inp.RequestInterrupted(request_id, one, "it was asked") for one in (
            "finished", "never_accepted", "unknown",
        )},
        "the card holds": inp.ApprovalRechecked(card_id, holds=True),
        "the card does not hold": inp.ApprovalRechecked(card_id, holds=False),
        "record lost": inp.RecordLost("two events"),
        "taken up": inp.TakenUp(),
        **{one: inp.ApplyRequested("a8", one, {"steps": [1]}, "the CLI") for one in ("accept", "reject", "undo")},
        "applied": inp.ApplyDone("a1", ("b.py",), {"files": [2]}, (late,)),
        "refused": inp.ApplyRefused("a1", "workspace.conflict", "it changed", ("b.py",), (late,)),
        **{f"unsettled, waits {waits}": inp.ApplyUnsettled(
            "a1", "workspace.conflict", "half", {"c.py": "before", "b.py": "after"}, waits=waits, facts=(late,)
        ) for waits in (True, False)},
        **{f"steer: {kind}": inp.SteerMessage("m8", turn_id, "use tabs", kind, "the CLI") for kind in KINDS},
        "steer": inp.SteerMessage("m8", turn_id, "status?", None, "the CLI"),
    }  # fmt: skip


def cell(state: SessionState, given: inp.Input) -> list[Json]:
    """What a step gives: a refusal, or events and effects."""
    try:
        done = step(state, given)
    except TurnError as refused:
        return [f"refused: {refused.code}"]
    events = [{type(body).__name__: body.model_dump(mode="json")} for body in done.events]
    effects = [{type(one).__name__: dataclasses.asdict(one)} for one in done.effects]
    return [*events, *({"do": one} for one in effects)]


def row(name: str) -> dict[str, list[Json]]:
    """The cells of a state in which something happens, and what a restarted engine would do in it."""
    state = STATES[name]().state
    cells = {given: cell(state, value) for given, value in inputs(state).items()}
    again: list[Json] = [{type(one).__name__: dataclasses.asdict(one)} for one in pending_effects(state)]
    return {**{given: found for given, found in cells.items() if found}, "pending": again}


def golden() -> str:
    """The golden file's text: a line a cell."""
    rows = []
    for name in STATES:
        cells = (f"  {json.dumps(given)}: {json.dumps(found, ensure_ascii=True)}" for given, found in row(name).items())
        rows.append(f" {json.dumps(name)}: {{\n" + ",\n".join(cells) + "\n }")
    return "{\n" + ",\n".join(rows) + "\n}\n"


def main() -> int:
    """Write the golden file."""
    parser = argparse.ArgumentParser(description="The table of decisions.")
    parser.add_argument("--write", action="store_true", required=True)
    parser.parse_args()
    GOLDEN.write_text(golden(), encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
