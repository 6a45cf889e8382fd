"""A breaker: what fails again and again is left alone, then tried by one.

Purpose: one pure state machine for whatever may fail for everybody at once: a provider under one key, a server of
    tools, the host of a sandbox.
Invariant: open, nothing passes; half open, one probe at a time; a probe that succeeds closes it, one that fails opens
    it for longer, up to a limit.
Must never: count an answer that says no (a wrong key, a request too large) as a failure: it is an answer.
"""

from dataclasses import dataclass, replace
from enum import StrEnum, unique
from typing import Final

SECOND_US: Final = 1_000_000
FAILURES_MAX: Final = 5
"""Failures in a row that open it."""
REST_US: Final = 5 * SECOND_US
"""How long it stays open the first time; twice as long after each probe that fails."""
REST_US_MAX: Final = 60 * SECOND_US
ASKED_REST_US_MAX: Final = 10 * 60 * SECOND_US
"""A provider that asks for a longer pause is asked again by one probe after this."""
PROBE_US: Final = 2 * SECOND_US
"""How long others wait while a probe is under way before they ask again."""


@unique
class Position(StrEnum):
    """Where a breaker stands."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class Breaker:
    """`failures` in a row; `openings` since it was last closed; `probe` is the ticket under way while half open."""

    position: Position = Position.CLOSED
    failures: int = 0
    openings: int = 0
    until_us: int = 0
    probe: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """May this ticket pass?"""

    ticket: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The other side answered this ticket, be it with a no."""

    ticket: str


@dataclass(frozen=True, slots=True)
class Failed:
    """No answer, or a sign of overload; `pause_us` is the pause that was asked for, null when none was."""

    ticket: str
    pause_us: int | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """The ticket was given up by its owner: nothing was learned."""

    ticket: str


Given = Asked | Answered | Failed | Dropped


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the ticket passes; if not, after how many microseconds it is worth asking again."""

    passes: bool
    wait_us: int = 0


PASSES: Final = Verdict(passes=True)


def step(state: Breaker, given: Given, now_us: int) -> tuple[Breaker, Verdict]:
    """The next state, and for `Asked` the verdict; every other input is simply taken."""
    match given:
        case Asked(ticket):
            return _asked(state, ticket, now_us)
        case Answered(ticket):
            return _answered(state, ticket), PASSES
        case Failed(ticket, pause_us):
            return _failed(state, ticket, pause_us, now_us), PASSES
        case Dropped(ticket):
            return (replace(state, probe=None) if state.probe == ticket else state), PASSES


def _asked(state: Breaker, ticket: str, now_us: int) -> tuple[Breaker, Verdict]:
    match state.position:
        case Position.CLOSED:
            return state, PASSES
        case Position.OPEN if now_us < state.until_us:
            # A clock that was set back must not keep it open for longer than it was opened for.
            until = min(state.until_us, now_us + ASKED_REST_US_MAX)
            return replace(state, until_us=until), Verdict(passes=False, wait_us=until - now_us)
        case Position.HALF_OPEN if state.probe is not None:
            return state, Verdict(passes=False, wait_us=PROBE_US)
        case _:
            return replace(state, position=Position.HALF_OPEN, probe=ticket), PASSES


def _answered(state: Breaker, ticket: str) -> Breaker:
    if state.position is Position.CLOSED:
        return Breaker() if state.failures else state
    return Breaker() if state.probe == ticket else state


def _failed(state: Breaker, ticket: str, pause_us: int | None, now_us: int) -> Breaker:
    if state.position is Position.CLOSED:
        counted = replace(state, failures=state.failures + 1)
        return _open(counted, pause_us, now_us) if pause_us or counted.failures >= FAILURES_MAX else counted
    if state.probe == ticket:
        return _open(replace(state, failures=state.failures + 1), pause_us, now_us)
    if state.position is Position.OPEN and pause_us:  # it was sent before; its words about the pause are still worth it
        return replace(state, until_us=max(state.until_us, now_us + min(pause_us, ASKED_REST_US_MAX)))
    return state


def _open(state: Breaker, pause_us: int | None, now_us: int) -> Breaker:
    rest = min(REST_US << min(state.openings, 10), REST_US_MAX)
    asked = min(pause_us or 0, ASKED_REST_US_MAX)
    until = now_us + (asked or rest)
    return replace(state, position=Position.OPEN, openings=state.openings + 1, until_us=until, probe=None)
