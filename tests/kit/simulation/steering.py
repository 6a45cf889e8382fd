"""What a user may type while a turn runs: the three verbs, edits, and some that come too late.

Purpose: the part of the simulated user that steers.
Invariant: a function of its arguments and the random source alone.
"""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Final

from tests.kit.simulation import materials as mat

from gloveport.protocol.journal.events.steering import SteeringKind
from gloveport.server.session.state import SessionState
from gloveport.server.turn import inputs as inp

Offer = tuple[int, Callable[[], inp.Input]]
KINDS: Final[tuple[SteeringKind | None, ...]] = ("supplement", "correct", "replace", "ask", None)
BEGINNINGS: Final = ("", "no, ", "forget it: ", "also ")


def offers(rng: Random, state: SessionState, number: Callable[[], int]) -> Iterator[Offer]:
    """What can be typed now, with weights."""
    running = state.turn.turn_id if state.turn is not None else "t-none"
    waiting = [one.message_id for one in state.queue] + [one.message_id for one in state.steering]
    yield 2 if state.turn is not None else 1, partial(_steer, rng, running, number)
    yield 1, partial(_interrupt, rng, running, number)
    yield 2 if waiting else 1, partial(_edit, rng, [*waiting * 3, "m-other"])
    for message_id in waiting:
        kind = rng.choice(KINDS)
        yield 1, partial(inp.SteerMessage, message_id, running, None, kind, "user")
    if waiting:
        yield 1, lambda: inp.UnqueueMessage(rng.choice(waiting))
    yield 1, lambda: inp.SteerMessage(f"m{number()}", "t-other", "too late", None, "user")


def _text(rng: Random) -> str:
    return rng.choice(BEGINNINGS) + mat.clean_text(rng)


def _steer(rng: Random, turn_id: str, number: Callable[[], int]) -> inp.Input:
    return inp.SteerMessage(f"m{number()}", turn_id, _text(rng), rng.choice(KINDS), "user")


def _interrupt(rng: Random, turn_id: str, number: Callable[[], int]) -> inp.Input:
    fresh = number()
    return inp.InterruptMessage(f"m{fresh}", f"t{fresh}", turn_id, _text(rng), "user")


def _edit(rng: Random, known: list[str]) -> inp.Input:
    return inp.EditMessage(rng.choice(known), _text(rng))
