"""What every event that was ever written does: to the state, to the view, in words and in numbers.

`python -m tests.kit.every_event --write` writes the golden files anew.

Purpose: one row for each recorded sample (all its fields, and the least): the operations a client gets, and what the
    fold changes in a state in which a turn, a call, a card and messages wait.
Invariant: the samples are those that keep old versions readable; a new event type is here as soon as it has one.
Must never: hold an expectation itself.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.kit.projections import plain
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal.events import REGISTRY, EventBody, decode_body
from gloveport.protocol.journal.upcast import upcast
from gloveport.server.session.fold import fold_event
from gloveport.server.session.invariants import contradiction
from gloveport.server.session.state import SessionState
from gloveport.server.session.views.metrics import MetricsProjection
from gloveport.server.session.views.ops import project_ops
from gloveport.server.session.views.placed import Placed, project
from gloveport.server.session.views.transcript import TranscriptProjection

ROOT: Final = Path(__file__).resolve().parents[1] / "golden"
GOLDEN: Final = ROOT / "every_event.json"


def busy() -> SessionState:
    """A session in mid-turn: one call waits for an answer, one was not judged; messages wait in both places."""
    story = Story().user_says("mend it").model_streams("I look").model_answers(call(), call("run_command"))
    return story.policy_says("ask").user_says("later", queue=True).user_steers("and docs", "supplement").state


def answering() -> SessionState:
    """A session in which a request is under way, after an overflow, a retry and a restart."""
    story = Story().user_says("mend it").model_answers(call()).policy_says("allow").tool_ends("ok", "x" * 300)
    story.model_breaks("context_overflow").context_shrinks("t1.c1").model_breaks("server").pause_ends()
    return story.model_streams("half").daemon_restarts().model_streams("I ", "look").state


def shortening() -> SessionState:
    """A session in which the conversation is being shortened."""
    return Story().user_says("mend it").model_breaks("context_overflow").state


def pausing() -> SessionState:
    """A session in which a retry waits."""
    return Story().user_says("mend it").model_breaks("server").state


def samples() -> dict[str, EventBody]:
    """Every recorded sample as today's body, by its name and size."""
    found: dict[str, EventBody] = {}
    for path in sorted((ROOT / "journal").glob("*.json")):
        recorded: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for size in ("full", "least"):
            payload = upcast(recorded["type"], recorded["version"], recorded[size])
            body = decode_body(REGISTRY[recorded["type"]], json.dumps(payload).encode())
            found[f"{path.stem} {size}"] = body
    return found


def at_home(body: EventBody, state: SessionState) -> EventBody:
    """The body, about the turn, the call, the card, the request and the message of this state."""
    turn = state.turn
    assert turn is not None
    here = {
        "turn_id": turn.turn_id,
        "call_id": turn.calls[0].call_id if turn.calls else "t1.c1",
        "approval_id": next(iter(state.approvals), "a1"),
        "request_id": turn.request.request_id if turn.request is not None else "t1.r1",
        "message_id": state.steering[0].message_id if state.steering else "m1",
    }
    return body.model_copy(update={name: value for name, value in here.items() if hasattr(body, name)})


def changed(state: SessionState, body: EventBody) -> dict[str, Any]:
    """The fields that the fold gives another value, those of the turn by themselves."""
    after = fold_event(state, body)
    fields = [one.name for one in dataclasses.fields(state) if getattr(after, one.name) != getattr(state, one.name)]
    return {name: plain(getattr(after, name)) for name in fields}


def effects(body: EventBody) -> dict[str, Any]:
    """What one event does."""
    alone = Placed(7, 1_000, type(body).__name__, body)
    states = {"in an answer": answering(), "in a call": busy(), "shortening": shortening(), "in a pause": pausing()}
    return {
        "operations": project_ops(body, type(body).__name__, 7, 1_000),
        "told": [project(TranscriptProjection(form), [alone]).finish() for form in ("markdown", "plain")],
        "counted": {
            name: number for name, number in project(MetricsProjection(), [alone]).finish().counts.items() if number
        },
        **{name: changed(state, at_home(body, state)) for name, state in states.items()},
        "contradicts": [contradiction(state, body) for state in (SessionState(), *states.values())],
        "contradicts at home": [contradiction(state, at_home(body, state)) for state in states.values()],
    }


def golden() -> str:
    """The golden file's text."""
    rows = {name: effects(body) for name, body in samples().items()}
    return (
        json.dumps(plain(rows), indent=1, ensure_ascii=True, default=lambda body: body.model_dump(mode="json")) + "\n"
    )


def main() -> int:
    """Write the golden file."""
    parser = argparse.ArgumentParser(description="What every event does.")
    parser.add_argument("--write", action="store_true", required=True)
    parser.parse_args()
    GOLDEN.write_text(golden(), encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main())
