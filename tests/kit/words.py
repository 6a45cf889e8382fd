"""What the machine says to people and to the model, situation by situation.

`python -m tests.kit.words --write` writes the golden file anew.

Purpose: one place where every sentence of the kernel is seen, so that a change of words is a change of a reviewed file
    and no other test repeats prose.
Invariant: a situation is a story on the real machine, or an input that it refuses; what is told stands in events.
Must never: hold a sentence itself.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

from tests.kit.simulation import materials as mat
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.steering import SteeringKind
from gloveport.protocol.journal.events.tool import PlanItem
from gloveport.server.session.state import SessionState
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.calls import ASKS_PER_CALL_MAX
from gloveport.server.turn.draft import TurnError
from gloveport.server.turn.flow import TURN_REQUESTS_MAX
from gloveport.server.turn.machine import step
from gloveport.server.turn.messages import QUEUE_MESSAGES_MAX, STEERED_MESSAGES_MAX
from gloveport.server.turn.restart import RESTARTS_PER_ANSWER_MAX
from gloveport.server.turn.retry import ATTEMPTS_MAX, OVERFLOW_TRIES_MAX, SECOND_US
from gloveport.server.turn.standing import standing_words

GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden" / "words" / "turn.json"
PROSE: Final = ("message", "hint", "text", "evidence", "reason", "words", "rule")
SPOKEN: Final = (
    ev.TurnFailed, ev.ToolExecutionFinished, ev.UserMessageUnqueued, ev.SteeringDecided, ev.ToolStopRequested,
    ev.CompactionStarted, ev.CompactionDiscarded, ev.ModelStreamInterrupted, ev.RetryScheduled, ev.OutcomeTold,
)  # fmt: skip
KINDS: Final[tuple[SteeringKind, ...]] = ("ask", "supplement", "correct", "replace")
PLAN: Final = tuple(PlanItem(title=one, state="pending", goal_revision=1) for one in ("look", "mend"))


def told(story: Story) -> list[str]:
    """Every sentence in the events of a story, and how it says that it stands."""
    lines = [
        f"{kind.__name__}.{name}: {getattr(body, name)}"
        for body in (entry.body for entry in story.ledger.read())
        for kind in SPOKEN
        if isinstance(body, kind)
        for name in PROSE
        if getattr(body, name, "")
    ]
    return [*lines, f"standing: {standing_words(story.state)}"]


def refusal(state: SessionState, given: inp.Input) -> list[str]:
    """The code, the words and the hint of a refusal."""
    try:
        step(state, given)
    except TurnError as refused:
        return [f"{refused.code}: {refused.message}", refused.hint]
    raise AssertionError(f"{given} was taken")


def begun(*calls: inp.ModelCall, stop_class: str = "killable", title: str = "run the thing") -> Story:
    """A story in which a call of a known title runs and the rest wait."""
    story = Story().user_says().model_answers(*(calls or (call(),)))
    plan = replace(mat.some_plan(story.rng), stop_class=stop_class, title=title)  # type: ignore[arg-type] # - named by its class
    return story.when(inp.CallJudged(story.next_call.call_id, plan, mat.judgement("allow"), None))


def asked() -> Story:
    """A story in which a card waits."""
    return Story().user_says().model_answers(call("run_command")).policy_says("ask")


def planned() -> Story:
    """A story with a plan and a proposed change."""
    story = Story().user_says().model_answers(call("update_plan")).policy_says("allow")
    plan = ev.PlanUpdated(turn_id="t1", goal_revision=1, items=PLAN)
    return story.tool_ends("ok", "planned", plan, mat.change("t1", 1, "t1.c1", 1))


def steered(story: Story, kind: SteeringKind) -> list[str]:
    """What a steered message of a kind says to itself and to the rest."""
    return told(story.user_steers("use tabs", kind))


def steered_answer(kind: SteeringKind) -> list[str]:
    """The same while the model answers, with a plan."""
    return steered(planned(), kind)


def steered_call(kind: SteeringKind) -> list[str]:
    """The same while a call runs and another has not begun."""
    return steered(begun(call(), call()), kind)


def read(text: str) -> list[str]:
    """A message whose kind follows from its words."""
    return told(Story().user_says().user_steers(text))


def stopped(stop_class: str) -> list[str]:
    """A call of this class runs when the user stops."""
    return told(begun(stop_class=stop_class).user_stops())


def broken(error_class: str) -> list[str]:
    """A failure that ends the turn."""
    return told(Story().user_says().model_breaks(error_class))


def said_of(word: Literal["done", "not_done"]) -> list[str]:
    """The user's word for a call whose outcome nobody knows."""
    return told(begun().tool_ends("lost", "gone").when(inp.TellOutcome("t1.c1", word, "user")))[-2:]


def waits(story: Story, count: int, *, steers: bool = False) -> Story:
    """So many messages wait."""
    for _ in range(count):
        story = story.user_steers("and", "supplement") if steers else story.user_says("and", queue=True)
    return story


def asked_too_often() -> Story:
    """A card again and again."""
    story = Story().user_says().model_answers(call())
    for number in range(ASKS_PER_CALL_MAX):
        story.policy_says("ask").user_answers("once", grant_id=f"g{number}")
    return story.policy_says("ask")


def too_many_requests() -> Story:
    """One more request than a turn may make."""
    story = Story().user_says()
    for _ in range(TURN_REQUESTS_MAX):
        story.model_answers(call(arguments="{"))
    return story


def tried_too_often(error_class: str = "server") -> Story:
    """The last attempt failed as well."""
    story = Story().user_says().model_breaks(error_class, words="the provider is overloaded.")
    for _ in range(ATTEMPTS_MAX - 1):
        story.pause_ends().model_breaks(error_class, words="the provider is overloaded.")
    return story


def waited_too_long() -> Story:
    """The breaker stays open."""
    story = Story().user_says().model_breaks("server")
    while story.state.turn is not None:
        story.pause_ends().model_breaks("paused", pause_us=100 * SECOND_US)
    return story


def overflowed() -> Story:
    """The conversation does not fit, also when it was shortened so often."""
    story = Story().user_says().model_answers(call()).policy_says("allow").tool_ends("ok", "x" * 50_000)
    for after in range(OVERFLOW_TRIES_MAX):
        story.model_breaks("context_overflow", words="9 are more than 8.").context_shrinks("t1.c1", after=90 - after)
    return story.model_breaks("context_overflow", words="9 are more than 8.")


def broken_off() -> Story:
    """The daemon ends again and again in an answer."""
    story = Story().user_says()
    for _ in range(RESTARTS_PER_ANSWER_MAX + 1):
        story.model_streams("half").daemon_restarts()
    return story


def written(*bodies: ev.EventBody) -> Story:
    """A session at rest in which these facts were written."""
    story = Story()
    for body in bodies:
        story.fact_is_written(body)
    return story


def applying(story: Story) -> Story:
    """A decision about changes is being written."""
    return story.when(inp.ApplyRequested("a1", "accept", {}, "user"))


def answer(
    story: Story, decision: Literal["denied", "allowed"] = "denied", digest: str | None = None, name: str | None = None
) -> inp.Input:
    """An answer to the card of the story, or to another one."""
    (card,) = story.state.approvals.values()
    shown = card.card_digest if digest is None else digest
    return inp.ApprovalAnswered(name or card.approval_id, shown, decision, None, "user")


SAID: Final[Mapping[str, Callable[[], list[str]]]] = {
    "idle": lambda: told(Story()),
    "a card waits": lambda: told(asked()),
    "a call is denied by the user": lambda: told(asked().user_answers("denied")),
    "nobody answers": lambda: told(asked().user_answers("expired")),
    "a call is denied by policy": lambda: told(Story().user_says().model_answers(call()).policy_says("deny")),
    "asked too often": lambda: told(asked_too_often()),
    "the card is stopped": lambda: told(asked().user_stops()),
    "the card is superseded": lambda: steered(asked(), "correct"),
    "broken arguments": lambda: told(
        Story().user_says().model_answers(*(call(arguments=raw) for raw in mat.BROKEN_ARGUMENTS))
    ),
    "more arguments than are taken": lambda: told(
        Story().user_says().model_answers(call(arguments=" " * 4_000_001), call(arguments="[" * 300))
    ),
    **{f"stopped: a call that is {one}": partial(stopped, one) for one in ("killable", "atomic", "opaque")},
    **{f"{kind} while the model answers": partial(steered_answer, kind) for kind in KINDS},
    **{f"{kind} while a call runs": partial(steered_call, kind) for kind in KINDS},
    **{f"read from “{text}”": partial(read, text) for text in ("status", "no tabs", "forget it", "is it?", "and docs")},
    "correct in a pause": lambda: steered(Story().user_says().model_breaks("server"), "correct"),
    "ask in a pause": lambda: steered(Story().user_says().model_breaks("server"), "ask"),
    "ask in a compaction": lambda: steered(Story().user_says().model_breaks("context_overflow"), "ask"),
    "interrupted": lambda: told(waits(begun(call(), call()), 1, steers=True).user_interrupts()),
    "interrupted in a pause": lambda: told(Story().user_says().model_breaks("server").user_interrupts()),
    "stopping": lambda: told(begun().user_stops()),
    "stopped with what waited": lambda: told(waits(waits(Story().user_says(), 1), 1, steers=True).user_stops()),
    "failed with what waited": lambda: told(waits(Story().user_says(), 1).model_fails()),
    "taken back": lambda: told(waits(Story().user_says(), 1).when(inp.UnqueueMessage("m2"))),
    "an outcome is lost": lambda: told(begun(call(), call()).tool_ends("lost", "the sandbox is gone")),
    "an outcome is lost in a stop": lambda: told(
        waits(begun(), 1, steers=True).user_interrupts().tool_ends("lost", "the sandbox is gone")
    ),
    "an outcome is unknown after a restart": lambda: told(begun(call(), call()).daemon_restarts("unknown")),
    "not begun in a stop": lambda: told(begun().user_stops().daemon_restarts("not_started")),
    "the record is lost": lambda: told(begun().daemon_restarts(lost="two events are missing")),
    "the record is lost before an interruption": lambda: told(
        begun().user_interrupts().daemon_restarts(lost="two events are missing")
    ),
    "the answer breaks off again and again": lambda: told(broken_off()),
    "too many requests": lambda: told(too_many_requests())[-4:],
    "tried too often": lambda: told(tried_too_often()),
    "waited too long": lambda: told(waited_too_long())[-3:],
    "asked to wait longer than is waited": lambda: told(
        Story().user_says().model_breaks("rate", pause_us=3 * 3_600 * SECOND_US)
    ),
    **{f"ends with {one}": partial(broken, one) for one in ("auth", "quota", "refused", "malformed")},
    "does not fit": lambda: told(overflowed())[-4:],
    "nothing can be shortened": lambda: told(
        Story().user_says().model_breaks("context_overflow", words="9 are more than 8").shrinking_fails()
    ),
    "shortened to nothing less": lambda: told(
        Story().user_says().model_breaks("context_overflow").context_shrinks(after=100)
    ),
    "busy": lambda: refusal(Story().user_says().state, inp.SendMessage("m9", "t9", "x", queue=False)),
    "a full queue": lambda: refusal(
        waits(Story().user_says(), QUEUE_MESSAGES_MAX).state, inp.SendMessage("m99", "t99", "x", queue=True)
    ),
    "taken back too late": lambda: refusal(Story().user_says().state, inp.UnqueueMessage("m1")),
    "nothing to stop": lambda: refusal(Story().state, inp.CancelTurn(None, "user")),
    "steered without a turn": lambda: refusal(Story().state, inp.SteerMessage("m1", "t1", "x", None, "user")),
    "steered while it stops": lambda: refusal(
        begun().user_stops().state, inp.SteerMessage("m9", "t1", "x", None, "user")
    ),
    "too much was steered": lambda: refusal(
        waits(Story().user_says(), STEERED_MESSAGES_MAX, steers=True).state,
        inp.SteerMessage("m99", "t1", "x", None, "user"),
    ),
    "steered what does not wait": lambda: refusal(
        Story().user_says().state, inp.SteerMessage("m9", "t1", None, None, "user")
    ),
    "no such card": lambda: refusal(asked().state, answer(asked(), name="t1.c1.a9")),
    "another card": lambda: refusal(asked().state, answer(asked(), digest="0" * 64)),
    "allowed without a right": lambda: refusal(asked().state, answer(asked(), "allowed")),
    "decided twice at once": lambda: refusal(
        applying(Story()).state, inp.ApplyRequested("a2", "accept", {}, "user")
    ),
    "undone while a tool runs": lambda: refusal(begun().state, inp.ApplyRequested("a1", "undo", {}, "user")),
    "sent to a frozen session": lambda: refusal(
        replace(Story().state, frozen="c1", frozen_words="It tried to get out."),
        inp.SendMessage("m1", "t1", "x", queue=False),
    ),
    **{f"said of what nobody knows, {one}": partial(said_of, one) for one in ("done", "not_done")},
    "said while a turn runs": lambda: refusal(begun().state, inp.TellOutcome("t1.c1", "done", "user")),
    "said of what is known": lambda: refusal(Story().state, inp.TellOutcome("t1.c1", "done", "user")),
    "thawed and not frozen": lambda: refusal(Story().state, inp.ThawSession("user")),
    "a record of a newer version": lambda: refusal(
        replace(Story().state, unknown_events=2), inp.CancelTurn(None, "user")
    ),
    "a record that contradicts itself": lambda: refusal(
        replace(Story().state, sealed=True, faults=("call c1 ended twice", "turn t1 began twice")),
        inp.CancelTurn(None, "user"),
    ),
}  # fmt: skip


def golden() -> str:
    """The golden file's text."""
    return json.dumps({name: say() for name, say in SAID.items()}, indent=1, ensure_ascii=True) + "\n"


def main() -> int:
    """Write the golden file."""
    parser = argparse.ArgumentParser(description="Every sentence of the kernel.")
    parser.add_argument("--write", action="store_true", required=True)
    parser.parse_args()
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(golden(), encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
