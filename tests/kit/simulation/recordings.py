"""Recorded histories: what today's release wrote must be read by every later one.

`python -m tests.kit.simulation.recordings --write` records the histories that have no file yet and renews the digests
of the others; the events of a file that is there are never touched.

Purpose: keep events of real sessions as files, with the state and the view they lead to.
Invariant: a recording's events are permanent; a changed digest is a change of meaning and shows in the review.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.kit.simulation import materials as mat
from tests.kit.simulation.digest import state_digest
from tests.kit.simulation.driver import Simulation
from tests.kit.simulation.story import Story, call

from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events import REGISTRY, EventBody, decode_body
from gloveport.protocol.journal.events.tool import PlanItem
from gloveport.protocol.journal.upcast import upcast
from gloveport.protocol.wire.reducer import View
from gloveport.server.session.fold import fold_event
from gloveport.server.session.state import SessionState
from gloveport.server.session.views.ops import project_ops
from gloveport.server.turn import inputs as inp

FOLDER: Final = Path(__file__).resolve().parents[2] / "replay"


def answered() -> Simulation:
    """Text alone, then a message that waited."""
    story = Story().user_says("why? 😀").model_streams("because ", "of 😀").user_says("and?", queue=True)
    return story.model_answers().model_streams("so").model_answers()


def approved() -> Simulation:
    """A call asked about, allowed, run, its change accepted, then undone."""
    story = Story().user_says().model_answers(call("edit_file")).policy_says("ask").user_answers("session")
    story.policy_says("allow", grant_id="g1").tool_prints("x😀").tool_ends("ok", "ok", mat.change("t1", 1, "t1.c1", 1))
    story.model_answers().when(inp.ApplyRequested("a1", "accept", {"steps": []}, "user"))
    story.when(inp.ApplyDone("a1", ("dir/a1.py",), {"files": []}, mat.decided_facts(story.rng, ["ch1"])))
    return story.when(inp.ApplyRequested("a2", "undo", {}, "user")).when(
        inp.ApplyRefused("a2", "change.conflict", "it changed", ("dir/a1.py",))
    )


def stopped() -> Simulation:
    """A stop during a tool, with a message that goes back."""
    story = Story().user_says().model_answers(call(), call(arguments="{")).policy_says("allow")
    return story.user_says("next", queue=True).user_stops().tool_ends("killed")


def waiting() -> Simulation:
    """A session that is left with a card that waits."""
    return Story().user_says().model_answers(call("run_command")).policy_says("ask")


def streaming() -> Simulation:
    """A session that is left in mid-stream."""
    return Story().user_says().model_streams("half 😀")


def lost() -> Simulation:
    """A restart that does not know what a tool did."""
    return Story().user_says().model_answers(call(), call()).policy_says("allow").daemon_restarts("unknown")


def reattached() -> Simulation:
    """A restart that finds the tool still running, while a stop is under way."""
    story = Story().user_says().model_answers(call()).policy_says("allow").tool_prints("x")
    return story.user_stops().daemon_restarts("still_running").tool_ends("killed")


def steered() -> Simulation:
    """A supplement, a question and a correction while a tool runs, with a plan; then an interruption and an edit."""
    story = Story().user_says().model_answers(call("update_plan"), call("run_command"), call()).policy_says("allow")
    item = PlanItem(title="look 😀", state="running", goal_revision=1)
    story.tool_ends("ok", "ok", ev.PlanUpdated(turn_id="t1", goal_revision=1, items=(item,)))
    story.policy_says("allow", stop_class="opaque").user_steers("also that").user_steers("how far?")
    story.when(inp.EditMessage("m2", "also this 😀")).user_steers("no, only the API").tool_ends("ok", "late")
    story.model_streams("on it").user_says("queued", queue=True).user_interrupts("forget it, do that").model_fails()
    return story.model_streams("half").user_steers("replace", "replace")


def surrogates() -> Simulation:
    """A model and a tool that send halves of characters."""
    story = Story().user_says("mend it 😀").model_streams("a\ud83d", "😀", "\ude00b")
    story.model_answers(call("run_command"), call("to\udc80ol", provider_id="\ud800")).policy_says("allow")
    story.tool_prints("x😀").tool_prints("\ud800y").tool_ends("ok", "\udfff").policy_says("deny")
    return story.model_streams("é").model_answers()


def retried() -> Simulation:
    """A stream that broke, was waited for over a restart, and went on; then one left in its pause."""
    story = Story().user_says().model_streams("half 😀").model_breaks("truncated").daemon_restarts().pause_ends()
    story.model_streams("whole").model_answers(call()).policy_says("allow").tool_ends()
    return story.model_breaks("rate", pause_us=3_000_000)


def compacted() -> Simulation:
    """A conversation that did not fit, was shortened, and in the end could not be."""
    story = Story().user_says().model_answers(call()).policy_says("allow").tool_ends("ok", "x😀" * 500)
    story.model_breaks("context_overflow").context_shrinks("t1.c1").model_breaks("context_overflow")
    return story.shrinking_fails()


def seeded(seed: int) -> Callable[[], Simulation]:
    """A history of the simulation."""
    return lambda: Simulation(seed, crash_rate=0.08).run(70)


HISTORIES: Final[tuple[tuple[str, Callable[[], Simulation]], ...]] = (
    ("answered", answered),
    ("approved", approved),
    ("stopped", stopped),
    ("waiting", waiting),
    ("streaming", streaming),
    ("lost", lost),
    ("reattached", reattached),
    ("surrogates", surrogates),
    ("steered", steered),
    ("retried", retried),
    ("compacted", compacted),
    ("seed-21", seeded(21)),
    ("seed-22", seeded(22)),
    ("seed-23", seeded(23)),
)


def record(run: Simulation) -> list[dict[str, Any]]:
    """The stored events as a file keeps them."""
    return [
        {"type": event.type, "version": event.version, "payload": json.loads(event.payload)}
        for event in run.ledger.stored
    ]


def body_of(event: dict[str, Any]) -> EventBody | None:
    """The body of a recorded event in today's shape; None for a type that is not known."""
    known = REGISTRY.get(event["type"])
    payload = upcast(event["type"], event["version"], event["payload"])
    return decode_body(known, payload) if known is not None else None


def known_bodies() -> list[EventBody]:
    """Every event of the recorded histories, once."""
    bodies = {}
    for path in sorted(FOLDER.glob("*.json")):
        for event in json.loads(path.read_text(encoding="ascii"))["events"]:
            bodies[json.dumps(event)] = body_of(event)
    return [body for body in bodies.values() if body is not None]


def replay(events: list[dict[str, Any]]) -> tuple[SessionState, View]:
    """State and view of recorded events, read by today's code."""
    state, view = SessionState(), View()
    for seq, event in enumerate(events, 1):
        body = body_of(event)
        state = fold_event(state, body)
        view.apply(seq, project_ops(body, event["type"], seq))
    return state, view


def summarise(name: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    """A recording: the events and what they lead to."""
    state, view = replay(events)
    return {
        "name": name,
        "phase": state.phase.value,
        "state_digest": state_digest(state),
        "view_digest": view.digest(),
        "view_items": len(view),
        "events": events,
    }


def write() -> None:
    """Record what has no file yet; renew the digests of what has one."""
    for name, history in HISTORIES:
        path = FOLDER / f"{name}.json"
        events = json.loads(path.read_text(encoding="ascii"))["events"] if path.exists() else record(history())
        text = json.dumps(summarise(name, events), ensure_ascii=True, indent=None, separators=(",", ":"))
        path.write_text(text.replace('{"type":', '\n{"type":') + "\n", encoding="ascii")


def main() -> int:
    """Write the recordings."""
    parser = argparse.ArgumentParser(description="Recorded histories.")
    parser.add_argument("--write", action="store_true", required=True)
    parser.parse_args()
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
