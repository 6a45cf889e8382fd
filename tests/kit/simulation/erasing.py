"""What a user has taken out of a simulated record: any part of what was said, while nothing is under way.

Purpose: choose events to erase as the engine would, and hold that nothing acts otherwise without them.
Invariant: what is erased is gone from the stored bytes; the chain verifies, and no seq is used again.
Must never: choose what the engine does not erase.
"""

from dataclasses import dataclass
from random import Random
from typing import Final

from tests.kit.simulation.ledger import Ledger
from tests.kit.simulation.rules import hold

from gloveport.protocol.journal import events as ev
from gloveport.server.engine.erasing import ERASABLE
from gloveport.server.session.fold import fold_event
from gloveport.server.session.leaving_out import ACTING, OF_A_MESSAGE, PIECES, choose
from gloveport.server.session.state import SessionState
from gloveport.server.session.views.context import context_faults, provider_history

SHARES: Final = (0.02, 0.2, 0.7, 1.0)
_PUT_BACK: Final = ("label", "unknowns", "overflows", "unanswered_look")
_MAY_LACK: Final = frozenset({"queue", "steering", "grants", "grant_uses"})


@dataclass(frozen=True, slots=True)
class Erasure:
    """The events that go, the fact that says so, and the messages that went whole."""

    seqs: frozenset[int]
    fact: ev.TextErased
    messages: frozenset[str]


def choose_some(rng: Random, ledger: Ledger, state: SessionState, number: int) -> Erasure:
    """Some of what was said; pieces of one answer or output go together."""
    bodies = {entry.seq: entry.body for entry in ledger.read()}
    share = rng.choice(SHARES)
    speakers = sorted({_speaker(body) for body in bodies.values() if isinstance(body, PIECES)})
    silent = {name for name in speakers if rng.random() < share}
    wanted = {seq for seq, body in bodies.items() if type(body).__name__ in ERASABLE and rng.random() < share}
    wanted -= {seq for seq in wanted if isinstance(bodies[seq], PIECES)}
    choice = choose(bodies, wanted)
    pieces = {seq for seq, body in bodies.items() if isinstance(body, PIECES) and _speaker(body) in silent}
    gone = {body.message_id for seq in choice.seqs if isinstance(body := bodies[seq], OF_A_MESSAGE)}
    seqs = frozenset(pieces.union(choice.seqs))
    fact = ev.TextErased(
        erase_id=f"e{number}", events=len(seqs), outputs=0, label=state.label, by="user", calls=choice.calls,
        unknowns=tuple(ev.OpenCall(call_id=one.call_id, tool=one.tool) for one in state.unknowns),
        overflows=state.overflows,
    )  # fmt: skip
    return Erasure(seqs, fact, frozenset(gone))


def _speaker(body: ev.EventBody) -> str:
    return str(getattr(body, "request_id", None) or getattr(body, "call_id", ""))


def fold_all(ledger: Ledger) -> SessionState:
    """The state of what is stored."""
    state = SessionState()
    for entry in ledger.read():
        state = fold_event(state, entry.body)
    return state


def check(before: SessionState, after: SessionState, done: Erasure) -> None:
    """Whoever goes on with `after` acts as with `before`. Raises BrokenRuleError."""
    for name in (*ACTING, *_PUT_BACK):
        if name not in _MAY_LACK:
            same = getattr(after, name) == getattr(before, name)
            hold(same, "what acts stays", f"{name}: {getattr(before, name)} became {getattr(after, name)}")
    for name in ("queue", "steering"):
        left = tuple(one for one in getattr(before, name) if one.message_id not in done.messages)
        hold(getattr(after, name) == left, "messages go whole or stay", name)
    hold(after.grants.items() <= before.grants.items(), "nothing is allowed that was not", sorted(after.grants))
    hold(after.plan in (before.plan, ()), "no older plan comes back", after.plan)
    faults = context_faults(provider_history(after.history))
    hold(not faults, "history is valid", faults)
